"""Builds traces from short descriptions of what an agent does."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from agentbench.core.reasons import Outcome, TerminationCode
from agentbench.policy.breakers import Trip
from agentbench.policy.budget import Budget
from agentbench.policy.limits import Limits
from agentbench.policy.monitors import MONITORS
from agentbench.policy.recheck import recheck
from agentbench.policy.rule_engine import ENGINE_MONITORS, Monitor, RuleEngine, decision_events
from agentbench.policy.thresholds import Thresholds, published_thresholds
from agentbench.trace import events
from agentbench.trace.events import (
    Briefing,
    Excerpt,
    FileDigest,
    LlmResponse,
    PatchApplied,
    Payload,
    Termination,
    ToolCallFinished,
    ToolCallStarted,
)

US = 1_000_000


@dataclass(frozen=True)
class TraceEvent:
    seq: int
    payload: Payload


def limits(
    budget: Budget | None = None, *, wall_sec: int | None = 1800, max_installs: int | None = None, **thresholds: int
) -> Limits:
    values: Thresholds = replace(published_thresholds(), **thresholds)
    return Limits(budget or Budget(), None if wall_sec is None else wall_sec * US, values, max_installs)


@dataclass
class ScriptedTrace:
    """Writes events as a session does: decisions follow the event that caused them."""

    limits: Limits = field(default_factory=limits)
    monitor: Monitor = lambda _seq, _payload: ()
    log: list[TraceEvent] = field(default_factory=list)
    trips: list[Trip] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.engine = RuleEngine(self.limits, self.monitor)
        self.clock_us = 0
        self.calls = 0
        if not self.log:
            self.write(Briefing(text="do it", sha256="0" * 64, parts={}))

    def write(self, payload: Payload) -> None:
        seq = len(self.log) + 1
        self.log.append(TraceEvent(seq, payload))
        trips = self.engine.observe(seq, payload)
        self.trips += trips
        self.log += [
            TraceEvent(seq + at, decision)
            for at, (decision, _) in enumerate(decision_events(seq, trips, self.engine.stage), start=1)
        ]

    @property
    def rules(self) -> list[str]:
        return [trip.rule for trip in self.trips]

    @property
    def stopped(self) -> TerminationCode | None:
        return self.engine.stop.code if self.engine.stop else None

    # --- what an agent does -------------------------------------------------------------------------------------------

    def call(
        self,
        tool: str = "run",
        *effects: Payload,
        took: float = 0.1,
        error: str | None = None,
        timed_out: bool = False,
        **arguments: str,
    ) -> None:
        self.calls += 1
        call_id = f"c{self.calls}"
        self.write(ToolCallStarted(call_id=call_id, tool=tool, arguments=dict(arguments), elapsed_us=self.clock_us))
        for effect in effects:
            self.write(effect)
        self.clock_us += int(took * US)
        self.write(
            ToolCallFinished(
                call_id=call_id,
                tool=tool,
                ok=error is None,
                duration_us=int(took * US),
                error_type=error,
                timed_out=timed_out,
            )
        )

    def think(self, sec: float) -> None:
        self.clock_us += int(sec * US)

    def ask_model(self, *, tokens: int = 10, cost: int = 0, text: str = "") -> None:
        self.write(
            LlmResponse(
                request_id="r",
                status="ok",
                content=Excerpt(text=text, total_bytes=len(text), sha256="0" * 64),
                prompt_tokens=tokens,
                completion_tokens=0,
                cached_tokens=0,
                cost_micro_usd=cost,
                duration_us=US,
                conversation_index=0,
            )
        )

    def edit(self, content: str, path: str = "a.py", before: str | None = None) -> None:
        self.call("apply_patch", patched(path, before, content), unified_diff=f"{path} becomes {content}")

    def test(self, outcome: Outcome = Outcome.FAIL, command: str = "pytest") -> None:
        self.call("run", tested(outcome), error=None if outcome is Outcome.PASS else "nonzero_exit", command=command)

    def end(self, code: TerminationCode | None = None) -> None:
        ended = code or self.stopped or TerminationCode.AGENT_STOPPED
        self.write(Termination(code=ended, category=None, rationale="", evidence=[]))

    def recheck(self) -> list[str]:
        """Recompute every decision from the log."""
        return recheck(self.log, self.limits, self.monitor, ENGINE_MONITORS | MONITORS)


def patched(path: str, before: str | None, after: str | None, *, generated: bool = False) -> PatchApplied:
    digests = FileDigest(
        path=path, change="modified", before_sha256=before, after_sha256=after, size=1, generated=generated
    )
    return PatchApplied(call_id="c", files=[digests], patch=Excerpt())


def tested(outcome: Outcome) -> events.TestsFinished:
    return events.TestsFinished(
        step="c",
        outcome=outcome,
        exit_code=0 if outcome is Outcome.PASS else 1,
        timed_out=False,
        duration_us=1,
        stdout=Excerpt(),
        stderr=Excerpt(),
        why="",
    )
