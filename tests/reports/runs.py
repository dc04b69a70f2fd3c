"""Records and run directories for report tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentbench.core.canonical import canonical, sha256_hex
from agentbench.core.reasons import (
    Assurance,
    Attribution,
    Gate,
    InvalidCause,
    Observability,
    Outcome,
    Reason,
    RunStatus,
    TerminationCode,
)
from agentbench.record.schema import (
    UNSEALED,
    ArtifactPaths,
    AttemptRecord,
    CheckRecord,
    Components,
    Cost,
    LimitsRecord,
    Patch,
    Progress,
    Result,
    Tag,
    TerminationRecord,
    Timestamps,
)
from agentbench.trace.events import AttemptSealed, GateResult, RunClosed, RunOpened
from agentbench.trace.log import EventLog

HOSTILE = "\x1b]0;owned\x07\x1b[31m|`<script>alert(1)</script>\u202egpj.exe\r\n# PASS\x00 [x](javascript:1)"

HEAD = "sha256:" + "1" * 64
"""Head of the chain of every attempt of these runs."""

_KINDS: dict[str, tuple[RunStatus, Reason | None, InvalidCause | None, Attribution | None]] = {
    "pass": (RunStatus.SUCCESS, None, None, None),
    "fail": (RunStatus.FAILURE, Reason.TESTS_FAILED, None, Attribution.AGENT),
    "policy": (RunStatus.SUCCESS, Reason.POLICY_VIOLATION, None, Attribution.AGENT),
    "error": (RunStatus.ACCEPTANCE_ERROR, Reason.ACCEPTANCE_ERROR, None, Attribution.HARNESS),
    "harness": (RunStatus.INVALID, Reason.SANDBOX_ERROR, InvalidCause.HARNESS, Attribution.HARNESS),
    "task": (RunStatus.INVALID, Reason.SETUP_FAILED, InvalidCause.TASK, Attribution.HARNESS),
    "operator": (RunStatus.INVALID, Reason.INTERRUPTED, InvalidCause.OPERATOR, Attribution.INDETERMINATE),
    "safety": (RunStatus.INVALID, Reason.SAFETY_STOP, InvalidCause.SAFETY, Attribution.AGENT),
}


def record(task: str = "toy", kind: str = "pass", repeat: int = 1, **more: Any) -> AttemptRecord:
    status, reason, cause, attribution = _KINDS[kind]
    passed = kind == "pass"
    check = {"pass": Outcome.PASS, "policy": Outcome.PASS, "error": Outcome.ERROR}.get(kind, Outcome.FAIL)
    gates = {gate: GateResult(outcome=Outcome.PASS, passed=True) for gate in Gate}
    if not passed:
        gates[Gate.G4 if kind == "policy" else Gate.G3] = GateResult(
            outcome=Outcome.FAIL, passed=False, why="unit: because"
        )
    ending = {
        "task": TerminationCode.SETUP_FAILED,
        "harness": TerminationCode.SANDBOX_ERROR,
        "safety": TerminationCode.SAFETY,
    }
    values: dict[str, Any] = {
        "harness_version": "0.1.0",
        "study_id": "01S",
        "run_id": "01R",
        "attempt_id": f"01-{task}-{repeat}",
        "task_id": task,
        "suite": "demo",
        "contract_id": f"sha256:c-{task}",
        "task_digest": f"sha256:t-{task}",
        "acceptance_id": f"sha256:a-{task}",
        "env_digest": "sha256:e",
        "config_class": "sha256:k",
        "variant": "baseline",
        "agent": "noop",
        "repeat": repeat,
        "seed": 20260307,
        "observability": Observability.TOOLS,
        "timestamps": Timestamps(started_at="2026-01-01T00:00:00+00:00", ended_at="2026-01-01T00:00:02+00:00"),
        "duration_sec": 2.0,
        "result": Result(passed=passed, exit_code=0 if passed else 1, failure_reason=reason),
        "run_status": status,
        "invalid_cause": cause,
        "attribution": attribution,
        "run_badge": "completed",
        "patch": Patch(path=f"tasks/{task}/diffs/final.patch", sha256="d", files=2, added=10, removed=3),
        "checks": (
            CheckRecord(
                id="unit",
                layer="unit",
                mandatory=True,
                outcome=check,
                assurance=Assurance.PER_TEST,
                command="python -m pytest -q",
                exit_code=1,
                started_at="2026-01-01T00:00:01+00:00",
                duration_sec=1.2,
                ceiling_sec=300,
                stdout_sha256="s",
                stderr_sha256="s",
                failing_tests=() if check is Outcome.PASS else ("tests/test_core.py::test_even",),
                why="" if check is Outcome.PASS else "2 of 14 required tests failed",
            ),
        ),
        "progress": Progress(f2p_passed=3 if passed else 1, f2p_total=3, p2p_kept=11, p2p_total=11),
        "gates": gates,
        "score": 0.75 if passed else None,
        "components": Components(correctness=float(passed), validity=1, safety=1, efficiency=0.9),
        "tags": ()
        if passed
        else (Tag(id="policy.scope", gate=Gate.G4, evidence=(41,), attributes={"rule": "scope.write"}),)
        if kind == "policy"
        else (Tag(id="acceptance.unit", gate=Gate.G3, evidence=(41,), attributes={"check": "unit"}),),
        "termination": TerminationRecord(code=ending.get(kind, TerminationCode.AGENT_STOPPED), rationale="it ended"),
        "limits": LimitsRecord(timeout_sec=900, tool_timeout_sec=120),
        "cost": Cost(total=0.5),
        "artifact_paths": ArtifactPaths(task_dir=f"tasks/{task}" + (f"@r{repeat}" if repeat > 1 else "")),
        "trace_head": HEAD,
    }
    return AttemptRecord(**{**values, **more})


def run_dir(folder: Path, records: Sequence[AttemptRecord], *, suite: str = "demo") -> Path:
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(
        json.dumps({"run_id": f"01R-{folder.name}", "study_id": "01S", "suite": suite}), encoding="utf-8"
    )
    (folder / "attempts.jsonl").write_bytes(b"".join(record.line() + b"\n" for record in records))
    seal_run(folder)
    return folder


def write_planned_run(folder: Path, tasks: Sequence[str], records: Sequence[AttemptRecord]) -> Path:
    """Write a run that was started for one attempt at each task, with a second variant in its study."""
    run = run_dir(folder, records)
    meta = json.loads((run / "run.json").read_text())
    order = [[task, variant, 1] for task in tasks for variant in ("baseline", "other")]
    (run / "run.json").write_text(json.dumps({**meta, "variant": "baseline", "order": order}))
    return run


def seal_run(folder: Path) -> None:
    """Write the chain of a closed run that sealed its records as they are."""
    lines = (folder / "attempts.jsonl").read_bytes().splitlines()
    sealed = []
    for line in lines:
        value = json.loads(line)
        digest = sha256_hex(canonical({key: value[key] for key in value if key not in UNSEALED}))
        sealed.append(
            AttemptSealed(
                attempt_id=value["attempt_id"],
                task_dir=value["artifact_paths"]["task_dir"],
                events=1,
                head=HEAD,
                record_sha256=digest,
                files_sha256="",
            )
        )
    with EventLog.create(folder / "events.jsonl") as log:
        log.append(
            RunOpened(
                run_id="01R", study_id="01S", suite="", variant="", harness_version="", run_json_sha256="", nonce=""
            )
        )
        for payload in sealed:
            log.append(payload)
        log.append(RunClosed(status="completed", closed_at="", attempts=len(sealed), events=log.count, head=log.head))


def results_csv(path: Path, text: str) -> Path:
    path.write_text("task,method,repeat,outcome,cost\n" + text, encoding="utf-8")
    return path
