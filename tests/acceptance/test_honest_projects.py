"""Behaviour of real projects and their tests that must not be mistaken for tampering."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from agentbench.acceptance.checks.pytest.records import AuditEvent
from agentbench.acceptance.checks.required_tests import files_of
from agentbench.acceptance.grade import grade
from agentbench.acceptance.grading_context import Acceptance
from agentbench.acceptance.inspection.known_behaviour import known_behaviour, monkeypatched_names
from tests.acceptance.toy import EDITABLE, FIXED, REPO, UNIT, TaskFactory, patch_of

pytestmark = pytest.mark.component

WHOLE = {"id": "unit", "command": "python -m pytest -q", "parser": "pytest", "timeout_sec": 60}
"""Requires all tests of the base repository; a file that cannot be imported there must pass."""
ASK = "\n\ndef ask():\n    return float(input('number: '))\n"
MOCKING = """
    import builtins
    import sys
    import time
    from unittest import mock

    import pytest

    from toy.core import ask

    pytest_plugins = ["pytester"]

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


    @pytest.fixture
    def frozen():
        # Like freezegun.
        real, places = time.time, []
        for module in list(sys.modules.values()):
            for key, value in list(vars(module).items()):
                if value is real:
                    places.append((module, key))
                    setattr(module, key, lambda: 0.0)
        yield
        for module, key in places:
            setattr(module, key, real)


    def test_frozen(frozen):
        assert time.time() == 0.0


    def test_inner(pytester):
        pytester.makepyfile("def test_a(): assert 1\\n\\ndef test_b(): assert 0\\n")
        pytester.runpytest("-p", "no:cacheprovider").assert_outcomes(passed=1, failed=1)


    def test_own_helper(monkeypatch):
        monkeypatch.setattr(sys.modules[__name__], "helper", lambda: "2")
        monkeypatch.setattr("builtins.input", lambda _text: helper())
        assert ask() == 2
    """


def graded(
    tasks: TaskFactory,
    folder: Path,
    *,
    repo: Mapping[str, str] | None = None,
    tests: Mapping[str, str],
    fix: Mapping[str, str],
    required: tuple[str, ...] = (),
) -> Acceptance:
    check = {**WHOLE, "fail_to_pass": list(required)} if required else WHOLE
    context = tasks.context(folder, repo={**REPO, **(repo or {})}, hidden=tests, oracle={"checks": [check]})
    return grade(patch_of(context, fix), context)


def describe(result: Acceptance) -> str:
    checks = [(check.outcome.value, check.decided.why, check.decided.diagnostics) for check in result.checks]
    return f"{checks} {result.findings}"


@pytest.mark.req("G-01", "G-14")
def test_new_tests_may_monkeypatch(tasks: TaskFactory, tmp_path: Path) -> None:
    result = graded(tasks, tmp_path, tests={"tests/test_new.py": MOCKING}, fix={"src/toy/core.py": FIXED + ASK})
    assert result.accepted, describe(result)


@pytest.mark.req("G-14")
@pytest.mark.parametrize(
    "lines", ["def ask():\n    builtins.input = lambda _text: '2'\n    return 2.0\n", f"builtins.input = max\n{ASK}"]
)
def test_code_under_test_may_not_replace_what_tests_patch(tasks: TaskFactory, tmp_path: Path, lines: str) -> None:
    """Neither by a function of its own while a test runs, nor by anything at any other time."""
    cheat = f"{FIXED}\n\nimport builtins\n\n\n{lines}"
    result = graded(tasks, tmp_path, tests={"tests/test_new.py": MOCKING}, fix={"src/toy/core.py": cheat})
    assert not result.accepted
    assert "runner_changed" in {finding.rule for finding in result.findings}, describe(result)


@pytest.mark.req("G-01", "G-14")
def test_project_conftest_may_wrap_tests(tasks: TaskFactory, tmp_path: Path) -> None:
    conftest = """
        import functools

        import pytest


        @pytest.fixture
        def numbers():
            return [1, 2, 3]


        class Odd(type):
            # As old libraries defined XML namespaces.

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
        tasks, tmp_path, repo={"tests/conftest.py": conftest}, tests=tests, fix={"src/toy/core.py": FIXED + ASK}
    )
    assert result.accepted, describe(result)


