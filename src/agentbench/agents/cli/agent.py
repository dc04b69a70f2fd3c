"""The agent that runs a program of others, as its profile says."""

from __future__ import annotations

from agentbench.agents.base import AgentExit, AgentSetup
from agentbench.agents.cli.profile import PRIVATE, Profile
from agentbench.agents.cli.profiles import PROFILES
from agentbench.agents.command import BRIEFING_TARGET, BRIEFING_VARIABLE
from agentbench.core.errors import InputError
from agentbench.core.reasons import Observability, TerminationCode
from agentbench.tools.session import AgentProgram, Session

PREFIX = "cli:"


class CliAgent:
    """Its traffic with the model passes the gateway; beside that, only its effects are seen."""

    observability = Observability.GATEWAY

    def __init__(self, profile: Profile, model: str) -> None:
        self.name = f"{PREFIX}{profile.name}"
        self._profile = profile
        # A model is named by whoever runs it; in a shell line and in a configuration it must stay one word.
        self._model = model

    def run(self, session: Session) -> AgentExit:
        briefing = session.briefing.text
        session.place(BRIEFING_TARGET, briefing.encode())
        # A program may expect that the folder it is told to use exists.
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
            return AgentExit(TerminationCode.AGENT_STOPPED, "the program ended with status 0", evidence)
        # What it left behind is graded all the same.
        return AgentExit(TerminationCode.AGENT_CRASHED, f"the program ended with {result.error_message}", evidence)


def profile_of(agent: str) -> Profile | None:
    """Of an agent's name; None when it is no program of this kind."""
    return PROFILES.get(agent.removeprefix(PREFIX)) if agent.startswith(PREFIX) else None


def make(profile: Profile, setup: AgentSetup) -> CliAgent:
    """
    Raises:
        InputError: no model was given, or one whose name cannot be handed to a program.
    """
    if setup.model is None:
        msg = f"the agent '{PREFIX}{profile.name}' needs a model"
        raise InputError(msg, remedy="give one with --model, or in the variant file")
    return CliAgent(profile, _word(setup.model.name))


def _word(model: str) -> str:
    """
    Raises:
        InputError: the name is no single plain word.
    """
    if not model or not all(part.isalnum() or part in "._:/@+-" for part in model) or not model.isascii():
        msg = f"the model's name {model!r} cannot be handed to a program: letters, digits and ._:/@+- only"
        raise InputError(msg)
    return model
