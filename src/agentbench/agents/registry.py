"""The agents by name. Ours are in an explicit table; anybody's come through the entry points `agentbench.agents`.

An entry point names a function that takes an `AgentSetup` and returns an `Agent`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import EntryPoint, entry_points

from agentbench.agents import command, llm_v0, noop, reference, scripted
from agentbench.agents import subagents as team
from agentbench.agents.base import Agent, AgentSetup
from agentbench.agents.cli import agent as cli
from agentbench.agents.cli.profiles import PROFILES
from agentbench.contract.problem import did_you_mean
from agentbench.core.errors import InputError

GROUP = "agentbench.agents"

Factory = Callable[[AgentSetup], Agent]

AGENTS: Mapping[str, Factory] = {
    "noop": noop.make,
    "reference": reference.make,
    "scripted": scripted.make,
    "command": command.make,
    "llm_v0": llm_v0.make,
    "context_packer": llm_v0.make_context_packer,
    "subagents": team.make,
    **{f"{cli.PREFIX}{name}": partial(cli.make, profile) for name, profile in PROFILES.items()},
}
ASKING = frozenset({"llm_v0", "context_packer", "subagents"})
"""Agents that work with a model, beside the programs of others."""
ALIASES: Mapping[str, str] = {"no-op": "noop", "oracle": "reference"}


def known_agents() -> tuple[str, ...]:
    """Every name that can be asked for: ours first."""
    return (*AGENTS, *sorted(name for name in _installed() if name not in AGENTS))


def make_agent(name: str, setup: AgentSetup) -> Agent:
    """A fresh agent for one attempt.

    Raises:
        InputError: there is no such agent, it cannot be loaded, or something it needs is missing.
    """
    return _factory(name)(setup)


def require_agent(name: str, *, has_model: bool) -> None:
    """
    Raises:
        InputError: there is no agent of this name, or it needs a model and has none.
    """
    _factory(name)
    if not has_model and (name in ASKING or name.startswith(cli.PREFIX)):
        msg = f"the agent '{name}' needs a model"
        raise InputError(msg, remedy="give one with --model, or in the variant file")


def require_conversation(name: str, turns: int) -> None:
    """
    Raises:
        InputError: the task has further turns, and the agent is a program that is done when it ends.
    """
    if turns and name.startswith(cli.PREFIX):
        msg = f"the agent '{name}' cannot be told more after its first turn, and the task has {turns} further turns"
        raise InputError(msg, remedy="use an agent that holds a conversation, such as llm_v0, scripted or command")


def _factory(name: str) -> Factory:
    ours = AGENTS.get(ALIASES.get(name, name))
    if ours is not None:
        return ours
    installed = _installed()
    if name not in installed:
        known = known_agents()
        msg = f"unknown agent '{name}'{did_you_mean(name, [*known, *ALIASES])}; there are: {', '.join(known)}"
        raise InputError(msg)
    return _load(installed[name])


def _installed() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def _load(point: EntryPoint) -> Factory:
    try:
        found = point.load()
    except Exception as error:
        msg = f"agent '{point.name}' ({point.value}) cannot be loaded: {type(error).__name__}: {error}"
        raise InputError(msg) from error
    if not callable(found):
        msg = f"agent '{point.name}' ({point.value}) is not a function that makes an agent"
        raise InputError(msg)
    factory: Factory = found
    return factory
