"""An agent that does nothing. It must fail every valid task."""

from __future__ import annotations

from agentbench.agents.base import AgentExit, AgentSetup
from agentbench.core.reasons import Observability, TerminationCode
from agentbench.tools.session import Session


class NoopAgent:
    name = "noop"
    observability = Observability.TOOLS

    def run(self, session: Session) -> AgentExit:
        return AgentExit(TerminationCode.AGENT_STOPPED, "does nothing by design")

    def go_on(self, session: Session, message: str) -> AgentExit:
        return self.run(session)


def make(setup: AgentSetup) -> NoopAgent:  # noqa: ARG001 - the signature of agent factories
    return NoopAgent()
