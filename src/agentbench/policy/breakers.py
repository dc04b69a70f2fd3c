"""Circuit breakers: rules over logged events that stop or restrain an attempt.

Each breaker observes every event of the agent phase in log order and reports when it trips. Breakers depend on the events
alone, never on a clock, so the log reproduces every trip.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Hashable, Mapping
from dataclasses import field
from typing import ClassVar, Literal, Protocol

from agentbench.core.canonical import sha256_hex
from agentbench.core.dataclass import dataclass
from agentbench.core.reasons import Outcome, TerminationCode
from agentbench.policy.applicability import DOMINANCE_TIME
from agentbench.policy.budget import Budget, CostCap, Spent
from agentbench.policy.install_processes import InstallProcesses
from agentbench.policy.installs import installs_of
from agentbench.policy.monitor_rules import Action, Severity
from agentbench.policy.repository_state import RepositoryState
from agentbench.policy.thresholds import Thresholds
from agentbench.trace.events import (
    LlmResponse,
    Payload,
    ProcessFinished,
    ProcessStarted,
    StageChanged,
    TestsFinished,
    ToolCallFinished,
    ToolCallStarted,
)

BREAKER = "breaker"
BACKPRESSURE = "backpressure"
READING = frozenset({"list_files", "read_file", "search"})
WRITING = frozenset({"apply_patch"})
_REFUSED_WRITES = frozenset({"patch_invalid", "outside_scope"})
US = 1_000_000


@dataclass(frozen=True, slots=True)
class Trip:
    """A triggered rule: the evidence and the action to take."""

    monitor: str
    rule: str
    action: Action
    detail: str
    severity: Severity = "note"
    code: TerminationCode | None = None
    """The termination code, if the action ends the attempt."""
    signals: Mapping[str, int] = field(default_factory=dict)
    evidence: tuple[int, ...] = ()
    format: Literal["natural_text", "code", "none"] = "none"


@dataclass(frozen=True, slots=True)
class Call:
    """The current tool call."""

    seq: int
    key: str
    tool: str
    command: str
    of_agent: bool
    changes: int
    """Number of changes to the repository before the call started."""
    elapsed_us: int


@dataclass(slots=True)
class AttemptState:
    """State that all breakers share. The rule engine updates it before it asks them."""

    budget: Budget
    wall_us: int | None
    thresholds: Thresholds
    max_installs: int
    not_applicable: frozenset[str] = frozenset()
    cost_cap: CostCap | None = None
    """The whole cost cap, for messages."""
    spent: Spent = field(default_factory=Spent)
    repository: RepositoryState = field(default_factory=RepositoryState)
    call: Call | None = None
    stage: str | None = None
    elapsed_us: int = 0
    """Session time as of the last event that reports it."""

    def update(self, seq: int, payload: Payload) -> None:
        if isinstance(payload, StageChanged):
            self.stage = payload.after
        self.spent = self.spent.add(payload)
        self.repository.update(payload)
        if isinstance(payload, ToolCallStarted):
            self.call = _call_of(seq, payload, self.repository.changes)
            self.elapsed_us = max(self.elapsed_us, payload.elapsed_us)
        elif isinstance(payload, ToolCallFinished) and self.call is not None:
            self.elapsed_us = max(self.elapsed_us, self.call.elapsed_us + payload.duration_us)

    @property
    def changed_in_call(self) -> bool:
        return self.call is not None and self.repository.changes != self.call.changes


def _call_of(seq: int, started: ToolCallStarted, changes: int) -> Call:
    command = started.arguments.get("command") if started.tool == "run" else None
    text = json.dumps([started.tool, started.arguments], sort_keys=True)
    return Call(
        seq,
        sha256_hex(text.encode()),
        started.tool,
        command if isinstance(command, str) else "",
        started.by_agent,
        changes,
        started.elapsed_us,
    )


class Breaker(Protocol):
    rules: ClassVar[tuple[str, ...]]
    """The rules that it evaluates; it is left out if none of them applies."""

    def observe(self, seq: int, payload: Payload, state: AttemptState) -> Trip | None: ...


def _stop(rule: str, code: TerminationCode, detail: str, signals: Mapping[str, int], evidence: tuple[int, ...]) -> Trip:
    return Trip(BREAKER, rule, "terminate", detail, "terminate", code, signals, evidence)


def _own_call(payload: Payload, state: AttemptState) -> Call | None:
    """Return the agent's call that this event ends, if any."""
    ends = isinstance(payload, ToolCallFinished) and state.call is not None and state.call.of_agent
    return state.call if ends else None


