"""Write a new pilot: a commented `pilot.yaml`, and the schema that editors use."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from agentbench.contract.json_schema import schema_text
from agentbench.contract.suite import DEMO
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError
from agentbench.core.problems import Problems
from agentbench.execution.variant_file import is_path
from agentbench.pilot.design.methods import load_entry_variant
from agentbench.pilot.design.pilot_file import AGENTS, MethodEntry, PilotFile
from agentbench.pilot.folder import PILOT_FILE, is_pilot, write_text

SCHEMA = "pilot.schema.json"


@dataclass(frozen=True, slots=True)
class NewPilot:
    """The options of `ab pilot init`."""

    suites: tuple[str, ...]
    methods: tuple[str, ...]
    tasks_dir: Path
    strata: tuple[str, ...] = ()


def new_pilot(folder: Path, options: NewPilot) -> Path:
    """Write `pilot.yaml` into a folder, and return its path.

    Raises:
        InputError: the folder has one already or cannot be created, or a method is unknown.
    """
    if is_pilot(folder):
        raise InputError(f"{folder / PILOT_FILE} exists", remedy="choose another folder")
    _require_variants(options.methods, folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot create {folder}: {error.strerror}") from None
    suites = "".join(_suite(name, options.tasks_dir, folder) for name in options.suites)
    text = _TEMPLATE.replace("@SUITES@", suites).replace("@METHODS@", _methods(options.methods, folder))
    text = text.replace("@STRATA@", json.dumps(list(options.strata)))
    write_text(folder / SCHEMA, schema_text(PilotFile))
    write_text(folder / PILOT_FILE, text)
    return folder / PILOT_FILE


def _require_variants(names: Sequence[str], folder: Path) -> None:
    """
    Raises:
        InputError: a method is neither an agent nor a variant that can be read; with all of them.
    """
    problems = Problems()
    for name in names:
        entry = None if name in AGENTS else MethodEntry(variant=name)
        # Paths on the command line are relative to the working directory.
        place = Path() if is_path(name) else folder
        problems.collect(lambda entry=entry, place=place: entry and load_entry_variant(entry, place))  # type: ignore[misc]
    problems.raise_all(", nothing was written")


def _suite(name: str, tasks_dir: Path, folder: Path) -> str:
    if name == DEMO:
        return f"  - name: {json.dumps(name)}\n"
    return f"  - name: {json.dumps(name)}\n    tasks_dir: {json.dumps(_relative(tasks_dir, folder))}\n"


def _relative(path: Path, folder: Path) -> str:
    return os.path.relpath(path.resolve(), folder.resolve())


def _methods(names: Sequence[str], folder: Path) -> str:
    lines = []
    for name in names:
        if name == "scripted":
            lines.append("  - {agent: scripted, script: scripts}\n")
        else:
            key = "agent" if name in AGENTS else "variant"
            value = _relative(Path(name), folder) if is_path(name) else name
            lines.append(f"  - {{{key}: {json.dumps(value)}}}\n")
    return "".join(lines)


_TEMPLATE = f"""\
# yaml-language-server: $schema={SCHEMA}
# A pre-registered, staged pilot. Edit this file, then:
#   ab pilot plan DIR      writes plan.csv, power.json, cost_projection.csv
#   ab pilot freeze DIR    registers all of it; nothing runs before
#   ab pilot run DIR       carries the next stage out

question: "Does the first method solve more tasks than the second?"

# Primary endpoint: contract (all gates passed) or acceptance (all checks passed), within the budget of an attempt.
endpoint: contract

suites:
@SUITES@
# Keys of `strata` in task.yaml: ecosystem, kind, test_runtime, dependencies. Every stratum needs two tasks.
strata: @STRATA@

# Methods under test. A variant from configs/variants or variants/ beside this file, or a bundled agent.
methods:
@METHODS@
# Required: noop, and one of reference, scripted and patches ({{name: human, patches: human}} with TASK.patch for each task).
baselines:
  - {{agent: noop}}
  - {{agent: reference}}

# Repeats are attempts per task and method, earlier stages included: every attempt is made once.
stages:
  feasibility: {{tasks_per_stratum: 2, repeats: 1}}
  limited: {{repeats: 1}}
  full: {{repeats: 3}}

# In the unit of the price table. No task may allow an attempt more than `run` with its own budget.usd.
budgets: {{total: 100.0, task: 20.0, run: 5.0}}

# The full stage starts only if every combination reaches the target power.
power:
  rates: [0.3, 0.5]            # plausible success rates of the weaker method
  effect: 0.3                  # smallest difference that matters
  correlations: [0.3, 0.6]     # plausible correlations between repeats of a task
  alpha: 0.05
  target: 0.8

# Before the first stage, baseline and reference of every task are checked so often.
flakes: {{screen_repeats: 2, tolerance: 0.0}}

# The total budget always stops the pilot. Count attempts of one method:
stopping:
  safety_attempts: 2           # that violated a boundary
  # breaker_attempts: 5        # that a breaker ended
  # cap_attempts: 5            # that reached a cap
  # End the full stage when the comparison of the first two methods is decided, with the alpha and effect of `power`:
  # efficacy: {{rule: group_sequential, looks: 3, spending: obrien_fleming, futility: {{conditional_power: 0.1}}}}
  # efficacy: {{rule: anytime, looks: 10}}

# Seed of the protocol; another value is reported as a deviation.
seed: 20260307

# prices: prices.csv           # price table; without it, costs are in abstract units

# Assumptions about one attempt, for cost_projection.csv. A model, not spending, and not the price table.
cost_inputs:
  prompt_tokens: 100000
  completion_tokens: 10000
  exec_minutes: 5.0
  review_minutes: 0.0
  overhead: 0.0
  low: 0.5                     # factors of the optimistic and the pessimistic scenario
  high: 2.0
  prices: {{prompt_1m: 3.0, completion_1m: 15.0, exec_hour: 0.5, review_hour: 60.0}}
"""
