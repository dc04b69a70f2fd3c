"""Carry out the next stage of a pilot in the order of its plan, with the ordinary machinery of runs.

A stage has one run directory per method in `runs/`. It can be killed at any moment: the next `ab pilot run` continues it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from agentbench.contract.identity import identify
from agentbench.core.errors import InputError
from agentbench.core.file_lock import try_lock
from agentbench.pilot.config import PILOT_FILE, STAGES
from agentbench.pilot.criteria import entry_criteria, exit_criteria
from agentbench.pilot.decisions import StageDecision, append_decision, stop_decision
from agentbench.pilot.errors import CriterionNotMet
from agentbench.pilot.flakes import FlakeScreen, ScreenedTask, screen_digest, write_screen
from agentbench.pilot.folder import RUNS
from agentbench.pilot.observations import Records, observe
from agentbench.pilot.planning import Planning, compute_plan, prices_file
from agentbench.pilot.registration import deviations, require_unchanged
from agentbench.pilot.state import PilotState, evaluate_rules, read_registered_state
from agentbench.pilot.stopping import Stop
from agentbench.record.find_run import run_directories
from agentbench.record.run_directory import RunDirectory
from agentbench.record.schema import AttemptRecord, parse_record
from agentbench.reports.sources import open_run
from agentbench.run.config import CliChoices
from agentbench.run.job import Observer
from agentbench.run.lab import Lab
from agentbench.run.request import RunRequest
from agentbench.run.study import Study, continue_study
from agentbench.run.validation import validate_suite

Report = Callable[[str], None]


@contextmanager
def pilot_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a pilot: one process at a time changes it.

    Raises:
        InputError: another process holds it.
    """
    try:
        fd = os.open(folder / PILOT_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        raise InputError(f"{folder} is not a pilot (no {PILOT_FILE})") from None
    try:
        if not try_lock(fd):
            raise InputError(f"another process is changing {folder}", remedy="wait until it has finished")
        yield
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)
        os.close(fd)


@dataclass(frozen=True, slots=True)
class Options:
    """How to run a stage; none of it changes what attempts do."""

    workers: int = 1
    executor: str = "local"


@dataclass(slots=True)
class StageRun:
    """A stage that is being carried out."""

    planning: Planning
    state: PilotState
    stage: str
    options: Options

    def enter(self, report: Report) -> StageDecision:
        """Decide whether the stage may start, and log the decision. A stage that was entered stays so.

        Raises:
            HarnessError: the flake screen failed.
        """
        earlier = self.state.last("entry", self.stage)
        if earlier is not None and earlier.met:
            return earlier
        if self.stage == STAGES[0] and self._unscreened():
            self._screen(report)
        criteria = entry_criteria(self.stage, self.state.facts())
        decision = StageDecision(
            "entry",
            self.stage,
            self.state.registration.registration_id,
            met=all(criterion.met for criterion in criteria),
            criteria=criteria,
            seen=self.state.records.seen,
            removed=tuple(sorted(self.state.removed)),
            screen=screen_digest(self.state.folder),
        )
        append_decision(self.state.folder, decision)
        return decision

    def _unscreened(self) -> bool:
        screened = self.state.screen.by_task if self.state.screen else {}
        identities = {task.task_id: task.contract_id for task in self.state.registration.tasks}
        return any(
            task not in screened or screened[task].contract_id != contract_id
            for task, contract_id in identities.items()
            if task not in self.state.removed
        )

    def _screen(self, report: Report) -> None:
        """Check baseline and reference of every task several times, and keep the result."""
        repeats = self.planning.pilot.flakes.screen_repeats
        tasks = [task for task in self.planning.sample.tasks if task.id not in self.state.removed]
        with Lab(sandbox=self.planning.pilot.sandbox) as lab:
            results = validate_suite(tasks, lab, repeats=repeats, workers=self.options.workers, report=report)
        contracts = {task.id: identify(task).contract_id for task in tasks}
        screened = [
            ScreenedTask(
                task_id=result.task_id,
                contract_id=contracts[result.task_id],
                valid=result.valid,
                baseline=result.baseline,
                reference=result.reference,
                flaky=result.flaky,
                why=result.why,
            )
            for result in results
        ]
        write_screen(self.state.folder, FlakeScreen(repeats=repeats, tasks=tuple(screened)))
        self.state = read_registered_state(self.state.folder)

    @contextmanager
    def open(self, observer: Observer) -> Iterator[Study]:
        """Open the run directories of the stage and yield its study, which stops when a stopping rule holds.

        Raises:
            InputError, SandboxUnavailable: an attempt cannot run here; nothing was written.
        """
        folder, state = self.state.folder, self.state
        lines = [line for line in state.lines if line.stage == self.stage and line.task_id not in state.removed]
        rows = self.planning.rows(lines)
        link = {
            "pilot": {
                "registration_id": state.registration.registration_id,
                "stage": self.stage,
                "deviations": list(deviations(state.registrations)),
            }
        }
        paths = stage_directories(folder / RUNS, self.stage)
        with continue_study(rows, self._request(), observer, paths, link, state.records.all()) as study:
            study.again = lambda record: not observe(record).complete
            runs = {variant: run.path.name for variant, run in study.runs.items()}
            opened = StageDecision(
                "opened",
                self.stage,
                state.registration.registration_id,
                seen=state.records.seen,
                removed=tuple(sorted(state.removed)),
                runs=runs,
                workers=self.options.workers,
            )
            append_decision(folder, opened)
            self.state = read_registered_state(folder)
            study.admit = StopWatch(self.state, self.stage)
            yield study

    def _request(self) -> RunRequest:
        pilot, folder = self.planning.pilot, self.planning.folder
        prices = prices_file(pilot, folder)
        return RunRequest(
            suite="+".join(entry.name for entry in pilot.suites),
            tasks_dir="",
            task_paths=(),
            variants=(),
            choices=CliChoices(),
            repeats=pilot.stages.full.repeats,
            seed=pilot.seed,
            workers=self.options.workers,
            executor=self.options.executor,
            sandbox=pilot.sandbox,
            prices=str(prices.absolute()) if prices else None,
            task_usd=pilot.budgets.task,
            total_usd=pilot.budgets.total,
            out=folder / RUNS,
        )

    def close(self) -> StageDecision:
        """Decide how the stage ended, after its attempts: a stop, or its exit criteria. Logs the decision."""
        self.state = state = read_registered_state(self.state.folder)
        if state.stopped is not None:
            return state.stopped
        removed = tuple(sorted(state.removed))
        stop = next((rule.stop for rule in state.rules(self.stage) if rule.stop is not None), None)
        if stop is not None:
            decision = stop_decision(self.stage, state.registration.registration_id, stop, state.records.seen, removed)
        else:
            criteria = exit_criteria(self.stage, state.facts())
            decision = StageDecision(
                "exit",
                self.stage,
                state.registration.registration_id,
                met=all(criterion.met for criterion in criteria),
                criteria=criteria,
                seen=state.records.seen,
                removed=removed,
            )
        append_decision(state.folder, decision)
        self.state = read_registered_state(state.folder)
        return decision


