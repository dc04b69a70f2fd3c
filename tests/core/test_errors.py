from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentbench.core import errors
from agentbench.core.errors import AgentBenchError, AgentFault, HarnessError, TaskError
from agentbench.core.reasons import Reason

pytestmark = pytest.mark.component


def descendants(kind: type[AgentBenchError]) -> Iterator[type[AgentBenchError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from descendants(child)


@pytest.mark.req("G-07")
def test_every_error_that_can_end_an_attempt_has_a_reason() -> None:
    for root in (HarnessError, TaskError, AgentFault):
        for kind in descendants(root):
            assert isinstance(kind.reason, Reason), kind


@pytest.mark.req("G-14")
def test_harness_errors_are_never_attributed_to_the_agent() -> None:
    assert {kind.reason for kind in descendants(HarnessError)} == {Reason.SANDBOX_ERROR}


def test_docstring_tree_names_every_error() -> None:
    ours = [kind for kind in descendants(AgentBenchError) if kind.__module__ == errors.__name__]
    assert errors.__doc__
    assert all(kind.__name__ in errors.__doc__ for kind in ours)


def test_exit_codes_are_the_documented_ones() -> None:
    assert {kind.exit_code for kind in descendants(AgentBenchError)} <= {1, 2, 3, 130}
