"""Circuit breakers: rules over logged signals that stop or restrain a run.

Each is a fold: it is shown every event of the agent's phase in the order of the log, and says when it trips. None looks at a
clock or at anything but the events, so whoever has the log gets the same trips again.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from agentbench.core.canonical import sha256_hex
from agentbench.core.reasons import Outcome, TerminationCode
from agentbench.policy.budget import Budget, Spent
from agentbench.policy.installs import installs_of
from agentbench.policy.repository_state import RepositoryState
from agentbench.policy.thresholds import Thresholds
from agentbench.trace.events import LlmResponse, Payload, StageChanged, TestsFinished, ToolCallFinished, ToolCallStarted

Action = Literal["note", "throttle", "deny", "kill", "pause", "quarantine", "terminate"]
Severity = Literal["note", "penalty", "gate", "terminate"]

BREAKER = "breaker"
READING = frozenset({"list_files", "read_file", "search"})
WRITING = frozenset({"apply_patch"})
_REFUSED_WRITES = frozenset({"patch_invalid", "outside_scope"})
US = 1_000_000


@dataclass(frozen=True, slots=True)
class Trip:
    """A rule that holds now: what was seen, and what is done about it."""

    monitor: str
    rule: str
    action: Action
    detail: str
    severity: Severity = "note"
    code: TerminationCode | None = None
    """How the run ends, when the action ends it."""
    signals: Mapping[str, int] = field(default_factory=dict)
    evidence: tuple[int, ...] = ()
    format: Literal["natural_text", "code", "none"] = "none"


@dataclass(frozen=True, slots=True)
class Call:
    """The tool call at work."""

    seq: int
    key: str
    tool: str
    command: str
    of_agent: bool
    changes: int
    """How often the repository had changed when it started."""
    elapsed_us: int


@dataclass(slots=True)
class World:
    """What all breakers see: kept once, by the guard, before any of them is asked."""

    budget: Budget
    wall_us: int | None
    thresholds: Thresholds
    max_installs: int
    spent: Spent = field(default_factory=Spent)
    repository: RepositoryState = field(default_factory=RepositoryState)
    call: Call | None = None
    stage: str | None = None
    elapsed_us: int = 0
    """Session time at the last event that tells it."""

    def after(self, seq: int, payload: Payload) -> None:
        if isinstance(payload, StageChanged):
            self.stage = payload.after
        self.spent = self.spent.after(payload)
        self.repository.after(payload)
        if isinstance(payload, ToolCallStarted):
            self.call = call_of(seq, payload, self.repository.changes)
            self.elapsed_us = max(self.elapsed_us, payload.elapsed_us)
        elif isinstance(payload, ToolCallFinished) and self.call is not None:
            self.elapsed_us = max(self.elapsed_us, self.call.elapsed_us + payload.duration_us)

    @property
    def changed_in_call(self) -> bool:
        return self.call is not None and self.repository.changes != self.call.changes


def call_of(seq: int, started: ToolCallStarted, changes: int) -> Call:
    command = started.arguments.get("command") if started.tool == "run" else None
    whole = json.dumps([started.tool, started.arguments], sort_keys=True)
    return Call(
        seq,
        sha256_hex(whole.encode()),
        started.tool,
        command if isinstance(command, str) else "",
        started.call_id.startswith("c"),
        changes,
        started.elapsed_us,
    )


class Breaker(Protocol):
    def see(self, seq: int, payload: Payload, world: World) -> Trip | None: ...


def _stop(rule: str, code: TerminationCode, detail: str, signals: Mapping[str, int], evidence: tuple[int, ...]) -> Trip:
    return Trip(BREAKER, rule, "terminate", detail, "terminate", code, signals, evidence)


def _own_call(payload: Payload, world: World) -> Call | None:
    """The agent's call that this event ends, if it ends one."""
    ends = isinstance(payload, ToolCallFinished) and world.call is not None and world.call.of_agent
    return world.call if ends else None


class RepeatedCalls:
    """The same call again and again while the repository stays as it is."""

    def __init__(self) -> None:
        self._seen: dict[str, list[int]] = {}

    def see(self, seq: int, payload: Payload, world: World) -> Trip | None:
        call = _own_call(payload, world)
        if call is None:
            return None
        if world.changed_in_call:
            self._seen.clear()
            return None
        times = self._seen.setdefault(call.key, [])
        times.append(call.seq)
        if len(times) < world.thresholds.identical_calls:
            return None
        detail = f"{call.tool} was called {len(times)} times with the same arguments, and the repository did not change"
        signals = {"calls": len(times), "threshold": world.thresholds.identical_calls}
        return _stop("repeated_calls", TerminationCode.REPEATED_CALLS, detail, signals, tuple(times))


class RepeatedInstalls:
    """The same dependencies installed over and over, or too many installations at all."""

    def __init__(self) -> None:
        self._times: Counter[str] = Counter()
        self._total = 0

    def see(self, seq: int, payload: Payload, world: World) -> Trip | None:
        call = _own_call(payload, world)
        if call is None or not call.command:
            return None
        same = 0
        for install in installs_of(call.command):
            self._total += 1
            self._times[install] += 1
            same = max(same, self._times[install])
        if not same:
            return None
        limit, most = world.thresholds.identical_installs, world.max_installs
        if same < limit and self._total <= most:
            return None
        detail = (
            f"the same dependencies were installed {same} times"
            if same >= limit
            else f"{self._total} installations of dependencies, {most} are allowed"
        )
        signals = {"same": same, "threshold": limit, "total": self._total, "allowed": most}
        return _stop("repeated_installs", TerminationCode.REPEATED_INSTALLS, detail, signals, (call.seq, seq))


