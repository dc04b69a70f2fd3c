"""An agent that runs a third-party program according to its profile."""

from __future__ import annotations

from collections.abc import Mapping

from agentbench.agents.base import AgentExit, AgentSetup, program_exit, require_model
from agentbench.agents.cli.profiles import PRIVATE, PROFILES, Profile
from agentbench.agents.command import BRIEFING_TARGET, BRIEFING_VARIABLE
from agentbench.core.errors import InputError
from agentbench.core.reasons import Observability
from agentbench.tools.program_run import AgentProgram
from agentbench.tools.session import Session

PREFIX = "cli:"


class CliAgent:
    """The trace shows its requests to the gateway and its effects on the workspace."""

    observability = Observability.GATEWAY

    def __init__(self, profile: Profile, model: str, env: Mapping[str, str]) -> None:
        self.name = f"{PREFIX}{profile.name}"
        self._profile = profile
        self._model = model
        self._env = env

    def run(self, session: Session) -> AgentExit:
        briefing = session.briefing.text
        session.place(BRIEFING_TARGET, briefing.encode())
        # Create the folder: some programs expect that their configuration folder exists.
        session.place(f"{PRIVATE}/.keep", b"")
        for name, text in self._profile.files.items():
            filled = self._profile.rendered(text, model=self._model, briefing=briefing)
            session.place(f"{PRIVATE}/{name}", filled.encode())
        env = {name: self._profile.rendered(text, model=self._model) for name, text in self._profile.env.items()}
        env = {**self._env, **env}
        line = self._profile.rendered(self._profile.line, model=self._model)
        env[BRIEFING_VARIABLE] = BRIEFING_TARGET
        return program_exit(session, session.run_program(AgentProgram(self.name.replace(":", "_"), line, env)))


def profile_of(agent: str) -> Profile | None:
    """Return the profile of an agent, or None if its name is not `cli:NAME`."""
    return PROFILES.get(agent.removeprefix(PREFIX)) if agent.startswith(PREFIX) else None


def make(profile: Profile, setup: AgentSetup) -> CliAgent:
    """Create the agent.

    Raises:
        InputError: no model was given, or its name is unsafe in a shell line.
    """
    model = require_model(f"{PREFIX}{profile.name}", setup).name
    # The name becomes part of shell lines and configuration files, so it must be one plain word.
    if not model or not all(char.isalnum() or char in "._:/@+-" for char in model) or not model.isascii():
        raise InputError(f"invalid model name {model!r} for a command line agent: use only letters, digits and ._:/@+-")
    return CliAgent(profile, model, setup.env)
