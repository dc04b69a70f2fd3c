"""Enforces what ends or delays a session: time, caps, breakers and an operator's decision."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import NoReturn

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import Interrupted, ToolFault
from agentbench.core.reasons import TerminationCode
from agentbench.policy.breakers import READING, WRITING, Trip
from agentbench.policy.budget import reached_cap
from agentbench.policy.monitors import DENY_COMMANDS, PolicyMonitor
from agentbench.policy.prices import MICRO
from agentbench.policy.rule_engine import RuleEngine
from agentbench.sandbox.protocol import Sandbox
from agentbench.tools.event_recorder import EventRecorder, stored_text
from agentbench.tools.operator import DEADLINE_RULE, Operator, ask
from agentbench.tools.result import ToolError
from agentbench.tools.rules import Rules
from agentbench.trace.blobs import BlobStore
from agentbench.trace.events import OperatorDecision
from agentbench.trace.log import EventLog
from agentbench.tree.entry import Tree

_MIN_TIME_LEFT = 0.01
"""Seconds. Less than this counts as no time: a command killed by the wall clock ends this close to the cap."""


class SessionEnded(BaseException):
    """A cap was reached, or the agent stopped. Not an `Exception`, so that no agent handles it by accident."""

    def __init__(
        self, code: TerminationCode, rationale: str, evidence: tuple[int, ...] = (), *, rule: str = ""
    ) -> None:
        super().__init__(rationale)
        self.rule = rule
        """The monitor rule that ended the session, if one did."""
        self.code = code
        self.rationale = rationale
        self.evidence = evidence


@dataclass(frozen=True, slots=True)
class SessionEnvironment:
    """The sandbox an agent works in, and what the session needs to know about it.

    `base` is the workspace as the agent finds it. `turns` are further user messages, sent one at a time when the agent has
    ended its turn.
    """

    sandbox: Sandbox
    workdir: str = "/workspace"
    base: Tree | None = None
    operator: Operator | None = None
    turns: tuple[str, ...] = ()
    close_gateway: Callable[[], None] = lambda: None
    """Refuses further model requests of a program in the sandbox."""
    shared_cap: Callable[[], tuple[TerminationCode, str] | None] = lambda: None
    """Returns why to stop when a cap shared with other attempts is spent."""


@dataclass(frozen=True, slots=True)
class SessionLog:
    """The event log and the blob store a session writes to."""

    log: EventLog
    blobs: BlobStore | None = None


@dataclass(frozen=True, slots=True)
class RemainingBudget:
    """The part of each cap that is left. None means no limit."""

    tool_calls: int | None
    wall_sec: float
    tokens: int | None = None
    usd: float | None = None
    """Excludes the part of the cap that is reserved for acceptance and logging."""


class SessionLimits:
    """Enforces what ends or delays a session: time, caps, breakers, and an operator's decision.

    The rule engine decides by folding over the log. This class carries out its decisions and those of the clock, and logs the reason
    before it raises `SessionEnded`.
    """

    def __init__(
        self,
        rules: Rules,
        record: SessionLog,
        environment: SessionEnvironment,
        *,
        clock: Callable[[], float],
        cancelled: Callable[[], bool],
    ) -> None:
        self.engine = RuleEngine(rules.limits, _monitor(rules, record))
        self.recorder = EventRecorder(record.log, record.blobs, self.engine)
        self.clock = clock
        self.sleep: Callable[[float], None] = time.sleep
        self.cancelled = cancelled
        self.operator = environment.operator
        self.ended: SessionEnded | None = None
        self.last_event = 0
        """Number of the event that finished the last call; an ending refers to it as evidence."""
        self._rules = rules
        self._shared_cap = environment.shared_cap
        self._started = clock()
        self.paused = 0.0
        """Seconds spent waiting for an operator or for a model that is unavailable."""
        self._model_awaited_until = 0.0
        self._pausing = threading.Lock()

    def begin(self) -> None:
        """Start the clock."""
        self._started = self.clock()

    @property
    def remaining(self) -> RemainingBudget:
        budget, spent = self._rules.caps.budget, self.engine.spent
        cost = _left(budget.cost_micro_usd, spent.cost_micro(budget))
        return RemainingBudget(
            tool_calls=_left(budget.tool_calls, spent.tool_calls),
            wall_sec=max(self.time_left(), 0.0),
            tokens=_left(budget.tokens, spent.tokens),
            usd=None if cost is None else cost / MICRO,
        )

    def resume(self) -> None:
        """Reopen a session that the agent itself stopped, because another turn follows."""
        if self.ended is not None and self.ended.code is TerminationCode.AGENT_STOPPED:
            self.ended = None

    def check_budget(self) -> None:
        """
        Raises:
            SessionEnded: a cap is spent, or a breaker has tripped.
        """
        self.check_open()
        self.check_breakers()
        caps = self._rules.caps
        cap = reached_cap(self.engine.spent, caps.budget, self._rules.limits.not_applicable, caps.cost)
        if cap is not None:
            self._end_by_cap(cap.code, cap.rationale)
        shared = self._shared_cap()
        if shared is not None:
            self._end_by_cap(*shared, {"refused": 1, "shared": 1})

    def out_of_budget(self, code: TerminationCode, why: str, *, shared: bool) -> NoReturn:
        """
        Raises:
            SessionEnded: a model request was refused because a budget is spent.
        """
        if self.ended is None:
            self._end_by_cap(code, why, {"refused": 1, "shared": int(shared)})
        raise self.ended

    def wait_for_model(self, since: float, until: float) -> None:
        """Stop the clock of the session while its model is unavailable. Requests of one program can wait together."""
        with self._pausing:
            self.paused += max(until - max(since, self._model_awaited_until), 0.0)
            self._model_awaited_until = max(until, self._model_awaited_until)

    @property
    def waited_for_model(self) -> bool:
        return self._model_awaited_until > 0

    def model_unavailable(self, why: str) -> SessionEnded:
        """End the session because its model was unavailable for too long."""
        return self.finish(SessionEnded(TerminationCode.MODEL_UNAVAILABLE, why, self.evidence()))

    def refuse(self, name: str, trips: tuple[Trip, ...], call: str) -> None:
        """Apply the rule engine's decisions about a call before the tool runs. `call` is what an operator is shown.

        Raises:
            ToolFault: the call is refused.
            SessionEnded: the operator, or the deadline, says stop.
        """
        for trip in trips:
            if trip.action == "pause":
                self._ask_operator(trip, call)
            elif trip.action in {"deny", "quarantine", "terminate"}:
                why = (
                    f"the contract denies commands like '{trip.rule}'" if trip.monitor == DENY_COMMANDS else trip.detail
                )
                raise ToolFault(f"refused: {why}", kind=ToolError.COMMAND_DENIED)
        if name in READING:
            return
        if self.engine.quarantined is not None:
            why = f"the workspace is quarantined ({self.engine.quarantined.rule}): only reading is allowed"
            raise ToolFault(why, kind=ToolError.QUARANTINED)
        if name in WRITING and self.engine.writes_suspended:
            reads = self._rules.thresholds.reads_to_restore
            why = f"too many patches in a row were refused: make {reads} reading calls before the next patch"
            raise ToolFault(why, kind=ToolError.WRITE_SUSPENDED)

    def wait(self, trips: tuple[Trip, ...]) -> str:
        """Apply backpressure, and return a note about it for the agent."""
        throttles = [trip for trip in trips if trip.action == "throttle"]
        if not throttles:
            return ""
        seconds = min(max(trip.signals["wait_ms"] for trip in throttles) / 1000, max(self.time_left(), 0.0))
        self.sleep(seconds)
        return f"backpressure: waited {seconds:g} s, {throttles[0].detail}"

    def _ask_operator(self, trip: Trip, call: str) -> None:
        """Wait for the operator's decision. The wait does not count as the agent's time.

        Raises:
            SessionEnded: the operator, or the deadline, says stop.
        """
        started = self.clock()
        alert = self.recorder.alert_of(trip)
        answer = ask(self.operator, trip, alert, self._rules.thresholds.operator_deadline_sec, call)
        waited = self.clock() - started
        self.paused += waited
        decision = self.recorder.write(
            OperatorDecision(
                decision=answer.decision,
                operator=answer.operator,
                justification=answer.justification,
                alert=alert,
                waited_us=0 if answer.operator == DEADLINE_RULE else max(int(waited * 1_000_000), 0),
            ),
            "operator",
        )
        if answer.decision == "stop":
            why = f"{answer.operator}: {answer.justification}"
            raise self.finish(SessionEnded(TerminationCode.OPERATOR_ABORT, why, (alert, decision)))

    def check_open(self) -> None:
        """
        Raises:
            SessionEnded: the session is over, or its time is.
            Interrupted: the run was cancelled.
        """
        if self.ended is not None:
            raise self.ended
        if self.cancelled():
            raise Interrupted("interrupted")
        self.check_time()

    def check_time(self) -> None:
        if self.time_left() <= _MIN_TIME_LEFT:
            wall_sec = self._rules.caps.wall_sec
            signals = {"elapsed_us": self.elapsed_us(), "cap_us": int(wall_sec * 1_000_000)}
            self._end_by_cap(TerminationCode.WALL_CAP, f"reached the wall-clock cap of {wall_sec:g} s", signals)

    def check_breakers(self) -> None:
        """
        Raises:
            SessionEnded: a breaker has tripped.
        """
        stop = self.stop_of_breaker()
        if stop is not None:
            raise self.finish(stop)

    def stop_of_breaker(self) -> SessionEnded | None:
        """Return how a breaker or a monitor has ended the session, if one has."""
        stop = self.engine.stop
        if stop is None or stop.code is None:
            return None
        return SessionEnded(stop.code, stop.detail, (self.recorder.alert_of(stop), *stop.evidence), rule=stop.rule)

    def _end_by_cap(self, code: TerminationCode, why: str, signals: Mapping[str, int] | None = None) -> NoReturn:
        alert = self.recorder.alert(
            "budget", code, why, severity="terminate", evidence=self.last_event, signals=signals
        )
        self.recorder.intervene("terminate", alert, why)
        raise self.finish(SessionEnded(code, why, (alert, *self.evidence())))

    def finish(self, end: SessionEnded) -> SessionEnded:
        """Record how the session ended; the first ending counts. A logged decision of a breaker comes before any other."""
        self.ended = self.ended or self.stop_of_breaker() or end
        return self.ended

    def evidence(self) -> tuple[int, ...]:
        return (self.last_event,) if self.last_event else ()

    def time_left(self) -> float:
        return self._rules.caps.wall_sec - self.elapsed()

    def elapsed(self) -> float:
        """Seconds since the session began, without the time spent waiting for an operator or an unavailable model."""
        return self.clock() - self._started - self.paused

    def elapsed_us(self) -> int:
        return max(int(self.elapsed() * 1_000_000), 0)


def _left(cap: int | None, used: int) -> int | None:
    return None if cap is None else max(cap - used, 0)


def _monitor(rules: Rules, record: SessionLog) -> PolicyMonitor:
    redact = record.log.redact
    return PolicyMonitor(
        rules.contract,
        blobs=lambda name: stored_text(record.blobs, name),
        redact=redact.text if redact else lambda text: text,
    )
