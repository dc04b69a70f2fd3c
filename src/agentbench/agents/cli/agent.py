"""An agent that runs a third-party program according to its profile."""

from __future__ import annotations

from agentbench.agents.base import AgentExit, AgentSetup
from agentbench.agents.cli.profiles import PRIVATE, PROFILES, Profile
from agentbench.agents.command import BRIEFING_TARGET, BRIEFING_VARIABLE
from agentbench.core.errors import InputError
from agentbench.core.reasons import Observability, TerminationCode
from agentbench.tools.session import AgentProgram, Session

PREFIX = "cli:"


class CliAgent:
    """The trace shows its requests to the gateway and its effects on the workspace."""

    observability = Observability.GATEWAY

    def __init__(self, profile: Profile, model: str) -> None:
        self.name = f"{PREFIX}{profile.name}"
        self._profile = profile
        self._model = model

    def run(self, session: Session) -> AgentExit:
        briefing = session.briefing.text
        session.place(BRIEFING_TARGET, briefing.encode())
        # Create the folder: some programs expect that their configuration folder exists.
        session.place(f"{PRIVATE}/.keep", b"")
        for name, text in self._profile.files.items():
            filled = self._profile.rendered(text, model=self._model, briefing=briefing)
            session.place(f"{PRIVATE}/{name}", filled.encode())
        env = {name: self._profile.rendered(text, model=self._model) for name, text in self._profile.env.items()}
        line = self._profile.rendered(self._profile.line, model=self._model)
        result = session.run_program(
            AgentProgram(self.name.replace(":", "_"), line, {**env, BRIEFING_VARIABLE: BRIEFING_TARGET})
        )
        evidence = (session.last_event,)
        if result.ok:
            return AgentExit(TerminationCode.AGENT_STOPPED, "program exited with status 0", evidence)
        # Its patch is graded nevertheless.
        return AgentExit(TerminationCode.AGENT_CRASHED, f"program ended with {result.error_message}", evidence)


def profile_of(agent: str) -> Profile | None:
    """Return the profile of an agent, or None if its name is not `cli:NAME`."""
    return PROFILES.get(agent.removeprefix(PREFIX)) if agent.startswith(PREFIX) else None


def make(profile: Profile, setup: AgentSetup) -> CliAgent:
    """Create the agent.

    Raises:
        InputError: no model was given, or its name is unsafe in a shell line.
    """
    if setup.model is None:
        msg = f"agent '{PREFIX}{profile.name}' needs a model"
        raise InputError(msg, remedy="set one with --model or in the variant file")
    return CliAgent(profile, _checked_name(setup.model.name))


def _checked_name(model: str) -> str:
    """Check that a model's name is one plain word, since it becomes part of shell lines and configuration files.

    Raises:
        InputError: it is not.
    """
    if not model or not all(char.isalnum() or char in "._:/@+-" for char in model) or not model.isascii():
        raise InputError(f"invalid model name {model!r} for a command line agent: use only letters, digits and ._:/@+-")
    return model
