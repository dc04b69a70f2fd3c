"""Keep a copy of the workspace as the agent left it in `repo/`, for people who look at an attempt.

The copy has no `.git`, because a person who runs git in it would run the agent's hooks and settings. Secrets are redacted as in
the log. `meta/workspace.json` lists what differs from the workspace, and seals the copy by its digest.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import field

from agentbench.core.command import MIB
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import AgentFault, RecordError, SourceError
from agentbench.record.attempt_folder import WORKSPACE, WORKSPACE_LIST, AttemptFolder
from agentbench.trace.redaction import Redactor, redact_bytes
from agentbench.tree.entry import Entry, FileWrite, Kind, Tree, tree_digest
from agentbench.tree.limits import TreeTooLarge
from agentbench.workspace.diff.compare import Globs
from agentbench.workspace.diff.paths import display_path, path_problem, target_problem
from agentbench.workspace.source.materialize import FolderWriter, SourceLimits

MAX_FILES = 20_000
MAX_BYTES = 256 * MIB
MAX_FILE = 16 * MIB
MAX_LISTED = 1000


def keep_workspace(folder: AttemptFolder, tree: Tree, generated: Sequence[str]) -> None:
    """Copy the workspace to `repo/` and describe the copy. Generated files come last, so the limits cut them off first.

    Raises:
        RecordError: the folder cannot be written.
    """
    copy = _Copy(tree, folder.redact)
    target, globs = folder.path / WORKSPACE, Globs(generated)
    try:
        target.mkdir()
        entries = sorted(tree.entries(), key=lambda entry: (globs.match(entry.path), entry.path))
        writer = FolderWriter(target, SourceLimits())
        for entry in entries:
            write = copy.take(entry)
            if write is None:
                continue
            if write.symlink is None:
                writer.file(write.path, [write.content or b""], executable=write.executable)
            else:
                writer.symlink(write.path, write.symlink)
        writer.finish()
    except (AgentFault, SourceError) as error:
        # The tree is too large, inconsistent, or went away with a sandbox that the agent's work ended.
        copy = _Copy(tree, folder.redact, problem=error.message)
        shutil.rmtree(target)
        target.mkdir()
    except OSError as error:
        raise RecordError.of("write", target, error) from error
    folder.write(WORKSPACE_LIST, json.dumps(copy.description(), indent=2))


@dataclass(slots=True)
class _Copy:
    """Decides what is copied, and collects the differences from the workspace."""

    tree: Tree
    redact: Redactor | None
    problem: str = ""
    entries: list[Entry] = field(default_factory=list)
    _bytes: int = 0
    _redacted: list[str] = field(default_factory=list)
    _omitted: list[dict[str, str]] = field(default_factory=list)
    _more_omitted: int = 0

    def take(self, entry: Entry) -> FileWrite | None:
        """Return what is written for an entry; None if it is left out."""
        reason = self._unwanted(entry)
        content = b"" if reason else self._read(entry)
        if content is None:
            reason = "it could not be read"
        elif not reason and entry.kind is Kind.SYMLINK:
            reason = _link_problem(entry.path, content, redact_bytes(content, self.redact))
        if reason or content is None:
            self._omit(entry.path, reason)
            return None
        clean = redact_bytes(content, self.redact)
        if clean != content and len(self._redacted) < MAX_LISTED:
            self._redacted.append(display_path(entry.path))
        write = (
            FileWrite(entry.path, symlink=clean)
            if entry.kind is Kind.SYMLINK
            else FileWrite(entry.path, content=clean, executable=entry.executable)
        )
        self._bytes += len(clean)
        self.entries += filter(None, [write.entry()])
        return write

    def description(self) -> dict[str, object]:
        return {
            "tree": tree_digest(self.entries),
            "files": len(self.entries),
            "bytes": self._bytes,
            "redacted": self._redacted,
            "omitted": self._omitted,
            "more_omitted": self._more_omitted,
            "problem": self.problem,
        }

    def _unwanted(self, entry: Entry) -> str:
        problem = path_problem(entry.path) or SourceLimits().path_problem(entry.path)
        if problem is not None:
            return problem
        if entry.kind is Kind.SPECIAL:
            return "neither a readable file nor a symlink"
        if redact_bytes(entry.path, self.redact) != entry.path:
            return "its name contains a secret"
        if entry.size > MAX_FILE:
            return f"larger than {MAX_FILE} bytes"
        if len(self.entries) >= MAX_FILES or self._bytes + entry.size > MAX_BYTES:
            return f"the copy is limited to {MAX_FILES} files and {MAX_BYTES} bytes"
        return ""

    def _read(self, entry: Entry) -> bytes | None:
        try:
            return self.tree.read(entry.path, max_bytes=entry.size)
        except (OSError, TreeTooLarge):
            return None

    def _omit(self, path: bytes, reason: str) -> None:
        if len(self._omitted) < MAX_LISTED:
            self._omitted.append({"path": display_path(path), "reason": reason})
        else:
            self._more_omitted += 1


def _link_problem(path: bytes, target: bytes, clean: bytes) -> str:
    if clean != target:
        return "a symlink: its target contains a secret"
    problem = target_problem(path, target)
    return f"a symlink: {problem}" if problem else ""
