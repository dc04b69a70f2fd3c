"""Agents written as a Python function."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from agentbench.agents.base import Agent, AgentExit, AgentFactory, AgentSetup, stopped
from agentbench.core.dataclass import dataclass
from agentbench.core.reasons import Observability
from agentbench.tools.session import Session

AgentFunction: TypeAlias = Callable[[Session, AgentSetup], str | None]


@dataclass(frozen=True, slots=True)
class FunctionAgent:
    """An agent that calls a function, which works through the tools of the session."""

    name: str
    function: AgentFunction
    setup: AgentSetup
    observability: Observability = Observability.TOOLS

    def run(self, session: Session) -> AgentExit:
        return stopped(session, self.function(session, self.setup) or "the agent's function returned")


def agent(function: AgentFunction) -> AgentFactory:
    """Make an agent of a function that gets the session and the setup of one attempt.

    The function works through the session's tools, which check every call against the rules, execute it in the sandbox and
    log it. It may return a sentence about how it ended. `setup.model` is the model, if the run has one.

    Examples:
        >>> import agentbench as ab
        >>> @ab.agent
        ... def read_only(session: ab.Session, setup: ab.AgentSetup) -> str:
        ...     listing = session.list_files()
        ...     return f"{setup.task_id}: looked at the files, {listing.ok=}"
        >>> read_only.__name__
        'read_only'
    """

    def make(setup: AgentSetup) -> Agent:
        return FunctionAgent(make.__name__, function, setup)

    make.__name__ = function.__name__
    make.__doc__ = function.__doc__
    return make