@pytest.mark.req("G-01", "G-14")
def test_conftest_may_need_the_fix(tasks: TaskFactory, tmp_path: Path) -> None:
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
    result = graded(tasks, tmp_path, tests=tests, fix={"src/toy/core.py": FIXED + ASK}, required=required)
    assert result.accepted, describe(result)


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
def test_fix_may_change_a_function_rewriting_decorator(tasks: TaskFactory, tmp_path: Path) -> None:
    """As type checkers and tracers do with functions that tests pass to them."""
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
        tasks,
        tmp_path,
        repo={"src/toy/core.py": REPO["src/toy/core.py"] + TRACED.format(start=0)},
        tests=tests,
        fix={"src/toy/core.py": FIXED + TRACED.format(start=1)},
    )
    assert result.accepted, describe(result)


MARKERS = """

import types


def answer(one, name):
    if name == "__class__":
        return type(one)
    if name == "mark":
        return lambda function: function
    raise RuntimeError("not now")


class Lazy(types.ModuleType):
    __getattribute__ = answer


class Proxy:
    __getattribute__ = answer

    def __call__(self, function):
        return function


class Namespace(type):
    __getattribute__ = answer


class Marks(metaclass=Namespace):
    pass


lazy, proxy = Lazy("lazy"), Proxy()
"""


@pytest.mark.req("G-01", "G-14")
def test_decorators_may_reject_attribute_access(tasks: TaskFactory, tmp_path: Path) -> None:
    """As context-local proxies, lazily loaded modules and namespace classes do."""
    tests = {
        "tests/test_marked.py": """
            from toy.core import Marks, lazy, median, proxy


            @proxy
            def one():
                return 1


            @lazy.mark
            def half():
                return 0.5


            @Marks.mark
            def wanted():
                return one() + half()


            def test_marked():
                assert median([1, 2]) == wanted()
            """
    }
    core = {"src/toy/core.py": REPO["src/toy/core.py"] + MARKERS}
    result = graded(tasks, tmp_path, repo=core, tests=tests, fix={"src/toy/core.py": FIXED + MARKERS})
    assert result.accepted, describe(result)


@pytest.mark.req("G-01", "G-14")
def test_tests_may_pass_their_own_folder(tasks: TaskFactory, tmp_path: Path) -> None:
    scan = """

def scan(places):
    import os

    return sum(len(open(os.path.join(place, name)).read()) for place in places for name in sorted(os.listdir(place))
               if name.endswith(".py"))
"""
    tests = {
        "tests/test_scan.py": """
            from pathlib import Path

            from toy.core import scan


            def test_scan():
                assert scan([str(Path(__file__).parent)]) > 100


            def test_here(monkeypatch):
                monkeypatch.chdir(Path(__file__).parent)
                assert scan(["."]) > 100
            """
    }
    result = graded(tasks, tmp_path, tests=tests, fix={"src/toy/core.py": FIXED + scan})
    assert result.accepted, describe(result)


def test_monkeypatched_names_are_found_in_the_text() -> None:
    text = b"""
m.setattr("builtins.input", 1)
with mock.patch.object(
    thing, "part", autospec=True
):
    builtins.print = show
    assert say("nothing") == "word"
"""
    assert monkeypatched_names([text, b"x = 'other'"]) == ("input", "part", "print")


UNUSUAL = {
    "pyproject.toml": """
        [project]
        name = "toy"
        version = "1.0"

        [tool.pytest.ini_options]
        minversion = "7"
        addopts = [
            "--import-mode=importlib", "--doctest-modules", "--strict-markers", "--strict-config", "-Werror", "-ra",
            "-p", "no:cacheprovider", "-p", "tests.plugin", "--durations=3", "-x",
        ]
        testpaths = ["tests", "src"]
        markers = ["deep: far down"]
        xfail_strict = true
        python_classes = ["Check*"]
        python_functions = ["check_*", "test_*"]
        """,
    "src/toy/core.py": REPO["src/toy/core.py"] + '\n\ndef twice(value):\n    """\n    >>> twice(2)\n    4\n    """\n'
    "    return value * 2\n",
    "tests/__init__.py": "",
    "tests/helpers.py": REPO["tests/helpers.py"],
    "tests/test_core.py": "from .helpers import assert_close\n\n\ndef check_close():\n    assert_close(1, 1)\n",
    "tests/conftest.py": "",
    "tests/plugin.py": """
        import os
        import warnings

        import pytest


        def pytest_addoption(parser):
            parser.addoption("--deep", action="store_true")
            parser.addini("toy_setting", "one of ours", default="")


        def pytest_generate_tests(metafunc):
            if "number" in metafunc.fixturenames:
                metafunc.parametrize("number", [1, 2], ids=["a b", "ü[0]"])


        def pytest_collection_modifyitems(config, items):
            items.reverse()


        def pytest_make_parametrize_id(config, val, argname):
            return f"{argname}={val!r}"


        @pytest.fixture(autouse=True)
        def elsewhere(tmp_path_factory, request):
            old = os.getcwd()
            os.chdir(tmp_path_factory.mktemp("elsewhere"))
            yield
            os.chdir(old)
        """,
}


