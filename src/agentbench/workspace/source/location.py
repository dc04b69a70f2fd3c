"""Names of repositories: which are accepted, where relative ones lead, and how they are shown without secrets."""

from __future__ import annotations

import os
import re
from pathlib import Path

from agentbench.core.errors import SourceError
from agentbench.workspace.source.host_git import PROTOCOLS

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)(://|::)")
_SCP = re.compile(r"(?:[A-Za-z0-9._-]+@)?[A-Za-z0-9.-]+:(?!//).+")
_SECRET = re.compile(r"(://)[^/@\s]*@")


def locate(url: str, folder: Path) -> str:
    """A repository as git is to be told it: a URL, or an absolute path where a path was given relative to `folder`.

    Raises:
        SourceError: a transport that could run a command, or something that is no repository name.
    """
    match = _SCHEME.match(url)
    if url.startswith("-") or any(ord(char) < 32 for char in url):
        raise SourceError(f"not the name of a repository: {hidden(url)!r}")
    if match is not None:
        if match[2] == "::" or match[1].lower() not in PROTOCOLS:
            raise SourceError(f"{hidden(url)}: expected a path or a URL of {', '.join(PROTOCOLS)}")
        return url
    if not (folder / url).exists() and _SCP.fullmatch(url):
        return url
    return str((folder / url).resolve())


def is_local(url: str) -> bool:
    return url.startswith(("/", "file://"))


def relative_to(parent: str, url: str) -> str:
    """The repository of a submodule, whose name may be relative to that of the repository it is in.

    Raises:
        SourceError: a local path named by a repository that is not local itself: it could be any folder of this machine.
    """
    if url.startswith(("./", "../")):
        url = _joined(parent, url)
    if not _SCHEME.match(url) and not _SCP.fullmatch(url) and not url.startswith("/"):
        raise SourceError(f"a submodule with a name that cannot be followed: {hidden(url)!r}")
    located = locate(url, Path("/"))
    if is_local(located) and not is_local(parent):
        raise SourceError(f"a submodule of {hidden(parent)} names the local path {hidden(url)}")
    return located


def _joined(parent: str, url: str) -> str:
    """As git does it: each `../` takes off one part of the parent's path."""
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
                raise SourceError(f"a submodule leads out of {hidden(parent)}")
            base = base[:cut]
        else:
            return f"{base}/{url}"


def hidden(url: str) -> str:
    """A name to show and record: without a user or password in it."""
    return _SECRET.sub(r"\1", url)