class Oscillation:
    """Two states of the repository by turns, and the tests fail on both."""

    def __init__(self) -> None:
        self._failed: deque[tuple[Hashable, int]] = deque()

    def see(self, seq: int, payload: Payload, world: World) -> Trip | None:
        if not isinstance(payload, TestsFinished):
            return None
        if payload.outcome is Outcome.PASS:
            self._failed.clear()
            return None
        state = world.repository.signature
        if self._failed and self._failed[-1][0] == state:
            return None
        self._failed.append((state, seq))
        length = world.thresholds.oscillation_length
        while len(self._failed) > length:
            self._failed.popleft()
        by_turns = all(one[0] == two[0] for one, two in zip(self._failed, list(self._failed)[2:], strict=False))
        if len(self._failed) < length or not by_turns:
            return None
        detail = f"the last {length} failed test cycles were on two states of the repository by turns"
        evidence = tuple(one for _, one in self._failed)
        return _stop("oscillation", TerminationCode.OSCILLATION, detail, {"cycles": length}, evidence)


class NoProgress:
    """Calls or model requests, and no state of the repository that was not there before."""

    def __init__(self) -> None:
        self._seen: set[Hashable] = set()
        self._calls = self._requests = self._since = 0

    def see(self, seq: int, payload: Payload, world: World) -> Trip | None:
        state = world.repository.signature
        if state not in self._seen:
            self._seen.add(state)
            self._calls, self._requests, self._since = 0, 0, seq
        if _own_call(payload, world) is not None:
            self._calls += 1
        elif isinstance(payload, LlmResponse):
            self._requests += 1
        else:
            return None
        limits = world.thresholds
        if self._calls < limits.no_progress_calls and self._requests < limits.no_progress_requests:
            return None
        detail = f"{self._calls} tool calls and {self._requests} model requests without a new state of the repository"
        signals = {"calls": self._calls, "requests": self._requests}
        return _stop("no_progress", TerminationCode.NO_PROGRESS, detail, signals, (self._since, seq))


class Dominance:
    """Most of the run's budget is gone and no milestone is reached: neither a change nor a test cycle that passes."""

    def __init__(self) -> None:
        self._passed = False

    def see(self, seq: int, payload: Payload, world: World) -> Trip | None:
        if isinstance(payload, TestsFinished) and payload.outcome is Outcome.PASS:
            self._passed = True
        if self._passed or world.repository.differs:
            return None
        if _own_call(payload, world) is None and not isinstance(payload, LlmResponse):
            return None
        used = {
            "cost": (world.spent.cost_micro(world.budget), world.budget.cost_micro_usd),
            "tokens": (world.spent.tokens, world.budget.tokens),
            "time": (world.elapsed_us, world.wall_us),
        }
        for name, (spent, cap) in used.items():
            # At the cap itself the cap decides: it has a code of its own.
            if cap and world.thresholds.dominance_percent * cap <= spent * 100 < cap * 100:
                percent = spent * 100 // cap
                detail = f"{percent}% of the run's {name} is gone without a change and without a passing test cycle"
                return _stop("dominance", TerminationCode.DOMINANCE, detail, {"percent": percent}, (seq,))
        return None


class FailedWrites:
    """Patches refused in a row suspend the privilege to write; reading gives it back."""

    def __init__(self) -> None:
        self.suspended = False
        self._failed: list[int] = []
        self._reads = 0

    def see(self, seq: int, payload: Payload, world: World) -> Trip | None:
        call = _own_call(payload, world)
        if call is None or not isinstance(payload, ToolCallFinished):
            return None
        return self._restore(seq, payload, world) if self.suspended else self._suspend(seq, payload, world)

    def _restore(self, seq: int, payload: ToolCallFinished, world: World) -> Trip | None:
        self._reads += payload.ok and payload.tool in READING
        if self._reads < world.thresholds.reads_to_restore:
            return None
        self.suspended, self._failed = False, []
        return Trip(BREAKER, "write_restored", "note", "the agent may write again", evidence=(seq,))

    def _suspend(self, seq: int, payload: ToolCallFinished, world: World) -> Trip | None:
        limits = world.thresholds
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
            f"{len(self._failed)} patches in a row were refused: the privilege to write is suspended until "
            f"{limits.reads_to_restore} calls that read have succeeded"
        )
        signals = {"refused": len(self._failed)}
        return Trip(BREAKER, "write_suspension", "deny", detail, signals=signals, evidence=tuple(self._failed))


class CommandCeiling:
    """A command that ran past its ceiling and was killed."""

    def see(self, seq: int, payload: Payload, world: World) -> Trip | None:
        if not isinstance(payload, ToolCallFinished) or not payload.timed_out:
            return None
        detail = f"{payload.tool} was killed at its ceiling"
        return Trip(
            BREAKER, "command_ceiling", "kill", detail, signals={"ran_us": payload.duration_us}, evidence=(seq,)
        )


class Violations:
    """Denied acts against rules that are gates: too many end the run for safety."""

    def __init__(self) -> None:
        self._denied: list[int] = []

    def count(self, seq: int, trips: tuple[Trip, ...], world: World) -> Trip | None:
        if not any(one.action in {"deny", "quarantine"} and one.severity == "gate" for one in trips):
            return None
        self._denied.append(seq)
        if len(self._denied) < world.thresholds.violations:
            return None
        detail = f"{len(self._denied)} denied acts against rules that are gates"
        signals = {"violations": len(self._denied)}
        return _stop("violations", TerminationCode.SAFETY, detail, signals, tuple(self._denied))
