"""Backpressure: growing delays for bursts of calls and for repeated expensive commands."""

from __future__ import annotations

from collections import deque

from agentbench.policy.breakers import US, AttemptState, Trip
from agentbench.trace.events import Payload, ToolCallFinished, ToolCallStarted

BACKPRESSURE = "backpressure"


class Backpressure:
    """A breaker that delays calls. It trips when a call starts; the delay is in the trip's signals."""

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