class Backpressure(Breaker):
    """Delays bursts of calls and repeated expensive commands, longer each time.

    It trips when a call starts; the delay is in the trip's signals.
    """

    rules = ("burst", "expensive_repeat")

    def __init__(self) -> None:
        self._starts: deque[int] = deque()
        self._expensive: dict[str, list[int]] = {}
        self._burst = 0

    def observe(self, seq: int, payload: Payload, state: AttemptState) -> Trip | None:
        call = state.call
        if call is None or not call.of_agent:
            return None
        if isinstance(payload, ToolCallFinished):
            self._record_expensive(seq, payload, state)
        if not isinstance(payload, ToolCallStarted):
            return None
        return self._repeated(state) or self._burst_of_calls(seq, state)

    def _record_expensive(self, seq: int, payload: ToolCallFinished, state: AttemptState) -> None:
        if state.changed_in_call:
            self._expensive.clear()
        elif state.call is not None and payload.duration_us >= state.thresholds.expensive_sec * US:
            self._expensive.setdefault(state.call.key, []).append(seq)

    def _repeated(self, state: AttemptState) -> Trip | None:
        if state.call is None:
            return None
        before = self._expensive.get(state.call.key, [])
        step = len(before) - state.thresholds.expensive_repeats
        if step < 0:
            return None
        detail = f"an expensive command was run {len(before)} times without a change of the repository"
        return self._wait("expensive_repeat", step, detail, tuple(before), state)

    def _burst_of_calls(self, seq: int, state: AttemptState) -> Trip | None:
        limits = state.thresholds
        now = state.elapsed_us
        self._starts.append(now)
        while now - self._starts[0] > limits.burst_window_sec * US:
            self._starts.popleft()
        if len(self._starts) <= limits.burst_calls:
            self._burst = 0
            return None
        self._burst += 1
        detail = f"{len(self._starts)} tool calls within {limits.burst_window_sec} s"
        return self._wait("burst", self._burst - 1, detail, (seq,), state)

    def _wait(self, rule: str, step: int, detail: str, evidence: tuple[int, ...], state: AttemptState) -> Trip:
        limits = state.thresholds
        wait = min(limits.wait_first_ms << min(step, 20), limits.wait_most_ms)
        return Trip(BACKPRESSURE, rule, "throttle", detail, signals={"wait_ms": wait}, evidence=evidence)


class RepeatedCalls(Breaker):
    """Trips on repeated identical calls without a change of the repository."""

    rules = ("repeated_calls",)

    def __init__(self) -> None:
        self._calls: dict[str, list[int]] = {}

    def observe(self, seq: int, payload: Payload, state: AttemptState) -> Trip | None:
        call = _own_call(payload, state)
        if call is None:
            return None
        if state.changed_in_call:
            self._calls.clear()
            return None
        times = self._calls.setdefault(call.key, [])
        times.append(call.seq)
        if len(times) < state.thresholds.identical_calls:
            return None
        detail = f"{call.tool} was called {len(times)} times with the same arguments without a change of the repository"
        signals = {"calls": len(times), "threshold": state.thresholds.identical_calls}
        return _stop("repeated_calls", TerminationCode.REPEATED_CALLS, detail, signals, tuple(times))