def prepare_stage(folder: Path, stage: str | None, options: Options) -> StageRun:
    """Check that the next stage of a pilot may be carried out.

    Raises:
        InputError: the pilot is not frozen, something frozen has changed, or recorded attempts were altered.
        CriterionNotMet: the pilot is complete or was stopped, or an earlier stage is not complete.
    """
    state = read_registered_state(folder)
    planning = compute_plan(folder)
    require_unchanged(state.registration, planning)
    _require_intact(state)
    if state.stopped is not None:
        remedy = "`ab pilot report` shows the results; an amendment with a reason can lift the stop"
        raise CriterionNotMet(
            f"the pilot was stopped in stage {state.stopped.stage}: {state.stopped.why}", remedy=remedy
        )
    following = state.next_stage
    if following is None:
        raise CriterionNotMet("all stages of the pilot are complete", remedy="see `ab pilot report`")
    if stage is not None and stage != following:
        if stage in state.completed:
            raise InputError(f"stage {stage} is complete", remedy=f"the next stage is {following}")
        raise CriterionNotMet(f"stage {stage} cannot start: stage {following} is not complete")
    return StageRun(planning, state, following, options)


def _require_intact(state: PilotState) -> None:
    """Compare records with their seals and with what decisions have seen.

    Raises:
        InputError: attempts are missing or were altered.
    """
    for decision in state.decisions:
        state.records.until(decision.seen)
    for name in state.records.by_run:
        altered = open_run(state.folder / RUNS / name).altered
        if altered:
            remedy = f"restore it; `ab verify {state.folder}` lists everything that was altered"
            raise InputError(f"{state.folder / RUNS / name}: {altered[0]}", remedy=remedy)


def stage_directories(runs: Path, stage: str) -> dict[str, Path]:
    """Find the run directory of each method in a stage, also one that was created just before a crash."""
    found: dict[str, Path] = {}
    for path in run_directories(runs):
        meta = RunDirectory.open(path).meta
        pilot = meta.get("pilot")
        if isinstance(pilot, Mapping) and pilot.get("stage") == stage:
            found[str(meta["variant"])] = path
    return found


@dataclass(slots=True)
class StopWatch:
    """Evaluates the stopping rules before each attempt. Once a rule holds, logs the stop and admits no attempt."""

    state: PilotState
    stage: str
    stop: Stop | None = None
    _records: dict[str, list[AttemptRecord]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._records = {name: list(records) for name, records in self.state.records.by_run.items()}

    def __call__(self) -> bool:
        if self.stop is not None:
            return False
        records = self._read()
        states = evaluate_rules(self.state, self.stage, records, self.state.removed)
        self.stop = next((rule.stop for rule in states if rule.stop is not None), None)
        if self.stop is None:
            return True
        registration = self.state.registration.registration_id
        removed = tuple(sorted(self.state.removed))
        append_decision(self.state.folder, stop_decision(self.stage, registration, self.stop, records.seen, removed))
        return False

    def _read(self) -> Records:
        """Read the records that were added since the last call."""
        for name in self.state.stage_runs(self.stage).values():
            known = self._records.setdefault(name, [])
            lines = (self.state.folder / RUNS / name / "attempts.jsonl").read_bytes().split(b"\n")[:-1]
            known += [parse_record(line) for line in lines[len(known) :]]
        return Records({name: tuple(records) for name, records in self._records.items()})
