from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.acceptance.checks.pytest.invocation import Invocation, understand


@pytest.mark.req("C-06")
@pytest.mark.parametrize(
    "command, expected",
    [
        ("pytest", Invocation(())),
        ("pytest -q tests", Invocation(("-q", "tests"))),
        ("py.test -x", Invocation(("-x",))),
        ("python -m pytest -q", Invocation(("-q",), module=True)),
        ("python3.12 -m pytest", Invocation((), python="python3.12", module=True)),
        (".venv/bin/python -m pytest", Invocation((), python=".venv/bin/python", module=True)),
        ("python -W error -Xdev -B -m pytest", Invocation((), options=("-W", "error", "-Xdev"), module=True)),
        ("A=1 B='x y' pytest", Invocation((), {"A": "1", "B": "x y"})),
        ("env A=1 pytest", Invocation((), {"A": "1"})),
        ("cd sub/x && pytest -q", Invocation(("-q",), folder="sub/x")),
        ("pytest 'tests/t.py::test[a b]' -k \"a or b\"", Invocation(("tests/t.py::test[a b]", "-k", "a or b"))),
        ("pytest tests/t.py::test[x-1]", Invocation(("tests/t.py::test[x-1]",))),
        ("pytest -k ''", Invocation(("-k", ""))),
    ],
)
def test_a_plain_call_of_pytest_is_understood(command: str, expected: Invocation) -> None:
    assert understand(command) == expected


@pytest.mark.parametrize(
    "command",
    [
        "",
        "make test",
        "pytest | tee log",
        "pytest; true",
        "pytest && true",
        "cd a && cd b && pytest",
        "pytest > log",
        "pytest tests/*.py",
        "pytest $ARGS",
        'pytest "$ARGS"',
        "pytest `cat args`",
        "pytest 'unclosed",
        "cd .. && pytest",
        "cd /tmp && pytest",
        "python -O -m pytest",
        "python -m unittest",
        "python run.py",
        "coverage run -m pytest",
        "pytest -q\nrm -rf .",
        "sh -c pytest",
        "FOO=1",
        "pytest &",
        "! pytest",
    ],
)
def test_what_the_shell_would_decide_is_left_to_the_shell(command: str) -> None:
    assert understand(command) is None


@given(st.lists(st.text(max_size=8).filter(lambda text: "\0" not in text), max_size=4))
def test_quoted_arguments_come_through_byte_for_byte(arguments: list[str]) -> None:
    understood = understand(shlex.join(["pytest", *arguments]))
    assert understood is None or understood.arguments == tuple(arguments)
    plain = all("'" not in argument for argument in arguments)
    assert understood is not None or not plain
