"""From events to facts: what the trace says, kept with the sequence numbers that prove it.

The fold reads typed fields only, never free text (E-16), and ignores what was written after the decision
(`gates_decided`, `task_finished`, `attempt_closed`), so folding a finished log gives the facts the decision was made on.
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
"""`LlmResponse.status` of a request the model refused as too long."""


class EventLike(Protocol):
    """What the fold needs of an event."""

    @property
    def seq(self) -> int: ...

    @property
    def payload(self) -> Payload: ...


@dataclass(frozen=True, slots=True)
class Seen(Generic[P_co]):
    """One event, kept as evidence."""

    seq: int
    payload: P_co


@dataclass(frozen=True, slots=True)
class Usage:
    """What was consumed, as metered by events. Times are microseconds."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    model_requests: int = 0
    model_us: int = 0
    cost_micro_usd: int = 0
    tool_calls: int = 0
    tool_us: int = 0
    test_cycles: int = 0
    """Test steps that ended between the briefing and Δ: the agent's own, not the oracle's."""
    check_us: int = 0

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    @property
    def active_us(self) -> int:
        """Time the agent kept a model or a tool busy."""
        return self.model_us + self.tool_us


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything the decision may look at."""

    opened: Seen[AttemptOpened] | None = None
    identities: tuple[Seen[IdentityBound], ...] = ()
    briefing: Seen[Briefing] | None = None
    terminations: tuple[Seen[Termination], ...] = ()
    patch: Seen[PatchExtracted] | None = None
    """Δ as it was graded (the last extraction)."""
    application: Seen[PatchApplied] | None = None
    """Δ put on R in the grading replica."""
    builds: tuple[Seen[BuildFinished], ...] = ()
    statics: tuple[Seen[StaticFinished], ...] = ()
    unfinished_steps: tuple[str, ...] = ()
    """Steps with a start and no end."""
    checks: tuple[Seen[AcceptanceCheck], ...] = ()
    findings: tuple[Seen[IntegrityFinding], ...] = ()
    alerts: tuple[Seen[MonitorAlert], ...] = ()
    overflows: tuple[Seen[LlmResponse], ...] = ()
    scorers: tuple[Seen[ScorerResult], ...] = ()
    judge: Seen[JudgeResult] | None = None
    usage: Usage = field(default_factory=Usage)
    last: Seen[Payload] | None = None

    def decisions(self, check_id: str) -> tuple[Seen[AcceptanceCheck], ...]:
        """The events about one check; a sound log has exactly one."""
        return tuple(one for one in self.checks if one.payload.check_id == check_id)


@dataclass(slots=True)
class _Fold:
    """The accumulator. One branch per event type that matters, in the order in which a log holds them."""

    opened: Seen[AttemptOpened] | None = None
    identities: list[Seen[IdentityBound]] = field(default_factory=list)
    briefing: Seen[Briefing] | None = None
    terminations: list[Seen[Termination]] = field(default_factory=list)
    patch: Seen[PatchExtracted] | None = None
    application: Seen[PatchApplied] | None = None
    builds: list[Seen[BuildFinished]] = field(default_factory=list)
    statics: list[Seen[StaticFinished]] = field(default_factory=list)
    open_steps: dict[tuple[str, str], None] = field(default_factory=dict)
    checks: list[Seen[AcceptanceCheck]] = field(default_factory=list)
    findings: list[Seen[IntegrityFinding]] = field(default_factory=list)
    alerts: list[Seen[MonitorAlert]] = field(default_factory=list)
    overflows: list[Seen[LlmResponse]] = field(default_factory=list)
    scorers: list[Seen[ScorerResult]] = field(default_factory=list)
    judge: Seen[JudgeResult] | None = None
    usage: dict[str, int] = field(default_factory=dict)
    last: Seen[Payload] | None = None

    def add(self, seq: int, payload: Payload) -> None:
        self.last = Seen(seq, payload)
        self._at_work(payload, seq)
        self._graded(payload, seq)

    def _at_work(self, payload: Payload, seq: int) -> None:
        """Opening and the agent at work."""
        match payload:
            case AttemptOpened():
                self.opened = Seen(seq, payload)
            case IdentityBound():
                self.identities.append(Seen(seq, payload))
            case Briefing():
                # Further ones are what a user said later in the session.
                self.briefing = self.briefing or Seen(seq, payload)
            case LlmResponse():
                self._model(payload, seq)
            case ToolCallStarted():
                self._count("tool_calls")
            case ToolCallFinished():
                self._count("tool_us", payload.duration_us)
            case MonitorAlert():
                self.alerts.append(Seen(seq, payload))
            case Termination():
                self.terminations.append(Seen(seq, payload))
            case _:
                pass

    def _graded(self, payload: Payload, seq: int) -> None:
        """Acceptance: steps, checks, inspection, scorers."""
        match payload:
            case PatchExtracted():
                self.patch, self.application = Seen(seq, payload), None
            case PatchApplied() if payload.call_id is None and self.patch is not None:
                self.application = Seen(seq, payload)
            case StepStarted():
                self.open_steps[_step(payload.type, payload.step)] = None
            case BuildFinished():
                self._close(payload)
                self.builds.append(Seen(seq, payload))
            case StaticFinished():
                self._close(payload)
                self.statics.append(Seen(seq, payload))
            case TestsFinished():
                self._close(payload)
                if self.briefing is not None and self.patch is None:
                    self._count("test_cycles")
            case AcceptanceCheck():
                self._count("check_us", payload.duration_us)
                self.checks.append(Seen(seq, payload))
            case IntegrityFinding():
                self.findings.append(Seen(seq, payload))
            case ScorerResult():
                self.scorers.append(Seen(seq, payload))
            case JudgeResult():
                self.judge = Seen(seq, payload)
            case _:
                pass

    def _close(self, payload: BuildFinished | StaticFinished | TestsFinished) -> None:
        self.open_steps.pop(_step(payload.type, payload.step), None)

    def _model(self, payload: LlmResponse, seq: int) -> None:
        self._count("model_requests")
        self._count("prompt_tokens", payload.prompt_tokens)
        self._count("completion_tokens", payload.completion_tokens)
        self._count("cached_tokens", payload.cached_tokens)
        self._count("cost_micro_usd", payload.cost_micro_usd)
        self._count("model_us", payload.duration_us)
        if payload.status == CONTEXT_OVERFLOW:
            self.overflows.append(Seen(seq, payload))

    def _count(self, what: str, by: int = 1) -> None:
        self.usage[what] = self.usage.get(what, 0) + by


def _step(event_type: str, step: str) -> tuple[str, str]:
    """The key that a step's start and end share."""
    return event_type.split("_", 1)[0], step


_AFTER_THE_DECISION = frozenset({"gates_decided", "task_finished", "attempt_closed"})


def fold(events: Iterable[EventLike]) -> Facts:
    """Fold a log into facts. Accepts any prefix of a log: what is not there is simply not a fact."""
    state = _Fold()
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