class RepeatedInstalls(Breaker):
    """Trips when the same dependencies are installed repeatedly, or when there are too many installations.

    It sees the commands of tool calls and the processes of a program.
    """

    rules = ("repeated_installs",)

    def __init__(self) -> None:
        self._times: Counter[str] = Counter()
        self._total = 0
        self._processes = InstallProcesses()

    def observe(self, seq: int, payload: Payload, state: AttemptState) -> Trip | None:
        call = _own_call(payload, state)
        if isinstance(payload, ProcessStarted):
            return self._count(self._processes.started(payload), (seq,), state)
        if isinstance(payload, ProcessFinished):
            self._processes.finished(payload)
        if call is None or not call.command:
            return None
        return self._count(installs_of(call.command), (call.seq, seq), state)

    def _count(self, installs: tuple[str, ...], evidence: tuple[int, ...], state: AttemptState) -> Trip | None:
        same = 0
        for install in installs:
            self._total += 1
            self._times[install] += 1
            same = max(same, self._times[install])
        if not same:
            return None
        limit, most = state.thresholds.identical_installs, state.max_installs
        if same < limit and self._total <= most:
            return None
        detail = (
            f"the same dependencies were installed {same} times"
            if same >= limit
            else f"dependencies were installed {self._total} times (at most {most} allowed)"
        )
        signals = {"same": same, "threshold": limit, "total": self._total, "allowed": most}
        return _stop("repeated_installs", TerminationCode.REPEATED_INSTALLS, detail, signals, evidence)


class Oscillation(Breaker):
    """Trips when the repository alternates between two states and the tests fail in both."""

    rules = ("oscillation",)

    def __init__(self) -> None:
        self._failed: deque[tuple[Hashable, int]] = deque()

    def observe(self, seq: int, payload: Payload, state: AttemptState) -> Trip | None:
        if not isinstance(payload, TestsFinished):
            return None
        if payload.outcome is Outcome.PASS:
            self._failed.clear()
            return None
        signature = state.repository.signature
        if self._failed and self._failed[-1][0] == signature:
            return None
        self._failed.append((signature, seq))
        length = state.thresholds.oscillation_length
        while len(self._failed) > length:
            self._failed.popleft()
        alternating = all(
            earlier[0] == later[0] for earlier, later in zip(self._failed, list(self._failed)[2:], strict=False)
        )
        if len(self._failed) < length or not alternating:
            return None
        detail = f"the last {length} failed test runs alternate between two states of the repository"
        evidence = tuple(event for _, event in self._failed)
        return _stop("oscillation", TerminationCode.OSCILLATION, detail, {"cycles": length}, evidence)


class NoProgress(Breaker):
    """Trips after many calls or model requests without a new state of the repository."""

    rules = ("no_progress",)

    def __init__(self) -> None:
        self._signatures: set[Hashable] = set()
        self._calls = self._requests = self._since = 0

    def observe(self, seq: int, payload: Payload, state: AttemptState) -> Trip | None:
        signature = state.repository.signature
        if signature not in self._signatures:
            self._signatures.add(signature)
            self._calls, self._requests, self._since = 0, 0, seq
        if _own_call(payload, state) is not None:
            self._calls += 1
        elif isinstance(payload, LlmResponse):
            self._requests += 1
        else:
            return None
        limits = state.thresholds
        if self._calls < limits.no_progress_calls and self._requests < limits.no_progress_requests:
            return None
        detail = f"{self._calls} tool calls and {self._requests} model requests without a new state of the repository"
        signals = {"calls": self._calls, "requests": self._requests}
        return _stop("no_progress", TerminationCode.NO_PROGRESS, detail, signals, (self._since, seq))


