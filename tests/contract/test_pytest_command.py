"""Recognising pytest commands."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.contract.load import short_form_check
from agentbench.contract.pytest_command import PytestCommand, parse_pytest_command

pytestmark = pytest.mark.component


@pytest.mark.req("C-06")
@pytest.mark.parametrize(
    "command, expected",
    [
        ("pytest", PytestCommand(())),
        ("pytest -q tests", PytestCommand(("-q", "tests"))),
        ("  pytest -q\n", PytestCommand(("-q",))),
        ("py.test -x", PytestCommand(("-x",))),
        ("python -m pytest -q -x", PytestCommand(("-q", "-x"), imports_cwd=True)),
        ("python3.12 -m pytest", PytestCommand((), python="python3.12", imports_cwd=True)),
        (".venv/bin/python -m pytest", PytestCommand((), python=".venv/bin/python", imports_cwd=True)),
        ("/usr/bin/python3 -m pytest", PytestCommand((), python="/usr/bin/python3", imports_cwd=True)),
        ("python -W error -Xdev -B -m pytest", PytestCommand((), options=("-W", "error", "-Xdev"), imports_cwd=True)),
        ("python -bb -E -m pytest", PytestCommand((), options=("-bb", "-E"), imports_cwd=True)),
        ("python -I -m pytest", PytestCommand((), options=("-E",))),
        ("python -P -m pytest", PytestCommand(())),
        ("A=1 B='x y' pytest", PytestCommand((), {"A": "1", "B": "x y"})),
        ("env A=1 pytest", PytestCommand((), {"A": "1"})),
        ("A=1 /usr/bin/env 'B=x y' pytest", PytestCommand((), {"A": "1", "B": "x y"})),
        (
            "PYTHONPATH=src python3 -m pytest 'tests/a b.py'",
            PytestCommand(("tests/a b.py",), {"PYTHONPATH": "src"}, python="python3", imports_cwd=True),
        ),
        ("cd sub/x && pytest -q", PytestCommand(("-q",), folder="sub/x")),
        (
            "cd sub && A=1 ../.venv/bin/python -W error -m pytest",
            PytestCommand((), {"A": "1"}, "sub", "../.venv/bin/python", ("-W", "error"), imports_cwd=True),
        ),
        ("pytest 'tests/t.py::test[a b]' -k \"a or b\"", PytestCommand(("tests/t.py::test[a b]", "-k", "a or b"))),
        ("pytest tests/t.py::test_a[1-x]", PytestCommand(("tests/t.py::test_a[1-x]",))),
        ("pytest -k 'a and not b' \"-m not slow\"", PytestCommand(("-k", "a and not b", "-m not slow"))),
        ("pytest -k ''", PytestCommand(("-k", ""))),
    ],
)
def test_plain_pytest_call_is_parsed(command: str, expected: PytestCommand) -> None:
    assert parse_pytest_command(command) == expected
    assert short_form_check(command).parser == "pytest"


@pytest.mark.parametrize(
    "command",
    [
        "",
        "make test",
        "pytest || true",
        "pytest | tee log",
        "pytest; true",
        "pytest && true",
        "cd a && cd b && pytest",
        "cd .. && pytest",
        "cd /tmp && pytest",
        "cd - && pytest",
        "cd sub '&&' pytest",
        "cd sub; pytest",
        "(cd sub && pytest)",
        "pytest -q > log",
        "pytest tests/*.py",
        "pytest tests/test_[ab].py",
        "pytest $ARGS",
        'pytest "$(cat x)"',
        "pytest `cat x`",
        "echo pytest",
        "mypytest",
        "python -O -m pytest",
        "python -S -m pytest",
        "python -W -m pytest",
        "python -m pytest_other",
        "python -m unittest",
        "python run.py",
        "python -c 'import pytest'",
        "coverage run -m pytest",
        "env -i pytest",
        "env -u HOME pytest",
        "'A=1' pytest",
        "PATH=/opt/bin pytest",
        "LD_PRELOAD=./x.so pytest",
        "PYTHONOPTIMIZE=1 pytest",
        "PYTHONHOME=/opt python -m pytest",
        "pytest 'unclosed",
        "pytest\nrm -rf x",
        "pytest # comment",
        "sh -c pytest",
        "A=1",
        "env A=1",
        "pytest &",
        "! pytest",
    ],
)
def test_any_other_command_is_graded_by_exit_code(command: str) -> None:
    assert parse_pytest_command(command) is None
    assert short_form_check(command or "true").parser == "exit_code"


@given(st.lists(st.text(max_size=8).filter(lambda text: "\0" not in text), max_size=4))
def test_quoted_arguments_stay_unchanged(arguments: list[str]) -> None:
    parsed = parse_pytest_command(shlex.join(["pytest", *arguments]))
    assert parsed is None or parsed.arguments == tuple(arguments)
    simple = all("'" not in argument for argument in arguments)
    assert parsed is not None or not simple
