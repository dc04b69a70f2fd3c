"""Every event type with its payload. The discriminator is the envelope's `type`.

Payloads contain integers, strings, booleans, lists and objects, never floats: durations are integer microseconds (`*_us`), so
that a digest does not depend on how a float is written. Text that may be large is an `Excerpt`.
"""

# No `from __future__ import annotations`: pydantic would compile every annotation, a quarter of the time to import this.

import base64
from typing import Annotated, ClassVar, Literal, Protocol

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue

from agentbench.core.host_evidence import HostEvidence
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
from agentbench.trace.json_safe import to_json

Actor = Literal["agent", "harness", "monitor", "operator"]

AnyObject = Annotated[dict[str, JsonValue], BeforeValidator(to_json)]
"""Any JSON from a model or an agent: bounded in depth, unrepresentable numbers as text."""


class Payload(BaseModel):
    """Base of all payloads."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    type: ClassVar[str]


class EventLike(Protocol):
    """An event with its sequence number."""

    @property
    def seq(self) -> int: ...

    @property
    def payload(self) -> Payload: ...


class Excerpt(BaseModel):
    """Bounded text with the digest of the whole. `encoding` is base64 if the bytes are not UTF-8."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    text: str = ""
    encoding: Literal["utf-8", "base64"] = "utf-8"
    total_bytes: int = 0
    sha256: str = ""
    truncated: bool = False
    blob: str | None = None

    @property
    def data(self) -> bytes:
        """The bounded text as the bytes it stands for."""
        return base64.b64decode(self.text) if self.encoding == "base64" else self.text.encode()


class FileDigest(BaseModel):
    """One changed file. Paths that are not UTF-8 are percent-encoded (`path_encoding`)."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
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


# --- setup and agent phase -----------------------------------------------------------------------------------------------


class AttemptOpened(Payload):
    """First event of an attempt's log: identifies the attempt."""

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
    """Content digest of the base repository."""
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
    reason: str = ""
    """The agent's reason, if it asked for the stage with `request_stage`. When `before` is `plan`, this is its plan."""


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
    """Whether the service reported no token counts and they were estimated from bytes."""
    error: str = ""
    """The error if `status` is not `ok`; `content` then has the part received before it."""


AGENT_CALL = "c"
"""Prefix of the ids of tool calls that an agent makes."""
PROGRAM_CALL = "h"
"""Prefix of the ids of calls in which the harness runs a program."""


class ToolCallStarted(Payload):
    type = "tool_call_started"
    call_id: str
    tool: str
    arguments: AnyObject
    stage: str | None = None
    elapsed_us: int = 0
    """Session time from a monotonic clock, for breakers."""

    @property
    def by_agent(self) -> bool:
        """Whether the agent made the call. Otherwise the harness runs a program in it."""
        return self.call_id.startswith(AGENT_CALL)


class ProcessCounts(BaseModel):
    """Processes that one command started. `dropped` were seen but are not in the log, because there were too many."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    started: int
    dropped: int = 0
    refused: int = 0


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
    changed_files: list[str] = []
    error_type: str | None = None
    error_message: str | None = None
    killed_processes: int = 0
    processes: ProcessCounts | None = None
    """Processes of a program that acts as the agent; None if they were not observed."""
    not_observed: str | None = None
    """Why the processes of a program were not observed; None if they were, and for tool calls."""

    @property
    def by_harness(self) -> bool:
        """Whether the harness made the call to run a program."""
        return self.call_id.startswith(PROGRAM_CALL)


class ProcessStarted(Payload):
    """A program that the agent's program executed in the sandbox."""

    type = "process_started"
    call_id: str
    number: int
    """Counts from 1 within one call."""
    pid: int
    parent: int
    program: str
    argv: list[str]
    cwd: str
    truncated: bool = False
    """Whether the command is longer than what is kept and judged."""
    elapsed_us: int
    """Since the call started."""


class ProcessFinished(Payload):
    """The end of a process. `exit_code` and `signal` are None if the kernel does not report them."""

    type = "process_finished"
    call_id: str
    number: int
    exit_code: int | None = None
    signal: int | None = None
    elapsed_us: int


