"""Agents by name: a table of the bundled ones, and those of plug-ins and of this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from agentbench.agents import command, llm_v0, noop, reference, scripted
from agentbench.agents import subagents as team
from agentbench.agents.base import Agent, AgentFactory, AgentSetup, no_model
from agentbench.agents.cli import agent as cli
from agentbench.agents.cli.names import CLI, is_third_party
from agentbench.agents.cli.profiles import PROFILES
from agentbench.contract.problem import did_you_mean
from agentbench.contract.schema import Task
from agentbench.core.errors import InputError
from agentbench.core.problems import Problems
from agentbench.models.protocol import Message, Reply, ToolSpec
from agentbench.plugins.extensions import Extensions
from agentbench.plugins.kinds import Kind

AGENTS: Mapping[str, AgentFactory] = {
    "noop": noop.make,
    "reference": reference.make,
    "scripted": scripted.make,
    "command": command.make,
    "llm_v0": llm_v0.make,
    "context_packer": llm_v0.make_context_packer,
    "subagents": team.make,
    **{f"{CLI}{name}": partial(cli.make, profile) for name, profile in PROFILES.items()},
}
NEED_MODEL = frozenset({"llm_v0", "context_packer", "subagents"})
"""Agents that need a model, besides all third-party programs."""
OPTIONS: Mapping[str, tuple[str, ...]] = {"context_packer": ("context_tokens",), "scripted": ("script",)}
"""Options of the bundled agents in variants."""
ALIASES: Mapping[str, str] = {"no-op": "noop", "oracle": "reference"}
OTHER_AGENTS: Extensions[AgentFactory] = Extensions(Kind.AGENT, frozenset({*AGENTS, *ALIASES}))


def known_agents() -> tuple[str, ...]:
    """List every agent, bundled ones first."""
    return (*AGENTS, *OTHER_AGENTS.names())


def canonical_name(name: str) -> str:
    """Return the name of an agent for its name or alias."""
    return ALIASES.get(name, name)


def make_agent(name: str, setup: AgentSetup) -> Agent:
    """Create an agent for one attempt.

    Raises:
        InputError: unknown agent, it cannot be loaded, or something it needs is missing.
    """
    return _factory(name)(setup)


class UnusedModel:
    """Stands in for the model of an agent that is created only to check its settings."""

    name = "unused"

    def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = (), *, max_tokens: int | None = None
    ) -> Reply:
        raise NotImplementedError


def needs_model(name: str) -> bool:
    """Return whether a bundled agent asks a model in every attempt."""
    return canonical_name(name) in NEED_MODEL


def require_agent(name: str, *, has_model: bool, chosen: bool = True) -> None:
    """Check that an agent exists and has the model it needs. `chosen`: it is not the default.

    Raises:
        InputError: it does not.
    """
    _factory(name)
    if not has_model and (name in NEED_MODEL or is_third_party(name)):
        raise no_model(name, chosen=chosen)


def require_setup(name: str, setup: AgentSetup) -> None:
    """Check that a bundled agent has the files, the prompt and the options it needs.

    Raises:
        InputError: a script, a command, a folder or the task's reference is missing or invalid, or a prompt or an option
            is unknown.
    """
    name, problems = canonical_name(name), Problems()
    if name in AGENTS:
        options = OPTIONS.get(name, ())
        for option in setup.options:
            if option not in options:
                msg = f"unknown option '{option}' of agent '{name}'{did_you_mean(option, options)}"
                problems.add(InputError(msg, remedy=f"options of '{name}': {', '.join(options) or 'none'}"))
    if name in {"scripted", "command", "reference"}:
        problems.collect(partial(AGENTS[name], setup))
    elif name in NEED_MODEL:
        # Each part on its own, so that a bad prompt does not hide a bad option.
        bare = replace(setup, model=UnusedModel(), prompt=None, options={})
        problems.collect(partial(AGENTS[name], replace(bare, prompt=setup.prompt)))
        problems.collect(partial(AGENTS[name], replace(bare, options=setup.options)))
    problems.collect(partial(command.agent_mounts, setup))
    problems.raise_all()


def require_turns(name: str, turns: int) -> None:
    """Check that an agent supports the further turns of a task.

    Raises:
        InputError: it is a command line agent, which ends with its first turn.
    """
    if turns and is_third_party(name):
        msg = f"agent '{name}' does not support multi-turn tasks (the task has {turns} further turns)"
        raise InputError(msg, remedy="use an agent that does, such as llm_v0, scripted or command")


def require_tools(name: str, task: Task) -> None:
    """Check that an agent works through tools if the task needs that: strict stages cannot be enforced on a program.

    Raises:
        InputError: it is a program.
    """
    if task.policy.stage_mode == "strict" and (name == "command" or is_third_party(name)):
        msg = f"agent '{name}' cannot run task '{task.id}': `stage_mode: strict` cannot be enforced on a program, which acts without tools"
        raise InputError(
            msg, remedy="use an agent that works through tools, such as llm_v0, or set `policy.stage_mode: auto`"
        )


def _factory(name: str) -> AgentFactory:
    bundled = AGENTS.get(canonical_name(name))
    if bundled is not None:
        return bundled
    bridge = cli.bridge_of(name)
    if bridge is not None:
        return partial(cli.make_bridged, bridge, name)
    if not OTHER_AGENTS.has(name):
        names = known_agents()
        msg = f"unknown agent '{name}'{did_you_mean(name, [*names, *ALIASES])}"
        raise InputError(
            msg, remedy=f"available agents: {', '.join([*names, *(bridge.forms for bridge in cli.BRIDGES)])}"
        )
    return OTHER_AGENTS.get(name)
