from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.reasons import TerminationCode
from agentbench.record.attempt_folder import AttemptFolder
from agentbench.record.manifest import Manifest, PlannedCheck
from agentbench.record.plans import grading_plan
from agentbench.record.recompute import process_differences, recompute, terms_from
from agentbench.trace.chain import GENESIS, Event
from agentbench.trace.events import Payload, ProcessCounts, ProcessStarted, ToolCallFinished
from agentbench.verdict.terms import Caps, CheckTerm, Terms, Weights, published_rubric
from tests.record.samples import manifest
from tests.reports.runs import record
from tests.verdict.logs import bound, ended, extracted, log, opened

pytestmark = pytest.mark.synthetic

numbers = st.floats(0, 1e6)
terms = st.builds(
    Terms,
    checks=st.lists(st.builds(CheckTerm, id=st.text(min_size=1), mandatory=st.booleans()), max_size=3).map(tuple),
    build=st.booleans(),
    statics=st.integers(0, 3),
    lambda_=numbers,
    envelope_files=st.integers(1, 50),
    envelope_lines=st.integers(1, 5000),
    caps=st.builds(
        Caps,
        active_sec=st.none() | numbers,
        tool_calls=st.none() | st.integers(0, 500),
        tokens=st.none() | st.integers(0, 10**7),
        usd=st.none() | numbers,
    ),
    rubric=st.sampled_from([Weights(minimal=0.4, trace=0.2, maintainability=0.4), Weights(1, 0, 0)]).map(
        lambda weights: type(published_rubric())(
            **{
                **{name: getattr(published_rubric(), name) for name in published_rubric().__dataclass_fields__},
                "weights": weights,
            }
        )
    ),
)


@pytest.mark.req("E-12")
@given(terms)
def test_manifest_contains_all_grading_terms(wanted: Terms) -> None:
    folder = AttemptFolder(run=None, task_dir="tasks/toy", attempt_id="1", task_id="toy", repeat=1, attempt=1)  # type: ignore[arg-type]
    whole = manifest(folder)
    planned = whole.protocol_manifest.planned.model_copy(
        update={
            "grading": grading_plan(wanted),
            "acceptance": tuple(
                PlannedCheck(id=check.id, layer=check.layer, mandatory=check.mandatory, command="x", timeout_sec=1)
                for check in wanted.checks
            ),
            "entrypoints": whole.protocol_manifest.planned.entrypoints.model_copy(
                update={"build": "make" if wanted.build else "none", "static": ("lint",) * wanted.statics}
            ),
        }
    )
    written = whole.model_copy(
        update={"protocol_manifest": whole.protocol_manifest.model_copy(update={"planned": planned})}
    )
    read = Manifest.model_validate_json(written.model_dump_json())
    assert terms_from(read.protocol_manifest.planned) == wanted


@pytest.mark.req("E-12")
@pytest.mark.parametrize(
    "numbers, dropped, consistent",
    [((1, 2, 3), 0, True), ((1, 2), 1, True), ((1, 2), 0, False), ((), 0, False), ((1, 2, 2), 0, False)],
)
def test_processes_in_the_log_match_their_count(numbers: tuple[int, ...], dropped: int, consistent: bool) -> None:
    payloads: list[Payload] = [
        ProcessStarted(
            call_id="h1", number=number, pid=9, parent=1, program="/bin/ls", argv=["ls"], cwd="/", elapsed_us=1
        )
        for number in numbers
    ]
    counts = ProcessCounts(started=3, dropped=dropped)
    payloads.append(ToolCallFinished(call_id="h1", tool="agent_command", ok=True, duration_us=1, processes=counts))
    events = [
        Event(seq, seq, payload.type, "agent", payload, GENESIS, GENESIS)
        for seq, payload in enumerate(payloads, start=1)
    ]
    assert (list(process_differences(events)) == []) == consistent


@pytest.mark.parametrize("size,differs", [(0, False), (100, True)])
def test_earlier_versions_passed_an_empty_patch_without_grading_it(size: int, differs: bool) -> None:
    folder = AttemptFolder(run=None, task_dir="tasks/toy", attempt_id="1", task_id="toy", repeat=1, attempt=1)  # type: ignore[arg-type]
    events: Any = log(opened(), bound(), ended(TerminationCode.MODEL_UNAVAILABLE), extracted(size=size))
    found = recompute(events, manifest(folder), record("toy", "harness")).differences
    assert any(text.startswith("gates.G1") for text in found) is differs
    assert any(text.startswith("components.validity") for text in found) is differs
