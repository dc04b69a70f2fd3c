"""Events from the opening of an attempt to the end of the agent's work."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agentbench.core.reasons import Outcome, TerminationCategory, TerminationCode
from agentbench.trace.payload import AnyObject, Excerpt, FileDigest, Payload


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
