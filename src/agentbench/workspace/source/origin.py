"""Find the URL that a local clone came from, by reading its configuration. Git is not run on it."""

from __future__ import annotations

import re
from pathlib import Path

from agentbench.core.errors import SourceError
from agentbench.core.package_settings import without_credentials
from agentbench.workspace.source.location import is_local, resolve_url

_SECTION = re.compile(r'\s*\[\s*([^\]"\s]+)(?:\s+"(.*)")?\s*\]')
_URL = re.compile(r"\s*url\s*=\s*(.+?)\s*$")
_REMOTE = re.compile(r"[a-z]+://|[\w.-]+@[\w.-]+:")
MAX_CONFIG = 1024 * 1024
MAX_CLONES = 10
"""Clones of clones that are followed."""


def origin_of(folder: Path) -> str | None:
    """Return the URL that a clone came from, without credentials; None if other machines cannot reach it.

    A clone of a local clone came from where that one came from.
    """
    for _ in range(MAX_CLONES):
        url = remote_origin(folder)
        if url is None or not is_local(url):
            return without_credentials(url) if url and _REMOTE.match(url) else None
        folder = Path(url.removeprefix("file://"))
    return None


def remote_origin(folder: Path) -> str | None:
    """Return the URL or path of the remote `origin`, or None."""
    section: tuple[str, str | None] = ("", None)
    for line in _config(folder).splitlines():
        match = _SECTION.match(line)
        if match is not None:
            section = (match[1].lower(), match[2])
        elif section == ("remote", "origin") and (url := _URL.match(line)) is not None:
            try:
                return resolve_url(url[1].strip('"'), folder)
            except SourceError:
                return None
    return None


def _config(folder: Path) -> str:
    """Return the configuration of a clone, a bare repository or a worktree."""
    try:
        git = folder / ".git"
        if git.is_file():  # a worktree: `gitdir: …/.git/worktrees/NAME`
            named = Path(git.read_text(encoding="utf-8").removeprefix("gitdir:").strip())
            git = (folder / named).parent.parent
        config = git / "config" if git.is_dir() else folder / "config"
        with config.open(encoding="utf-8", errors="replace") as file:
            return file.read(MAX_CONFIG)
    except (OSError, UnicodeDecodeError):
        return ""
