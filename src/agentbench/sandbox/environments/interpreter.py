"""Which python a sandbox gets: one of the host's that fits `environment.python`, made visible at its own path."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from agentbench.core.canonical import digest
from agentbench.core.errors import HarnessError, SandboxUnavailable
from agentbench.process import run_host

OLDEST = (3, 8)
"""What the command server inside needs."""
_PREFERRED_OLDEST = (3, 9)
_ASK = (
    "import sys, json, importlib.util as u; print(json.dumps([list(sys.version_info[:3]), sys.base_prefix, "
    "sys.base_exec_prefix, u.find_spec('venv') is not None, u.find_spec('ensurepip') is not None]))"
)


@dataclass(frozen=True, slots=True)
class Interpreter:
    executable: str
    """Its real path, no symlink."""
    version: tuple[int, int, int]
    roots: tuple[str, ...]
    """Host folders that must be visible inside at the same path, beyond the system's own."""
    has_venv: bool
    has_pip: bool
    stamp: str
    """Changes when the program on disk does."""

    @property
    def short(self) -> str:
        return f"{self.version[0]}.{self.version[1]}"

    @property
    def full(self) -> str:
        return ".".join(map(str, self.version))

    @property
    def identity(self) -> str:
        return digest([self.executable, self.full, self.stamp])


def served_by(python: Interpreter) -> str:
    """What runs commands where the host's interpreter does."""
    return f"python {python.full}, the host's own ({python.executable})"


def find(wanted: str | None) -> Interpreter:
    """
    Raises:
        SandboxUnavailable: none of the host's interpreters fits.
    """
    seen: list[str] = []
    for candidate in _candidates(wanted):
        interpreter = look(candidate)
        if interpreter is None:
            continue
        seen.append(f"{interpreter.full} ({interpreter.executable})")
        oldest = OLDEST if wanted else _PREFERRED_OLDEST
        if (wanted is None or interpreter.short == wanted) and interpreter.version[:2] >= oldest:
            return interpreter
    what = f"python {wanted}" if wanted else f"python {OLDEST[0]}.{OLDEST[1]} or newer"
    found = "found: " + ", ".join(dict.fromkeys(seen)) if seen else "found no interpreter"
    msg = f"no {what} on this machine that a sandbox can use; {found}"
    raise SandboxUnavailable(msg, remedy=f"install python {wanted or '3.11'} (a package, pyenv or `uv python install`)")


def installed() -> list[Interpreter]:
    """Every interpreter a sandbox could use, best first."""
    found: dict[str, Interpreter] = {}
    for candidate in _candidates(None):
        interpreter = look(candidate)
        if interpreter is not None and interpreter.version[:2] >= OLDEST:
            found.setdefault(interpreter.executable, interpreter)
    return list(found.values())


def _candidates(wanted: str | None) -> Iterator[Path]:
    yield from (Path("/usr/bin/python3"), Path("/usr/local/bin/python3"))
    yield Path(getattr(sys, "_base_executable", sys.executable))
    pattern = f"python{wanted}" if wanted else r"python3.[0-9]*"
    folders = [Path(item) for item in os.environ.get("PATH", "").split(":") if item.startswith("/")]
    for folder in dict.fromkeys([Path("/usr/bin"), Path("/usr/local/bin"), *folders]):
        yield from (path for path in _in(folder, pattern) if re.fullmatch(r"python3\.\d+", path.name))
    version = f"{wanted}." if wanted else "3."
    for root, shape in _managed(os.environ):
        for folder in sorted(_in(root, shape.format(version)), key=_by_version, reverse=True):
            yield from _in(folder, "bin/python3.[0-9]*")


def _in(folder: Path, pattern: str) -> list[Path]:
    """What a folder has; nothing when it is not there, or (root's on an ordinary user's PATH) not for us to see."""
    try:
        return sorted(folder.glob(pattern)) if folder.is_dir() else []
    except OSError:
        return []


def _managed(env: Mapping[str, str]) -> list[tuple[Path, str]]:
    """Folders of pyenv, uv and others, with the shape of an installation's name there."""
    home = Path.home()
    return [
        (Path(env.get("PYENV_ROOT", home / ".pyenv")) / "versions", "{}*"),
        (Path(env.get("UV_PYTHON_INSTALL_DIR", home / ".local/share/uv/python")), "cpython-{}*"),
        (Path("/opt/hostedtoolcache/Python"), "{}*/x64"),
        (Path("/opt/python"), "{}*"),
    ]


def _by_version(folder: Path) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", str(folder))][-4:]


def look(path: Path) -> Interpreter | None:
    """What is at `path`, or None when it is no interpreter that can be used."""
    try:
        real = path.resolve(strict=True)
        info = real.stat()
    except OSError:
        return None
    if not re.fullmatch(r"python3(\.\d+)?", real.name) or not _is_program(real):
        return None
    return _ask(str(real), f"{info.st_size}-{info.st_mtime_ns}")


def _is_program(path: Path) -> bool:
    """Not a shim: version managers put scripts of the same name on PATH that start something else."""
    try:
        with path.open("rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


@lru_cache(maxsize=64)
def _ask(executable: str, stamp: str) -> Interpreter | None:
    try:
        answer = run_host([executable, "-I", "-S", "-c", _ASK], env={}, timeout_sec=20)
        version, prefix, exec_prefix, has_venv, has_pip = json.loads(answer.stdout.kept)
    except (HarnessError, ValueError):
        return None
    roots: list[str] = []
    for root in dict.fromkeys((prefix, exec_prefix, str(Path(executable).parent.parent))):
        real = str(Path(root).resolve())
        if real.startswith("/nix/store/"):
            real = "/nix/store"
        if real == "/" or Path(real) == Path.home() or real.count("/") < 2:
            if real not in {"/usr", "/"}:
                return None  # it would show a whole home or top folder
            continue
        if not real.startswith("/usr/") and not any(real.startswith(f"{seen}/") for seen in roots):
            roots.append(real)
    first, second, third = version
    return Interpreter(executable, (first, second, third), tuple(dict.fromkeys(roots)), has_venv, has_pip, stamp)
