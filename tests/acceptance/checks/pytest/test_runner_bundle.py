"""The runner's programs are compiled once, and only bytecode of the same source is used."""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

from agentbench.acceptance.checks.pytest import runner_bundle
from agentbench.acceptance.checks.pytest.runner_bundle import unpacked_bundle

pytestmark = pytest.mark.component


class NeverCompiles(SourceFileLoader):
    def source_to_code(self, *_: object, **__: object) -> None:  # type: ignore[override]
        raise AssertionError("compiled")


def test_programs_of_the_runner_are_not_compiled_again() -> None:
    with unpacked_bundle(None) as bundle:
        for program in runner_bundle._PROGRAMS:
            code = NeverCompiles(program, str(bundle.mount.source / program)).get_code(program)
            assert code is not None
            assert code.co_filename == str(bundle.mount.source / program)


def test_bytecode_of_another_source_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    original = runner_bundle._program
    monkeypatch.setattr(runner_bundle, "_program", lambda name: original(name) + b"CHANGED = 1\n")
    with unpacked_bundle(None) as bundle:
        path = str(Path(bundle.mount.source) / "session.py")
        code = SourceFileLoader("session", path).get_code("session")
    assert code is not None
    assert "CHANGED" in code.co_names
