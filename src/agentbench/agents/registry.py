"""Agents by name: a table of the bundled ones, and plug-ins from the entry points `agentbench.agents`.

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
from agentbench.contract.schema import Task
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
NEED_MODEL = frozenset({"llm_v0", "context_packer", "subagents"})
"""Agents that need a model, besides all third-party programs."""
ALIASES: Mapping[str, str] = {"no-op": "noop", "oracle": "reference"}
_defined: dict[str, Factory] = {}
"""Agents that this process defined in Python."""


def known_agents() -> tuple[str, ...]:
    """List every agent, bundled ones first."""
    return (*AGENTS, *_defined, *sorted(name for name in _installed() if name not in AGENTS))


def define_agent(name: str, factory: Factory) -> None:
    """Add an agent of this process. Defining it again replaces it.

    Raises:
        InputError: a bundled or installed agent has the name.
    """
    if name in AGENTS or name in ALIASES or name in _installed():
        raise InputError(f"there is an agent '{name}' already", remedy="rename the function")
    _defined[name] = factory


def is_defined_here(name: str) -> bool:
    """Return whether this process defined the agent, so that no other process has it."""
    return name in _defined


def make_agent(name: str, setup: AgentSetup) -> Agent:
    """Create an agent for one attempt.

    Raises:
        InputError: unknown agent, it cannot be loaded, or something it needs is missing.
    """
    return _factory(name)(setup)


def require_agent(name: str, *, has_model: bool) -> None:
    """Check that an agent exists and has the model it needs.

    Raises:
        InputError: it does not.
    """
    _factory(name)
    if not has_model and (name in NEED_MODEL or name.startswith(cli.PREFIXES)):
        raise InputError(f"agent '{name}' needs a model", remedy="set one with --model or in the variant file")


def require_setup(name: str, setup: AgentSetup) -> None:
    """Check that a bundled agent without a model has the files and options it needs.

    Raises:
        InputError: a script, a command, a folder or the task's reference is missing or invalid.
    """
    name = ALIASES.get(name, name)
    if name in {"scripted", "command", "reference"}:
        AGENTS[name](setup)
    command.agent_mounts(setup)


def require_turns(name: str, turns: int) -> None:
    """Check that an agent supports the further turns of a task.

    Raises:
        InputError: it is a command line agent, which ends with its first turn.
    """
    if turns and name.startswith(cli.PREFIXES):
        msg = f"agent '{name}' does not support multi-turn tasks (the task has {turns} further turns)"
        raise InputError(msg, remedy="use an agent that does, such as llm_v0, scripted or command")


def require_tools(name: str, task: Task) -> None:
    """Check that an agent works through tools if the task needs that: strict stages cannot be enforced on a program.

    Raises:
        InputError: it is a program.
    """
    if task.policy.stage_mode == "strict" and (name == "command" or name.startswith(cli.PREFIXES)):
        msg = f"agent '{name}' cannot run task '{task.id}': `stage_mode: strict` cannot be enforced on a program, which acts without tools"
        raise InputError(
            msg, remedy="use an agent that works through tools, such as llm_v0, or set `policy.stage_mode: auto`"
        )


def _factory(name: str) -> Factory:
    known_here = AGENTS.get(ALIASES.get(name, name)) or _defined.get(name)
    if known_here is not None:
        return known_here
    if name.startswith(cli.INSPECT_PREFIX):
        return partial(cli.make_solver, name)
    installed = _installed()
    if name not in installed:
        known = known_agents()
        msg = f"unknown agent '{name}'{did_you_mean(name, [*known, *ALIASES])}"
        raise InputError(msg, remedy=f"available agents: {', '.join([*known, cli.SOLVER])}")
    return _load(installed[name])


def _installed() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def _load(point: EntryPoint) -> Factory:
    try:
        loaded = point.load()
    except Exception as error:
        msg = f"cannot load agent '{point.name}' ({point.value}): {type(error).__name__}: {error}"
        raise InputError(msg) from error
    if not callable(loaded):
        raise InputError(f"agent '{point.name}' ({point.value}) is not callable")
    factory: Factory = loaded
    return factory
