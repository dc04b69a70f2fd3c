"""Repository URLs: checks them and resolves relative ones."""

from __future__ import annotations

import os
import re
from pathlib import Path

from agentbench.core.errors import SourceError
from agentbench.core.package_settings import without_credentials
from agentbench.workspace.source.host_git import PROTOCOLS

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)(://|::)")
_SCP = re.compile(r"(?:[A-Za-z0-9._-]+@)?[A-Za-z0-9.-]+:(?!//).+")


def resolve_url(url: str, folder: Path) -> str:
    """Return a URL or path for git. A relative path is resolved against `folder`.

    Raises:
        SourceError: the URL is malformed, or its transport could run a command.
    """
    match = _SCHEME.match(url)
    if url.startswith("-") or any(ord(char) < 32 for char in url):
        raise SourceError(f"not a repository URL or path: {without_credentials(url)!r}")
    if match is not None:
        if match[2] == "::" or match[1].lower() not in PROTOCOLS:
            raise SourceError(f"{without_credentials(url)}: expected a path or a URL with {', '.join(PROTOCOLS)}")
        return url
    if not (folder / url).exists() and _SCP.fullmatch(url):
        return url
    return str((folder / url).resolve())


def is_local(url: str) -> bool:
    return url.startswith(("/", "file://"))


def require_repository(url: str) -> None:
    """Explain why a local path from which nothing could be fetched is no repository, if that is the reason.

    Raises:
        SourceError: there is nothing, or no repository, at the path.
    """
    path = Path(url)
    if not url.startswith("/") or (path / ".git").exists() or (path / "objects").is_dir():
        return
    if not path.exists():
        raise SourceError(f"{url} does not exist", remedy="check `repo.url`")
    root = next((parent for parent in path.parents if (parent / ".git").exists()), None)
    if path.is_dir() and root is not None:
        raise SourceError(f"{url} is a folder in the repository {root}", remedy=f"give the repository: {root}")
    raise SourceError(f"{url} is not a git repository", remedy="check `repo.url`")


def resolve_submodule_url(parent: str, url: str) -> str:
    """Resolve the URL of a submodule, which may be relative to the URL of its parent repository.

    Raises:
        SourceError: the URL is malformed, or a remote repository names a local path, which could be any on the host.
    """
    if url.startswith(("./", "../")):
        url = _join(parent, url)
    if not _SCHEME.match(url) and not _SCP.fullmatch(url) and not url.startswith("/"):
        raise SourceError(f"unsupported submodule URL {without_credentials(url)!r}")
    resolved = resolve_url(url, Path("/"))
    if is_local(resolved) and not is_local(parent):
        raise SourceError(f"a submodule of {without_credentials(parent)} has the local path {without_credentials(url)}")
    return resolved


def _join(parent: str, url: str) -> str:
    """Join URLs as git does: each `../` removes one part of the parent's path."""
    if parent.startswith("/"):
        return os.path.normpath(f"{parent}/{url}")
    base = parent.rstrip("/")
    while True:
        if url.startswith("./"):
            url = url[2:]
        elif url.startswith("../"):
            url = url[3:]
            cut = max(base.rfind("/"), base.rfind(":"))
            if cut <= base.find("://") + 2:
                raise SourceError(f"the relative submodule URL leaves {without_credentials(parent)}")
            base = base[:cut]
        else:
            return f"{base}/{url}"
