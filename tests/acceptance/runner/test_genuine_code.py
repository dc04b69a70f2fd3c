"""Code counts as code under test unless it comes from the library file, frozen module or test that it names."""

from __future__ import annotations

import importlib
import json
import py_compile
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentbench.acceptance.runner.files import Files
from agentbench.acceptance.runner.genuine_code import GenuineCode
from agentbench.acceptance.runner.runner_monitor import is_test

pytestmark = pytest.mark.component


def genuine_code(workspace: Path, *, written: tuple[str, ...] = (), started: float | None = None) -> GenuineCode:
    job = {"mode": "survey", "pinned": [], "workspace": str(workspace), "written": list(written)}
    files = Files()
    files.started = files.started if started is None else started
    return GenuineCode(job, "/opt/runner", is_test, [*sys.path, str(workspace / "site-packages")], files)


def library_functions() -> Iterator[types.FunctionType]:
    for name in ("os", "posixpath", "codecs", "json", "json.decoder", "pathlib", "tokenize", "importlib._bootstrap"):
        values = list(vars(__import__(name, fromlist=["_"])).values())
        members = [member for value in values if isinstance(value, type) for member in vars(value).values()]
        yield from (value for value in values + members if isinstance(value, types.FunctionType))


def test_library_code_is_genuine(tmp_path: Path) -> None:
    genuine = genuine_code(tmp_path)
    functions = [function for function in library_functions() if function.__code__.co_filename != "<string>"]
    assert len(functions) > 200
    assert [function for function in functions if function.__code__ not in genuine] == []


def test_library_code_that_is_loaded_later_is_genuine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytecode names the place where it was compiled, which in an image can be another."""
    file = tmp_path / "site-packages" / "compiled_elsewhere.py"
    file.parent.mkdir()
    file.write_text("def read():\n    return open('x')\n", encoding="utf-8")
    py_compile.compile(str(file), dfile="/build/compiled_elsewhere.py")
    monkeypatch.syspath_prepend(file.parent)
    monkeypatch.delitem(sys.modules, "runpy", raising=False)
    genuine = genuine_code(tmp_path, started=time.time() + 60)
    for name, function in (("compiled_elsewhere", "read"), ("runpy", "run_path")):
        assert getattr(importlib.import_module(name), function).__code__ in genuine, name
    del sys.modules["compiled_elsewhere"]


@pytest.mark.parametrize(
    "place",
    ["<frozen os>", "<frozen nowhere>", json.__file__, json.__file__ + "x", "/opt/runner/run.py", "<doctest x>"],
)
def test_code_under_a_false_name_is_not_genuine(tmp_path: Path, place: str) -> None:
    module = compile("def read():\n    return open('x')\n", place, "exec")
    function = next(value for value in module.co_consts if isinstance(value, types.CodeType))
    assert module not in genuine_code(tmp_path)
    assert function not in genuine_code(tmp_path)


def test_a_test_is_genuine_unless_the_patch_wrote_it(tmp_path: Path) -> None:
    test = tmp_path / "tests" / "helper.py"
    test.parent.mkdir()
    test.write_text("def read():\n    return open('x')\n", encoding="utf-8")
    code = compile(test.read_text(encoding="utf-8"), str(test), "exec")
    assert code in genuine_code(tmp_path)
    moved = genuine_code(tmp_path, written=("tests/helper.py",))
    assert code not in moved
    test.parent.rename(tmp_path / "test")
    assert compile("def read():\n    return open('x')\n", str(tmp_path / "test/helper.py"), "exec") not in moved


def test_a_file_written_while_tests_run_is_not_genuine(tmp_path: Path) -> None:
    genuine = genuine_code(tmp_path, started=0.0)
    test = tmp_path / "tests" / "helper.py"
    test.parent.mkdir()
    test.write_text("VALUE = 1\n", encoding="utf-8")
    assert compile("VALUE = 1\n", str(test), "exec") not in genuine
