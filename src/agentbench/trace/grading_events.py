"""Events from Δ to the closing record: acceptance, inspection, opinions, the verdict."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from agentbench.core.reasons import Attribution, Gate, InvalidCause, Outcome, Reason, RunStatus
from agentbench.trace.payload import Excerpt, FileDigest, Payload
from agentbench.trace.work_events import LlmRequest, LlmResponse


class PatchExtracted(Payload):
    """Δ as it will be graded. `sha256` and `bytes` are those of the recorded text."""

    type = "patch_extracted"
    sha256: str
    bytes: int
    files: list[FileDigest]
    omitted: int = 0
    added: int
    removed: int
    generated: int
    problem: str | None = None
    """Why Δ cannot be graded as a patch (too large, refused entries); None when it can."""
    exact_sha256: str | None = None
    """Of Δ as it is graded, where the recorded text has placeholders for secrets; None when it is the recorded text."""


class StepStarted(Payload):
    """Base of the canonical steps of E-16."""

    type = "build_started"
    step: str
    command: str
    ceiling_us: int


class BuildStarted(StepStarted):
    type = "build_started"


class StaticStarted(StepStarted):
    type = "static_started"


class TestsStarted(StepStarted):
    type = "tests_started"


class StepFinished(Payload):
    type = "build_finished"
    step: str
    outcome: Outcome
    exit_code: int | None
    timed_out: bool
    duration_us: int
    stdout: Excerpt
    stderr: Excerpt
    why: str


class BuildFinished(StepFinished):
    type = "build_finished"


class StaticFinished(StepFinished):
    type = "static_finished"


class TestsFinished(StepFinished):
    type = "tests_finished"


class AcceptanceCheck(Payload):
    """The decision of one check: exactly one per check of the contract, whatever happened."""

    type = "acceptance_check"
    check_id: str
    layer: str
    mandatory: bool
    outcome: Outcome
    why: str
    command: str
    started_at: str
    exit_code: int | None = None
    duration_us: int = 0
    ceiling_us: int = 0
    timed_out: bool = False
    assurance: str = "exit_code"
    failing_tests: list[str] = Field(default_factory=list)
    omitted_failing: int = 0
    diagnostics: Excerpt = Field(default_factory=Excerpt)
    stdout_sha256: str = ""
    stderr_sha256: str = ""
    f2p_passed: int = 0
    f2p_total: int = 0
    p2p_kept: int = 0
    p2p_total: int = 0
    run: int = 1
    """Number of runs that led to this decision (replay rule)."""
    not_run: Gate | None = None
    """The gate whose failure (`fail`) or undecided state (`error`) kept the check from running; None when it ran."""


class IntegrityFinding(Payload):
    """Something the inspection of Δ found. `error`: the inspection itself could not decide, by no fault of Δ."""

    type = "integrity_finding"
    rule: str
    severity: Literal["note", "penalty", "gate", "error"]
    path: str | None = None
    line: int | None = None
    detail: str
    excerpt: str = ""


class ScorerResult(Payload):
    type = "scorer_result"
    name: str
    scorer_type: str
    required: bool
    verdict: Literal["PASS", "FAIL", "N/A", "ERROR"]
    score_ppm: int
    detail: str
    command: str = ""
    """What a `command` scorer ran, so that it can be held against the oracle's decision about the same command."""


class JudgeFact(BaseModel):
    """A claim that mattered to the judge, and what it found about it."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    claim: str
    verdict: str
    evidence: str


class JudgeExchange(BaseModel):
    """One request of the judge and its answer. Not events of their own: they are no part of what the agent used."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    request: LlmRequest
    response: LlmResponse | None = None


class JudgeResult(Payload):
    """What a model that read the attempt thinks of it: shown beside the gates, never part of them."""

    type = "judge_result"
    verdict: Literal["PASS", "FAIL", "unparseable"]
    scores: dict[str, int]
    """`task_completion`, `instruction_adherence`, `efficiency`, each from 1 to 5; empty when unparseable."""
    failure_mode: str | None
    model: str
    reasoning: Excerpt
    facts: list[JudgeFact] = Field(default_factory=list)
    scored_at: str = ""
    rubric: str = ""
    """Name and digest of the instructions the judge was given."""
    expected_outcome: str = "completion"
    verdicts: list[str] = Field(default_factory=list)
    """Of every asking, in order."""
    agreement_ppm: int | None = None
    """Share of the askings that gave this verdict; None when it was asked once."""
    exchanges: list[JudgeExchange] = Field(default_factory=list)


class GateResult(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    outcome: Outcome
    passed: bool
    why: str = ""


class GatesDecided(Payload):
    type = "gates_decided"
    gates: dict[Gate, GateResult]
    run_status: RunStatus
    invalid_cause: InvalidCause | None
    attribution: Attribution | None
    reason: Reason | None
    passed: bool


class TaskFinished(Payload):
    type = "task_finished"
    ended_at: str
    passed: bool
    reason: Reason | None
    duration_us: int


class AttemptClosed(Payload):
    """Last record of a chain: its count and the head before it, so that a cut tail shows."""

    type = "attempt_closed"
    events: int
    head: str
    record_sha256: str
    """Digest of the attempt's record without `trace_head`."""
