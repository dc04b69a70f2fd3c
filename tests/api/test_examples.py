"""Examples in docstrings of the public API are executed."""

from __future__ import annotations

import doctest
import types
from pathlib import Path

import pytest

import agentbench
from tests.execution.conftest import shared_state

__all__ = ["shared_state"]

EXAMPLES = [
    example
    for name in agentbench.__all__
    for example in doctest.DocTestFinder().find(getattr(agentbench, name), name, module=False, globs={})
    if example.examples
]


@pytest.mark.end_to_end
@pytest.mark.parametrize("example", EXAMPLES, ids=[example.name for example in EXAMPLES])
def test_example_prints_what_it_shows(
    example: doctest.DocTest, tmp_path: Path, shared_state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AB_STATE", str(shared_state))
    failures: list[str] = []
    doctest.DocTestRunner().run(example, out=failures.append)
    assert not failures, "".join(failures)


def test_every_public_function_has_an_example() -> None:
    functions = {"agent", "compare", "grade", "load_suite", "load_task", "open_run", "run", "validate"}
    assert functions <= {example.name for example in EXAMPLES}


def test_every_public_name_has_a_docstring() -> None:
    values = {name: getattr(agentbench, name) for name in agentbench.__all__}
    # A type alias has the docstring of its class, and the documentation lists the members of a union.
    missing = [name for name, value in values.items() if value.__doc__ in {None, type(value).__doc__}]
    assert [name for name in missing if not isinstance(values[name], types.UnionType)] == []
