"""What an agent is, and how one is run to its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from agentbench.core.errors import AgentFault, HarnessError, InputError, Interrupted, ModelFault, TaskError
from agentbench.core.reasons import Observability, TerminationCode
from agentbench.core.text import printable
from agentbench.models.faults import BudgetReached
from agentbench.models.protocol import Model
from agentbench.policy.termination import category_of
from agentbench.tools.ending import SessionEnded
from agentbench.tools.session import Session
from agentbench.trace.events import Termination


@dataclass(frozen=True, slots=True)
class AgentExit:
    """How an agent ended. `evidence` are the numbers of the events that show it."""

    code: TerminationCode
    rationale: str = ""
    evidence: tuple[int, ...] = ()
    rule: str = ""
    """Of the monitor that ended it, if one did."""

    def event(self) -> Termination:
        return Termination(
            code=self.code,
            category=category_of(self.code, self.rule),
            rationale=self.rationale,
            evidence=list(self.evidence),
        )


class Agent(Protocol):
    """An agent is made anew for every attempt and runs once."""

    @property
    def name(self) -> str: ...

    @property
    def observability(self) -> Observability:
        """What the trace can see of it."""
        ...

    def run(self, session: Session) -> AgentExit:
        """Work until done. Caps end it by `SessionEnded`, which it lets pass."""
        ...


@dataclass(frozen=True, slots=True)
class AgentSetup:
    """What an agent may be made from. Each kind takes what it needs and says what is missing.

    `reference` is the task's reference solution; only the agent of that name ever gets to see it.
    """

    task_id: str
    task_folder: Path
    reference: Path | None = None
    command: str | None = None
    files: Path | None = None
    script: Path | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    model: Model | None = None
    prompt: str | None = None
    test_command: str | None = None
    """How the project's visible tests are run, as the task's hints say."""


def conduct(agent: Agent, session: Session) -> AgentExit:
    """Run an agent in a session. Whatever the agent's own code does becomes an exit; our trouble is raised.

    Raises:
        HarnessError, TaskError, InputError, Interrupted.
    """
    try:
        session.begin()
        ended = _within_budget(agent, session)
    except SessionEnded as end:
        return _exit(end)
    except (HarnessError, TaskError, InputError, Interrupted):
        raise
    except ModelFault as fault:
        ended = AgentExit(TerminationCode.LLM_ERROR, fault.message)
    except AgentFault as fault:
        ended = AgentExit(TerminationCode.AGENT_CRASHED, fault.message)
    except Exception as error:  # noqa: BLE001 - an agent may be anybody's code
        why = printable(f"{type(error).__name__}: {error}"[:1000], keep="\n")
        ended = AgentExit(TerminationCode.AGENT_CRASHED, f"the agent's own code failed: {why}")
    finally:
        session.close()
    # An agent that swallowed the end of its session has still reached the cap.
    return _exit(session.ended) if session.ended is not None else ended


def _within_budget(agent: Agent, session: Session) -> AgentExit:
    """
    Raises:
        SessionEnded: also when a model could not be asked for want of budget.
    """
    try:
        return agent.run(session)
    except BudgetReached as stop:
        session.out_of_budget(stop.code, stop.message, shared=stop.scope != "run")


def _exit(end: SessionEnded) -> AgentExit:
    return AgentExit(end.code, end.rationale, end.evidence, end.rule)