class WorkspaceMutated(Payload):
    """Files that a tool call changed in the workspace, or a running program since the last such event."""

    type = "workspace_mutated"
    call_id: str | None
    files: list[FileDigest]
    omitted: int = 0
    diff: Excerpt = Field(default_factory=Excerpt)


class PatchApplied(Payload):
    """A patch applied by a tool call, or (`call_id` None) the final patch applied in the grading replica.

    The final patch always has one such event: `fail` if the patch is at fault, `error` for a harness error.
    """

    type = "patch_applied"
    call_id: str | None
    files: list[FileDigest]
    patch: Excerpt
    """The patch as it was given."""
    diff: Excerpt = Field(default_factory=Excerpt)
    """The changes that a tool call's patch made, as an exact diff; empty for the final patch."""
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
    evidence: list[int] = []
    signals: dict[str, int] = Field(default_factory=dict)
    """Measured values and the thresholds they were compared with."""
    stage: str | None = None
    """The stage of the agent at that moment."""


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
    waited_us: int = 0
    """Time from the question to the answer of a person; 0 if the deadline decided."""


class ResourceSample(Payload):
    type = "resource_sample"
    phase: str
    cpu_us: int | None = None
    memory_bytes: int | None = None
    disk_bytes: int | None = None
    processes: int | None = None
    oom_kills: int | None = None
    """Processes that the kernel killed so far for lack of memory."""
    disk_limit_bytes: int | None = None
    denied_calls: dict[str, int] = Field(default_factory=dict)
    """System calls that the sandbox denied so far, by class."""


class SandboxLost(Payload):
    """A sandbox that ended or stopped answering without exceeding a limit, while code of the agent or the candidate ran."""

    type = "sandbox_lost"
    phase: Literal["agent", "grading"]
    sandbox: str
    why: str
    host: HostEvidence
    """The host's state over the life of the sandbox."""
    blame: Literal["candidate", "host"]
    """`candidate`, which is the agent in the agent phase, unless the host's state explains the loss."""


class Termination(Payload):
    type = "termination"
    code: TerminationCode
    category: TerminationCategory | None
    rationale: str
    evidence: list[int]


# --- network -------------------------------------------------------------------------------------------------------------

Refusal = Literal["", "malformed", "not_listed", "not_public", "limit"]


class NetworkRequest(Payload):
    """A network request of the agent, logged before anything but a DNS lookup of an allowed host is sent."""

    type = "network_request"
    request_id: str
    way: Literal["http", "tunnel"]
    """`http`: a plain request, recorded in full. `tunnel`: forwarded bytes, usually TLS."""
    method: str
    host: str
    """Empty if the request has no valid host."""
    port: int
    target: str
    head: Excerpt = Field(default_factory=Excerpt)
    """The headers as the client sent them, without credentials."""
    refused: Refusal = ""
    """Why the request was refused; empty if it was allowed."""
    why: str = ""


class NetworkResponse(Payload):
    """The end of an allowed request.

    Counts and digests cover the whole bodies of a plain request and all bytes of a tunnel. Recorded bodies are bounded.
    """

    type = "network_response"
    request_id: str
    address: str
    """The address that the harness resolved the host to."""
    status: int | None
    """Status of the response to a plain request; null without a response and for tunnels."""
    request_body: Excerpt = Field(default_factory=Excerpt)
    head: Excerpt = Field(default_factory=Excerpt)
    body: Excerpt = Field(default_factory=Excerpt)
    sent_bytes: int
    sent_sha256: str
    received_bytes: int
    received_sha256: str
    duration_us: int
    error: str = ""


class NetworkUsed(Payload):
    """Totals of the proxy of an attempt."""

    type = "network_used"
    requests: int
    refused: int
    turned_away: int
    """Connections closed unread because too many were open."""
    unrecorded: int
    """Refused requests beyond the number that is logged individually."""
    sent_bytes: int
    received_bytes: int


