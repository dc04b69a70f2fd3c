"""The `Agent` protocol, and running an agent in a session."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Protocol, runtime_checkable

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import AgentFault, HarnessError, InputError, Interrupted, ModelFault, TaskError
from agentbench.core.reasons import Observability, TerminationCode
from agentbench.core.text import printable, without_terminal_codes
from agentbench.models.faults import BudgetReached
from agentbench.models.protocol import Model
from agentbench.policy.termination import category_of
from agentbench.tools.result import ToolResult
from agentbench.tools.session import Session
from agentbench.tools.session_limits import SessionEnded
from agentbench.trace.events import Termination

MAX_STDERR_LINE = 200
"""Characters of a program's last line of stderr in the reason of its end."""


@dataclass(frozen=True, slots=True)
class AgentExit:
    """The end of an agent. `evidence` are the numbers of the events that show it."""

    code: TerminationCode
    rationale: str = ""
    evidence: tuple[int, ...] = ()
    rule: str = ""
    """The rule of the monitor that ended it, if one did."""

    def event(self) -> Termination:
        return Termination(
            code=self.code,
            category=category_of(self.code, self.rule),
            rationale=self.rationale,
            evidence=list(self.evidence),
        )


def stopped(session: Session, why: str) -> AgentExit:
    """Return the exit of an agent that ends by its own decision, with success or without."""
    return AgentExit(TerminationCode.AGENT_STOPPED, why, (session.last_event,) if session.last_event else ())


PROGRAM_CRASHED = "the agent's program crashed: "


def not_found(rationale: str) -> bool:
    """Return whether the rationale of a termination says that the agent's command was not found, status 127 of a shell."""
    return rationale.partition(";")[0] == f"{PROGRAM_CRASHED}exit status 127"


def program_exit(session: Session, result: ToolResult) -> AgentExit:
    """Return the exit of an agent that is a program. If it failed, its patch is graded nevertheless."""
    if result.ok:
        return stopped(session, "program exited with status 0")
    why = f"{PROGRAM_CRASHED}{_exit_words(result)}"
    last = next((line for line in reversed(without_terminal_codes(result.stderr).splitlines()) if line.strip()), "")
    if last:
        why += f"; last line of stderr: {printable(' '.join(last.split()))[:MAX_STDERR_LINE]}"
    return AgentExit(TerminationCode.AGENT_CRASHED, why, (session.last_event,))


def _exit_words(result: ToolResult) -> str:
    """Say how a program ended. A shell whose command was killed by signal N exits with status 128 + N."""
    words = str(result.error_message)
    numbers = {number.value for number in signal.Signals}
    if result.exit_code is None or result.exit_code - 128 not in numbers or "signal" in words:
        return words
    return f"{words} ({signal.Signals(result.exit_code - 128).name})"


class Agent(Protocol):
    """An agent is created for one attempt and runs once."""

    @property
    def name(self) -> str: ...

    @property
    def observability(self) -> Observability:
        """How much of the agent the trace shows."""
        ...

    def run(self, session: Session) -> AgentExit:
        """Work until done. Caps raise `SessionEnded`, which the agent must not catch."""
        ...


@runtime_checkable
class MultiTurnAgent(Protocol):
    """An agent that accepts further messages of the user. Tasks with `turns` need one."""

    def go_on(self, session: Session, message: str) -> AgentExit:
        """Work on the user's next message, in the same session and with the context of earlier turns."""
        ...


