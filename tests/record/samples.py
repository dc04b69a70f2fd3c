"""Builds small complete run directories with the real writers and the real verdict."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentbench.core.canonical import sha256_hex
from agentbench.core.ids import now_iso
from agentbench.core.reasons import Assurance, Observability, Outcome, TerminationCode
from agentbench.record.attempt_folder import EVENTS, FINAL_PATCH, AttemptFolder
from agentbench.record.manifest import (
    Entrypoints,
    Manifest,
    Observed,
    Planned,
    PlannedCheck,
    ProtocolManifest,
    RepositoryPlan,
    SandboxPlan,
    TaskIds,
)
from agentbench.record.plans import grading_plan
from agentbench.record.run_directory import RunDirectory
from agentbench.record.schema import (
    ArtifactPaths,
    AttemptRecord,
    CheckRecord,
    Components,
    LimitsRecord,
    Patch,
    Progress,
    Result,
    Tag,
    TerminationRecord,
    Timestamps,
)
from agentbench.trace.blobs import excerpt
from agentbench.trace.events import (
    AcceptanceCheck,
    AttemptOpened,
    Briefing,
    Excerpt,
    FileDigest,
    GateResult,
    IdentityBound,
    PatchApplied,
    PatchExtracted,
    TaskFinished,
    TaskStarted,
    Termination,
    ToolCallFinished,
    ToolCallStarted,
    WorkspaceMutated,
)
from agentbench.trace.log import EventLog, read_events
from agentbench.trace.redaction import Redactor
from agentbench.verdict.decide import Verdict, decide
from agentbench.verdict.facts import collect_facts
from agentbench.verdict.terms import CheckTerm, Terms

TIME = "2026-03-07T00:00:00.000+00:00"
PATCH = b"diff --git a/src/core.py b/src/core.py\n--- a/src/core.py\n+++ b/src/core.py\n@@ -1 +1 @@\n-a\n+b\n"
TERMS = Terms(checks=(CheckTerm("unit"),))
FILE = FileDigest(path="src/core.py", change="modified", before_sha256="a" * 64, after_sha256="b" * 64, size=2)


@dataclass
class SampleAttempt:
    """Describes a sample attempt."""

    outcome: Outcome = Outcome.PASS
    output: str = "ok\n" * 3000
    skip: frozenset[str] = frozenset()
    """Event types to leave out."""
    ending: TerminationCode = TerminationCode.AGENT_STOPPED
    lies: dict[str, Any] = field(default_factory=dict)
    """Record fields that contradict the decision."""
    exact_patch: str | None = None
    """Digest of the graded patch if it differs from the recorded one."""


def new_run(out: Path, *, redact: Redactor | None = None) -> RunDirectory:
    return RunDirectory.create(
        out, suite="demo", variant="baseline", model=None, meta={"harness_version": "0.1.0", "seed": 1}, redact=redact
    )


def whole_run(out: Path) -> Path:
    """Create a closed run with three attempts; one supersedes another."""
    run = new_run(out)
    first = attempt(run, "toy", sample=SampleAttempt(outcome=Outcome.ERROR))
    attempt(run, "toy", supersedes=first.attempt_id)
    attempt(run, "other", sample=SampleAttempt(outcome=Outcome.FAIL))
    run.close()
    return run.path


def attempt(
    run: RunDirectory,
    task_id: str = "toy",
    *,
    repeat: int = 1,
    supersedes: str | None = None,
    sample: SampleAttempt | None = None,
) -> AttemptRecord:
    sample = sample or SampleAttempt()
    folder = run.begin(task_id, repeat, supersedes=supersedes)
    log = folder.open_log()
    write_events(folder, log, sample, run.run_id)
    return finish(run, folder, log, sample)


def manifest(folder: AttemptFolder, run_id: str = "01R", **observed: Any) -> Manifest:
    values: dict[str, Any] = {
        "snapshot": "sha256:" + "1" * 64,
        "source": {"commit": "a1b2"},
        "base_tree": "sha256:" + "2" * 64,
        "env_digest": "sha256:" + "3" * 64,
        "backend": "bwrap",
        "enforcement": {"memory": "hard"},
        "os": {"id": "debian"},
        "package_managers": {"pip": "24.0"},
        "seed": 20260307,
        "started_at": TIME,
        **observed,
    }
    return Manifest(
        harness_version="0.1.0",
        study_id="01S",
        run_id=run_id,
        attempt_id=folder.attempt_id,
        written_at=TIME,
        protocol_manifest=ProtocolManifest(
            planned=Planned(
                repository=RepositoryPlan(kind="git", url="../repo.git", commit="a1b2"),
                task=TaskIds(
                    task_id=folder.task_id,
                    suite="demo",
                    contract_id="sha256:c",
                    task_digest="sha256:t",
                    acceptance_id="sha256:a",
                    locked=True,
                ),
                acceptance=(
                    PlannedCheck(id="unit", layer="unit", mandatory=True, command="pytest -q", timeout_sec=300),
                ),
                grading=grading_plan(TERMS),
                entrypoints=Entrypoints(install=(), build="none", static=(), acceptance=("pytest -q",)),
                sandbox=SandboxPlan(backend="bwrap", workdir="/workspace", network="none", limits={"cpu": 2}),
                variant="baseline",
                agent="scripted",
                configuration={"agent": {"value": "scripted", "origin": "cli"}},
                limits={},
                config_class="sha256:k",
                base_seed=20260307,
                seed=20260307,
            ),
            observed=Observed(**values),
        ),
    )


def write_events(folder: AttemptFolder, log: EventLog, sample: SampleAttempt, run_id: str) -> None:
    """Write the events and files of an attempt before its decision."""
    folder.write("task.yaml", f"id: {folder.task_id}\n")
    digest = folder.write_manifest(manifest(folder, run_id))
    folder.write("logs/setup_stdout.txt", "installed\n")
    folder.write_exact(FINAL_PATCH, PATCH)
    events = (
        AttemptOpened(
            attempt_id=folder.attempt_id,
            run_id=run_id,
            study_id="01S",
            task_id=folder.task_id,
            contract_id="sha256:c",
            task_digest="sha256:t",
            harness_version="0.1.0",
            config_class="sha256:k",
            nonce="00",
            supersedes=folder.supersedes,
        ),
        TaskStarted(
            task_id=folder.task_id,
            suite="demo",
            variant="baseline",
            agent="scripted",
            repeat=folder.repeat,
            seed=20260307,
            started_at=TIME,
        ),
        IdentityBound(
            snapshot="sha256:" + "1" * 64,
            source={"commit": "a1b2"},
            base_tree="sha256:" + "2" * 64,
            env_digest="sha256:" + "3" * 64,
            backend="bwrap",
            manifest_sha256=digest,
        ),
        Briefing(text="fix it", sha256=sha256_hex(b"fix it"), parts={"issue": "fix it"}),
        ToolCallStarted(call_id="c1", tool="run", arguments={"command": "sed -i s/a/b/ src/core.py"}),
        ToolCallFinished(
            call_id="c1",
            tool="run",
            ok=True,
            exit_code=0,
            duration_us=10,
            stdout=excerpt(sample.output.encode(), store=folder.blobs()),
        ),
        WorkspaceMutated(call_id="c1", files=[FILE]),
        Termination(code=sample.ending, category=None, rationale="done", evidence=[5]),
        PatchExtracted(
            sha256=sha256_hex(PATCH),
            bytes=len(PATCH),
            files=[FILE],
            added=1,
            removed=1,
            generated=0,
            exact_sha256=sample.exact_patch,
        ),
        PatchApplied(call_id=None, files=[FILE], patch=Excerpt()),
        AcceptanceCheck(
            check_id="unit",
            layer="unit",
            mandatory=True,
            outcome=sample.outcome,
            why="" if sample.outcome is Outcome.PASS else "1 of 2 required tests failed",
            command="pytest -q",
            started_at=TIME,
            exit_code=0 if sample.outcome is Outcome.PASS else 1,
            duration_us=1_200_000,
            ceiling_us=300_000_000,
            assurance="per_test",
            f2p_passed=1,
            f2p_total=1,
        ),
    )
    for payload in events:
        if payload.type not in sample.skip:
            log.append(payload, "agent" if payload.type.startswith("tool_call") else "harness")


def finish(
    run: RunDirectory, folder: AttemptFolder, log: EventLog, sample: SampleAttempt | None = None
) -> AttemptRecord:
    """Decide, record and seal an attempt."""
    sample = sample or SampleAttempt()
    verdict = decide(collect_facts(read_events(folder.path / EVENTS)), TERMS)
    if "gates_decided" not in sample.skip:
        log.append(verdict.event())
    log.append(TaskFinished(ended_at=TIME, passed=verdict.passed, reason=verdict.reason, duration_us=1))
    record = record_of(folder, verdict, run_id=run.run_id, outcome=sample.outcome, **sample.lies)
    return run.commit(folder, log, record)


def record_of(
    folder: AttemptFolder, verdict: Verdict, *, run_id: str, outcome: Outcome = Outcome.PASS, **lies: Any
) -> AttemptRecord:
    ending = verdict.termination.payload if verdict.termination else None
    values: dict[str, Any] = {
        "harness_version": "0.1.0",
        "study_id": "01S",
        "run_id": run_id,
        "attempt_id": folder.attempt_id,
        "supersedes": folder.supersedes,
        "task_id": folder.task_id,
        "suite": "demo",
        "contract_id": "sha256:c",
        "task_digest": "sha256:t",
        "acceptance_id": "sha256:a",
        "env_digest": "sha256:" + "3" * 64,
        "config_class": "sha256:k",
        "variant": "baseline",
        "agent": "scripted",
        "repeat": folder.repeat,
        "seed": 20260307,
        "observability": Observability.TOOLS,
        "timestamps": Timestamps(started_at=TIME, ended_at=now_iso()),
        "duration_sec": 1.5,
        "result": Result(passed=verdict.passed, exit_code=0, failure_reason=verdict.reason),
        "run_status": verdict.run_status,
        "invalid_cause": verdict.invalid_cause,
        "attribution": verdict.attribution,
        "run_badge": verdict.run_badge,
        "needs_review": verdict.needs_review,
        "patch": Patch(path=f"{folder.task_dir}/{FINAL_PATCH}", sha256=sha256_hex(PATCH), files=1, added=1, removed=1),
        "checks": (
            CheckRecord(
                id="unit",
                layer="unit",
                mandatory=True,
                outcome=outcome,
                assurance=Assurance.PER_TEST,
                command="pytest -q",
                started_at=TIME,
                duration_sec=1.2,
                ceiling_sec=300,
                stdout_sha256="",
                stderr_sha256="",
            ),
        ),
        "progress": Progress(
            f2p_passed=verdict.progress.f2p_passed,
            f2p_total=verdict.progress.f2p_total,
            p2p_kept=verdict.progress.p2p_kept,
            p2p_total=verdict.progress.p2p_total,
        ),
        "gates": {
            gate: GateResult(outcome=one.outcome, passed=one.passed, why=one.why) for gate, one in verdict.gates.items()
        },
        "score": verdict.score.value if verdict.score else None,
        "components": Components(
            correctness=verdict.components.correctness,
            validity=verdict.components.validity,
            safety=verdict.components.safety,
            efficiency=verdict.components.efficiency,
        ),
        "tags": tuple(
            Tag(id=tag.id, gate=tag.gate, evidence=tuple(tag.evidence), attributes=dict(tag.attributes))
            for tag in verdict.tags
        ),
        "workspace_verdict": verdict.workspace.verdict,
        "mean_score": verdict.workspace.mean_score,
        "termination": TerminationRecord(
            code=ending.code if ending else TerminationCode.SANDBOX_ERROR,
            category=ending.category if ending else None,
            rationale="done",
        ),
        "limits": LimitsRecord(timeout_sec=900, tool_timeout_sec=120),
        "artifact_paths": ArtifactPaths(task_dir=folder.task_dir),
    }
    return AttemptRecord(**{**values, **lies})
