"""The state of a pilot, read from its folder alone: neither tasks nor variants are needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError
from agentbench.core.text import shell_quoted
from agentbench.pilot.decisions.criteria import StageFacts, next_stage
from agentbench.pilot.decisions.decision_log import StageDecision, read_decisions
from agentbench.pilot.decisions.efficacy import efficacy_state
from agentbench.pilot.decisions.flakes import FlakeScreen, read_screen
from agentbench.pilot.decisions.observations import Observation, Records, Seen, read_run_records
from agentbench.pilot.decisions.removals import Removal, read_removals
from agentbench.pilot.decisions.stopping_rules import RuleState, stopping_rules
from agentbench.pilot.design.pilot_file import STAGES, PilotFile
from agentbench.pilot.design.plan import PlanLine, parse_plan
from agentbench.pilot.design.power_analysis import analyse_power
from agentbench.pilot.design.read_pilot import read_pilot
from agentbench.pilot.folder import PLAN, REGISTRATION, REGISTRATIONS, RUNS, is_pilot, read_text
from agentbench.pilot.registration.registration import Registration, changed_files, read_registrations


@dataclass(frozen=True)
class PilotState:
    """A frozen pilot: its registrations, its plan, and everything that happened so far."""

    folder: Path
    pilot: PilotFile
    registrations: tuple[Registration, ...]
    lines: tuple[PlanLine, ...]
    decisions: tuple[StageDecision, ...]
    removals: tuple[Removal, ...]
    screen: FlakeScreen | None
    records: Records

    @property
    def registration(self) -> Registration:
        return self.registrations[-1]

    @property
    def removed(self) -> frozenset[str]:
        return frozenset(removal.task_id for removal in self.removals)

    @property
    def completed(self) -> frozenset[str]:
        return frozenset(decision.stage for decision in self.decisions if decision.kind == "exit" and decision.met)

    @property
    def next_stage(self) -> str | None:
        return None if self.stopped else next_stage(self.completed)

    @property
    def stopped(self) -> StageDecision | None:
        """The stop that is in force. An amendment lifts an earlier one."""
        current = self.registration.registration_id
        stops = [decision for decision in self.decisions if decision.kind == "stop"]
        return next((stop for stop in stops if stop.registration_id == current), None)

    @cached_property
    def observations(self) -> list[Observation]:
        """Final attempts, those at removed tasks included."""
        return self.records.observations()

    def stage_runs(self, stage: str) -> dict[str, str]:
        """Return the run directory of each method in a stage."""
        runs: dict[str, str] = {}
        for decision in self.decisions:
            if decision.kind == "opened" and decision.stage == stage:
                runs.update(decision.runs)
        return runs

    def registration_files(self) -> dict[Path, Path]:
        """Return the registration under which each run directory was opened first."""
        numbers = {registration.registration_id: registration.number for registration in self.registrations}
        files: dict[Path, Path] = {}
        for decision in self.decisions:
            for name in decision.runs.values():
                copy = self.folder / REGISTRATIONS / str(numbers[decision.registration_id])
                files.setdefault(self.folder / RUNS / name, copy / REGISTRATION)
        return files

    def last(self, kind: str, stage: str) -> StageDecision | None:
        matching = [decision for decision in self.decisions if (decision.kind, decision.stage) == (kind, stage)]
        return matching[-1] if matching else None

    def facts(
        self,
        *,
        seen: Seen | None = None,
        removed: frozenset[str] | None = None,
        completed: frozenset[str] | None = None,
    ) -> StageFacts:
        """Return what criteria depend on: now, or as it was when a decision was made."""
        records = self.records if seen is None else self.records.until(seen)
        out = self.removed if removed is None else removed
        lines = [line for line in self.lines if line.task_id not in out]
        tasks = len({line.task_id for line in lines})
        return StageFacts(
            pilot=self.pilot,
            lines=lines,
            observations=[attempt for attempt in records.observations() if attempt.task_id not in out],
            spent=records.spent,
            screen=self.screen,
            power=analyse_power(self.pilot.power, tasks, self.pilot.stages.full.repeats, self.pilot.seed),
            completed=self.completed if completed is None else completed,
        )

    def rules(self, stage: str, *, seen: Seen | None = None, removed: frozenset[str] | None = None) -> list[RuleState]:
        """Evaluate the stopping rules: now, or as they were when a decision was made."""
        records = self.records if seen is None else self.records.until(seen)
        return evaluate_rules(self, stage, records, self.removed if removed is None else removed)


def evaluate_rules(state: PilotState, stage: str, records: Records, removed: frozenset[str]) -> list[RuleState]:
    """Evaluate the stopping rules on some records. Efficacy may end the full stage only."""
    observations = [attempt for attempt in records.observations() if attempt.task_id not in removed]
    states = list(stopping_rules(state.pilot, observations, records.spent))
    if stage == STAGES[-1]:
        states += efficacy_state(state.pilot, state.lines, observations, removed)
    return states


def read_unchanged_state(folder: Path) -> PilotState:
    """Read a frozen pilot whose files are the registered ones.

    Raises:
        InputError: it is not frozen, or one of its files is missing or was edited.
    """
    state = read_registered_state(folder)
    changed = changed_files(state.registration, folder)
    if changed:
        copy = folder / REGISTRATIONS / str(state.registration.number)
        raise InputError(
            f"{folder} differs from its registration: {', '.join(changed)} changed since it was frozen",
            remedy=f"restore it from {copy}, or register the change with `ab pilot freeze --amend --reason …`",
        )
    return state


def read_registered_state(folder: Path) -> PilotState:
    """Read a frozen pilot with the configuration and the plan of its registration, also if the files were edited since.

    Raises:
        InputError: it is not frozen, or the copy of a registration is missing or was edited.
    """
    require_folder(folder)
    registrations = read_registrations(folder)
    decisions = tuple(read_decisions(folder))
    runs = dict.fromkeys(name for decision in decisions if decision.kind == "opened" for name in decision.runs.values())
    pilot, lines = registered_files(folder, registrations[-1])
    return PilotState(
        folder=folder,
        pilot=pilot,
        registrations=registrations,
        lines=lines,
        decisions=decisions,
        removals=tuple(read_removals(folder)),
        screen=read_screen(folder),
        records=read_run_records(folder / RUNS, list(runs)),
    )


def registered_files(folder: Path, registration: Registration) -> tuple[PilotFile, tuple[PlanLine, ...]]:
    """Read the configuration and the plan from the copy that a registration keeps.

    Raises:
        InputError: the copy is missing or was edited.
    """
    copy = folder / REGISTRATIONS / str(registration.number)
    changed = changed_files(registration, copy)
    if changed:
        remedy = f"restore it; `ab verify {shell_quoted(folder)}` lists everything that was altered"
        raise InputError(f"{copy / changed[0]} is missing or differs from the registration", remedy=remedy)
    return read_pilot(copy, registration.method_names), parse_plan(read_text(copy / PLAN), str(copy / PLAN))


def require_folder(folder: Path) -> None:
    """
    Raises:
        InputError: the folder is not a pilot.
    """
    if not is_pilot(folder):
        problem = "is not a pilot (no pilot.yaml)" if folder.is_dir() else "does not exist"
        raise InputError(
            f"{folder} {problem}",
            remedy=f"create one with `ab pilot init {shell_quoted(folder)} --suite S --method VARIANT`",
        )


def is_frozen(folder: Path) -> bool:
    return (folder / REGISTRATION).exists()


def stage_counts(lines: Sequence[PlanLine]) -> Mapping[str, int]:
    return {stage: sum(line.stage == stage for line in lines) for stage in STAGES}