@dataclass(frozen=True, slots=True)
class AgentSetup:
    """Everything an agent can be created from. Each agent takes what it needs and reports what is missing.

    `reference` is the task's reference solution; only the agent `reference` gets it.
    """

    task_id: str
    task_folder: Path
    reference: Path | None = None
    command: str | None = None
    files: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of an agent that is a program."""
    script: Path | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    model: Model | None = None
    prompt: str | None = None
    test_command: str | None = None
    """The command that runs the project's visible tests: the task's failing command, or the one from its hints."""


class AgentFactory(Protocol):
    """Creates the agent of one attempt; the plug-in of kind `agent`. `ab.agent` makes one of a function.

    Examples:
        >>> import agentbench as ab
        >>> class Lister:
        ...     name = "lister"
        ...     observability = ab.Observability.TOOLS
        ...     def run(self, session: ab.Session) -> ab.AgentExit:
        ...         session.list_files()
        ...         return ab.stopped(session, "listed the files")
        >>> def lister(setup: ab.AgentSetup) -> ab.Agent:
        ...     return Lister()
        >>> ab.register("agent", "lister", lister)  # or: ab.run(…, agent=lister)
    """

    def __call__(self, setup: AgentSetup, /) -> Agent: ...


def no_model(name: str, *, chosen: bool = True) -> InputError:
    """Return the error of an agent without a model. `chosen`: the agent was named, so it is not the default."""
    remedy = "set one with --model, in the variant file or in pilot.yaml"
    if not chosen:
        msg = f"no agent was named, and the default agent '{name}' needs a model"
        return InputError(msg, remedy="name an agent with --agent or --variant, or set a model with --model")
    return InputError(f"agent '{name}' needs a model", remedy=remedy)


def require_model(name: str, setup: AgentSetup) -> Model:
    """Return the model of the setup.

    Raises:
        InputError: no model was given.
    """
    if setup.model is None:
        raise no_model(name)
    return setup.model


def run_session(agent: Agent, session: Session) -> AgentExit:
    """Run an agent in a session. Errors of the agent's own code become its exit; errors of harness and task are raised.

    Raises:
        HarnessError, TaskError, InputError, Interrupted.
    """
    try:
        session.begin()
        ended = _turn(session, lambda: agent.run(session))
        while ended.code is TerminationCode.AGENT_STOPPED and (message := session.next_turn()) is not None:
            ended = _turn(session, partial(require_multi_turn(agent).go_on, session, message))
    except SessionEnded as end:
        return _exit(end)
    except (HarnessError, TaskError, InputError, Interrupted):
        raise
    except ModelFault as fault:
        ended = AgentExit(TerminationCode.LLM_ERROR, fault.message)
    except AgentFault as fault:
        ended = AgentExit(TerminationCode.AGENT_CRASHED, fault.message)
    except Exception as error:  # noqa: BLE001 - third-party code
        why = printable(f"{type(error).__name__}: {error}"[:1000], keep="\n")
        ended = AgentExit(TerminationCode.AGENT_CRASHED, f"agent raised {why}")
    finally:
        session.close()
    # An agent that caught SessionEnded has still reached the cap.
    return _exit(session.ended) if session.ended is not None else _own(ended)


_OWN = frozenset({TerminationCode.AGENT_STOPPED, TerminationCode.AGENT_CRASHED, TerminationCode.LLM_ERROR})


def _own(ended: AgentExit) -> AgentExit:
    """Accept only codes that an agent can decide itself: caps, breakers and monitors end an attempt by what the log shows."""
    if ended.code in _OWN:
        return ended
    why = f"agent reported {ended.code}: {ended.rationale}"
    return AgentExit(TerminationCode.AGENT_STOPPED, why, ended.evidence)


def require_multi_turn(agent: Agent) -> MultiTurnAgent:
    """Check that the agent accepts further messages.

    Raises:
        InputError: it does not.
    """
    if not isinstance(agent, MultiTurnAgent):
        msg = f"agent '{agent.name}' does not support multi-turn tasks"
        raise InputError(msg, remedy="use an agent that does, such as llm_v0, scripted or command")
    return agent


def _turn(session: Session, work: Callable[[], AgentExit]) -> AgentExit:
    """Run one turn.

    Raises:
        SessionEnded: a cap was reached, also the budget of the model; not if the agent only ends its turn.
    """
    try:
        return work()
    except BudgetReached as stop:
        session.out_of_budget(stop.code, stop.message, shared=stop.scope != "attempt")
    except SessionEnded as end:
        if end.code is TerminationCode.AGENT_STOPPED and session.turns_left:
            return _exit(end)
        raise


def _exit(end: SessionEnded) -> AgentExit:
    return AgentExit(end.code, end.rationale, end.evidence, end.rule)
