"""The status of a pilot: stages with their criteria, spending, stopping rules, and what comes next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import AgentBenchError, ContractError
from agentbench.core.text import shell_quoted
from agentbench.pilot.decisions.criteria import Criterion, entry_criteria, exit_criteria
from agentbench.pilot.decisions.stopping_rules import RuleState
from agentbench.pilot.design.pilot_design import read_design, require_written_plan
from agentbench.pilot.design.pilot_file import STAGES
from agentbench.pilot.folder import PLAN
from agentbench.pilot.pilot_state import PilotState, is_frozen, read_unchanged_state, require_folder
from agentbench.pilot.registration.registration import deviations


@dataclass(frozen=True, slots=True)
class StageStatus:
    name: str
    state: str
    """`complete`, `stopped`, `running`, `next` or `waiting`."""
    planned: int
    made: int
    entry: tuple[Criterion, ...]
    exit: tuple[Criterion, ...]
    """Empty before the stage has started."""


@dataclass(frozen=True, slots=True)
class Status:
    folder: Path
    phase: str
    """`draft`, `planned`, `running`, `blocked`, `stopped` or `complete`."""
    following: str
    """The next step, as a sentence for the user."""
    registration_id: str | None = None
    stages: tuple[StageStatus, ...] = ()
    rules: tuple[RuleState, ...] = ()
    spent: float = 0.0
    budget: float = 0.0
    unit: str = ""
    removals: tuple[str, ...] = ()
    deviations: tuple[str, ...] = ()


def pilot_status(folder: Path) -> Status:
    """Return the status of a pilot in any phase.

    Raises:
        InputError: it is not a pilot, or one of its files is missing or was edited.
    """
    require_folder(folder)
    if not is_frozen(folder):
        if not (folder / PLAN).exists():
            return Status(folder, "draft", f"edit pilot.yaml, then `ab pilot plan {shell_quoted(folder)}`")
        return Status(folder, "planned", _before_freeze(folder))
    return frozen_status(read_unchanged_state(folder))


def _before_freeze(folder: Path) -> str:
    try:
        require_written_plan(read_design(folder))
    except AgentBenchError as error:
        why = error.problems[0] if isinstance(error, ContractError) and error.problems else error.message
        return f"`ab pilot plan {shell_quoted(folder)}` again: {why}"
    return f"`ab pilot freeze {shell_quoted(folder)}`; nothing runs before that"


def frozen_status(state: PilotState) -> Status:
    stages = tuple(_stage(name, state) for name in STAGES)
    units = sorted({record.cost.unit for record in state.records.all()})
    phase, following = _following(state)
    return Status(
        folder=state.folder,
        phase=phase,
        following=following,
        registration_id=state.registration.registration_id,
        stages=stages,
        rules=tuple(state.rules(state.next_stage or STAGES[-1])),
        spent=state.records.spent,
        budget=state.pilot.budgets.total,
        unit=", ".join(units),
        removals=tuple(
            f"{removal.task_id}: {removal.cause}, {removal.reason} (by {removal.by})" for removal in state.removals
        ),
        deviations=deviations(state.registrations),
    )


def _following(state: PilotState) -> tuple[str, str]:
    if state.stopped is not None:
        return (
            "stopped",
            f"stopped by rule {state.stopped.rule}: {state.stopped.why}; see `ab pilot report {shell_quoted(state.folder)}`",
        )
    stage = state.next_stage
    if stage is None:
        return "complete", f"`ab pilot report {shell_quoted(state.folder)}`"
    refused = _unmet_entry(stage, state)
    if refused:
        return "blocked", f"stage {stage} may not start ({', '.join(refused)}): {_remedy(refused, state.folder)}"
    verb = "continue" if state.stage_runs(stage) else "start"
    return "running", f"`ab pilot run {shell_quoted(state.folder)}` to {verb} stage {stage}"


def _unmet_entry(stage: str, state: PilotState) -> list[str]:
    """Return the names of the criteria for which `ab pilot run` would refuse to start a stage now."""
    entered, facts = state.last("entry", stage), state.facts()
    screening = stage == STAGES[0] and facts.screen is None
    if screening or (entered is not None and entered.met):
        return []
    return [criterion.name for criterion in entry_criteria(stage, facts) if not criterion.met]


def _remedy(refused: Sequence[str], folder: Path) -> str:
    """Say what can be done so that a stage may start, and how to end the pilot without it."""
    name = shell_quoted(folder)
    steps = [f"edit pilot.yaml and register it with `ab pilot freeze {name} --amend --reason …`"]
    if {"checks_deterministic", "flake_rate"} & set(refused):
        steps.insert(0, f"remove tasks with `ab pilot remove {name} --task ID …`")
    return f"{', or '.join(steps)}; or end here: `ab pilot report {name}`"


def _stage(name: str, state: PilotState) -> StageStatus:
    facts = state.facts()
    lines, observed = facts.of_stage(name)
    entered, left = state.last("entry", name), state.last("exit", name)
    if name in state.completed:
        word = "complete"
    elif state.stopped is not None and state.stopped.stage == name:
        word = "stopped"
    elif state.stage_runs(name):
        word = "running"
    else:
        word = "next" if state.next_stage == name else "waiting"
    entry = entered.criteria if entered is not None and (entered.met or word != "next") else entry_criteria(name, facts)
    leaving = (
        left.criteria if left is not None and left.met else exit_criteria(name, facts) if state.stage_runs(name) else ()
    )
    complete = sum(attempt.complete for attempt in observed.values())
    return StageStatus(name, word, len(lines), complete, entry, leaving)


def status_lines(status: Status) -> list[str]:
    """Return the status as text: the phase and what comes next first."""
    lines = [f"{status.phase.upper()}: next: {status.following}"]
    if status.registration_id is None:
        return lines
    lines.append(f"registration {status.registration_id}")
    for stage in status.stages:
        lines.append(f"{stage.name}: {stage.state}, {stage.made} of {stage.planned} attempts")
        for title, criteria in (("entry", stage.entry), ("exit", stage.exit)):
            lines += [f"  {title} {line}" for line in criterion_lines(criteria)]
    lines.append(f"spent {status.spent:.6g} of {status.budget:g} {status.unit}".rstrip())
    lines += [f"stopping rule {rule.rule}: {rule.state}{' (STOP)' if rule.stop else ''}" for rule in status.rules]
    lines += [f"removed {removal}" for removal in status.removals]
    lines += [f"deviation: {deviation}" for deviation in status.deviations]
    return lines


def criterion_lines(criteria: Sequence[Criterion]) -> list[str]:
    return [
        f"{'met    ' if criterion.met else 'NOT MET'} {criterion.name}: {criterion.evidence}" for criterion in criteria
    ]


def status_json(status: Status) -> dict[str, Json]:
    return {
        "pilot": str(status.folder),
        "phase": status.phase,
        "next": status.following,
        "registration_id": status.registration_id,
        "stages": [
            {
                "name": stage.name,
                "state": stage.state,
                "planned": stage.planned,
                "made": stage.made,
                "entry": [asdict(criterion) for criterion in stage.entry],
                "exit": [asdict(criterion) for criterion in stage.exit],
            }
            for stage in status.stages
        ],
        "spending": {"spent": status.spent, "budget": status.budget, "unit": status.unit},
        "stopping": [
            {
                "rule": rule.rule,
                "state": rule.state,
                "stops": rule.stop is not None,
                "why": rule.stop.why if rule.stop else "",
            }
            for rule in status.rules
        ],
        "removals": list(status.removals),
        "deviations": list(status.deviations),
    }
