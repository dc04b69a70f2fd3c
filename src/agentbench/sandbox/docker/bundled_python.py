"""An interpreter that we bring along for images that have none: the host's own, with its loader and every library it needs.

Started through its own loader it takes nothing from the image, so it runs in any of the same architecture, whatever libc
that has, or none.
"""

from __future__ import annotations

import os
import re
import tarfile
from functools import lru_cache
from pathlib import Path
from typing import IO

from agentbench.core.errors import SandboxUnavailable
from agentbench.process import run_host
from agentbench.sandbox.environments import interpreter as interpreters

_LIBRARY = re.compile(r"(?:=> )?(/\S+) \(0x")
_UNNEEDED = (
    *("test", "idlelib", "lib2to3", "tkinter", "ensurepip", "pydoc_data", "__pycache__", "site-packages"),
    *("dist-packages", "turtledemo", "distutils", "unittest", "curses", "sqlite3"),
)


@lru_cache(maxsize=1)
def _parts() -> tuple[Path, Path, Path, tuple[Path, ...]]:
    """Program, standard library, loader, libraries: of the first of the host's interpreters that can be carried."""
    for found in interpreters.installed():
        parts = _taken_apart(Path(found.executable).resolve())
        if parts is not None:
            return parts
    raise SandboxUnavailable(
        "the image has no python3, and none of this host's own can be brought along",
        remedy="use an image with python3 3.8 or newer",
    )


def _taken_apart(program: Path) -> tuple[Path, Path, Path, tuple[Path, ...]] | None:
    asked = "import sysconfig; print(sysconfig.get_path('stdlib'))"
    told = run_host([program, "-I", "-c", asked], env={}, timeout_sec=30).stdout.kept.decode().strip()
    library = Path(told)
    libraries: dict[str, Path] = {}
    for file in [program, *sorted((library / "lib-dynload").glob("*.so"))]:
        said = run_host(["ldd", file], env={}, timeout_sec=30).stdout.kept.decode("utf-8", "replace")
        libraries |= {Path(path).name: Path(path) for path in _LIBRARY.findall(said)}
    loader = next((path for name, path in libraries.items() if name.startswith("ld-")), None)
    if loader is None or not library.is_dir():
        return None  # linked statically, or something else that does not come apart
    return program, library, loader, tuple(libraries.values())


def launch(folder: str) -> tuple[str, ...]:
    """How it is started when it lies in `folder`.

    Raises:
        SandboxUnavailable: this host's interpreter cannot be carried.
    """
    program, _, loader, _ = _parts()
    return (f"{folder}/so/{loader.name}", "--library-path", f"{folder}/so", f"{folder}/bin/{program.name}")


def packed(pipe: IO[bytes], folder: str) -> None:
    """Its files, as root's own, below `folder`."""
    program, library, _, libraries = _parts()
    top = folder.strip("/")
    with tarfile.open(fileobj=pipe, mode="w|", format=tarfile.GNU_FORMAT, bufsize=1 << 20) as tar:
        tar.add(program, f"{top}/bin/{program.name}", filter=_roots)
        for path in libraries:
            tar.add(path.resolve(), f"{top}/so/{path.name}", filter=_roots)
        for name in sorted(os.listdir(library)):
            if name not in _UNNEEDED and not name.startswith("config-"):
                tar.add(library / name, f"{top}/lib/{library.name}/{name}", filter=_roots)


def _roots(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if any(part in _UNNEEDED for part in info.name.split("/")):
        return None
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mode = info.mode & 0o755 | 0o444
    return info
