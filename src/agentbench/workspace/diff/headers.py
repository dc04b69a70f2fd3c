"""Header lines of git diffs: quoted names, modes, blob ids, renames."""

from __future__ import annotations

import re
from dataclasses import field

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import PatchInvalid
from agentbench.workspace.diff.file_patch import EXECUTABLE, REGULAR, SYMLINK

DEV_NULL = b"/dev/null"
_PREFIXES = frozenset({b"a", b"b", b"i", b"w", b"c", b"o"})
_INDEX = re.compile(rb"([0-9a-f]{4,64})\.\.([0-9a-f]{4,64})(?: ([0-7]{6}))?")
_MODE = re.compile(rb"[0-7]{6}")
_ESCAPES = {7: b"a", 8: b"b", 9: b"t", 10: b"n", 11: b"v", 12: b"f", 13: b"r", 34: b'"', 92: b"\\"}
_UNESCAPES = {escape: bytes([byte]) for byte, escape in _ESCAPES.items()}
_NEEDS_QUOTES = re.compile(rb'[\x00-\x1f"\\\x7f-\xff]')
_QUOTED = re.compile(rb'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(rb"\\([0-3][0-7]{2}|.)", re.DOTALL)


def quote(name: bytes) -> bytes:
    """Quote a name as git does: unchanged if it is unambiguous, otherwise in C notation."""
    if not _NEEDS_QUOTES.search(name):
        return name
    return b'"' + _NEEDS_QUOTES.sub(lambda match: _escape(match[0][0]), name) + b'"'


def _escape(byte: int) -> bytes:
    escape = _ESCAPES.get(byte)
    return b"\\" + escape if escape is not None else b"\\%03o" % byte


def unquote(text: bytes) -> tuple[bytes, bytes] | None:
    """Return the quoted name at the start of `text` and the rest; None if there is no valid quoted name."""
    match = _QUOTED.match(text)
    if match is None:
        return None
    valid = True

    def unescape(escape: re.Match[bytes]) -> bytes:
        nonlocal valid
        code = escape[1]
        if len(code) == 3:
            return bytes([int(code, 8)])
        valid = valid and code in _UNESCAPES
        return _UNESCAPES.get(code, b"")

    name = _ESCAPE.sub(unescape, match[1])
    return (name, text[match.end() :]) if valid else None


@dataclass
class FileHeader:
    """Values of the header lines of one file. Those that the patch does not give are None."""

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

    def read_line(self, line: bytes, number: int) -> bool:
        """Read one extended header line. Return False if it is a different kind of line.

        Raises:
            PatchInvalid: the line has a value that is not accepted.
        """
        keyword = next((keyword for keyword in _KEYWORDS if line.startswith(keyword)), None)
        if keyword is None:
            return False
        value = line[len(keyword) :]
        match keyword:
            case b"old mode ":
                self.old_mode = _parse_mode(value, number)
            case b"new mode ":
                self.new_mode = _parse_mode(value, number)
            case b"new file mode ":
                self.added, self.new_mode = True, _parse_mode(value, number)
            case b"deleted file mode ":
                self.deleted, self.old_mode = True, _parse_mode(value, number)
            case b"rename from " | b"rename old ":
                self.renamed[0] = _whole_name(value, number)
            case b"rename to " | b"rename new ":
                self.renamed[1] = _whole_name(value, number)
            case b"copy from ":
                self.copied[0] = _whole_name(value, number)
            case b"copy to ":
                self.copied[1] = _whole_name(value, number)
            case b"index ":
                self._read_index(value, number)
        return True

    def _read_index(self, value: bytes, number: int) -> None:
        match = _INDEX.fullmatch(value)
        if match is None:
            raise PatchInvalid(f"line {number}: the index line is damaged")
        self.old_blob, self.new_blob = match[1].decode(), match[2].decode()
        if match[3]:
            self.old_mode = _parse_mode(match[3], number)


_KEYWORDS = (
    b"old mode ", b"new mode ", b"new file mode ", b"deleted file mode ", b"rename from ", b"rename to ",
    b"rename old ", b"rename new ", b"copy from ", b"copy to ", b"index ", b"similarity index ",
    b"dissimilarity index ",
)  # fmt: skip
"""Extended header lines. Similarity is accepted and ignored."""


def _parse_mode(text: bytes, number: int) -> int:
    mode = int(text, 8) if _MODE.fullmatch(text) else 0
    if mode not in {REGULAR, EXECUTABLE, SYMLINK}:
        raise PatchInvalid(
            f"line {number}: mode {text[:20].decode('ascii', 'replace')} is not 100644, 100755 or 120000"
        )
    return mode


def _whole_name(text: bytes, number: int) -> bytes:
    """Parse a name that takes the rest of its line."""
    if not text.startswith(b'"'):
        return text
    unquoted = unquote(text)
    if unquoted is None or unquoted[1]:
        raise PatchInvalid(f"line {number}: the quoted name is damaged")
    return unquoted[0]


def parse_file_name(text: bytes, number: int) -> bytes:
    """Parse the name of a `---` or `+++` line, without the time stamp that may follow after a tab.

    Raises:
        PatchInvalid: the name is not quoted correctly.
    """
    if not text.startswith(b'"'):
        return text.partition(b"\t")[0]
    unquoted = unquote(text)
    if unquoted is None or (unquoted[1] and not unquoted[1].startswith(b"\t")):
        raise PatchInvalid(f"line {number}: the quoted name is damaged")
    return unquoted[0]


def split_names(text: bytes) -> tuple[bytes, bytes] | None:
    """Return the two names of a `diff --git` line; None unless they are quoted or the same name twice."""
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
    return (left, right) if strip_prefixes(left, right) is not None else None


def strip_prefixes(old: bytes, new: bytes) -> tuple[bytes, bytes] | None:
    """Remove the prefixes that diff tools add to both names. Return None if the rest is not the same name.

    One of the names may be /dev/null, which is kept.
    """
    if DEV_NULL in {old, new}:
        return _strip_prefix(old), _strip_prefix(new)
    old_first, _, old_rest = old.partition(b"/")
    new_first, _, new_rest = new.partition(b"/")
    if old_rest == new_rest and old_first != new_first:
        return (old_rest, new_rest) if old_rest else None
    return (old, new) if old == new else None


def _strip_prefix(name: bytes) -> bytes:
    first, slash, rest = name.partition(b"/")
    return rest if slash and first in _PREFIXES else name