@pytest.mark.req("G-01", "G-14")
def test_unusual_configuration_is_followed(tasks: TaskFactory, tmp_path: Path) -> None:
    tests = {
        "tests/deep/__init__.py": "",
        "tests/deep/test_new.py": """
            import subprocess
            import sys
            import time
            import unittest

            import pytest

            from toy.core import median

            from ..helpers import assert_close


            @pytest.mark.deep
            def test_numbers(number):
                assert_close(median([number, number + 1]), number + 0.5)


            class CheckThings:
                @pytest.mark.parametrize("value", [{"a": 1}, None, "x y"])
                def test_value(self, value, monkeypatch):
                    monkeypatch.setattr(time, "time", lambda: 0)
                    monkeypatch.setattr(time, "perf_counter", lambda: 0)
                    assert median([1, 2]) == 1.5 and time.time() == 0


            class TestCase(unittest.TestCase):
                def test_program(self):
                    code = "from toy.core import median; print(median([1, 2]))"
                    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
                    for said in found.stdout.split():
                        with self.subTest(said=said):
                            self.assertEqual(said, "1.5")
            """,
    }
    required = (
        "tests/deep/test_new.py::test_numbers[a b]",
        "tests/deep/test_new.py::CheckThings::test_value[value='x y']",
        "tests/deep/test_new.py::TestCase::test_program",
        "tests/test_core.py::check_close",
        "src/toy/core.py::toy.core.twice",
    )
    fix = {"src/toy/core.py": UNUSUAL["src/toy/core.py"].replace(REPO["src/toy/core.py"], FIXED)}
    result = graded(tasks, tmp_path, repo=UNUSUAL, tests=tests, fix=fix, required=required)
    assert result.accepted, describe(result)


STACK = """

import io
import traceback


def stack_of():
    said = io.StringIO()
    traceback.print_stack(file=said)
    return said.getvalue()
"""


@pytest.mark.req("G-01", "G-14")
def test_projects_that_print_stacks_may_continue(tasks: TaskFactory, tmp_path: Path) -> None:
    """The stack contains source lines of the tests."""
    tests = {
        "tests/test_new.py": "from toy.core import ask, stack_of\n\n\ndef test_stack():\n    assert 'test_stack' in stack_of()\n"
    }
    repo = {"src/toy/core.py": REPO["src/toy/core.py"] + STACK}
    result = graded(tasks, tmp_path, repo=repo, tests=tests, fix={"src/toy/core.py": FIXED + STACK + ASK})
    assert result.accepted, describe(result)


def test_known_behaviour_needs_the_words_in_the_base_file() -> None:
    seen = [
        AuditEvent("search memory", "", "a.py", 1),
        AuditEvent("search memory", "", "b.py", 1),
        AuditEvent("open test", "", "a.py", 2),
    ]
    texts = {"a.py": b"gc.get_objects(); open(test)"}
    assert known_behaviour(seen, lambda file: texts.get(file, b"")) == {"search memory a.py"}


def test_modules_with_doctests_are_not_test_files() -> None:
    tests = [
        "src/toy/core.py::toy.core.twice",
        "src/toy/__init__.py::toy",
        "checks/core.py::test_it",
        "checks/core.py::core.shown",
        "tests/test_a.py::tests.test_a.shown",
        "odd/other.py::TestOther::test_it[toy.core]",
    ]
    assert files_of(tests) == {"checks/core.py", "tests/test_a.py", "odd/other.py"}


