"""A Python interpreter for images that have none: the host's own, with its loader and every library it needs.

It is started through its own loader and takes nothing from the image, so it runs in any image of the same architecture,
whatever its libc.
"""

from __future__ import annotations

import os
import re
import tarfile
from functools import lru_cache
from pathlib import Path
from typing import IO

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import SandboxUnavailable
from agentbench.process import run_host
from agentbench.sandbox.environments import interpreter as interpreters

_LIBRARY = re.compile(r"(?:=> )?(/\S+) \(0x")
_UNNEEDED = (
    *("test", "idlelib", "lib2to3", "tkinter", "ensurepip", "pydoc_data", "__pycache__", "site-packages"),
    *("dist-packages", "turtledemo", "distutils", "unittest", "curses", "sqlite3"),
)


@dataclass(frozen=True, slots=True)
class _Parts:
    """The files of an interpreter."""

    program: Path
    stdlib: Path
    loader: Path
    libraries: tuple[Path, ...]


def command(folder: str) -> tuple[str, ...]:
    """Return the command that starts the interpreter from `folder`.

    Raises:
        SandboxUnavailable: no interpreter of this host can be bundled.
    """
    parts = _parts()
    return (f"{folder}/so/{parts.loader.name}", "--library-path", f"{folder}/so", f"{folder}/bin/{parts.program.name}")


def write_tar(pipe: IO[bytes], folder: str) -> None:
    """Write the interpreter's files below `folder`, owned by root."""
    parts = _parts()
    top = folder.strip("/")
    with tarfile.open(fileobj=pipe, mode="w|", format=tarfile.GNU_FORMAT, bufsize=1 << 20) as tar:
        tar.add(parts.program, f"{top}/bin/{parts.program.name}", filter=_owned_by_root)
        for path in parts.libraries:
            tar.add(path.resolve(), f"{top}/so/{path.name}", filter=_owned_by_root)
        for name in sorted(os.listdir(parts.stdlib)):
            if name not in _UNNEEDED and not name.startswith("config-"):
                tar.add(parts.stdlib / name, f"{top}/lib/{parts.stdlib.name}/{name}", filter=_owned_by_root)


@lru_cache(maxsize=1)
def _parts() -> _Parts:
    """Return the first interpreter of the host that can be bundled."""
    for interpreter in interpreters.installed():
        parts = _find_parts(Path(interpreter.executable).resolve())
        if parts is not None:
            return parts
    raise SandboxUnavailable(
        "the image has no python3, and no interpreter of this host can be copied into it",
        remedy="use an image with python3 3.8 or newer",
    )


def _find_parts(program: Path) -> _Parts | None:
    query = "import sysconfig; print(sysconfig.get_path('stdlib'))"
    stdlib = Path(run_host([program, "-I", "-c", query], env={}, timeout_sec=30).stdout.kept.decode().strip())
    libraries: dict[str, Path] = {}
    for file in [program, *sorted((stdlib / "lib-dynload").glob("*.so"))]:
        output = run_host(["ldd", file], env={}, timeout_sec=30).stdout.text
        libraries |= {Path(path).name: Path(path) for path in _LIBRARY.findall(output)}
    loader = next((path for name, path in libraries.items() if name.startswith("ld-")), None)
    if loader is None or not stdlib.is_dir():
        return None  # statically linked, for example
    return _Parts(program, stdlib, loader, tuple(libraries.values()))


def _owned_by_root(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if any(part in _UNNEEDED for part in info.name.split("/")):
        return None
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mode = info.mode & 0o755 | 0o444
    return info
