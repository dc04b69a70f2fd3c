"""An agent that runs a third-party program according to its profile."""

from __future__ import annotations

import re
from collections.abc import Mapping

from agentbench.agents.base import AgentExit, AgentSetup, program_exit, require_model
from agentbench.agents.cli import names
from agentbench.agents.cli.profiles import HARBOR, INSPECT, PRIVATE, PROFILES, Profile
from agentbench.agents.command import (
    AGENT_FILES_TARGET,
    AGENT_FILES_VARIABLE,
    BRIEFING_TARGET,
    BRIEFING_VARIABLE,
)
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError
from agentbench.core.reasons import Observability
from agentbench.core.text import printable
from agentbench.tools.program_run import AgentProgram
from agentbench.tools.session import Session

_OBJECT = r"[A-Za-z_][\w.]*:[A-Za-z_]\w*"


@dataclass(frozen=True)
class Bridge:
    """Another tool whose agents can be run here. Their names are the prefix and what the tool calls them."""

    prefix: str
    profile: Profile
    forms: str
    """The forms of a name, for messages."""
    example: str
    name: re.Pattern[str]


BRIDGES = (
    Bridge(names.INSPECT, INSPECT, "inspect:MODULE:SOLVER", "inspect:my_solvers:fix", re.compile(_OBJECT, re.ASCII)),
    Bridge(
        names.HARBOR,
        HARBOR,
        "harbor:NAME or harbor:MODULE:CLASS",
        "harbor:my_agents:Fixer",
        re.compile(rf"[a-z][a-z0-9-]*|{_OBJECT}", re.ASCII),
    ),
)


class CliAgent:
    """The trace shows its requests to the gateway and its effects on the workspace."""

    observability = Observability.GATEWAY

    def __init__(self, name: str, profile: Profile, model: str, env: Mapping[str, str], argument: str = "") -> None:
        self.name = name
        self._profile = profile
        self._model = model
        self._env = env
        self._argument = argument

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
        line = self._profile.rendered(self._profile.line, model=self._model, argument=self._argument)
        env[BRIEFING_VARIABLE] = BRIEFING_TARGET
        return program_exit(session, session.run_program(AgentProgram(self.name.replace(":", "_"), line, env)))


def bridge_of(agent: str) -> Bridge | None:
    """Return the tool that an agent belongs to, or None if it is not an agent of another tool."""
    return next((bridge for bridge in BRIDGES if agent.startswith(bridge.prefix)), None)


def profile_of(agent: str) -> Profile | None:
    """Return the profile of an agent, or None if it is not a third-party program."""
    bridge = bridge_of(agent)
    if bridge is not None:
        return bridge.profile
    return PROFILES.get(agent.removeprefix(names.CLI)) if agent.startswith(names.CLI) else None


def make(profile: Profile, setup: AgentSetup) -> CliAgent:
    """Create the agent.

    Raises:
        InputError: no model was given, or its name is unsafe in a shell line.
    """
    name = f"{names.CLI}{profile.name}"
    return CliAgent(name, profile, _model_name(name, setup), setup.env)


def make_bridged(bridge: Bridge, name: str, setup: AgentSetup) -> CliAgent:
    """Create an agent of another tool. A module that its name contains is in the agent's files.

    Raises:
        InputError: the name is not of the tool's form, no model was given, or the model's name is unsafe in a shell line.
    """
    argument = name.removeprefix(bridge.prefix)
    if not bridge.name.fullmatch(argument):
        remedy = f"use {bridge.forms}, such as {bridge.example} with --agent-files FOLDER"
        raise InputError(f"invalid agent '{printable(name)}'", remedy=remedy)
    files = {} if setup.files is None else {AGENT_FILES_VARIABLE: AGENT_FILES_TARGET}
    return CliAgent(name, bridge.profile, _model_name(name, setup), {**setup.env, **files}, argument)


def _model_name(agent: str, setup: AgentSetup) -> str:
    model = require_model(agent, setup).name
    # The name becomes part of shell lines and configuration files, so it must be one plain word.
    if not model or not all(char.isalnum() or char in "._:/@+-" for char in model) or not model.isascii():
        raise InputError(f"invalid model name {model!r} for a command line agent: use only letters, digits and ._:/@+-")
    return model
