"""What a session is made of, and what it hands out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from agentbench.core.reasons import TerminationCode
from agentbench.sandbox.protocol import Sandbox
from agentbench.tools.operator import Operator
from agentbench.trace.blobs import BlobStore
from agentbench.trace.log import EventLog
from agentbench.tree.entry import Tree


@dataclass(frozen=True, slots=True)
class SessionEnvironment:
    """Where an agent works, and for whom.

    `base` is the workspace as the agent finds it, `operator` who can be asked about it, `turns` what the user says further
    whenever the agent has ended its turn.
    """

    sandbox: Sandbox
    workdir: str = "/workspace"
    base: Tree | None = None
    operator: Operator | None = None
    turns: tuple[str, ...] = ()
    beyond: Callable[[], tuple[TerminationCode, str] | None] = lambda: None
    """Whether a cap is spent that others spend too, and what to say then."""


@dataclass(frozen=True, slots=True)
class SessionLog:
    """Where a session is written down."""

    log: EventLog
    blobs: BlobStore | None = None


@dataclass(frozen=True, slots=True)
class BriefingText:
    """What an agent is told: the whole, and its parts by name."""

    text: str
    parts: Mapping[str, str] = field(default_factory=dict)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode("utf-8", "backslashreplace")).hexdigest()


@dataclass(frozen=True, slots=True)
class RemainingBudget:
    """What is left of the budget. None: no limit."""

    tool_calls: int | None
    wall_sec: float
    tokens: int | None = None
    usd: float | None = None
    """Of what an agent may spend: a part of the cap is kept for acceptance and logging."""


@dataclass(frozen=True, slots=True)
class AgentProgram:
    """A program that is the agent, or stands for it: it runs in the sandbox until it ends or the wall clock does."""

    name: str
    line: str
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes = b""
