"""Backpressure: waits that grow with bursts of calls and with expensive commands that are repeated without a change."""

from __future__ import annotations

from collections import deque

from agentbench.policy.breakers import US, Trip, World
from agentbench.trace.events import Payload, ToolCallFinished, ToolCallStarted

PRESSURE = "backpressure"


class Backpressure:
    """A fold like the breakers. It is asked when a call starts; the wait is in the trip's signals."""

    def __init__(self) -> None:
        self._starts: deque[int] = deque()
        self._expensive: dict[str, list[int]] = {}
        self._burst = 0

    def see(self, seq: int, payload: Payload, world: World) -> Trip | None:
        call = world.call
        if call is None or not call.of_agent:
            return None
        if isinstance(payload, ToolCallFinished):
            self._remember(seq, payload, world)
        if not isinstance(payload, ToolCallStarted):
            return None
        return self._repeated(world) or self._bursting(seq, world)

    def _remember(self, seq: int, payload: ToolCallFinished, world: World) -> None:
        if world.changed_in_call:
            self._expensive.clear()
        elif world.call is not None and payload.duration_us >= world.thresholds.expensive_sec * US:
            self._expensive.setdefault(world.call.key, []).append(seq)

    def _repeated(self, world: World) -> Trip | None:
        if world.call is None:
            return None
        before = self._expensive.get(world.call.key, [])
        step = len(before) - world.thresholds.expensive_repeats
        if step < 0:
            return None
        detail = f"an expensive command was run {len(before)} times without a change of the repository"
        return self._wait("expensive_repeat", step, detail, tuple(before), world)

    def _bursting(self, seq: int, world: World) -> Trip | None:
        limits = world.thresholds
        now = world.elapsed_us
        self._starts.append(now)
        while now - self._starts[0] > limits.burst_window_sec * US:
            self._starts.popleft()
        if len(self._starts) <= limits.burst_calls:
            self._burst = 0
            return None
        self._burst += 1
        detail = f"{len(self._starts)} tool calls within {limits.burst_window_sec} s"
        return self._wait("burst", self._burst - 1, detail, (seq,), world)

    def _wait(self, rule: str, step: int, detail: str, evidence: tuple[int, ...], world: World) -> Trip:
        limits = world.thresholds
        wait = min(limits.wait_first_ms << min(step, 20), limits.wait_most_ms)
        return Trip(PRESSURE, rule, "throttle", detail, signals={"wait_ms": wait}, evidence=evidence)