@pytest.mark.req("G-01", "G-14")
def test_tests_may_read_product_state(tasks: TaskFactory, tmp_path: Path) -> None:
    """An imported dictionary does not belong to the test module: filling it is the tested behaviour."""
    test = """
        from toy.core import KNOWN, halved

        OWN = {1: 0.5}


        def test_it():
            assert halved(4) == 2
            assert KNOWN[4] == 2
            assert OWN[1] == halved(1)
        """
    source = FIXED + "\n\nKNOWN = {}\n\n\ndef halved(n):\n    KNOWN[n] = n / 2\n    return KNOWN[n]\n"
    hidden = {"tests/test_halved.py": test}
    context = tasks.context(tmp_path, repo=REPO, hidden=hidden, oracle={"checks": [WHOLE]})
    result = grade(patch_of(context, {"src/toy/core.py": source}), context)
    assert result.accepted, result.checks[0].decided.why


MANY = """\
    import pytest


    @pytest.mark.parametrize("number", range(300))
    def test_many(number):
        assert number >= 0
    """
"""So many tests that the survey of the base repository, which checks only regularly, misses the frozen clock."""
FROZEN = """\
    import unittest
    from datetime import date, datetime

    import pytest
    from freezegun import freeze_time

    from toy import median


    @pytest.fixture
    def frozen():
        with freeze_time("2001-02-03"):
            yield


    def test_frozen(frozen):
        assert datetime.now().year + median([1, 2]) == 2002.5


    class TestFrozen(unittest.TestCase):
        @freeze_time("2001-02-03")
        def test_date(self):
            self.assertEqual(median([date.today().year, 2002]), 2001.5)
    """


@pytest.mark.req("G-01", "G-14")
def test_tests_may_freeze_imported_clocks_and_be_rerun(tasks: TaskFactory, tmp_path: Path) -> None:
    repo = {**REPO, "pyproject.toml": REPO["pyproject.toml"].replace('"-ra"', '"-ra --reruns 1"')}
    context = tasks.context(
        tmp_path,
        repo=repo,
        hidden={"tests/test_frozen.py": FROZEN, "tests/test_earlier.py": MANY},
        setup=("pip install -q pytest freezegun pytest-rerunfailures", EDITABLE),
        oracle={"checks": [WHOLE]},
    )
    result = grade(patch_of(context, {"src/toy/core.py": FIXED}), context)
    assert result.accepted, describe(result)


TRACING = """
    import sys
    import trace

    from toy.core import doubled


    def lines_of(function, *values):
        seen = []

        def tracing(frame, event, _argument):
            seen.append((event, frame.f_code.co_name))
            return tracing

        before = sys.gettrace()
        sys.settrace(tracing)
        try:
            function(*values)
        finally:
            sys.settrace(before)
        return seen


    def test_traced():
        assert ("call", "doubled") in lines_of(doubled, 2)
        assert sys.gettrace() is None


    def test_traced_in_turn():
        seen = []
        sys.settrace(lambda *_: seen.append(1))
        sys.settrace(lambda *_: seen.append(2))
        doubled(1)
        sys.settrace(None)
        assert set(seen) == {2}


    def test_profiled():
        seen = []
        sys.setprofile(lambda _frame, event, _argument: seen.append(event))
        doubled(2)
        sys.setprofile(None)
        assert "return" in seen


    def test_counted():
        counter = trace.Trace(count=True, trace=False)
        assert counter.runfunc(doubled, 2) == 4
        assert counter.results().counts
    """


@pytest.mark.req("G-01", "G-14")
def test_tests_may_reset_their_trace_function(tasks: TaskFactory, tmp_path: Path) -> None:
    """As tests of tracers, profilers and debuggers do."""
    fix = {"src/toy/core.py": FIXED + "\n\ndef doubled(x):\n    return 2 * x\n"}
    result = graded(tasks, tmp_path, tests={"tests/test_traced.py": TRACING}, fix=fix)
    assert result.accepted, describe(result)


LOADED = {
    "tests/data/even.json": "[1, 2, 3, 4]",
    "tests/data/answers.json": "[2.5]",
    "tests/test_median_hidden.py": """\
        import json
        import pathlib

        from toy.core import Loader

        DATA = pathlib.Path(__file__).parent / "data"


        def test_even():
            loader = Loader(DATA / "even.json")
            assert [loader.median()] == json.loads((DATA / "answers.json").read_text())
        """,
}
LOADER = """

class Loader:
    def __init__(self, path):
        self.path = path

    def median(self):
        import json
        return {answer}
"""


