from __future__ import annotations

import typing
from pathlib import Path

import pytest
from pydantic import BaseModel

from agentbench.trace import events
from agentbench.trace.events import (
    ATTEMPT_EVENTS,
    EVENT_TYPES,
    RUN_EVENTS,
    VAULT_EVENTS,
    Payload,
    StepFinished,
    StepStarted,
)
from agentbench.trace.log import EventLog, read_events
from tests.trace.samples import EXAMPLES

pytestmark = pytest.mark.component

PUBLISHED = (
    "attempt_opened, task_started, identity_bound, setup_command_started, setup_command_finished, briefing, stage_changed,"
    " agent_turn_started, llm_request, llm_response, tool_call_started, tool_call_finished, process_started, process_finished, workspace_mutated,"
    " patch_applied, delegation, network_request, network_response, network_used, monitor_alert, intervention, operator_decision, resource_sample, sandbox_lost, termination,"
    " patch_extracted, build_started, build_finished, static_started, static_finished, tests_started, tests_finished,"
    " acceptance_check, integrity_finding, scorer_result, judge_result, gates_decided, task_finished, attempt_closed"
)


@pytest.mark.req("E-02")
def test_attempt_event_types_are_the_documented_ones() -> None:
    assert [model.type for model in ATTEMPT_EVENTS] == PUBLISHED.split(", ")


def test_every_payload_is_registered() -> None:
    bases = {Payload, StepStarted, StepFinished}
    defined = {
        value
        for value in vars(events).values()
        if isinstance(value, type) and issubclass(value, Payload) and value not in bases
    }
    assert defined == set(ATTEMPT_EVENTS) | set(RUN_EVENTS) | set(VAULT_EVENTS)
    assert len(EVENT_TYPES) == len(defined)


def test_every_event_type_has_an_example() -> None:
    assert {payload.type for payload in EXAMPLES} == set(EVENT_TYPES)


@pytest.mark.req("E-01", "E-02")
def test_every_event_round_trips(tmp_path: Path) -> None:
    log = EventLog.create(tmp_path / "events.jsonl")
    for payload in EXAMPLES:
        log.append(payload)
    log.release()
    read = list(read_events(tmp_path / "events.jsonl"))
    assert [event.payload for event in read] == list(EXAMPLES)
    assert [event.type for event in read] == [payload.type for payload in EXAMPLES]
    assert [event.seq for event in read] == list(range(1, len(EXAMPLES) + 1))


@pytest.mark.req("E-01")
def test_no_payload_field_is_a_float() -> None:
    def kinds(model: type[BaseModel]) -> typing.Iterator[object]:
        for info in model.model_fields.values():
            stack: list[object] = [info.annotation]
            while stack:
                annotation = stack.pop()
                yield annotation
                stack += typing.get_args(annotation)
                if isinstance(annotation, type) and issubclass(annotation, BaseModel):
                    yield from kinds(annotation)

    for model in EVENT_TYPES.values():
        assert float not in set(kinds(model)), model


def test_arbitrary_json_fields_are_bounded() -> None:
    loose = [
        (model.type, name)
        for model in EVENT_TYPES.values()
        for name, info in model.model_fields.items()
        if "JsonValue" in str(info.annotation) and not info.metadata
    ]
    assert loose == []


@pytest.mark.req("E-16")
def test_step_events_have_start_end_command_status_and_output() -> None:
    for name in ("build", "static", "tests"):
        started, finished = EVENT_TYPES[f"{name}_started"], EVENT_TYPES[f"{name}_finished"]
        assert {"step", "command", "ceiling_us"} <= set(started.model_fields)
        assert {"step", "outcome", "exit_code", "timed_out", "duration_us", "stdout"} <= set(finished.model_fields)


@pytest.mark.req("E-02")
@pytest.mark.parametrize(
    "name,fields",
    [
        ("llm_request", {"messages", "conversation_index", "model", "parameters"}),
        ("llm_response", {"content", "conversation_index", "prompt_tokens", "completion_tokens"}),
        ("tool_call_started", {"tool", "arguments"}),
        ("tool_call_finished", {"ok", "exit_code", "duration_us", "stdout", "stderr", "changed_files"}),
        ("workspace_mutated", {"files", "diff"}),
        (
            "acceptance_check",
            {"check_id", "command", "started_at", "outcome", "failing_tests", "ceiling_us", "duration_us"},
        ),
        ("monitor_alert", {"monitor", "rule", "severity", "format", "evidence"}),
        ("intervention", {"action", "alert"}),
    ],
)
def test_event_has_the_fields_of_the_protocol(name: str, fields: set[str]) -> None:
    assert fields <= set(EVENT_TYPES[name].model_fields)
