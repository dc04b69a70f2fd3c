"""One message lists every problem, each with its place and its remedy."""

from __future__ import annotations

import pytest

from agentbench.core.errors import AgentBenchError, ContractError, HarnessError, InputError
from agentbench.core.problems import MAX_SHOWN, Problems, SeveralProblems


def refuse(error: AgentBenchError) -> None:
    raise error


def collected(*errors: AgentBenchError, place: str = "") -> Problems:
    problems = Problems()
    for error in errors:
        assert problems.collect(lambda error=error: refuse(error), place) is None  # type: ignore[misc]
    return problems


def test_check_without_a_problem_returns_its_result() -> None:
    problems = Problems()
    assert problems.collect(lambda: 7) == 7
    assert not problems
    problems.raise_all()


def test_only_problem_is_raised_as_it_is() -> None:
    error = InputError("no model", remedy="set one")
    with pytest.raises(InputError) as caught:
        collected(error).raise_all()
    assert caught.value is error


def test_problems_of_files_and_nested_problems_are_listed_once() -> None:
    inner = collected(
        InputError("a: bad"), ContractError("f.yaml: 2 problems", problems=("f.yaml:1: x", "f.yaml:2: y"))
    )
    problems = collected(InputError("a: bad"))
    problems.collect(inner.raise_all)
    problems.add(InputError("c: bad", remedy="fix c"))
    with pytest.raises(SeveralProblems) as caught:
        problems.raise_all("")
    assert caught.value.message == "4 problems"
    assert caught.value.problems == ("a: bad", "f.yaml:1: x", "f.yaml:2: y", "c: bad (fix c)")


def test_place_is_added_only_to_errors_that_name_none() -> None:
    problems = collected(InputError("bad"), ContractError("f", problems=("f:1: bad",)), place="variant a: ")
    with pytest.raises(ContractError) as caught:
        problems.raise_all()
    assert caught.value.message == "2 problems, nothing was started"
    assert caught.value.problems == ("variant a: bad", "f:1: bad")


def test_harness_errors_alone_stay_harness_errors() -> None:
    with pytest.raises(HarnessError, match="one"):
        collected(HarnessError("one"), HarnessError("two")).raise_all()


def test_number_of_listed_problems_is_bounded() -> None:
    with pytest.raises(ContractError) as caught:
        collected(*(InputError(str(number)) for number in range(MAX_SHOWN + 5))).raise_all()
    assert len(caught.value.problems) == MAX_SHOWN + 1
    assert caught.value.problems[-1] == "and 5 more problems"
