"""Finding the host's interpreters."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from agentbench.sandbox.environments import interpreter
from agentbench.sandbox.environments.interpreter import inspect_interpreter, installed


def test_shims_are_not_interpreters(tmp_path: Path) -> None:
    shim = tmp_path / "python3"
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    shim.chmod(0o755)
    assert inspect_interpreter(shim) is None
    assert inspect_interpreter(tmp_path / "absent") is None


def test_folder_on_the_path_that_cannot_be_entered_has_no_interpreters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(self))

    before = [found.executable for found in installed()]
    monkeypatch.setenv("PATH", f"/root/.cargo/bin:{os.environ['PATH']}")
    is_dir = Path.is_dir
    monkeypatch.setattr(Path, "is_dir", lambda self: refused(self) if "cargo" in str(self) else is_dir(self))
    assert [found.executable for found in installed()] == before


def test_own_interpreter_is_described_without_starting_it(monkeypatch: pytest.MonkeyPatch) -> None:
    own = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    asked = interpreter._ask(own)
    monkeypatch.setattr(interpreter, "_ask", None)
    assert interpreter._own_facts(own) == asked
    assert interpreter._own_facts("/usr/bin/true") is None
