"""Habits of real projects and their tests that must not be taken for tampering."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from agentbench.oracle.acceptance import grade
from agentbench.oracle.bench import Acceptance
from agentbench.oracle.replaced import replaced_names
from tests.oracle.toy import FIXED, REPO, Bed, delta_of

WHOLE = {"id": "unit", "command": "python -m pytest -q", "parser": "pytest", "timeout_sec": 60}
"""Requires whatever R has; a file that cannot be imported on R must come to pass."""
ASK = "\n\ndef ask():\n    return float(input('number: '))\n"
MOCKING = """
    import builtins
    import sys
    from unittest import mock

    from toy.core import ask

    real = builtins.__import__


    def helper():
        return "1"


    def test_context():
        with mock.patch("builtins.input", return_value="2"):
            assert ask() == 2


    @mock.patch("builtins.input", return_value="2")
    def test_decorator(given):
        assert ask() == 2


    def test_monkeypatch(monkeypatch):
        monkeypatch.setattr("builtins.input", lambda _text: "2")
        assert ask() == 2


    def test_module(monkeypatch):
        monkeypatch.setattr(builtins, "input", iter(["2"]).__next__, raising=True)
        monkeypatch.setattr(builtins, "input", lambda _text: "2")
        assert ask() == 2


    def test_imports(monkeypatch):
        def without(name, *rest, **named):
            if name == "colorama":
                raise ImportError(name)
            return real(name, *rest, **named)

        monkeypatch.setattr(builtins, "__import__", without)
        monkeypatch.setattr(
            builtins,
            "input",
            lambda _text: "2",
        )
        assert ask() == 2


    def test_own_helper(monkeypatch):
        monkeypatch.setattr(sys.modules[__name__], "helper", lambda: "2")
        monkeypatch.setattr("builtins.input", lambda _text: helper())
        assert ask() == 2
    """


def graded(
    bed: Bed,
    folder: Path,
    *,
    repo: Mapping[str, str] | None = None,
    tests: Mapping[str, str],
    fix: Mapping[str, str],
    required: tuple[str, ...] = (),
) -> Acceptance:
    check = {**WHOLE, "fail_to_pass": list(required)} if required else WHOLE
    bench = bed.bench(folder, repo={**REPO, **(repo or {})}, hidden=tests, oracle={"checks": [check]})
    return grade(delta_of(bench, fix), bench)


def told(result: Acceptance) -> str:
    checks = [(one.outcome.value, one.decided.why, one.decided.diagnostics) for one in result.checks]
    return f"{checks} {result.findings}"


@pytest.mark.req("G-01", "G-14")
def test_tests_of_something_new_may_replace_what_they_like(bed: Bed, tmp_path: Path) -> None:
    result = graded(bed, tmp_path, tests={"tests/test_new.py": MOCKING}, fix={"src/toy/core.py": FIXED + ASK})
    assert result.accepted, told(result)


@pytest.mark.req("G-14")
@pytest.mark.parametrize(
    "lines", ["def ask():\n    builtins.input = lambda _text: '2'\n    return 2.0\n", f"builtins.input = max\n{ASK}"]
)
def test_code_under_test_may_not_replace_what_tests_do(bed: Bed, tmp_path: Path, lines: str) -> None:
    """By a function of its own while a test runs, by anything at any other time."""
    cheat = f"{FIXED}\n\nimport builtins\n\n\n{lines}"
    result = graded(bed, tmp_path, tests={"tests/test_new.py": MOCKING}, fix={"src/toy/core.py": cheat})
    assert not result.accepted
    assert "runner_changed" in {one.rule for one in result.findings}, told(result)


@pytest.mark.req("G-01", "G-14")
def test_a_conftest_of_the_project_may_wrap_tests(bed: Bed, tmp_path: Path) -> None:
    conftest = """
        import functools

        import pytest


        @pytest.fixture
        def numbers():
            return [1, 2, 3]


        class Odd(type):
            # As old libraries made namespaces of XML.

            def __getattr__(cls, name):
                raise ValueError(name)


        class Abstract(metaclass=Odd):
            pass


        def around(function):
            @functools.wraps(function)
            def wrapped(*given, **named):
                return function(*given, **named)

            return wrapped


        def pytest_runtest_setup(item):
            if hasattr(item, "obj"):
                item.obj = around(item.obj)


        @pytest.hookimpl(tryfirst=True)
        def pytest_pyfunc_call(pyfuncitem):
            inner = pyfuncitem.obj
            pyfuncitem.obj = lambda *given, **named: inner(*given, **named)
        """
    tests = {"tests/test_new.py": "from toy.core import ask\n\n\ndef test_ask():\n    assert ask\n"}
    result = graded(
        bed, tmp_path, repo={"tests/conftest.py": conftest}, tests=tests, fix={"src/toy/core.py": FIXED + ASK}
    )
    assert result.accepted, told(result)


@pytest.mark.req("G-01", "G-14")
def test_a_conftest_may_need_what_the_fix_brings(bed: Bed, tmp_path: Path) -> None:
    conftest = """
        import pytest

        from toy.core import ask


        @pytest.fixture
        def numbers():
            return [1, 2, 3]


        def pytest_collection_modifyitems(items):
            items.sort(key=lambda item: item.name)


        @pytest.hookimpl(hookwrapper=True)
        def pytest_runtest_makereport(item, call):
            outcome = yield
            item.stash_of_mine = outcome.get_result()
        """
    tests = {
        "tests/conftest.py": conftest,
        "tests/test_new.py": "from toy.core import ask\n\n\ndef test_ask():\n    assert ask\n",
    }
    required = ("tests/test_new.py::test_ask", "tests/test_core.py::test_mean")
    result = graded(bed, tmp_path, tests=tests, fix={"src/toy/core.py": FIXED + ASK}, required=required)
    assert result.accepted, told(result)


TRACED = """

