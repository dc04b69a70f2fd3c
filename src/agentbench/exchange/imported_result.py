"""Results of another tool as an importer reads them, before they are written as a run directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Literal

from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.exchange.attempt_trace import TraceMessage
from agentbench.record.schema import Usage

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
    cost_usd: float = 0.0
    scores: Mapping[str, str] = field(default_factory=dict)
    messages: Sequence[TraceMessage] = ()
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
