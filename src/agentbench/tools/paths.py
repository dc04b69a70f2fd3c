"""Converts paths between the text an agent writes, the bytes a tree holds, and the form that is shown.

An agent names paths as text, relative to the workspace. Trees hold bytes. A name that is not UTF-8 or contains control
characters is shown percent-encoded, so that each line of a listing is one name. The shown form is accepted as input.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from urllib.parse import unquote_to_bytes

from agentbench.core.errors import ToolFault
from agentbench.core.text import printable
from agentbench.tools.result import ToolError
from agentbench.tree.entry import Entry, Kind
from agentbench.workspace.diff.events import path_text

MAX_PATH = 4096
_MAX_LINKS = 40
"""Like the kernel: a path with more links than this is a loop."""


def show(path: bytes) -> str:
    return path_text(path)[0]


def relative(text: str, workdir: str) -> bytes:
    """Return the path below the workspace that `text` names; b"" is the workspace itself.

    Absolute paths inside the workspace are accepted, because programs print them and agents copy them.

    Raises:
        ToolFault: path_unsafe.
    """
    if "\0" in text or len(text) > MAX_PATH:
        raise _unsafe(text, "contains a NUL character or is too long")
    inside = text
    if text.startswith("/"):
        root = workdir.rstrip("/")
        if text.rstrip("/") != root and not text.startswith(root + "/"):
            raise _unsafe(text, f"is outside the workspace {workdir}")
        inside = text[len(root) :]
    parts = [part for part in inside.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise _unsafe(text, "contains '..'")
    try:
        encoded = "/".join(parts).encode("utf-8")
    except UnicodeEncodeError:
        raise _unsafe(text, "is not valid text") from None
    if parts and parts[0].lower() == ".git":
        raise ToolFault(
            "'.git' is not part of the workspace files; use run with git to see the history",
            kind=ToolError.PATH_DENIED,
        )
    return encoded


def _unsafe(text: str, why: str) -> ToolFault:
    name = printable(text if len(text) <= 200 else text[:200] + "…")
    return ToolFault(
        f"path '{name}' {why}; paths are relative to the workspace and stay inside it", kind=ToolError.PATH_UNSAFE
    )


def literal(path: bytes, known: Container[bytes]) -> bytes:
    """Return `path`, decoded if it is the percent-encoded form of a known path."""
    if path in known or b"%" not in path:
        return path
    decoded = unquote_to_bytes(path)
    return decoded if decoded in known else path


def follow(path: bytes, entries: Mapping[bytes, Entry], target_of: Callable[[bytes], bytes], workdir: str) -> bytes:
    """Resolve the symlinks in `path` by name only, without touching the file system.

    Raises:
        ToolFault: path_unsafe, if a link leads outside the workspace or in a circle.
    """
    for _ in range(_MAX_LINKS):
        link = _first_link(path, entries)
        if link is None:
            return path
        target = target_of(link)
        rest = path[len(link) :].lstrip(b"/")
        path = _resolve(link, target, workdir) + (b"/" + rest if rest else b"")
        path = path.lstrip(b"/")
    raise ToolFault(f"'{show(path)}': too many symbolic links", kind=ToolError.PATH_UNSAFE)


def _first_link(path: bytes, entries: Mapping[bytes, Entry]) -> bytes | None:
    end = -1
    while True:
        end = path.find(b"/", end + 1)
        prefix = path if end < 0 else path[:end]
        entry = entries.get(prefix)
        if entry is not None and entry.kind is Kind.SYMLINK:
            return prefix
        if end < 0:
            return None


def _resolve(link: bytes, target: bytes, workdir: str) -> bytes:
    root = workdir.rstrip("/").encode()
    if target.startswith(b"/"):
        if target.rstrip(b"/") != root and not target.startswith(root + b"/"):
            raise _escapes(link, target)
        parts: list[bytes] = []
        steps = target[len(root) :].split(b"/")
    else:
        parts = link.split(b"/")[:-1]
        steps = target.split(b"/")
    for step in steps:
        if step in (b"", b"."):
            continue
        if step != b"..":
            parts.append(step)
        elif parts:
            parts.pop()
        else:
            raise _escapes(link, target)
    return b"/".join(parts)


def _escapes(link: bytes, target: bytes) -> ToolFault:
    return ToolFault(
        f"'{show(link)}' is a symbolic link to '{show(target[:200])}', outside the workspace",
        kind=ToolError.PATH_UNSAFE,
    )