def traced(function):
    import ast
    import inspect
    import textwrap

    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    tree.body[0].decorator_list = []
    tree.body[0].body[0:0] = ast.parse("counted = {start}").body
    found = {{}}
    exec(compile(ast.fix_missing_locations(tree), inspect.getsourcefile(function), "exec"), function.__globals__, found)
    return found[function.__name__]
"""


@pytest.mark.req("G-01", "G-14")
def test_a_fix_may_change_how_the_project_rewrites_functions(bed: Bed, tmp_path: Path) -> None:
    """As checkers of types and tracers do, with functions that tests give them."""
    tests = {
        "tests/test_traced.py": """
            from toy.core import median, traced


            @traced
            def half(value):
                return value / 2 + counted - 1


            def test_half():
                assert half(4) == 2


            def test_inner():
                @traced
                def inner():
                    return counted

                assert inner() == 1 and median([1, 2]) == 1.5
            """
    }
    result = graded(
        bed,
        tmp_path,
        repo={"src/toy/core.py": REPO["src/toy/core.py"] + TRACED.format(start=0)},
        tests=tests,
        fix={"src/toy/core.py": FIXED + TRACED.format(start=1)},
    )
    assert result.accepted, told(result)


@pytest.mark.req("G-01", "G-14")
def test_a_test_may_hand_over_the_folder_it_lies_in(bed: Bed, tmp_path: Path) -> None:
    scan = """

def names(place):
    import os

    return sorted(os.listdir(place)) + [one.name for one in os.scandir(place)]


def scan(places):
    import os

    return sum(len(open(os.path.join(place, name)).read()) for place in places for name in sorted(os.listdir(place))
               if name.endswith(".py"))
"""
    tests = {
        "tests/test_scan.py": """
            from pathlib import Path

            import pathlib

            from toy.core import names, scan


            class Place(type(pathlib.Path())):
                pass  # as some libraries have their own


            def test_names(tmpdir):
                assert names(tmpdir) == names(Place(str(tmpdir))) == []


            def test_scan():
                assert scan([str(Path(__file__).parent)]) > 100


            def test_here(monkeypatch):
                monkeypatch.chdir(Path(__file__).parent)
                assert scan(["."]) > 100
            """
    }
    result = graded(bed, tmp_path, tests=tests, fix={"src/toy/core.py": FIXED + scan})
    assert result.accepted, told(result)


def test_names_that_are_replaced_are_read_from_the_text() -> None:
    text = b"""
m.setattr("builtins.input", 1)
with mock.patch.object(
    thing, "part", autospec=True
):
    builtins.print = show
    assert say("nothing") == "word"
"""
    assert replaced_names([text, b"x = 'other'"]) == ("input", "part", "print")
