"""The runner bundle: test runner, canary tests and pytest configuration, mounted read-only beside the workspace.

Names and contents that a patch must not be able to predict are random and new for every run.
"""

from __future__ import annotations

import marshal
import os
import secrets
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER, source_hash
from pathlib import Path

from agentbench.core.canonical import sha256_hex
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import SandboxError
from agentbench.sandbox.protocol import Mount

_PROGRAMS = (
    "run.py", "channel.py", "finder.py", "reentrancy_guard.py", "pins.py", "pytest_plugin.py", "session.py",
    "runner_monitor.py", "audit_hook.py", "genuine_code.py", "files.py", "fingerprint.py",
)  # fmt: skip
_RUNNER = Path(__file__).parents[2] / "runner"
_COPY = "r"
_CHECKED_HASH = (0b11).to_bytes(4, "little")
"""Mark of bytecode that is valid for the source with its hash (PEP 552)."""
_READABLE_FOLDER, _READABLE_FILE = 0o755, 0o644


@dataclass(frozen=True, slots=True)
class Canaries:
    """Tests with a known outcome: a run that reports them otherwise has forged reports."""

    module: str
    failing: frozenset[str]
    passing: frozenset[str]
    source: str


@cache
def runner_digest() -> str:
    """Digest of the runner's programs, part of cache keys: results of another version do not apply."""
    return sha256_hex(b"\0".join(_program(name) for name in _PROGRAMS))


@cache
def _program(name: str) -> bytes:
    return (_RUNNER / name).read_bytes()


@cache
def _bytecode(name: str) -> bytes:
    """Return a program compiled for the Python of the harness, from the cache of its installation.

    The sandbox's Python compiles the source itself if it is another version, or if the source has another hash.
    """
    path = str(_RUNNER / name)
    loader = SourceFileLoader(name, path)
    code = loader.get_code(name)
    return MAGIC_NUMBER + _CHECKED_HASH + source_hash(loader.get_data(path)) + marshal.dumps(code)


def draw_canaries() -> Canaries:
    """Generate canary tests that must fail (plain assertions on several types, one of unittest) and one that must pass.

    Their names are random.
    """
    names = [f"test_{secrets.token_hex(5)}" for _ in range(7)]
    left, right = secrets.token_hex(8), secrets.token_hex(8)
    low = secrets.randbelow(1000)
    high = low + 2 + secrets.randbelow(1000)
    # `__test__` makes a function a test whatever patterns the project's configuration has.
    source = f"""import unittest


def {names[0]}():
    value = {left!r}
    assert value == {right!r}


def {names[1]}():
    value = {left!r}
    assert value == {left!r}


def {names[4]}():
    value = {low}
    assert value == {high} - 0.5


def {names[5]}():
    value = {low} + 0.25
    assert abs(value - {high}) < 1e-6


def {names[6]}():
    value = [{left!r}, {low}]
    assert value == [{left!r}, {high}]


for test in ({names[0]}, {names[1]}, {names[4]}, {names[5]}, {names[6]}):
    test.__test__ = True
del test


class T{names[3]}(unittest.TestCase):
    def {names[2]}(self):
        self.assertEqual({left!r}, {right!r})
"""
    return Canaries(
        module=f"test_{secrets.token_hex(5)}.py",
        failing=frozenset({names[0], names[2], *names[4:]}),
        passing=frozenset({names[1]}),
        source=source,
    )


@dataclass(frozen=True, slots=True)
class RunnerBundle:
    """The bundle as mounted in the sandbox."""

    mount: Mount
    canaries: Canaries
    configuration: str | None
    """The copy of the base repository's configuration file."""

    @property
    def runner(self) -> str:
        return f"{self.mount.target}/run.py"

    @property
    def canary_file(self) -> str:
        return f"{self.mount.target}/{self.canaries.module}"


@contextmanager
def unpacked_bundle(configuration: tuple[str, bytes] | None) -> Iterator[RunnerBundle]:
    """Write a bundle to a temporary folder on the host. `configuration`: name and content of the pytest configuration.

    Raises:
        SandboxError: the bundle could not be written.
    """
    canaries = draw_canaries()
    target = f"/opt/{secrets.token_hex(6)}"
    with ExitStack() as stack:
        try:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ab-runner-")))
            _lay_out(folder, canaries, configuration)
        except OSError as error:
            raise SandboxError(f"the test runner could not be written to a temporary folder: {error}") from error
        copy = None if configuration is None else f"{target}/{_COPY}/{configuration[0]}"
        yield RunnerBundle(Mount(folder, target), canaries, copy)


def _lay_out(folder: Path, canaries: Canaries, configuration: tuple[str, bytes] | None) -> None:
    folder.chmod(_READABLE_FOLDER)
    compiled = _new_folder(folder / "__pycache__")
    for program in _PROGRAMS:
        _put(folder / program, _program(program))
        _put(compiled / f"{Path(program).stem}.{sys.implementation.cache_tag}.pyc", _bytecode(program))
    _put(folder / canaries.module, canaries.source.encode())
    if configuration is not None:
        _put(_new_folder(folder / _COPY) / configuration[0], configuration[1])


def _new_folder(path: Path) -> Path:
    path.mkdir()
    path.chmod(_READABLE_FOLDER)
    return path


def _put(path: Path, data: bytes) -> None:
    with path.open("xb", buffering=0) as file:
        file.write(data)
        os.fchmod(file.fileno(), _READABLE_FILE)
