"""The runner works with pytest before 5.4, which was a single module without `from_parent`."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from agentbench.acceptance.runner import pytest_plugin, run

pytestmark = pytest.mark.component


def test_main_module_of_a_single_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pytest.py").touch()
    spec = importlib.util.spec_from_file_location("pytest", tmp_path / "pytest.py")
    assert spec is not None
    old = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "pytest", old)
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    run.install_main_module(old)
    main = sys.modules["__main__"]
    assert main.__file__ == str(tmp_path / "pytest.py")
    assert main.__spec__ is spec


def test_modules_are_collected_without_from_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    class Module:
        def __init__(self, fspath: str, parent: object) -> None:
            self.given = (fspath, parent)

    monkeypatch.setattr(pytest_plugin, "pytest", SimpleNamespace(__version__="5.3.5", Module=Module))
    session = SimpleNamespace(fspath="/workspace")
    collector: object = pytest_plugin._module_collector(session, "/opt/canary.py")
    assert isinstance(collector, Module)
    assert collector.given == ("/opt/canary.py", session)
