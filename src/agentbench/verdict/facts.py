"""Collects the facts of an attempt from its log, each with the sequence number of the event that proves it.

Only typed fields are read, never free text. Events written after the decision (`gates_decided`, `task_finished`,
`attempt_closed`) are ignored, so a finished log gives the same facts that the decision was made on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from agentbench.trace.events import (
    AcceptanceCheck,
    AttemptOpened,
    Briefing,
    BuildFinished,
    IdentityBound,
    IntegrityFinding,
    JudgeResult,
    LlmResponse,
    MonitorAlert,
    PatchApplied,
    PatchExtracted,
    Payload,
    ScorerResult,
    StaticFinished,
    StepStarted,
    Termination,
    TestsFinished,
    ToolCallFinished,
    ToolCallStarted,
)

P = TypeVar("P", bound=Payload)
P_co = TypeVar("P_co", bound=Payload, covariant=True)

CONTEXT_OVERFLOW = "context_overflow"
"""`LlmResponse.status` of a request that was too long for the model."""


class EventLike(Protocol):
    """An event with its sequence number."""

    @property
    def seq(self) -> int: ...

    @property
    def payload(self) -> Payload: ...


@dataclass(frozen=True, slots=True)
class Logged(Generic[P_co]):
    """A payload and its sequence number in the log."""

    seq: int
    payload: P_co


@dataclass(frozen=True, slots=True)
class Usage:
    """Consumption as metered by events. Times are in microseconds."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    model_requests: int = 0
    model_us: int = 0
    cost_micro_usd: int = 0
    tool_calls: int = 0
    tool_us: int = 0
    test_cycles: int = 0
    """Test steps that ended between the briefing and the patch: the agent's own, not those of grading."""
    check_us: int = 0

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    @property
    def active_us(self) -> int:
        """Time that models and tools worked for the agent."""
        return self.model_us + self.tool_us


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that the decision may depend on."""

    opened: Logged[AttemptOpened] | None = None
    identities: tuple[Logged[IdentityBound], ...] = ()
    briefing: Logged[Briefing] | None = None
    terminations: tuple[Logged[Termination], ...] = ()
    patch: Logged[PatchExtracted] | None = None
    """The patch that was graded: the last one extracted."""
    application: Logged[PatchApplied] | None = None
    """Application of the patch to the base repository in the grading replica."""
    builds: tuple[Logged[BuildFinished], ...] = ()
    statics: tuple[Logged[StaticFinished], ...] = ()
    unfinished_steps: tuple[str, ...] = ()
    """Steps that started and did not finish."""
    checks: tuple[Logged[AcceptanceCheck], ...] = ()
    findings: tuple[Logged[IntegrityFinding], ...] = ()
    alerts: tuple[Logged[MonitorAlert], ...] = ()
    overflows: tuple[Logged[LlmResponse], ...] = ()
    scorers: tuple[Logged[ScorerResult], ...] = ()
    judge: Logged[JudgeResult] | None = None
    usage: Usage = field(default_factory=Usage)
    last: Logged[Payload] | None = None

    def decisions(self, check_id: str) -> tuple[Logged[AcceptanceCheck], ...]:
        """Return the acceptance events of one check; a sound log has exactly one."""
        return tuple(event for event in self.checks if event.payload.check_id == check_id)


@dataclass(slots=True)
class _Collector:
    """Accumulates facts; one branch per relevant event type, in log order."""

    opened: Logged[AttemptOpened] | None = None
    identities: list[Logged[IdentityBound]] = field(default_factory=list)
    briefing: Logged[Briefing] | None = None
    terminations: list[Logged[Termination]] = field(default_factory=list)
    patch: Logged[PatchExtracted] | None = None
    application: Logged[PatchApplied] | None = None
    builds: list[Logged[BuildFinished]] = field(default_factory=list)
    statics: list[Logged[StaticFinished]] = field(default_factory=list)
    open_steps: dict[tuple[str, str], None] = field(default_factory=dict)
    checks: list[Logged[AcceptanceCheck]] = field(default_factory=list)
    findings: list[Logged[IntegrityFinding]] = field(default_factory=list)
    alerts: list[Logged[MonitorAlert]] = field(default_factory=list)
    overflows: list[Logged[LlmResponse]] = field(default_factory=list)
    scorers: list[Logged[ScorerResult]] = field(default_factory=list)
    judge: Logged[JudgeResult] | None = None
    usage: dict[str, int] = field(default_factory=dict)
    last: Logged[Payload] | None = None

    def add(self, seq: int, payload: Payload) -> None:
        self.last = Logged(seq, payload)
        self._add_agent_phase(payload, seq)
        self._add_grading_phase(payload, seq)

    def _add_agent_phase(self, payload: Payload, seq: int) -> None:
        match payload:
            case AttemptOpened():
                self.opened = Logged(seq, payload)
            case IdentityBound():
                self.identities.append(Logged(seq, payload))
            case Briefing():
                # Later briefings are further user messages of a multi-turn task.
                self.briefing = self.briefing or Logged(seq, payload)
            case LlmResponse():
                self._add_model_response(payload, seq)
            case ToolCallStarted():
                self._count("tool_calls")
            case ToolCallFinished():
                self._count("tool_us", payload.duration_us)
            case MonitorAlert():
                self.alerts.append(Logged(seq, payload))
            case Termination():
                self.terminations.append(Logged(seq, payload))
            case _:
                pass

    def _add_grading_phase(self, payload: Payload, seq: int) -> None:
        match payload:
            case PatchExtracted():
                self.patch, self.application = Logged(seq, payload), None
            case PatchApplied() if payload.call_id is None and self.patch is not None:
                self.application = Logged(seq, payload)
            case StepStarted():
                self.open_steps[_step_key(payload.type, payload.step)] = None
            case BuildFinished():
                self._finish_step(payload)
                self.builds.append(Logged(seq, payload))
            case StaticFinished():
                self._finish_step(payload)
                self.statics.append(Logged(seq, payload))
            case TestsFinished():
                self._finish_step(payload)
                if self.briefing is not None and self.patch is None:
                    self._count("test_cycles")
            case AcceptanceCheck():
                self._count("check_us", payload.duration_us)
                self.checks.append(Logged(seq, payload))
            case IntegrityFinding():
                self.findings.append(Logged(seq, payload))
            case ScorerResult():
                self.scorers.append(Logged(seq, payload))
            case JudgeResult():
                self.judge = Logged(seq, payload)
            case _:
                pass

    def _finish_step(self, payload: BuildFinished | StaticFinished | TestsFinished) -> None:
        self.open_steps.pop(_step_key(payload.type, payload.step), None)

    def _add_model_response(self, payload: LlmResponse, seq: int) -> None:
        self._count("model_requests")
        self._count("prompt_tokens", payload.prompt_tokens)
        self._count("completion_tokens", payload.completion_tokens)
        self._count("cached_tokens", payload.cached_tokens)
        self._count("cost_micro_usd", payload.cost_micro_usd)
        self._count("model_us", payload.duration_us)
        if payload.status == CONTEXT_OVERFLOW:
            self.overflows.append(Logged(seq, payload))

    def _count(self, name: str, amount: int = 1) -> None:
        self.usage[name] = self.usage.get(name, 0) + amount


def _step_key(event_type: str, step: str) -> tuple[str, str]:
    """Return the key shared by the start and finish events of a step."""
    return event_type.split("_", 1)[0], step


_AFTER_THE_DECISION = frozenset({"gates_decided", "task_finished", "attempt_closed"})


def collect_facts(events: Iterable[EventLike]) -> Facts:
    """Collect the facts of a log, or of any prefix of one."""
    state = _Collector()
    for event in events:
        if event.payload.type not in _AFTER_THE_DECISION:
            state.add(event.seq, event.payload)
    return Facts(
        opened=state.opened,
        identities=tuple(state.identities),
        briefing=state.briefing,
        terminations=tuple(state.terminations),
        patch=state.patch,
        application=state.application,
        builds=tuple(state.builds),
        statics=tuple(state.statics),
        unfinished_steps=tuple(f"{kind} {step}" for kind, step in state.open_steps),
        checks=tuple(state.checks),
        findings=tuple(state.findings),
        alerts=tuple(state.alerts),
        overflows=tuple(state.overflows),
        scorers=tuple(state.scorers),
        judge=state.judge,
        usage=Usage(**state.usage),
        last=state.last,
    )
