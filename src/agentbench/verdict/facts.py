"""Collects the facts of an attempt from its log, each with the sequence number of the event that proves it.

Only typed fields are read, never free text. Events written after the decision (`gates_decided`, `task_finished`,
`attempt_closed`) are ignored, so a finished log gives the same facts that the decision was made on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Generic, Literal, TypeVar, cast

from agentbench.core.dataclass import dataclass
from agentbench.trace.events import (
    AcceptanceCheck,
    AttemptOpened,
    Briefing,
    BuildFinished,
    EventLike,
    IdentityBound,
    IntegrityFinding,
    JudgeResult,
    LlmResponse,
    MonitorAlert,
    PatchApplied,
    PatchExtracted,
    Payload,
    ProcessStarted,
    ScorerResult,
    StaticFinished,
    StepFinished,
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
class ProgramCommands:
    """Whether the commands of an agent program were observed: all, some or none."""

    status: Literal["observed", "incomplete", "not_observed"]
    why: str = ""

    @property
    def complete(self) -> bool:
        return self.status == "observed"


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
    commands: ProgramCommands | None = None
    """None if no program acted as the agent, and in logs of versions that did not observe programs."""
    last: Logged[Payload] | None = None

    def decisions(self, check_id: str) -> tuple[Logged[AcceptanceCheck], ...]:
        """Return the acceptance events of one check; a sound log has exactly one."""
        return tuple(event for event in self.checks if event.payload.check_id == check_id)


_AFTER_THE_DECISION = frozenset({"gates_decided", "task_finished", "attempt_closed"})


def collect_facts(events: Iterable[EventLike]) -> Facts:
    """Collect the facts of a log, or of any prefix of one."""
    log: list[Logged[Payload]] = [
        Logged(event.seq, event.payload) for event in events if event.payload.type not in _AFTER_THE_DECISION
    ]
    by_type: defaultdict[type[Payload], list[Logged[Payload]]] = defaultdict(list)
    for event in log:
        by_type[type(event.payload)].append(event)

    def of_type(kind: type[P]) -> tuple[Logged[P], ...]:
        return cast("tuple[Logged[P], ...]", tuple(by_type[kind]))

    # Later briefings are further user messages of a multi-turn task.
    briefing = next(iter(of_type(Briefing)), None)
    patches = of_type(PatchExtracted)
    patch = patches[-1] if patches else None
    applications = [event for event in of_type(PatchApplied) if patch and event.seq > patch.seq]
    responses, calls, checks = of_type(LlmResponse), of_type(ToolCallFinished), of_type(AcceptanceCheck)
    return Facts(
        opened=_last(of_type(AttemptOpened)),
        identities=of_type(IdentityBound),
        briefing=briefing,
        terminations=of_type(Termination),
        patch=patch,
        application=_last([event for event in applications if event.payload.call_id is None]),
        builds=of_type(BuildFinished),
        statics=of_type(StaticFinished),
        unfinished_steps=_unfinished_steps(log),
        checks=checks,
        findings=of_type(IntegrityFinding),
        alerts=of_type(MonitorAlert),
        overflows=tuple(event for event in responses if event.payload.status == CONTEXT_OVERFLOW),
        scorers=of_type(ScorerResult),
        judge=_last(of_type(JudgeResult)),
        usage=Usage(
            prompt_tokens=sum(event.payload.prompt_tokens for event in responses),
            completion_tokens=sum(event.payload.completion_tokens for event in responses),
            cached_tokens=sum(event.payload.cached_tokens for event in responses),
            model_requests=len(responses),
            model_us=sum(event.payload.duration_us for event in responses),
            cost_micro_usd=sum(event.payload.cost_micro_usd for event in responses),
            tool_calls=len(of_type(ToolCallStarted)),
            tool_us=sum(event.payload.duration_us for event in calls),
            test_cycles=sum(
                briefing is not None and briefing.seq < event.seq and not (patches and patches[0].seq < event.seq)
                for event in of_type(TestsFinished)
            ),
            check_us=sum(event.payload.duration_us for event in checks),
        ),
        commands=_program_commands(
            [call.payload for call in calls], [start.payload for start in of_type(ProcessStarted)]
        ),
        last=_last(log),
    )


def _program_commands(calls: Sequence[ToolCallFinished], starts: Sequence[ProcessStarted]) -> ProgramCommands | None:
    unseen = [call.not_observed for call in calls if call.not_observed is not None]
    if unseen:
        return ProgramCommands("incomplete" if starts else "not_observed", unseen[0])
    observed = [call.processes for call in calls if call.processes is not None]
    if not observed:
        return None
    dropped, started = sum(counts.dropped for counts in observed), sum(counts.started for counts in observed)
    if dropped:
        return ProgramCommands("incomplete", f"{dropped} of {started} processes were not recorded")
    truncated = sum(start.truncated for start in starts)
    if truncated:
        return ProgramCommands("incomplete", f"{truncated} of {started} commands were too long to record in full")
    return ProgramCommands("observed")


def _last(events: Sequence[Logged[P]]) -> Logged[P] | None:
    return events[-1] if events else None


def _unfinished_steps(log: Iterable[Logged[Payload]]) -> tuple[str, ...]:
    """Return the steps with a start event and no finish event, as `build build` or `tests unit`."""
    open_steps: dict[str, None] = {}
    for event in log:
        payload = event.payload
        if isinstance(payload, StepStarted | StepFinished):
            step = f"{payload.type.partition('_')[0]} {payload.step}"
            if isinstance(payload, StepStarted):
                open_steps[step] = None
            else:
                open_steps.pop(step, None)
    return tuple(open_steps)
