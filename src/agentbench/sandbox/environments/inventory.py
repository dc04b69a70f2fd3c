"""What setup really produced, as one digest that is equal when the result is.

Times, byte code and download caches are left out: they differ between two runs of the same setup and decide nothing.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from agentbench.core.canonical import Json, digest
from agentbench.tree.entry import Entry

LOCKFILES = (
    "requirements.txt",
    "requirements-dev.txt",
    "constraints.txt",
    "poetry.lock",
    "uv.lock",
    "pdm.lock",
    "Pipfile.lock",
    "pylock.toml",
    "package-lock.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "Cargo.lock",
    "go.sum",
    "Gemfile.lock",
    "composer.lock",
)


def lockfiles(entries: Iterable[Entry]) -> dict[str, str]:
    """Lock and requirement files at the top of the workspace -> digest."""
    wanted = {name.encode() for name in LOCKFILES}
    return {entry.path.decode(): f"sha256:{entry.sha256}" for entry in entries if entry.path in wanted}


def environment_digest(workspace: Iterable[Entry], layer: Path, python: str) -> str:
    return digest(
        {
            "workspace": _entries_digest(entry for entry in workspace if not _noise(entry.path)),
            "python": python,
            "packages": _packages(layer / "env"),
            "files": _loose_files(layer),
        }
    )


def packages(env: Path) -> list[str]:
    """Installed distributions, as `name==version`."""
    return [f"{name}=={version}" for name, version, _ in _distributions(env)]


def _packages(env: Path) -> list[Json]:
    return [[name, version, record] for name, version, record in _distributions(env)]


def _distributions(env: Path) -> list[tuple[str, str, str]]:
    found = []
    for site in sorted(env.glob("lib/python3*/site-packages")):
        for info in sorted(site.glob("*.dist-info")):
            name, _, version = info.name.removesuffix(".dist-info").partition("-")
            found.append((name, version, _record_digest(info / "RECORD")))
    return found


def _record_digest(record: Path) -> str:
    """The list of a distribution's files with their digests, less what is compiled on the spot."""
    try:
        lines = record.read_bytes().splitlines()
    except OSError:
        return ""
    kept = sorted(line for line in lines if b".pyc," not in line)
    return hashlib.sha256(b"\n".join(kept)).hexdigest()


def _loose_files(layer: Path) -> str:
    """Files no distribution accounts for: scripts, path files, what setup put into the home."""
    parts: list[tuple[bytes, bytes]] = []
    for place in (
        layer / "home",
        *sorted((layer / "env").glob("lib/python3*/site-packages/*.pth")),
        layer / "env/bin",
    ):
        parts += _contents(place, layer)
    state = hashlib.sha256()
    for path, content in sorted(parts):
        state.update(b"%d %s %d " % (len(path), path, len(content)) + content)
    return state.hexdigest()


def _contents(place: Path, layer: Path) -> Sequence[tuple[bytes, bytes]]:
    found = []
    paths = [place] if not place.is_dir() else [Path(top) / name for top, _, names in os.walk(place) for name in names]
    for path in paths:
        relative = os.fsencode(path.relative_to(layer))
        if _noise(relative) or b"/.cache/" in relative:
            continue
        if path.is_symlink():
            found.append((relative, os.fsencode(os.readlink(path))))
        elif path.is_file():
            found.append((relative, _file_digest(path)))
    return found


def _file_digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _noise(path: bytes) -> bool:
    return path.endswith((b".pyc", b".pyo")) or b"__pycache__/" in path


def _entries_digest(entries: Iterable[Entry]) -> str:
    state = hashlib.sha256()
    for entry in entries:
        line = f"{entry.kind} {int(entry.executable)} {entry.sha256} {len(entry.path)} ".encode()
        state.update(line + entry.path + b"\n")
    return state.hexdigest()
