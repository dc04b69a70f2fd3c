"""Which paths and symlink targets a change may name. One rule for patches that come in and for Δ that goes out."""

from __future__ import annotations

_PATH_MAX = 4095
_NAME_MAX = 255
_SHOWN = 300
_HFS_IGNORED = dict.fromkeys(
    (*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF),
)
"""Code points that HFS+ leaves out when it compares names, so that a name may be `.git` without looking like it."""


def shown(path: bytes) -> str:
    """A path for a message: readable, unable to end a line, and not longer than a reader wants."""
    if len(path) > _SHOWN:
        path = path[: _SHOWN // 2] + b"..." + path[-_SHOWN // 2 :]
    text = path.decode("utf-8", "backslashreplace")
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def path_problem(path: bytes) -> str | None:
    """Why a change may not name this path; None when it may."""
    parts = path.split(b"/")
    return _first(
        (not path, "the name is empty"),
        (b"\0" in path, "the name holds a NUL"),
        (path.startswith(b"/"), "the path is absolute"),
        (b".." in parts, "the path has a '..' part"),
        (b"" in parts or b"." in parts, "the path has an empty or '.' part"),
        (len(path) > _PATH_MAX or max(map(len, parts)) > _NAME_MAX, "the path is too long to exist"),
        (inside_git(path), "the path is inside a '.git'"),
    )


def target_problem(path: bytes, target: bytes) -> str | None:
    """Why a symlink at `path` may not point to `target`; None when it may.

    Only leading `..` parts are accepted: after a named part, which may itself be a symlink, `..` leads somewhere that the
    text does not show.
    """
    parts = [part for part in target.split(b"/") if part not in {b"", b"."}]
    ups = next((index for index, part in enumerate(parts) if part != b".."), len(parts))
    return _first(
        (not target or b"\0" in target, "its target is empty or holds a NUL"),
        (len(target) > _PATH_MAX, "its target is too long"),
        (target.startswith(b"/"), "its target is absolute"),
        (b".." in parts[ups:], "its target has '..' after a name"),
        (ups > path.count(b"/"), "its target is outside the workspace"),
        (inside_git(target), "its target is inside a '.git'"),
    )


def _first(*problems: tuple[bool, str]) -> str | None:
    return next((why for wrong, why in problems if wrong), None)


def inside_git(path: bytes) -> bool:
    """True if a part of the path is `.git`, in any spelling that some file system takes for it."""
    if b"git" not in path.lower() and path.isascii():
        return False
    return any(_is_git(part) for part in path.replace(b"\\", b"/").split(b"/"))


def _is_git(part: bytes) -> bool:
    name = part.decode("utf-8", "surrogateescape").translate(_HFS_IGNORED).lower()
    name = name.partition(":")[0].rstrip(" .")  # NTFS: streams, and trailing dots and spaces that do not count
    return name in {".git", "git~1"}