class Dominance(Breaker):
    """Trips when most of the budget is used without a change and without a passing test run."""

    rules = ("dominance",)

    def __init__(self) -> None:
        self._passed = False

    def observe(self, seq: int, payload: Payload, state: AttemptState) -> Trip | None:
        if isinstance(payload, TestsFinished) and payload.outcome is Outcome.PASS:
            self._passed = True
        if self._passed or state.repository.differs:
            return None
        if _own_call(payload, state) is None and not isinstance(payload, LlmResponse):
            return None
        used = {
            "cost": (state.spent.cost_micro(state.budget), state.budget.cost_micro_usd),
            "tokens": (state.spent.tokens, state.budget.tokens),
            "time": (state.elapsed_us, None if DOMINANCE_TIME in state.not_applicable else state.wall_us),
        }
        for name, (spent, cap) in used.items():
            # A reached cap has a termination code of its own.
            if cap and state.thresholds.dominance_percent * cap <= spent * 100 < cap * 100:
                percent = spent * 100 // cap
                detail = f"{percent}% of the {name} budget is used without a change and without a passing test run"
                if name == "cost" and state.cost_cap is not None and state.cost_cap.reserve_micro:
                    detail += f"; {state.cost_cap.describe(spent)}"
                return _stop("dominance", TerminationCode.DOMINANCE, detail, {"percent": percent}, (seq,))
        return None


class FailedWrites(Breaker):
    """Suspends writing after several rejected patches in a row; successful reads restore it."""

    rules = ("write_suspension",)

    def __init__(self) -> None:
        self.suspended = False
        self._failed: list[int] = []
        self._reads = 0

    def observe(self, seq: int, payload: Payload, state: AttemptState) -> Trip | None:
        call = _own_call(payload, state)
        if call is None or not isinstance(payload, ToolCallFinished):
            return None
        return self._restore(seq, payload, state) if self.suspended else self._suspend(seq, payload, state)

    def _restore(self, seq: int, payload: ToolCallFinished, state: AttemptState) -> Trip | None:
        self._reads += payload.ok and payload.tool in READING
        if self._reads < state.thresholds.reads_to_restore:
            return None
        self.suspended, self._failed = False, []
        return Trip(BREAKER, "write_restored", "note", "writing is allowed again", evidence=(seq,))

    def _suspend(self, seq: int, payload: ToolCallFinished, state: AttemptState) -> Trip | None:
        limits = state.thresholds
        if payload.tool not in WRITING:
            return None
        if payload.error_type not in _REFUSED_WRITES:
            self._failed = []
            return None
        self._failed.append(seq)
        if len(self._failed) < limits.failed_writes:
            return None
        self.suspended, self._reads = True, 0
        detail = (
            f"{len(self._failed)} patches in a row were rejected: writing is suspended until "
            f"{limits.reads_to_restore} reads have succeeded"
        )
        signals = {"refused": len(self._failed)}
        return Trip(BREAKER, "write_suspension", "deny", detail, signals=signals, evidence=tuple(self._failed))


class CommandCeiling(Breaker):
    """Reports a command that was killed at its time limit."""

    rules = ("command_ceiling",)

    def observe(self, seq: int, payload: Payload, state: AttemptState) -> Trip | None:
        if not isinstance(payload, ToolCallFinished) or not payload.timed_out:
            return None
        detail = f"{payload.tool} was killed at its time limit"
        return Trip(
            BREAKER, "command_ceiling", "kill", detail, signals={"ran_us": payload.duration_us}, evidence=(seq,)
        )


class Violations:
    """Ends the attempt for safety after too many violations of severity `gate`."""

    def __init__(self) -> None:
        self._denied: list[int] = []

    def count(self, seq: int, trips: tuple[Trip, ...], state: AttemptState) -> Trip | None:
        if not any(trip.action in {"deny", "quarantine", "note"} and trip.severity == "gate" for trip in trips):
            return None
        self._denied.append(seq)
        if len(self._denied) < state.thresholds.violations:
            return None
        detail = f"{len(self._denied)} violations of rules with severity gate"
        signals = {"violations": len(self._denied)}
        return _stop("violations", TerminationCode.SAFETY, detail, signals, tuple(self._denied))
