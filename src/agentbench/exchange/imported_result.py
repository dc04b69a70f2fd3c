"""Results of another tool as an importer reads them, before they are written as a run directory."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Literal

from pydantic import ValidationError

from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.exchange.attempt_trace import TraceMessage
from agentbench.exchange.exported_attempt import ExportedAttempt
from agentbench.record.schema import Cost, Usage

MAX_UNIT = 40
Decision = Literal["pass", "fail", "error", "undecided"]
"""`error`: the other tool failed. `undecided`: it gave no result that is a pass or a fail."""


@dataclass(frozen=True, slots=True)
class ImportedAttempt:
    """One result of another tool."""

    task: str
    """The id in the other tool. Any text."""
    repeat: int
    decision: Decision
    why: str
    """Which score decided, or what failed."""
    identity: str
    """Digest of what the task was in the other tool, so that only the same task is compared."""
    started_at: str
    ended_at: str
    duration_sec: float
    usage: Usage = field(default_factory=Usage)
    cost: Cost | None = None
    """None if the log does not state it."""
    scores: Mapping[str, str] = field(default_factory=dict)
    messages: Sequence[TraceMessage] = ()
    exported: ExportedAttempt | None = None
    """Verdict and conditions of an attempt of AgentBench; None for results of other tools, which state one decision."""
    original: Mapping[str, Json] = field(default_factory=dict)
    """What the source says beyond these fields; kept beside the record."""


@dataclass(frozen=True, slots=True)
class ImportedLog:
    """The results of one log."""

    format: str
    tool: str
    """The tool that made the results, with its version if known."""
    suite: str
    agent: str
    model: str | None
    provider: str | None
    attempts: Callable[[], Iterator[ImportedAttempt]]
    """Yields the attempts one at a time."""
    method: str = ""
    """The variant of a run that AgentBench exported; empty for others, which are named by agent and model."""
    meta: Mapping[str, Json] = field(default_factory=dict)


def stated_cost(exported: Json, usd: float | None) -> Cost | None:
    """Return the cost that AgentBench wrote into the log, else the one in US dollars; None if the log states neither."""
    with contextlib.suppress(ValidationError):
        cost = Cost.model_validate(exported)
        if cost.known and cost.total >= 0 and len(cost.unit) <= MAX_UNIT:
            return cost
    return None if usd is None or usd < 0 else Cost(lm=usd, total=usd)
