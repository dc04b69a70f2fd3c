"""Rules for the paths and symlink targets that a patch may contain, the same for parsing and for extracting patches."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import takewhile

_PATH_MAX = 4095
_NAME_MAX = 255
_DISPLAY_MAX = 300
_HFS_IGNORED = dict.fromkeys(
    (*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF),
)
"""Code points that HFS+ ignores when it compares names. With them a name can mean `.git` without looking like it."""


def display_path(path: bytes) -> str:
    """Format a path for a message: printable, on one line, and shortened if it is long."""
    if len(path) > _DISPLAY_MAX:
        path = path[: _DISPLAY_MAX // 2] + b"..." + path[-_DISPLAY_MAX // 2 :]
    text = path.decode("utf-8", "backslashreplace")
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def parents(path: bytes) -> Iterator[bytes]:
    """Yield the parent folders of a path, outermost first."""
    slash = path.find(b"/")
    while slash >= 0:
        yield path[:slash]
        slash = path.find(b"/", slash + 1)


def count_entries(paths: Collection[bytes]) -> int:
    """Count files and the folders above them, each once."""
    total = 0
    before: list[bytes] = []
    for path in sorted(paths, key=lambda path: path.replace(b"/", b"\0")):  # a folder's entries follow one another
        parts = path.split(b"/")
        shared = zip(parts, before, strict=False)
        total += len(parts) - sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], shared))
        before = parts
    return total


def path_problem(path: bytes) -> str | None:
    """Return why a patch may not contain this path, or None if it may."""
    parts = path.split(b"/")
    return _first(
        (not path, "the name is empty"),
        (b"\0" in path, "the name contains a NUL byte"),
        (path.startswith(b"/"), "the path is absolute"),
        (b".." in parts, "the path has a '..' part"),
        (b"" in parts or b"." in parts, "the path has an empty or '.' part"),
        (len(path) > _PATH_MAX or max(map(len, parts)) > _NAME_MAX, "the path is too long"),
        (inside_git(path), "the path is inside a '.git'"),
    )


def target_problem(path: bytes, target: bytes) -> str | None:
    """Return why a symlink at `path` may not point to `target`, or None if it may.

    Only leading `..` parts are accepted. A named part may itself be a symlink, so a `..` after it can lead anywhere.
    """
    parts = [part for part in target.split(b"/") if part not in {b"", b"."}]
    ups = next((index for index, part in enumerate(parts) if part != b".."), len(parts))
    return _first(
        (not target or b"\0" in target, "its target is empty or contains a NUL byte"),
        (len(target) > _PATH_MAX, "its target is too long"),
        (target.startswith(b"/"), "its target is absolute"),
        (b".." in parts[ups:], "its target has '..' after a name"),
        (ups > path.count(b"/"), "its target is outside the workspace"),
        (inside_git(target), "its target is inside a '.git'"),
    )


def _first(*problems: tuple[bool, str]) -> str | None:
    return next((reason for applies, reason in problems if applies), None)


def inside_git(path: bytes) -> bool:
    """Return whether a part of the path is `.git`, in any spelling that some file system accepts."""
    if b"git" not in path.lower() and path.isascii():
        return False
    return any(_is_git(part) for part in path.replace(b"\\", b"/").split(b"/"))


def _is_git(part: bytes) -> bool:
    name = part.decode("utf-8", "surrogateescape").translate(_HFS_IGNORED).lower()
    name = name.partition(":")[0].rstrip(" .")  # NTFS ignores stream names, trailing dots and trailing spaces
    return name in {".git", "git~1"}
