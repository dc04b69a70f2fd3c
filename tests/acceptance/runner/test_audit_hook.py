"""Code counts as code under test unless it comes from the library file, frozen module or test that it names."""

from __future__ import annotations

import importlib
import json
import os
import py_compile
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentbench.acceptance.runner.audit_hook import AuditMonitor
from agentbench.acceptance.runner.runner_monitor import is_test

pytestmark = pytest.mark.component


def monitor(workspace: Path, *, written: tuple[str, ...] = ()) -> AuditMonitor:
    job = {"mode": "survey", "pinned": [], "workspace": str(workspace), "written": list(written), "guarded": []}
    return AuditMonitor(lambda *_: None, job, "/opt/runner", is_test, [*sys.path, str(workspace / "site-packages")])


def library_functions() -> Iterator[types.FunctionType]:
    for name in ("os", "posixpath", "codecs", "json", "json.decoder", "pathlib", "tokenize", "importlib._bootstrap"):
        values = list(vars(__import__(name, fromlist=["_"])).values())
        members = [member for value in values if isinstance(value, type) for member in vars(value).values()]
        yield from (value for value in values + members if isinstance(value, types.FunctionType))


def test_library_code_is_genuine(tmp_path: Path) -> None:
    observer = monitor(tmp_path)
    functions = [function for function in library_functions() if function.__code__.co_filename != "<string>"]
    assert len(functions) > 200
    assert [function for function in functions if not observer._is_genuine(function.__code__)] == []


def test_library_code_that_is_loaded_later_is_genuine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytecode names the place where it was compiled, which in an image can be another."""
    file = tmp_path / "site-packages" / "compiled_elsewhere.py"
    file.parent.mkdir()
    file.write_text("def read():\n    return open('x')\n", encoding="utf-8")
    py_compile.compile(str(file), dfile="/build/compiled_elsewhere.py")
    monkeypatch.syspath_prepend(file.parent)
    monkeypatch.delitem(sys.modules, "runpy", raising=False)
    observer = monitor(tmp_path)
    observer._started += 60
    for name, function in (("compiled_elsewhere", "read"), ("runpy", "run_path")):
        assert observer._is_genuine(getattr(importlib.import_module(name), function).__code__), name
    del sys.modules["compiled_elsewhere"]


def test_a_new_link_to_a_file_is_no_change_of_it(tmp_path: Path) -> None:
    """Preparing another task links files of the interpreter, which changes their time like a write."""
    file = tmp_path / "library.py"
    file.write_text("x = 1\n", encoding="utf-8")
    os.utime(file, (1, 1))
    observer = monitor(tmp_path)
    observer._started = 2
    assert observer._is_new(str(file))
    file.with_name("linked.py").hardlink_to(file)
    assert not observer._is_new(str(file))
    file.write_text("x = 2\n", encoding="utf-8")
    assert observer._is_new(str(file))


@pytest.mark.parametrize(
    "place",
    ["<frozen os>", "<frozen nowhere>", json.__file__, json.__file__ + "x", "/opt/runner/run.py", "<doctest x>"],
)
def test_code_under_a_false_name_is_not_genuine(tmp_path: Path, place: str) -> None:
    module = compile("def read():\n    return open('x')\n", place, "exec")
    assert not monitor(tmp_path)._is_genuine(module)
    assert not monitor(tmp_path)._is_genuine(
        next(value for value in module.co_consts if isinstance(value, types.CodeType))
    )


def test_a_test_is_genuine_unless_the_patch_wrote_it(tmp_path: Path) -> None:
    test = tmp_path / "tests" / "helper.py"
    test.parent.mkdir()
    test.write_text("def read():\n    return open('x')\n", encoding="utf-8")
    code = compile(test.read_text(encoding="utf-8"), str(test), "exec")
    assert monitor(tmp_path)._is_genuine(code)
    moved = monitor(tmp_path, written=("tests/helper.py",))
    assert not moved._is_genuine(code)
    test.parent.rename(tmp_path / "test")
    assert not moved._is_genuine(
        compile("def read():\n    return open('x')\n", str(tmp_path / "test/helper.py"), "exec")
    )


def test_a_file_written_while_tests_run_is_not_genuine(tmp_path: Path) -> None:
    observer = monitor(tmp_path)
    test = tmp_path / "tests" / "helper.py"
    test.parent.mkdir()
    observer._started = 0.0
    test.write_text("VALUE = 1\n", encoding="utf-8")
    assert not observer._is_genuine(compile("VALUE = 1\n", str(test), "exec"))
