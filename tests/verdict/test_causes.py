"""The account of an attempt: bounded, drawn from events it points to, and of an honest label."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.reasons import Outcome
from agentbench.trace.events import Excerpt, FileDigest, PatchApplied, Payload, ToolCallFinished
from agentbench.verdict.causal_summary import LABEL, MOST, causes
from tests.policy.traces import tested as cycle
from tests.verdict.logs import briefed, checked, ended, extracted, log


def edit(files: int = 1, size: int = 10) -> PatchApplied:
    digests = [FileDigest(path=f"f{n}.py", change="modified", size=1) for n in range(files)]
    return PatchApplied(call_id="c1", files=digests, patch=Excerpt(total_bytes=size))


def output(text: str) -> ToolCallFinished:
    return ToolCallFinished(call_id="c1", tool="run", ok=False, duration_us=1, stdout=Excerpt(text=text))


def told(*payloads: Payload) -> dict[str, tuple[int, ...]]:
    events = log(*payloads)
    first = events[0].seq if events else 0
    return {one.what: tuple(seq - first + 1 for seq in one.evidence) for one in causes(events)}


@pytest.mark.req("E-15")
def test_the_last_test_run_before_a_large_edit_and_the_first_failing_assertion_are_pointed_to() -> None:
    failing = checked(Outcome.FAIL).model_copy(update={"failing_tests": ["tests/test_a.py::test_median[3]"]})
    account = told(
        briefed(),
        cycle(Outcome.PASS),
        output("FAILED tests/test_a.py::test_median"),
        edit(files=9, size=9000),
        cycle(Outcome.FAIL),
        edit(),
        ended(),
        extracted(),
        failing,
    )
    assert LABEL == "interpretation"
    assert account == {
        "the agent's own tests passed for the last time here; 1 cycles failed after it": (2, 5),
        "the agent had met test_median before: its name is in the output of this call": (3, 9),
        "the largest edit: 9 files, 9000 bytes of diff; the last test run before it: pass": (4, 2),
        "the agent's own tests failed for the first time here": (5,),
        "1 edits came after the agent's last test run": (6, 6),
        "the agent's phase ended: agent_stopped": (7,),
        "the first mandatory check that is not met: unit (fail); first failing test tests/test_a.py::test_median[3]": (
            9,
        ),
    }


@pytest.mark.req("E-15")
def test_an_agent_that_never_tests_is_told_so_and_one_that_does_nothing_has_a_short_account() -> None:
    assert "the agent changed files and never ran the tests" in told(briefed(), edit(), ended(), extracted())
    assert list(told(briefed(), ended(), extracted())) == ["the agent's phase ended: agent_stopped"]
    assert told() == {}


payloads = st.sampled_from(
    [edit(), edit(9, 9000), cycle(Outcome.PASS), cycle(Outcome.FAIL), output("x"), ended(), extracted(), briefed()]
)


@pytest.mark.req("E-15")
@given(st.lists(payloads, max_size=30))
def test_an_account_is_bounded_and_points_to_events_that_exist(story: list[Payload]) -> None:
    events = log(*story)
    account = causes(events)
    assert len(account) <= MOST
    assert {seq for one in account for seq in one.evidence} <= {event.seq for event in events}