# --- grading phase -------------------------------------------------------------------------------------------------------


class PatchExtracted(Payload):
    """The patch that will be graded. `sha256` and `bytes` refer to the recorded text."""

    type = "patch_extracted"
    sha256: str
    bytes: int
    files: list[FileDigest]
    omitted: int = 0
    added: int
    removed: int
    generated: int
    problem: str | None = None
    """Why the patch cannot be graded (too large, disallowed entries); None if it can."""
    exact_sha256: str | None = None
    """Digest of the graded patch, if the recorded text is redacted or withheld; else None."""

    @property
    def graded_sha256(self) -> str:
        return self.exact_sha256 or self.sha256


class StepStarted(Payload):
    """Base of the start events of build, static and test steps."""

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
    """Base of the end events of build, static and test steps."""

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
    """The decision of one check; every check of the task has exactly one."""

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
    failing_tests: list[str] = []
    omitted_failing: int = 0
    diagnostics: Excerpt = Field(default_factory=Excerpt)
    stdout_sha256: str = ""
    stderr_sha256: str = ""
    f2p_passed: int = 0
    f2p_total: int = 0
    p2p_kept: int = 0
    p2p_total: int = 0
    decoys: int | None = None
    """Fail-to-pass tests that have a decoy; null in logs of versions that did not count them."""
    decoy_plan: str = ""
    """Digest of the decoy plan; empty if the check has none."""
    run: int = 1
    """Number of runs that led to this decision."""
    not_run: Gate | None = None
    """The gate that kept the check from running because it failed or was undecided; None if the check ran."""
    not_started: str = ""
    """Why the check's command could not be started: a missing program or interpreter. Empty if it could."""
    starts_on_base: bool | None = None
    """Whether the command starts on the base repository; null unless it could not be started."""


class IntegrityFinding(Payload):
    """A finding of the patch inspection. Severity `error`: the inspection itself failed, not because of the patch."""

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
    """The command of a `command` scorer, for comparison with a check that runs the same command."""


class JudgeFact(BaseModel):
    """A claim that the judge considered, with its finding."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    claim: str
    verdict: str
    """`supported`, `refuted`, `unverifiable`, or `unparseable` if the judge gave another."""
    evidence: str


class JudgeExchange(BaseModel):
    """One request of the judge and its response. They are not events, because they do not count as the agent's usage."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    request: LlmRequest
    response: LlmResponse | None = None


class JudgeResult(Payload):
    """The opinion of a judge model. It is shown beside the gates and never changes them."""

    type = "judge_result"
    verdict: Literal["PASS", "FAIL", "unparseable"]
    scores: dict[str, int]
    """`task_completion`, `instruction_adherence`, `efficiency`, each from 1 to 5; empty if unparseable."""
    failure_mode: str | None
    model: str
    reasoning: Excerpt
    facts: list[JudgeFact] = []
    scored_at: str = ""
    rubric: str = ""
    """Name and digest of the judge's instructions."""
    expected_outcome: str = "completion"
    verdicts: list[str] = []
    """The verdict of each request, in order."""
    agreement_ppm: int | None = None
    """Share of requests that gave this verdict; None for a single request."""
    exchanges: list[JudgeExchange] = []


