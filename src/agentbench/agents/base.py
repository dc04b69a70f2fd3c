"""What an agent is, and how one is run to its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol, runtime_checkable

from agentbench.core.errors import AgentFault, HarnessError, InputError, Interrupted, ModelFault, TaskError
from agentbench.core.reasons import Observability, TerminationCode
from agentbench.core.text import printable
from agentbench.models.faults import BudgetReached
from agentbench.models.protocol import Model
from agentbench.policy.termination import category_of
from agentbench.tools.session import Session, SessionEnded
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


def stopped(session: Session, why: str) -> AgentExit:
    """The agent ends by its own decision, be it success or giving up; codes of breakers are for breakers alone."""
    return AgentExit(TerminationCode.AGENT_STOPPED, why, (session.last_event,) if session.last_event else ())


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


@runtime_checkable
class Conversing(Protocol):
    """An agent that can be told more when it has ended its turn. Needed for tasks with `turns`."""

    def go_on(self, session: Session, message: str) -> AgentExit:
        """Work on the user's next message, in the same session and knowing what was before."""
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
        ended = _turn(session, lambda: agent.run(session))
        while ended.code is TerminationCode.AGENT_STOPPED and (message := session.next_turn()) is not None:
            ended = _turn(session, partial(conversing(agent).go_on, session, message))
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
    return _exit(session.ended) if session.ended is not None else _own(ended)


_OWN = frozenset({TerminationCode.AGENT_STOPPED, TerminationCode.AGENT_CRASHED, TerminationCode.LLM_ERROR})


def _own(ended: AgentExit) -> AgentExit:
    """Caps, breakers and monitors end a run by what the log shows; an agent cannot speak for them."""
    if ended.code in _OWN:
        return ended
    why = f"the agent says {ended.code}: {ended.rationale}"
    return AgentExit(TerminationCode.AGENT_STOPPED, why, ended.evidence)


def conversing(agent: Agent) -> Conversing:
    """
    Raises:
        InputError: the agent is done when its first turn is.
    """
    if not isinstance(agent, Conversing):
        msg = f"the agent '{agent.name}' cannot be told more after its first turn, and the task has further turns"
        raise InputError(msg, remedy="use an agent that holds a conversation, such as llm_v0, scripted or command")
    return agent


def _turn(session: Session, work: Callable[[], AgentExit]) -> AgentExit:
    """
    Raises:
        SessionEnded: also when a model could not be asked for want of budget; not when the agent only ends its turn.
    """
    try:
        return work()
    except BudgetReached as stop:
        session.out_of_budget(stop.code, stop.message, shared=stop.scope != "run")
    except SessionEnded as end:
        if end.code is TerminationCode.AGENT_STOPPED and session.turns_left:
            return _exit(end)
        raise


def _exit(end: SessionEnded) -> AgentExit:
    return AgentExit(end.code, end.rationale, end.evidence, end.rule)
