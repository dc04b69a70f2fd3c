"""The head of one file in a git diff: names, modes, blob ids."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from agentbench.core.errors import PatchInvalid
from agentbench.workspace.diff.file_patch import EXECUTABLE, REGULAR, SYMLINK
from agentbench.workspace.diff.quoting import unquote

DEV_NULL = b"/dev/null"
_MNEMONIC = frozenset({b"i", b"w", b"c", b"o"})
_INDEX = re.compile(rb"([0-9a-f]{4,64})\.\.([0-9a-f]{4,64})(?: ([0-7]{6}))?")
_MODE = re.compile(rb"[0-7]{6}")


@dataclass
class Head:
    """What the lines before the content said, as far as they were there."""

    old_name: bytes | None = None
    new_name: bytes | None = None
    old_mode: int | None = None
    new_mode: int | None = None
    added: bool = False
    deleted: bool = False
    renamed: list[bytes | None] = field(default_factory=lambda: [None, None])
    copied: list[bytes | None] = field(default_factory=lambda: [None, None])
    old_blob: str | None = None
    new_blob: str | None = None


def mode(text: bytes, at: int) -> int:
    """
    Raises:
        PatchInvalid: not a mode that a patch may have.
    """
    value = int(text, 8) if _MODE.fullmatch(text) else 0
    if value not in {REGULAR, EXECUTABLE, SYMLINK}:
        raise PatchInvalid(f"line {at}: mode {text[:20].decode('ascii', 'replace')} is not 100644, 100755 or 120000")
    return value


def read_extended(line: bytes, head: Head, at: int) -> bool:
    """Take in one extended header line; False if it is not one.

    Raises:
        PatchInvalid: it is one, with a value that cannot be accepted.
    """
    for start, take in _EXTENDED.items():
        if line.startswith(start):
            take(line[len(start) :], head, at)
            return True
    return False


def _old_mode(text: bytes, head: Head, at: int) -> None:
    head.old_mode = mode(text, at)


def _new_mode(text: bytes, head: Head, at: int) -> None:
    head.new_mode = mode(text, at)


def _added(text: bytes, head: Head, at: int) -> None:
    head.added, head.new_mode = True, mode(text, at)


def _deleted(text: bytes, head: Head, at: int) -> None:
    head.deleted, head.old_mode = True, mode(text, at)


def _rename_from(text: bytes, head: Head, at: int) -> None:
    head.renamed[0] = whole_name(text, at)


def _rename_to(text: bytes, head: Head, at: int) -> None:
    head.renamed[1] = whole_name(text, at)


def _copy_from(text: bytes, head: Head, at: int) -> None:
    head.copied[0] = whole_name(text, at)


def _copy_to(text: bytes, head: Head, at: int) -> None:
    head.copied[1] = whole_name(text, at)


def _index(text: bytes, head: Head, at: int) -> None:
    match = _INDEX.fullmatch(text)
    if match is None:
        raise PatchInvalid(f"line {at}: the index line is damaged")
    head.old_blob, head.new_blob = match[1].decode(), match[2].decode()
    if match[3]:
        head.old_mode = mode(match[3], at)


def _nothing(text: bytes, head: Head, at: int) -> None:
    """Similarity is for readers."""


_EXTENDED = {
    b"old mode ": _old_mode,
    b"new mode ": _new_mode,
    b"new file mode ": _added,
    b"deleted file mode ": _deleted,
    b"rename from ": _rename_from,
    b"rename to ": _rename_to,
    b"rename old ": _rename_from,
    b"rename new ": _rename_to,
    b"copy from ": _copy_from,
    b"copy to ": _copy_to,
    b"index ": _index,
    b"similarity index ": _nothing,
    b"dissimilarity index ": _nothing,
}


def whole_name(text: bytes, at: int) -> bytes:
    """A name that takes the whole rest of its line."""
    if not text.startswith(b'"'):
        return text
    found = unquote(text)
    if found is None or found[1]:
        raise PatchInvalid(f"line {at}: the quoted name is damaged")
    return found[0]


def file_line(text: bytes, at: int) -> bytes:
    """The name of a `---` or `+++` line, without the time stamp that may follow it after a tab."""
    if not text.startswith(b'"'):
        return text.partition(b"\t")[0]
    found = unquote(text)
    if found is None or (found[1] and not found[1].startswith(b"\t")):
        raise PatchInvalid(f"line {at}: the quoted name is damaged")
    return found[0]


def pair(text: bytes) -> tuple[bytes, bytes] | None:
    """The two names of a `diff --git` line where they can be told apart: quoted, or the same name twice."""
    if text.startswith(b'"'):
        first = unquote(text)
        if first is None or not first[1].startswith(b" "):
            return None
        rest = first[1][1:]
        second = unquote(rest) if rest.startswith(b'"') else (rest, b"")
        return (first[0], second[0]) if second is not None and not second[1] else None
    if text.endswith(b'"') and b' "' in text:
        left, _, right = text.partition(b' "')
        second = unquote(b'"' + right)
        return (left, second[0]) if second is not None and not second[1] else None
    middle = len(text) // 2
    if len(text) % 2 == 0 or text[middle : middle + 1] != b" ":
        return None
    left, right = text[:middle], text[middle + 1 :]
    return (left, right) if strip(left, right) is not None else None


def strip(old: bytes, new: bytes) -> tuple[bytes, bytes] | None:
    """Both names without the prefixes that diff tools put in front; None when they are not one name.

    One of them may be /dev/null, which is kept.
    """
    if DEV_NULL in {old, new}:
        return _unprefixed(old), _unprefixed(new)
    old_first, _, old_rest = old.partition(b"/")
    new_first, _, new_rest = new.partition(b"/")
    if old_rest == new_rest and old_first != new_first:
        return (old_rest, new_rest) if old_rest else None
    return (old, new) if old == new else None


def _unprefixed(name: bytes) -> bytes:
    first, slash, rest = name.partition(b"/")
    return rest if slash and (first in {b"a", b"b"} or first in _MNEMONIC) else name
