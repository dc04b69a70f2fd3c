"""Changes of a workspace as events tell them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal
from urllib.parse import quote_from_bytes

from agentbench.core.canonical import sha256_hex
from agentbench.core.text import printable
from agentbench.trace.events import FileDigest, IntegrityFinding, PatchExtracted
from agentbench.workspace.diff.compare import FileChange
from agentbench.workspace.diff.extract import Delta

MAX_FILES = 500
"""Files listed in one event; the others are counted. The patch itself has them all."""
MAX_REFUSED = 50
_SAFE = "/ !#$&'()*+,:;=?@[]-._~"


def path_text(path: bytes) -> tuple[str, Literal["utf-8", "percent"]]:
    """A path as text on one line, and how it is encoded."""
    try:
        text = path.decode("utf-8")
    except UnicodeDecodeError:
        return quote_from_bytes(path, safe=_SAFE), "percent"
    return (text, "utf-8") if printable(text) == text else (quote_from_bytes(path, safe=_SAFE), "percent")


def file_digest(change: FileChange) -> FileDigest:
    path, encoding = path_text(change.path)
    before, after, old = change.before, change.after, change.old_path
    return FileDigest(
        path=path,
        path_encoding=encoding,
        change=change.change,
        before_sha256=before.sha256 if before else None,
        after_sha256=after.sha256 if after else None,
        before_mode=change.before_mode,
        after_mode=change.after_mode,
        size=change.size,
        binary=change.binary,
        generated=change.generated,
        old_path=None if old is None else path_text(old)[0],
    )


def file_digests(changes: Sequence[FileChange]) -> tuple[list[FileDigest], int]:
    """As many as one event may hold, and how many were left out."""
    return [file_digest(change) for change in changes[:MAX_FILES]], max(len(changes) - MAX_FILES, 0)


def delta_event(delta: Delta) -> PatchExtracted:
    """Δ as it will be graded."""
    files, omitted = file_digests(delta.files)
    generated = [file_digest(change) for change in delta.generated[:MAX_FILES]]
    return PatchExtracted(
        sha256=sha256_hex(delta.patch),
        bytes=len(delta.patch),
        files=[*files, *generated],
        omitted=omitted,
        added=delta.added,
        removed=delta.removed,
        generated=len(delta.generated),
        problem=delta.problem,
    )


def refusals(delta: Delta) -> list[IntegrityFinding]:
    """What was in the workspace and could not become part of Δ."""
    return [
        IntegrityFinding(
            rule="not_in_patch",
            severity="note",
            path=path_text(one.path)[0],
            detail=f"left out of Δ: {one.why}" + (f" ({one.entries} entries)" if one.entries > 1 else ""),
        )
        for one in delta.refused[:MAX_REFUSED]
    ]
