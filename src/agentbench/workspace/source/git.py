"""Base repositories from a git commit, with submodules at the revisions that the commit names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from agentbench.contract.lock import SUBMODULE
from agentbench.core.errors import SourceError
from agentbench.core.package_settings import without_credentials
from agentbench.tree.beneath import DIRECTORY, open_beneath
from agentbench.workspace.diff.paths import display_path, path_problem
from agentbench.workspace.source.location import resolve_submodule_url, resolve_url
from agentbench.workspace.source.mirror import FULL_ID, MirrorDamaged, Mirrors
from agentbench.workspace.source.store import Store

_MAX_DEPTH = 8
_MAX_SUBMODULES = 200
_LFS = b"version https://git-lfs.github.com/spec/v1\n"


class GitSource:
    """One commit of one repository."""

    def __init__(self, mirrors: Mirrors, store: Store, url: str, ref: str, *, folder: Path, submodules: bool) -> None:
        """`ref` is a commit id, full or short, a tag or a branch. A relative `url` is resolved against `folder`."""
        self._mirrors = mirrors
        self._store = store
        self._url = resolve_url(url, folder)
        self._given_url = url
        self._ref = ref
        self._submodules = submodules
        self._commit: str | None = ref if FULL_ID.fullmatch(ref) else None
        self._facts: dict[str, str] = {}

    def key(self) -> str:
        return f"git {self._url} {self._resolve()} {'with' if self._submodules else 'without'} submodules"

    def _resolve(self) -> str:
        if self._commit is None:
            with self._mirrors.open(self._url) as mirror:
                self._commit = mirror.resolve(self._ref)
        return self._commit

    def materialize(self, folder: Path) -> Mapping[str, str]:
        self._facts = {"kind": "git", "url": without_credentials(self._given_url), "requested": self._ref}
        self._facts["commit"] = self._write_repository(self._url, self._resolve(), folder, b"", 0)
        pointers = _lfs_pointers(folder)
        if pointers:
            self._facts["lfs_pointers"] = str(pointers)
        return self._facts

    def _write_repository(self, url: str, ref: str, folder: Path, prefix: bytes, depth: int) -> str:
        """Write the files of one repository and its submodules. Return its commit."""
        try:
            commit, submodules, urls = self._checkout(url, ref, folder)
        except MirrorDamaged:
            self._mirrors.remove(url)
            try:
                commit, submodules, urls = self._checkout(url, ref, folder)
            except MirrorDamaged as error:
                raise SourceError(f"{without_credentials(url)}: commit {ref} cannot be checked out: {error}") from error
        for path, revision in sorted(submodules.items()) if self._submodules else ():
            self._write_submodule(url, urls.get(path), (path, revision), folder, (prefix, depth))
        return commit

    def _checkout(self, url: str, ref: str, folder: Path) -> tuple[str, dict[bytes, str], dict[bytes, str]]:
        with self._mirrors.open(url) as mirror, self._store.scratch() as scratch:
            commit = mirror.resolve(ref)
            mirror.checkout(commit, folder, scratch / "index")
            submodules = mirror.submodules(commit) if self._submodules else {}
            return commit, submodules, mirror.submodule_urls(commit) if submodules else {}

    def _write_submodule(
        self, parent: str, url: str | None, submodule: tuple[bytes, str], folder: Path, nesting: tuple[bytes, int]
    ) -> None:
        path, revision = submodule
        prefix, depth = nesting
        name = f"{SUBMODULE}{display_path(prefix + path)}"
        if url is None:
            self._facts[name] = f"{revision} (no url in .gitmodules, left empty)"
            return
        if depth >= _MAX_DEPTH or len(self._facts) > _MAX_SUBMODULES:
            raise SourceError(
                f"{without_credentials(parent)}: more than {_MAX_DEPTH} levels of submodules "
                f"or {_MAX_SUBMODULES} submodules in total"
            )
        if path_problem(path) is not None:
            raise SourceError(f"{without_credentials(parent)}: submodule {display_path(path)}: {path_problem(path)}")
        _require_folder(folder, path)
        resolved = resolve_submodule_url(parent, url)
        self._facts[name] = f"{revision} {without_credentials(resolved)}"
        self._write_repository(resolved, revision, folder / os.fsdecode(path), prefix + path + b"/", depth + 1)


def _require_folder(folder: Path, path: bytes) -> None:
    """Require the empty folder that the checkout creates for a submodule. The path must not go through a symlink."""
    root = os.open(folder, DIRECTORY)
    try:
        os.close(open_beneath(root, path, DIRECTORY))
    except OSError as error:
        raise SourceError(f"there is no folder for the submodule {display_path(path)}: {error.strerror}") from error
    finally:
        os.close(root)


def _lfs_pointers(folder: Path) -> int:
    """Count the files that are Git LFS pointers to content outside the repository."""
    pointers = 0
    for parent, _, files in os.walk(folder, followlinks=False):
        for name in files:
            path = os.path.join(parent, name)
            if not os.path.islink(path) and 100 < os.path.getsize(path) < 1024:
                with open(path, "rb") as file:
                    pointers += file.read(len(_LFS)) == _LFS
    return pointers
