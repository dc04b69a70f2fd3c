"""An inventory of what setup produced, as one digest that is equal when the result is equal.

Timestamps, byte code and download caches are left out: they differ between two runs of the same setup and do not affect it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from agentbench.core.canonical import Json, digest
from agentbench.tree.entry import Entry

LOCKFILES = (
    *("requirements.txt", "requirements-dev.txt", "constraints.txt", "poetry.lock", "uv.lock", "pdm.lock"),
    *("Pipfile.lock", "pylock.toml", "package-lock.json", "yarn.lock", "pnpm-lock.yaml", "Cargo.lock", "go.sum"),
    *("Gemfile.lock", "composer.lock"),
)


def lockfiles(entries: Iterable[Entry]) -> dict[str, str]:
    """Map lock and requirement files at the top of the workspace to their digests."""
    names = {name.encode() for name in LOCKFILES}
    return {entry.path.decode(): f"sha256:{entry.sha256}" for entry in entries if entry.path in names}


def environment_digest(workspace: Iterable[Entry], layer: Path, python: str) -> str:
    """Digest a frozen layer: its workspace, installed distributions, and files that no distribution lists."""
    distributions: list[Json] = [[name, version, record] for name, version, record in _distributions(layer / "env")]
    return digest(
        {
            "workspace": entries_hash(entry for entry in workspace if not _is_byte_code(entry.path)).hex(),
            "python": python,
            "packages": distributions,
            "files": _unlisted_files(layer),
        }
    )


def packages(env: Path) -> list[str]:
    """Return the installed distributions as `name==version`."""
    return [f"{name}=={version}" for name, version, _ in _distributions(env)]


def entries_hash(entries: Iterable[Entry]) -> bytes:
    state = hashlib.sha256()
    for entry in entries:
        line = f"{entry.kind} {int(entry.executable)} {entry.sha256} {len(entry.path)} ".encode()
        state.update(line + entry.path + b"\n")
    return state.digest()


def _distributions(env: Path) -> Iterator[tuple[str, str, str]]:
    for site in sorted(env.glob("lib/python3*/site-packages")):
        for info in sorted(site.glob("*.dist-info")):
            name, _, version = info.name.removesuffix(".dist-info").partition("-")
            yield name, version, _record_digest(info / "RECORD")


def _record_digest(record: Path) -> str:
    """Digest a distribution's list of files and their hashes, without the byte code compiled at installation."""
    try:
        lines = record.read_bytes().splitlines()
    except OSError:
        return ""
    kept = sorted(line for line in lines if b".pyc," not in line)
    return hashlib.sha256(b"\n".join(kept)).hexdigest()


def _unlisted_files(layer: Path) -> str:
    """Digest the files that no distribution lists: scripts, path files, and what setup put into the home folder."""
    path_files = sorted((layer / "env").glob("lib/python3*/site-packages/*.pth"))
    files = [item for top in (layer / "home", *path_files, layer / "env/bin") for item in _contents(top, layer)]
    state = hashlib.sha256()
    for path, content in sorted(files):
        state.update(b"%d %s %d " % (len(path), path, len(content)) + content)
    return state.hexdigest()


def _contents(top: Path, layer: Path) -> Iterator[tuple[bytes, bytes]]:
    """Yield (path, digest or link target) of every file at or below `top`."""
    paths = [Path(folder) / name for folder, _, names in os.walk(top) for name in names] if top.is_dir() else [top]
    for path in paths:
        relative = os.fsencode(path.relative_to(layer))
        if _is_byte_code(relative) or b"/.cache/" in relative:
            continue
        if path.is_symlink():
            yield relative, os.fsencode(os.readlink(path))
        elif path.is_file():
            with path.open("rb") as file:
                yield relative, hashlib.file_digest(file, "sha256").digest()


def _is_byte_code(path: bytes) -> bool:
    return path.endswith((b".pyc", b".pyo")) or b"__pycache__/" in path
