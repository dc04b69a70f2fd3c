"""The plug-ins and objects of this process that a run uses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias

from agentbench.contract.parsers import OTHER_PARSERS
from agentbench.core.errors import InputError
from agentbench.core.problems import Problems
from agentbench.execution.attempt.monitors import OTHER_MONITORS
from agentbench.execution.executor_function import OTHER_EXECUTORS
from agentbench.execution.plan import PlanRow
from agentbench.plugins.extensions import Extensions, Used
from agentbench.sandbox.registry import OTHER_SANDBOXES

AnyExtensions: TypeAlias = Extensions[Any]
PYTHON = "python:"
"""Prefix of a model that was passed in."""


def run_extensions() -> tuple[AnyExtensions, ...]:
    """Return the kinds that a run can use."""
    from agentbench.agents.registry import OTHER_AGENTS  # noqa: PLC0415 - grading a patch needs no agent
    from agentbench.contract.scorers import OTHER_SCORERS  # noqa: PLC0415 - few tasks have scorers

    return OTHER_AGENTS, OTHER_SCORERS, OTHER_PARSERS, OTHER_SANDBOXES, OTHER_EXECUTORS, OTHER_MONITORS


class RunExtensions(Protocol):
    """The names that a run adds to those of its tasks: of a request, or of a lab."""

    @property
    def scorers(self) -> tuple[str, ...]: ...

    @property
    def monitors(self) -> tuple[str, ...]: ...

    @property
    def sandbox(self) -> str: ...

    @property
    def executor(self) -> str: ...


def used_by(row: PlanRow, run: RunExtensions) -> tuple[Used, ...]:
    """Return what one attempt uses, for its manifest."""
    names = (*_agents([row]), *_names([row], run))
    return tuple(used for extensions, name in names if (used := extensions.used(name)) is not None)


def require_extensions(rows: Sequence[PlanRow], run: RunExtensions) -> None:
    """Load every plug-in that the attempts use, besides their agents, which `require_agents` has loaded.

    Raises:
        InputError: one is missing or broken.
    """
    problems = Problems()
    for extensions, name in _names(rows, run):
        if name not in extensions.built_in:
            problems.collect(partial(extensions.get, name))
    problems.raise_all()


def passed_in(rows: Sequence[PlanRow], run: RunExtensions) -> tuple[str, ...]:
    """Return the objects of this process that the attempts use, as `KIND NAME`."""
    names = (*_agents(rows), *_names(rows, run))
    used = [f"{extensions.kind} {name}" for extensions, name in names if name in extensions.registered()]
    models = {str(row.configuration.value("model")) for row in rows}
    return (*used, *sorted(f"model {model.removeprefix(PYTHON)}" for model in models if model.startswith(PYTHON)))


def require_passed_in(names: Sequence[str]) -> None:
    """Check that this process has the objects that a run was started with from Python.

    Raises:
        InputError: one is missing.
    """
    from agentbench.models.python_model import PYTHON_MODELS  # noqa: PLC0415 - slow import

    here = {f"{extensions.kind} {name}" for extensions in run_extensions() for name in extensions.registered()}
    here |= {f"model {name}" for name in PYTHON_MODELS}
    for missing in (name for name in names if name not in here):
        kind, _, name = missing.partition(" ")
        msg = f"the run used {kind} '{name}', which was passed in from Python and is not in this process"
        raise InputError(msg, remedy="start a new run from Python, or make a package of it: `ab plugin new`")


def _agents(rows: Sequence[PlanRow]) -> list[tuple[AnyExtensions, str]]:
    names = dict.fromkeys(row.configuration.agent for row in rows if row.configuration.patch is None)
    if not names:
        return []
    from agentbench.agents.registry import OTHER_AGENTS  # noqa: PLC0415 - grading a patch needs no agent

    return [(OTHER_AGENTS, name) for name in names]


def _names(rows: Sequence[PlanRow], run: RunExtensions) -> list[tuple[AnyExtensions, str]]:
    """List what attempts use by name, each once, built in or not."""
    return list(dict.fromkeys(pair for row in rows for pair in _names_of_row(row, run)))


def _names_of_row(row: PlanRow, run: RunExtensions) -> Iterator[tuple[AnyExtensions, str]]:
    yield from ((OTHER_PARSERS, check.parser) for check in row.task.checks)
    if scorers := (*(scorer.type for scorer in row.task.scorers), *run.scorers):
        from agentbench.contract.scorers import OTHER_SCORERS  # noqa: PLC0415 - few tasks have scorers

        yield from ((OTHER_SCORERS, name) for name in scorers)
    yield from ((OTHER_MONITORS, name) for name in run.monitors)
    yield OTHER_SANDBOXES, run.sandbox
    yield OTHER_EXECUTORS, run.executor
