"""Choose the Python interpreter of a sandbox: one of the host's that fits `environment.python`, bound at its own path."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from agentbench.core.canonical import digest
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import HarnessError, SandboxUnavailable
from agentbench.process import run_host

Facts = tuple[tuple[int, int, int], str, str, bool, bool]
"""Version, prefix of the installation, prefix of its compiled files, and whether it has `venv` and `ensurepip`."""
OLDEST = (3, 8)
"""The oldest version that the command server runs on."""
_PREFERRED_OLDEST = (3, 9)
_QUERY = (
    "import sys, json, importlib.util as u; print(json.dumps([list(sys.version_info[:3]), sys.base_prefix, "
    "sys.base_exec_prefix, u.find_spec('venv') is not None, u.find_spec('ensurepip') is not None]))"
)


@dataclass(frozen=True, slots=True)
class Interpreter:
    executable: str
    """Its real path, without symlinks."""
    version: tuple[int, int, int]
    roots: tuple[str, ...]
    """Host folders that must be visible inside at the same path, besides the system's own."""
    has_venv: bool
    has_pip: bool
    stamp: str
    """Size and modification time of the program."""

    @property
    def short(self) -> str:
        return f"{self.version[0]}.{self.version[1]}"

    @property
    def full(self) -> str:
        return ".".join(map(str, self.version))

    @property
    def identity(self) -> str:
        return digest([self.executable, self.full, self.stamp])


def describe(python: Interpreter) -> str:
    """Describe the interpreter that runs a sandbox's command server."""
    return f"python {python.full}, the host's own ({python.executable})"


def find(version: str | None) -> Interpreter:
    """
    Raises:
        SandboxUnavailable: no interpreter of the host fits.
    """
    others: list[str] = []
    for candidate in _candidates(version):
        interpreter = inspect_interpreter(candidate)
        if interpreter is None:
            continue
        others.append(f"{interpreter.full} ({interpreter.executable})")
        oldest = OLDEST if version else _PREFERRED_OLDEST
        if (version is None or interpreter.short == version) and interpreter.version[:2] >= oldest:
            return interpreter
    needed = f"Python {version}" if version else f"Python {OLDEST[0]}.{OLDEST[1]} or newer"
    found = "found: " + ", ".join(dict.fromkeys(others)) if others else "found no interpreter"
    msg = f"no {needed} for sandboxes on this machine ({found})"
    raise SandboxUnavailable(
        msg, remedy=f"install Python {version or '3.11'} (system package, pyenv or `uv python install`)"
    )


def installed() -> list[Interpreter]:
    """Return every interpreter that a sandbox could use, in order of preference."""
    interpreters: dict[str, Interpreter] = {}
    for candidate in _candidates(None):
        interpreter = inspect_interpreter(candidate)
        if interpreter is not None and interpreter.version[:2] >= OLDEST:
            interpreters.setdefault(interpreter.executable, interpreter)
    return list(interpreters.values())


def _candidates(version: str | None) -> Iterator[Path]:
    yield from (Path("/usr/bin/python3"), Path("/usr/local/bin/python3"))
    yield Path(getattr(sys, "_base_executable", sys.executable))
    pattern = f"python{version}" if version else r"python3.[0-9]*"
    folders = [Path(item) for item in os.environ.get("PATH", "").split(":") if item.startswith("/")]
    for folder in dict.fromkeys([Path("/usr/bin"), Path("/usr/local/bin"), *folders]):
        yield from (path for path in _glob(folder, pattern) if re.fullmatch(r"python3\.\d+", path.name))
    prefix = f"{version}." if version else "3."
    for root, pattern in _version_managers(os.environ):
        for folder in sorted(_glob(root, pattern.format(prefix)), key=_version_numbers, reverse=True):
            yield from _glob(folder, "bin/python3.[0-9]*")


def _glob(folder: Path, pattern: str) -> list[Path]:
    """Return the matches in a folder; none if it does not exist or cannot be read (root's, on another user's PATH)."""
    try:
        return sorted(folder.glob(pattern)) if folder.is_dir() else []
    except OSError:
        return []


def _version_managers(env: Mapping[str, str]) -> list[tuple[Path, str]]:
    """Return the folders of pyenv, uv and others, with the pattern of the installations' names there."""
    home = Path.home()
    return [
        (Path(env.get("PYENV_ROOT", home / ".pyenv")) / "versions", "{}*"),
        (Path(env.get("UV_PYTHON_INSTALL_DIR", home / ".local/share/uv/python")), "cpython-{}*"),
        (Path("/opt/hostedtoolcache/Python"), "{}*/x64"),
        (Path("/opt/python"), "{}*"),
    ]


def _version_numbers(folder: Path) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", str(folder))][-4:]


def inspect_interpreter(path: Path) -> Interpreter | None:
    """Return the interpreter at `path`, or None if a sandbox cannot use it."""
    try:
        real = path.resolve(strict=True)
        info = real.stat()
    except OSError:
        return None
    if not re.fullmatch(r"python3(\.\d+)?", real.name) or not _is_program(real):
        return None
    return _query(str(real), f"{info.st_size}-{info.st_mtime_ns}")


def _is_program(path: Path) -> bool:
    """Return False for the shims of version managers: scripts on PATH that start another interpreter."""
    try:
        with path.open("rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def _ask(executable: str) -> Facts:
    answer = run_host([executable, "-I", "-S", "-c", _QUERY], env={}, timeout_sec=20)
    (first, second, third), *others = json.loads(answer.stdout.kept)
    return ((first, second, third), *others)


def _own_facts(executable: str) -> Facts | None:
    """Return the same as `_ask` without starting a process, if the harness itself runs on this interpreter."""
    own = getattr(sys, "_base_executable", None)
    if not own or os.path.realpath(own) != executable:
        return None
    has_venv, has_pip = (find_spec(name) is not None for name in ("venv", "ensurepip"))
    return sys.version_info[:3], sys.base_prefix, sys.base_exec_prefix, has_venv, has_pip


@lru_cache(maxsize=64)
def _query(executable: str, stamp: str) -> Interpreter | None:
    try:
        version, prefix, exec_prefix, has_venv, has_pip = _own_facts(executable) or _ask(executable)
    except (HarnessError, ValueError):
        return None
    roots: list[str] = []
    for folder in dict.fromkeys((prefix, exec_prefix, str(Path(executable).parent.parent))):
        real = str(Path(folder).resolve())
        if real.startswith("/nix/store/"):
            real = "/nix/store"
        if real == "/" or Path(real) == Path.home() or real.count("/") < 2:
            if real not in {"/usr", "/"}:
                return None  # binding it would expose a whole home or top-level folder
            continue
        if not real.startswith("/usr/") and not any(real.startswith(f"{root}/") for root in roots):
            roots.append(real)
    return Interpreter(executable, version, tuple(dict.fromkeys(roots)), has_venv, has_pip, stamp)