class GateResult(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
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
    """Last event of an attempt's log, with its length and head, so that truncation is detected."""

    type = "attempt_closed"
    events: int
    head: str
    record_sha256: str
    """Digest of the attempt's record without `trace_head`."""


# --- events of a run's log -----------------------------------------------------------------------------------------------
#
# The run's chain contains the head of every attempt's chain, so an attempt's log cannot be truncated, rewritten or removed
# without breaking the run's chain too.


class RunOpened(Payload):
    """First event of a run's log."""

    type = "run_opened"
    run_id: str
    study_id: str
    suite: str
    variant: str
    harness_version: str
    run_json_sha256: str
    nonce: str


class AttemptBegun(Payload):
    """An attempt has a folder. The run is incomplete until a matching `attempt_sealed` follows."""

    type = "attempt_begun"
    attempt_id: str
    task_id: str
    repeat: int
    attempt: int
    """1 for the first attempt at a repeat, 2 for the first retry, and so on."""
    task_dir: str
    supersedes: str | None = None


class AttemptSealed(Payload):
    """The attempt ended and its evidence is final."""

    type = "attempt_sealed"
    attempt_id: str
    task_dir: str
    events: int
    head: str
    record_sha256: str
    files_sha256: str
    """Digest of `meta/files.json`, the list of all evidence files with their digests."""


class RunResumed(Payload):
    """Another process continued the run."""

    type = "run_resumed"
    harness_version: str
    resumed_at: str
    unfinished: list[str]
    """Attempts that began and were not sealed."""
    caps: dict[str, int] | None = None
    """Caps `task_usd` and `total_usd` that hold from here on, in millionths; None if there are none."""


class ComparisonDecided(Payload):
    """The stopping rule of a comparison has decided; no further attempt is launched. In the logs of both methods."""

    type = "comparison_decided"
    look: int
    blocks: int
    """Complete blocks at that look: one task and repeat, done by both methods."""
    outcome: str
    """`a_better`, `b_better`, `equivalent`, `futile` or `inconclusive`; A is the first variant of the plan."""
    better: str | None
    """The variant that is better; None if the outcome favours none."""


class RunReduced(Payload):
    """Bulky evidence is deleted. Logged with its approval before anything is deleted."""

    type = "run_reduced"
    approved_by: str
    reason: str
    reduced_at: str
    files: int
    bytes: int
    """Size of the deleted files. Their digests stay in `meta/files.json` of each attempt."""


class RunClosed(Payload):
    """Last event of a run's log. Only `run_resumed` and `run_reduced` may follow."""

    type = "run_closed"
    status: Literal["completed", "interrupted"]
    closed_at: str
    attempts: int
    events: int
    head: str


# --- events of a restricted store's log -----------------------------------------------------------------------------------


class VaultAccess(Payload):
    """One access to the originals in a restricted store, granted or refused."""

    type = "vault_access"
    action: Literal["create", "get", "replay", "rotate", "destroy", "repair"]
    outcome: Literal["granted", "refused"]
    who: str
    reason: str
    run_id: str
    at: str
    attempt_id: str = ""
    place: str = ""
    """The original: `event:N`, `output:DIGEST` or `file:NAME`. Empty for an access to the key of the run."""
    why: str = ""
    """Why the access was refused, or what was repaired."""
    recipients: list[str] = []
    """Who can read the originals of the run from now on: of `create` and `rotate`, unless a passphrase protects them."""


# --- registry ------------------------------------------------------------------------------------------------------------

ATTEMPT_EVENTS: tuple[type[Payload], ...] = (
    AttemptOpened, TaskStarted, IdentityBound, SetupCommandStarted, SetupCommandFinished, Briefing, StageChanged,
    AgentTurnStarted, LlmRequest, LlmResponse, ToolCallStarted, ToolCallFinished, ProcessStarted, ProcessFinished,
    WorkspaceMutated, PatchApplied, Delegation, NetworkRequest, NetworkResponse, NetworkUsed, MonitorAlert, Intervention, OperatorDecision,
    ResourceSample, SandboxLost, Termination, PatchExtracted, BuildStarted, BuildFinished, StaticStarted, StaticFinished,
    TestsStarted, TestsFinished, AcceptanceCheck, IntegrityFinding, ScorerResult, JudgeResult, GatesDecided,
    TaskFinished, AttemptClosed,
)  # fmt: skip
"""In the order they occur in an attempt."""

RUN_EVENTS: tuple[type[Payload], ...] = (
    RunOpened, AttemptBegun, AttemptSealed, RunResumed, ComparisonDecided, RunClosed, RunReduced,
)  # fmt: skip

VAULT_EVENTS: tuple[type[Payload], ...] = (VaultAccess,)

EVENT_TYPES: dict[str, type[Payload]] = {model.type: model for model in (*ATTEMPT_EVENTS, *RUN_EVENTS, *VAULT_EVENTS)}
