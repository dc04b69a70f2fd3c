"""Event payloads for patches and changed files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal
from urllib.parse import quote_from_bytes

from agentbench.core.canonical import sha256_hex
from agentbench.core.text import printable
from agentbench.trace.events import FileDigest, IntegrityFinding, PatchExtracted
from agentbench.workspace.diff.compare import FileChange
from agentbench.workspace.diff.extract import ExtractedPatch

MAX_FILES = 500
"""Files listed in one event; further files are only counted. The patch itself contains all of them."""
MAX_EXCLUDED = 50
_SAFE = "/ !#$&'()*+,:;=?@[]-._~"


def path_text(path: bytes) -> tuple[str, Literal["utf-8", "percent"]]:
    """Encode a path as text on one line. Return the text and its encoding."""
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
    """Return as many digests as one event may contain, and the number of those left out."""
    return [file_digest(change) for change in changes[:MAX_FILES]], max(len(changes) - MAX_FILES, 0)


def patch_event(extracted: ExtractedPatch) -> PatchExtracted:
    """Build the event for the patch that will be graded."""
    files, omitted = file_digests(extracted.files)
    generated = [file_digest(change) for change in extracted.generated[:MAX_FILES]]
    return PatchExtracted(
        sha256=sha256_hex(extracted.patch),
        bytes=len(extracted.patch),
        files=[*files, *generated],
        omitted=omitted,
        added=extracted.added,
        removed=extracted.removed,
        generated=len(extracted.generated),
        problem=extracted.problem,
    )


def excluded_findings(extracted: ExtractedPatch) -> list[IntegrityFinding]:
    """Report the entries of the workspace that the patch cannot represent."""
    return [
        IntegrityFinding(
            rule="not_in_patch",
            severity="note",
            path=path_text(entry.path)[0],
            detail=f"not in the patch: {entry.reason}" + (f" ({entry.entries} entries)" if entry.entries > 1 else ""),
        )
        for entry in extracted.excluded[:MAX_EXCLUDED]
    ]