@pytest.mark.req("G-01", "G-14")
def test_patches_may_read_test_data_that_the_reference_reads(tasks: TaskFactory, tmp_path: Path) -> None:
    """The path was passed to an object earlier, so it is not an argument of the current call."""
    right = FIXED + LOADER.format(answer="median(json.loads(self.path.read_text()))")
    check = {**WHOLE, "fail_to_pass": ["tests/test_median_hidden.py::test_even"]}
    bare = tasks.context(tmp_path / "bare", hidden=LOADED, oracle={"checks": [check]})
    reference = patch_of(bare, {"src/toy/core.py": right}).decode()
    context = tasks.context(
        tmp_path / "task",
        hidden=LOADED,
        oracle={"checks": [check]},
        files={"reference.patch": reference},
        reference="reference.patch",
    )
    otherwise = {
        "src/toy/reading.py": "import json\n\n\ndef numbers(path):\n    with open(path) as file:\n        return json.load(file)\n",
        "src/toy/core.py": FIXED + LOADER.format(answer="median(__import__('toy.reading').reading.numbers(self.path))"),
    }
    result = grade(patch_of(context, otherwise), context)
    assert result.accepted, (result.checks[0].decided.why, result.findings)
    looked_up = FIXED + LOADER.format(answer="json.loads((self.path.parent / 'answers.json').read_text())[0]")
    result = grade(patch_of(context, {"src/toy/core.py": looked_up}), context)
    (gate,) = [finding for finding in result.findings if finding.severity == "gate"]
    assert "reads tests/data/answers.json, a file of the tests that no test passed to it" in gate.detail


SCANS = """

def scan():
    from pathlib import Path

    return sorted(path.name for path in Path().rglob("*.py") if "FIX" "ME" in {read})
"""
SCANNED = {"tests/test_scan.py": "from toy.core import scan\n\n\ndef test_scan():\n    assert scan() == []\n"}


@pytest.mark.req("G-01", "G-14")
def test_patches_may_read_all_sources_if_the_reference_does(tasks: TaskFactory, tmp_path: Path) -> None:
    unit = {**UNIT, "fail_to_pass": ["tests/test_scan.py::test_scan"], "pass_to_pass": []}
    shared: dict[str, object] = {"hidden": SCANNED, "oracle": {"checks": [unit]}}
    right = {"src/toy/core.py": FIXED + SCANS.format(read="path.read_text()")}
    reference = patch_of(tasks.context(tmp_path / "bare", **shared), right).decode()  # type: ignore[arg-type]
    context = tasks.context(
        tmp_path / "task",
        files={"reference.patch": reference},
        reference="reference.patch",
        **shared,  # type: ignore[arg-type]
    )
    otherwise = {"src/toy/core.py": FIXED + SCANS.format(read="open(path).read()")}
    result = grade(patch_of(context, otherwise), context)
    assert result.accepted, describe(result)
    assert not result.findings


SEARCHES_MEMORY = """

class Like:
    def __fspath__(self):
        return __file__


def search():
    import gc
    import io
    import traceback

    traceback.extract_stack()
    io.FileIO(Like()).close()
    return [thing for thing in gc.get_objects() if type(thing) is Like]
"""


@pytest.mark.req("G-01", "G-14")
@pytest.mark.parametrize("has_reference", [True, False])
def test_unusual_access_is_for_review_where_decoys_stop_cheats(
    tasks: TaskFactory,
    tmp_path: Path,
    has_reference: bool,
) -> None:
    fix = {"src/toy/core.py": FIXED.replace("    ordered =", "    search()\n    ordered =") + SEARCHES_MEMORY}
    reference = patch_of(tasks.context(tmp_path / "bare"), {"src/toy/core.py": FIXED}).decode()
    sections = {"files": {"reference.patch": reference}, "reference": "reference.patch"} if has_reference else {}
    context = tasks.context(tmp_path / "task", **sections)  # type: ignore[arg-type]
    result = grade(patch_of(context, fix), context)
    severities = {finding.severity for finding in result.findings if finding.rule == "watched_run"}
    assert severities == ({"note"} if has_reference else {"gate"}), describe(result)
    assert result.accepted is has_reference, describe(result)
