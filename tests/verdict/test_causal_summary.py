from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.reasons import Outcome
from agentbench.trace.events import Excerpt, FileDigest, PatchApplied, Payload, ToolCallFinished
from agentbench.verdict.causal_summary import LABEL, MOST, causes
from tests.policy.traces import tested as cycle
from tests.verdict.logs import briefed, checked, ended, extracted, log

pytestmark = pytest.mark.synthetic


def edit(files: int = 1, size: int = 10) -> PatchApplied:
    digests = [FileDigest(path=f"f{n}.py", change="modified", size=1) for n in range(files)]
    return PatchApplied(call_id="c1", files=digests, patch=Excerpt(total_bytes=size))


def output(text: str) -> ToolCallFinished:
    return ToolCallFinished(call_id="c1", tool="run", ok=False, duration_us=1, stdout=Excerpt(text=text))


def summarise(*payloads: Payload) -> dict[str, tuple[int, ...]]:
    events = log(*payloads)
    first = events[0].seq if events else 0
    return {line.what: tuple(seq - first + 1 for seq in line.evidence) for line in causes(events)}


@pytest.mark.req("E-15")
def test_summary_orders_edits_test_runs_and_failures() -> None:
    failing = checked(Outcome.FAIL).model_copy(update={"failing_tests": ["tests/test_a.py::test_median[3]"]})
    lines = summarise(
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
    assert lines == {
        "last passing test run of the agent; 1 later test runs failed": (2, 5),
        "test_median appears in the output of an earlier call": (3, 9),
        "largest edit: 9 files, 9000 bytes of diff; last test run before it: pass": (4, 2),
        "first failing test run of the agent": (5,),
        "1 edits after the agent's last test run": (6, 6),
        "agent phase ended: agent_stopped": (7,),
        "first mandatory check that did not pass: unit (fail); first failing test tests/test_a.py::test_median[3]": (
            9,
        ),
    }


@pytest.mark.req("E-15")
def test_summary_names_agents_that_never_ran_tests() -> None:
    assert "the agent changed files and never ran tests" in summarise(briefed(), edit(), ended(), extracted())
    assert list(summarise(briefed(), ended(), extracted())) == ["agent phase ended: agent_stopped"]
    assert summarise() == {}


@pytest.mark.req("E-15")
def test_summary_does_not_judge_unseen_test_runs_of_programs() -> None:
    program = ToolCallFinished(call_id="h1", tool="agent_program", ok=True, duration_us=1)
    lines = summarise(briefed(), edit(files=9, size=9000), program, ended(), extracted())
    assert "the agent changed files and never ran tests" not in lines
    assert "largest edit: 9 files, 9000 bytes of diff; test runs are not seen" in lines


EVENTS = st.sampled_from(
    [edit(), edit(9, 9000), cycle(Outcome.PASS), cycle(Outcome.FAIL), output("x"), ended(), extracted(), briefed()]
)


@pytest.mark.req("E-15")
@given(st.lists(EVENTS, max_size=30))
def test_summary_is_bounded_and_cites_existing_events(payloads: list[Payload]) -> None:
    events = log(*payloads)
    lines = causes(events)
    assert len(lines) <= MOST
    assert {seq for line in lines for seq in line.evidence} <= {event.seq for event in events}
