"""R from a git repository at a commit, with its submodules at the revisions the commit names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from agentbench.core.errors import SourceError
from agentbench.tree.beneath import DIRECTORY, open_beneath
from agentbench.workspace.diff.paths import display_path, path_problem
from agentbench.workspace.source.location import hidden, locate, relative_to
from agentbench.workspace.source.mirror import FULL_ID, Damaged, Mirrors
from agentbench.workspace.source.store import Store

_DEPTH = 8
_COUNT = 200
_LFS = b"version https://git-lfs.github.com/spec/v1\n"


class GitSource:
    """One commit of one repository."""

    def __init__(
        self, mirrors: Mirrors, store: Store, url: str, wanted: str, *, folder: Path, submodules: bool
    ) -> None:
        """`folder` is what a relative `url` is relative to; `wanted` is a commit, abbreviated or not, a tag or a branch."""
        self._mirrors = mirrors
        self._store = store
        self._url = locate(url, folder)
        self._said = url
        self._wanted = wanted
        self._submodules = submodules
        self._commit: str | None = wanted if FULL_ID.fullmatch(wanted) else None
        self._facts: dict[str, str] = {}

    def key(self) -> str:
        return f"git {self._url} {self._resolve()} {'with' if self._submodules else 'without'} submodules"

    def _resolve(self) -> str:
        if self._commit is None:
            with self._mirrors.open(self._url) as mirror:
                self._commit = mirror.resolve(self._wanted)
        return self._commit

    def plant(self, folder: Path) -> Mapping[str, str]:
        self._facts = {"kind": "git", "url": hidden(self._said), "requested": self._wanted}
        self._facts["commit"] = self._tree(self._url, self._resolve(), folder, b"", 0)
        pointers = _lfs_pointers(folder)
        if pointers:
            self._facts["lfs_pointers"] = str(pointers)
        return self._facts

    def _tree(self, url: str, wanted: str, folder: Path, prefix: bytes, depth: int) -> str:
        """Write one repository's part of R; its commit."""
        try:
            commit, links, urls = self._checkout(url, wanted, folder)
        except Damaged:
            self._mirrors.forget(url)
            try:
                commit, links, urls = self._checkout(url, wanted, folder)
            except Damaged as error:
                raise SourceError(f"{hidden(url)}: commit {wanted} cannot be checked out: {error}") from error
        for path, revision in sorted(links.items()) if self._submodules else ():
            self._submodule(url, urls.get(path), (path, revision), folder, (prefix, depth))
        return commit

    def _checkout(self, url: str, wanted: str, folder: Path) -> tuple[str, dict[bytes, str], dict[bytes, str]]:
        with self._mirrors.open(url) as mirror, self._store.scratch() as scratch:
            commit = mirror.resolve(wanted)
            mirror.checkout(commit, folder, scratch / "index")
            links = mirror.links(commit) if self._submodules else {}
            return commit, links, mirror.link_urls(commit) if links else {}

    def _submodule(
        self, parent: str, url: str | None, link: tuple[bytes, str], folder: Path, above: tuple[bytes, int]
    ) -> None:
        path, revision = link
        prefix, depth = above
        whole = prefix + path
        name = f"submodule:{display_path(whole)}"
        if url is None:
            self._facts[name] = f"{revision} (no url in .gitmodules, left empty)"
            return
        if depth >= _DEPTH or len(self._facts) > _COUNT:
            raise SourceError(f"{hidden(parent)}: more submodules than {_DEPTH} deep or {_COUNT} in all")
        if path_problem(path) is not None:
            raise SourceError(f"{hidden(parent)}: a submodule at {display_path(path)}: {path_problem(path)}")
        _check_folder(folder, path)
        located = relative_to(parent, url)
        below = folder / os.fsdecode(path)
        self._facts[name] = f"{revision} {hidden(located)}"
        self._tree(located, revision, below, whole + b"/", depth + 1)


def _check_folder(folder: Path, path: bytes) -> None:
    """A submodule goes into the empty folder that the checkout made for it, never through a symlink of R."""
    root = os.open(folder, DIRECTORY)
    try:
        os.close(open_beneath(root, path, DIRECTORY))
    except OSError as error:
        raise SourceError(f"a submodule at {display_path(path)}, where there is no folder: {error.strerror}") from error
    finally:
        os.close(root)


def _lfs_pointers(folder: Path) -> int:
    """How many files are only pointers to content that git does not hold."""
    pointers = 0
    for parent, _, files in os.walk(folder, followlinks=False):
        for name in files:
            path = os.path.join(parent, name)
            if not os.path.islink(path) and 100 < os.path.getsize(path) < 1024:
                with open(path, "rb") as file:
                    pointers += file.read(len(_LFS)) == _LFS
    return pointers
