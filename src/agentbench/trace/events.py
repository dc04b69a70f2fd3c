"""Every event type with its payload. The discriminator is the envelope's `type`.

Payloads hold integers, strings, booleans, lists and objects, never floats: durations are integer microseconds (`*_us`), so a digest
does not hang on how a float is written. Text that may be large is an `Excerpt`: bounded, with digest and length of the
whole and a blob pointer when the whole was kept.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue

from agentbench.core.reasons import (
    Attribution,
    Gate,
    InvalidCause,
    Outcome,
    Reason,
    RunStatus,
    TerminationCategory,
    TerminationCode,
)
from agentbench.trace.plain import plain

Actor = Literal["agent", "harness", "monitor", "operator"]

AnyObject = Annotated[dict[str, JsonValue], BeforeValidator(plain)]
"""Whatever JSON a model or an agent came up with: bounded in depth, numbers that JSON cannot hold as text."""


class Payload(BaseModel):
    """Base of all payloads."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    type: ClassVar[str]


class Excerpt(BaseModel):
    """Bounded text with the digest of the whole. `encoding` is base64 when the bytes are not UTF-8."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    text: str = ""
    encoding: Literal["utf-8", "base64"] = "utf-8"
    total_bytes: int = 0
    sha256: str = ""
    truncated: bool = False
    blob: str | None = None


class FileDigest(BaseModel):
    """One changed file. Paths that are not UTF-8 are percent-encoded (`path_encoding`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    path: str
    path_encoding: Literal["utf-8", "percent"] = "utf-8"
    change: Literal["added", "modified", "deleted", "renamed", "mode"]
    before_sha256: str | None = None
    after_sha256: str | None = None
    before_mode: str | None = None
    after_mode: str | None = None
    size: int = 0
    binary: bool = False
    generated: bool = False
    old_path: str | None = None


# --- opening ----------------------------------------------------------------------------------------------------------


class AttemptOpened(Payload):
    """First record of a chain: binds what the attempt is about."""

    type = "attempt_opened"
    attempt_id: str
    run_id: str
    study_id: str
    task_id: str
    contract_id: str
    task_digest: str
    harness_version: str
    config_class: str
    nonce: str
    supersedes: str | None = None


class TaskStarted(Payload):
    type = "task_started"
    task_id: str
    suite: str
    variant: str
    agent: str
    repeat: int
    seed: int
    started_at: str


class IdentityBound(Payload):
    type = "identity_bound"
    snapshot: str
    """Content digest of R as materialised."""
    source: dict[str, str]
    base_tree: str
    env_digest: str
    backend: str
    image: str | None = None
    manifest_sha256: str


class SetupCommandStarted(Payload):
    type = "setup_command_started"
    index: int
    command: str
    capture: bool
    cached: bool


class SetupCommandFinished(Payload):
    type = "setup_command_finished"
    index: int
    exit_code: int | None
    timed_out: bool
    duration_us: int
    stdout: Excerpt
    stderr: Excerpt
    cached: bool


class Briefing(Payload):
    type = "briefing"
    text: str
    sha256: str
    parts: dict[str, str]


class StageChanged(Payload):
    type = "stage_changed"
    before: str | None
    after: str
    cause: str


# --- the agent at work ------------------------------------------------------------------------------------------------


class AgentTurnStarted(Payload):
    type = "agent_turn_started"
    turn: int


class LlmRequest(Payload):
    type = "llm_request"
    request_id: str
    provider: str
    model: str
    parameters: AnyObject
    messages: Excerpt
    conversation_index: int


class LlmResponse(Payload):
    type = "llm_response"
    request_id: str
    status: str
    content: Excerpt
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    cost_micro_usd: int
    duration_us: int
    conversation_index: int
    estimated: bool = False
    """The service stated no tokens: they are counted from bytes."""
    error: str = ""
    """What went wrong when `status` is not `ok`; `content` then holds what had come until then."""


class ToolCallStarted(Payload):
    type = "tool_call_started"
    call_id: str
    tool: str
    arguments: AnyObject
    stage: str | None = None
    elapsed_us: int = 0
    """Time of the session, by a clock that never steps: what breakers know of time."""


class ToolCallFinished(Payload):
    type = "tool_call_finished"
    call_id: str
    tool: str
    ok: bool
    exit_code: int | None = None
    timed_out: bool = False
    duration_us: int
    stdout: Excerpt = Field(default_factory=Excerpt)
    stderr: Excerpt = Field(default_factory=Excerpt)
    changed_files: list[str] = Field(default_factory=list)
    error_type: str | None = None
    error_message: str | None = None
    killed_processes: int = 0


class WorkspaceMutated(Payload):
    """What a tool call changed in the workspace."""

    type = "workspace_mutated"
    call_id: str | None
    files: list[FileDigest]
    omitted: int = 0
    diff: Excerpt = Field(default_factory=Excerpt)


class PatchApplied(Payload):
    """A patch put on a tree: by a tool call, or (`call_id` None) Δ put on R in the grading replica.

    Of Δ there is exactly one, also when it could not be applied: `fail` when Δ is the cause, `error` when we are.
    """

    type = "patch_applied"
    call_id: str | None
    files: list[FileDigest]
    patch: Excerpt
    fuzz: int = 0
    outcome: Outcome = Outcome.PASS
    why: str = ""


class Delegation(Payload):
    type = "delegation"
    parent: str
    child: str
    role: str
    task: Excerpt


class MonitorAlert(Payload):
    type = "monitor_alert"
    monitor: str
    severity: Literal["note", "penalty", "gate", "terminate"]
    rule: str
    detail: str
    format: Literal["natural_text", "code", "none"] = "none"
    evidence: list[int] = Field(default_factory=list)
    signals: dict[str, int] = Field(default_factory=dict)
    """What was measured, and the thresholds it was held against."""
    stage: str | None = None
    """The privileges of the agent at that moment."""


class Intervention(Payload):
    type = "intervention"
    action: Literal["throttle", "deny", "kill", "rollback", "quarantine", "pause", "terminate"]
    alert: int
    detail: str


class OperatorDecision(Payload):
    type = "operator_decision"
    decision: Literal["continue", "stop"]
    operator: str
    justification: str
    alert: int | None = None


class ResourceSample(Payload):
    type = "resource_sample"
    phase: str
    cpu_us: int | None = None
    memory_bytes: int | None = None
    disk_bytes: int | None = None
    processes: int | None = None


class Termination(Payload):
    type = "termination"
    code: TerminationCode
    category: TerminationCategory | None
    rationale: str
    evidence: list[int]


# --- grading ----------------------------------------------------------------------------------------------------------


class PatchExtracted(Payload):
    """Δ as it will be graded."""

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
