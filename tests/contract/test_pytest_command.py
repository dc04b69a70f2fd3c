"""Recognising pytest commands."""

from __future__ import annotations

import pytest

from agentbench.contract.load import short_form_check
from agentbench.contract.pytest_command import PytestCommand, recognise


@pytest.mark.req("C-06")
@pytest.mark.parametrize(
    "command, arguments, env",
    [
        ("pytest", (), {}),
        ("pytest -q", ("-q",), {}),
        ("py.test tests", ("tests",), {}),
        ("python -m pytest -q -x", ("-q", "-x"), {}),
        ("python3.11 -m pytest", (), {}),
        ("PYTHONPATH=src python3 -m pytest 'tests/a b.py'", ("tests/a b.py",), {"PYTHONPATH": "src"}),
        ("pytest tests/t.py::test_a[1-x]", ("tests/t.py::test_a[1-x]",), {}),
        ("pytest -k 'a and not b' \"-m not slow\"", ("-k", "a and not b", "-m not slow"), {}),
    ],
)
def test_a_plain_pytest_call_is_recognised(command: str, arguments: tuple[str, ...], env: dict[str, str]) -> None:
    assert recognise(command) == PytestCommand(arguments, env)
    assert short_form_check(command).parser == "pytest"


@pytest.mark.parametrize(
    "command",
    [
        "",
        "make test",
        "pytest || true",
        "pytest; true",
        "pytest -q > log",
        "cd sub && pytest",
        "pytest tests/*.py",
        "pytest $ARGS",
        'pytest "$(cat x)"',
        "pytest `cat x`",
        "echo pytest",
        "mypytest",
        "python -m pytest_other",
        "python -c 'import pytest'",
        "pytest 'unclosed",
        "pytest\nrm -rf x",
        "pytest # comment",
        "A=1",
    ],
)
def test_anything_else_is_left_to_the_shell_and_its_exit_code(command: str) -> None:
    assert recognise(command) is None
    assert short_form_check(command or "true").parser == "exit_code"
