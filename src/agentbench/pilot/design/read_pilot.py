"""Read `pilot.yaml`, with every problem and its line."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from agentbench.contract.problem import InvalidFileError, KeyPath, KeyProblems
from agentbench.contract.schema import Strata
from agentbench.contract.schema_problems import validate_document
from agentbench.contract.yaml_document import Document, read_document
from agentbench.core.errors import AgentBenchError
from agentbench.pilot.design.methods import load_entry_variant
from agentbench.pilot.design.pilot_file import (
    METHOD_NAME,
    STAGES,
    Budgets,
    MethodEntry,
    PilotFile,
    PowerAssumptions,
    Stages,
)
from agentbench.pilot.folder import PILOT_FILE


def read_pilot(folder: Path, names: Sequence[str] = ()) -> PilotFile:
    """Read `pilot.yaml` of a pilot. `names` are those of its methods and baselines if they are registered.

    Raises:
        ContractError: it cannot be read, or with every problem and its line.
    """
    document = pilot_document(folder)
    validated = validate_document(document, PilotFile)
    pilot, problems = validated.model, list(validated.problems)
    if pilot is not None:
        _name_variants(pilot, folder, names)
        problems += [
            document.problem(path, message)
            for path, message in _inconsistencies(pilot)
            if not any(path[: len(guessed)] == guessed for guessed in validated.guessed)
        ]
    if pilot is None or problems:
        raise InvalidFileError(document.file, problems)
    return pilot


def _name_variants(pilot: PilotFile, folder: Path, names: Sequence[str]) -> None:
    """Name methods after their variants. The copy of a registration has no variants, so their registered names are used."""
    for index, entry in enumerate(pilot.entries):
        if index < len(names):
            entry.set_default_name(names[index])
        else:
            # A variant that cannot be read is reported when the methods are resolved.
            with contextlib.suppress(AgentBenchError):
                variant = load_entry_variant(entry, folder)
                entry.set_default_name("" if variant is None else variant.name)


def pilot_document(folder: Path) -> Document:
    """Read `pilot.yaml` of a pilot with the lines of its values.

    Raises:
        ContractError: it cannot be read.
    """
    return read_document(folder / PILOT_FILE, PILOT_FILE if folder == Path() else str(folder / PILOT_FILE))


def _inconsistencies(pilot: PilotFile) -> KeyProblems:
    yield from _entry_problems(pilot)
    yield from _baseline_problems(pilot)
    yield from _stage_problems(pilot.stages)
    yield from _budget_problems(pilot.budgets)
    yield from _power_problems(pilot.power)
    yield from _efficacy_problems(pilot)
    for index, key in enumerate(pilot.strata):
        if key not in Strata.model_fields:
            yield ("strata", index), f"unknown stratum; expected one of {', '.join(Strata.model_fields)}"
        elif key in pilot.strata[:index]:
            yield ("strata", index), "given twice"


def _entry_problems(pilot: PilotFile) -> KeyProblems:
    names: set[str] = set()
    for path, entry in _entries(pilot):
        given = [key for key in ("variant", "agent", "patches") if getattr(entry, key) is not None]
        if len(given) != 1:
            yield path, f"expected exactly one of variant, agent and patches; got {', '.join(given) or 'none'}"
        if (entry.agent == "scripted") != (entry.script is not None):
            yield path, "`script` and `agent: scripted` need each other"
        if entry.model is not None and entry.variant is None:
            yield (*path, "model"), "only a variant has a model"
        if entry.minutes is not None and entry.patches is None:
            yield (*path, "minutes"), "only for patches that people make"
        if entry.name is None and not re.fullmatch(METHOD_NAME, entry.label):
            yield path, f"{entry.label!r} cannot be the name of a method; give it a `name` of letters, digits and ._-"
        if entry.label in names:
            yield path, f"two methods are called {entry.label}; give one of them another `name`"
        names.add(entry.label)


def _entries(pilot: PilotFile) -> Iterator[tuple[KeyPath, MethodEntry]]:
    for key in ("methods", "baselines"):
        for index, entry in enumerate(getattr(pilot, key)):
            yield (key, index), entry


def _baseline_problems(pilot: PilotFile) -> KeyProblems:
    agents = {entry.agent for entry in pilot.baselines}
    if "noop" not in agents:
        yield ("baselines",), "`{agent: noop}` is missing: it shows which tasks are satisfied without any work"
    if not agents & {"reference", "scripted"} and not any(entry.patches for entry in pilot.baselines):
        yield (
            ("baselines",),
            "a second baseline is missing: {agent: reference}, {agent: scripted, script: …} or {name: human, patches: …}",
        )


def _stage_problems(stages: Stages) -> KeyProblems:
    repeats = [getattr(stages, name).repeats for name in STAGES]
    for index in (1, 2):
        if repeats[index] < repeats[index - 1]:
            message = (
                f"expected at least {repeats[index - 1]}, the repeats of {STAGES[index - 1]}; got {repeats[index]}"
            )
            yield ("stages", STAGES[index], "repeats"), f"{message} (repeats include those of earlier stages)"


def _budget_problems(budgets: Budgets) -> KeyProblems:
    if budgets.task < budgets.run:
        yield ("budgets", "task"), f"{budgets.task:g} is less than one attempt may cost (budgets.run: {budgets.run:g})"
    if budgets.total < budgets.run:
        yield (
            ("budgets", "total"),
            f"{budgets.total:g} is less than one attempt may cost (budgets.run: {budgets.run:g})",
        )
    elif budgets.total < budgets.task:
        yield ("budgets", "total"), f"{budgets.total:g} is less than budgets.task ({budgets.task:g})"


def _efficacy_problems(pilot: PilotFile) -> KeyProblems:
    efficacy = pilot.stopping.efficacy
    if efficacy is None:
        return
    if len(pilot.methods) < 2:
        yield ("stopping", "efficacy"), "it compares the first two methods, and there is only one"
    if efficacy.rule == "anytime":
        given = [key for key in ("spending", "futility") if getattr(efficacy, key) is not None]
        yield from ((("stopping", "efficacy", key), "only for rule: group_sequential") for key in given)


def _power_problems(power: PowerAssumptions) -> KeyProblems:
    for index, rate in enumerate(power.rates):
        if not 0 <= rate <= 1 or rate + power.effect > 1:
            yield (
                ("power", "rates", index),
                f"expected a rate from 0 to {1 - power.effect:g} (1 - effect); got {rate:g}",
            )
    for index, correlation in enumerate(power.correlations):
        if not 0 <= correlation <= 1:
            yield ("power", "correlations", index), f"expected a number from 0 to 1; got {correlation:g}"
