from __future__ import annotations

import json

import pytest
from pydantic import BaseModel, ValidationError

from agentbench.core.errors import RecordError
from agentbench.core.reasons import Reason
from agentbench.record.schema import AttemptRecord, CheckRecord, Tag, parse_record, record_sha256

pytestmark = [pytest.mark.req("E-09a"), pytest.mark.component]

# The documented example with its ellipses filled in.
EXAMPLE = """
{"schema_version": 1, "harness_version": "0.1.0+g1a2b3c4", "study_id": "01J", "run_id": "01J", "attempt_id": "01J", "supersedes": null, "final": true,
 "task_id": "toy-median", "suite": "demo", "contract_id": "sha256:c", "task_digest": "sha256:t", "acceptance_id": "sha256:a", "env_digest": "sha256:e", "config_class": "sha256:k",
 "variant": "baseline", "agent": "llm_v0", "repeat": 1, "seed": 20260307, "observability": "tools", "commands": null, "commands_why": "",
 "model": {"provider": "openrouter", "name": "m", "temperature": 0.2, "top_p": 1.0, "max_tokens": 2048, "prompt_version": "system_v1@sha256:p"},
 "timestamps": {"started_at": "2026-03-07T00:00:00+00:00", "ended_at": "2026-03-07T00:00:00+00:00"}, "duration_sec": 139.2,
 "baseline_validation": {"attempted": true, "failed_as_expected": true, "exit_code": 1, "cached": true},
 "result": {"passed": false, "exit_code": 1, "failure_reason": "TESTS_FAILED"},
 "run_status": "failure", "invalid_cause": null, "attribution": "agent", "run_badge": "completed", "needs_review": false,
 "patch": {"path": "tasks/toy-median/diffs/final.patch", "sha256": "d", "files": 2, "added": 10, "removed": 3},
 "checks": [{"id": "unit", "layer": "unit", "mandatory": true, "outcome": "fail", "assurance": "per_test", "command": "c", "exit_code": 1, "started_at": "t", "duration_sec": 1.2,
             "ceiling_sec": 300, "stdout_sha256": "s", "stderr_sha256": "s", "failing_tests": ["tests/test_core.py::test_median_even"], "why": "2 of 14 required tests failed",
             "f2p_total": 2, "decoys": 1}],
 "progress": {"f2p_passed": 1, "f2p_total": 3, "p2p_kept": 11, "p2p_total": 11}, "decoy_coverage": 0.5,
 "gates": {"G1": {"outcome": "pass", "passed": true, "why": ""}, "G2": {"outcome": "pass", "passed": true, "why": ""},
           "G3": {"outcome": "fail", "passed": false, "why": ""}, "G4": {"outcome": "pass", "passed": true, "why": ""}},
 "score": null, "decomposed_score": 0.2, "rubric": "rubric@sha256:r", "components": {"correctness": 0, "validity": 1, "safety": 1, "efficiency": 0.93},
 "tags": [{"id": "acceptance.unit", "gate": "G3", "evidence": [41], "attributes": {}}],
 "scorers": [{"name": "tests", "type": "command", "required": true, "verdict": "FAIL", "score": 0.0, "detail": "x"}], "workspace_verdict": "FAIL", "mean_score": 0.0,
 "judge": null,
 "termination": {"code": "agent_stopped", "category": null, "rationale": "done", "evidence": [57]},
 "limits": {"timeout_sec": 900, "tool_timeout_sec": 120},
 "usage": {"prompt_tokens": 0, "completion_tokens": 0, "cached_tokens": 0, "model_requests": 0, "tool_calls": 12, "test_cycles": 2, "wall_sec": 9.1, "tool_sec": 3.2, "check_sec": 1.2},
 "cost": {"lm": 0.0, "exec": 0.01, "human": 0.0, "overhead": 0.0, "judge": 0.0, "total": 0.01, "unit": "usd", "method_id": "prices@sha256:p",
          "phases": {"setup": 0.0, "agent": 0.01, "review": 0.0, "acceptance": 0.0, "judge": 0.0, "storage": 0.0}},
 "artifact_paths": {"task_dir": "tasks/toy-median", "failing_stdout": "f", "passing_stdout": "p", "checks_stdout": "p"}, "trace_head": "sha256:h"}
"""


def example() -> AttemptRecord:
    return AttemptRecord.model_validate(json.loads(EXAMPLE))


def test_documented_example_round_trips() -> None:
    assert json.loads(example().line()) == json.loads(EXAMPLE)
    assert parse_record(example().line()) == example()


def test_every_key_is_always_present() -> None:
    required = {name for name, info in AttemptRecord.model_fields.items() if info.is_required()}
    least = AttemptRecord.model_validate({key: value for key, value in json.loads(EXAMPLE).items() if key in required})
    full, given = json.loads(EXAMPLE), json.loads(least.line())
    assert set(given) == set(full)
    for name in ("model", "baseline_validation", "progress", "components", "usage", "cost", "artifact_paths"):
        assert set(given[name]) == set(full[name]), name
    assert given["patch"] is None
    assert given["judge"] is None
    assert given["workspace_verdict"] == "N/A"


def test_record_has_the_fields_of_the_first_schema() -> None:
    old = {
        *("run_id", "task_id", "suite", "variant", "model", "timestamps", "duration_sec", "baseline_validation"),
        *("result", "limits", "artifact_paths"),
    }
    assert old <= set(AttemptRecord.model_fields)


@pytest.mark.parametrize(
    "change",
    [
        {"unknown": 1},
        {"gates": {"G1": {"outcome": "pass", "passed": True, "why": ""}}},
        {"repeat": 0},
        {"schema_version": 2},
        {"duration_sec": float("nan")},
        {"run_status": "ok"},
        {"result": {"passed": False, "failure_reason": "BAD_LUCK"}},
        {"tags": [{"id": "x", "gate": "G3", "evidence": [], "attributes": {}}]},
    ],
)
def test_invalid_record_is_rejected(change: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        AttemptRecord.model_validate({**json.loads(EXAMPLE), **change})


def test_error_names_the_invalid_key() -> None:
    line = example().line()
    with pytest.raises(RecordError, match="canonical"):
        parse_record(line.replace(b":", b": ", 1))
    with pytest.raises(RecordError, match="result"):
        parse_record(line.replace(b'"TESTS_FAILED"', b'"BAD_LUCK"'))


def test_sealed_digest_excludes_trace_head_and_final() -> None:
    record = example()
    later = record.model_copy(update={"final": False, "trace_head": "sha256:x"})
    assert record_sha256(record) == record_sha256(later)
    assert record_sha256(record) != record_sha256(record.model_copy(update={"seed": 1}))


def test_every_reason_is_valid_in_a_record() -> None:
    for reason in Reason:
        value = json.loads(EXAMPLE)
        value["result"]["failure_reason"] = reason
        assert parse_record(AttemptRecord.model_validate(value).line()).result.failure_reason is reason


def test_large_seed_round_trips() -> None:
    record = example().model_copy(update={"seed": 2**63 + 1})
    assert parse_record(record.line()).seed == 2**63 + 1


def test_parts_are_frozen_and_closed() -> None:
    parts: tuple[type[BaseModel], ...] = (AttemptRecord, CheckRecord, Tag)
    for part in parts:
        assert part.model_config.get("frozen")
        assert part.model_config.get("extra") == "forbid"
