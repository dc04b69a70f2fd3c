"""Carry out the next stage of a pilot in the order of its plan, with the ordinary machinery of runs.

A stage has one run directory per method in `runs/`. It can be killed at any moment: the next `ab pilot run` continues it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError
from agentbench.core.text import shell_quoted
from agentbench.execution.config import CliChoices
from agentbench.execution.executor_options import ExecutorOptions
from agentbench.execution.job import Observer
from agentbench.execution.open_study import continue_study
from agentbench.execution.request import RunRequest
from agentbench.execution.study import Study
from agentbench.pilot.decisions.criteria import entry_criteria, exit_criteria
from agentbench.pilot.decisions.decision_log import StageDecision, append_decision, stop_decision
from agentbench.pilot.decisions.flakes import screen_digest
from agentbench.pilot.decisions.launches import LaunchIds, read_launches
from agentbench.pilot.decisions.observations import observe
from agentbench.pilot.decisions.stopping_rules import first_stop
from agentbench.pilot.design.efficacy_rule import efficacy_rule
from agentbench.pilot.design.pilot_design import PilotDesign, prices_file, read_design
from agentbench.pilot.design.pilot_file import STAGES
from agentbench.pilot.errors import CriterionNotMet
from agentbench.pilot.folder import RUNS
from agentbench.pilot.lifecycle.admission import Admission
from agentbench.pilot.lifecycle.flake_screening import screen_tasks
from agentbench.pilot.pilot_state import PilotState, read_registered_state
from agentbench.pilot.registration.registration import deviations
from agentbench.pilot.registration.write_registration import require_unchanged
from agentbench.record.find_run import run_directories
from agentbench.record.run_directory import RunDirectory
from agentbench.reports.sources import open_run
from agentbench.statistics.sequential.rules import rule_json


@dataclass(slots=True)
class StageRun:
    """A stage that is being carried out."""

    design: PilotDesign
    state: PilotState
    stage: str
    options: ExecutorOptions

    def enter(self, report: Callable[[str], None]) -> StageDecision:
        """Decide whether the stage may start, and log the decision. A stage that was entered stays so.

        Raises:
            HarnessError: the flake screen failed.
        """
        earlier = self.state.last("entry", self.stage)
        if earlier is not None and earlier.met:
            return earlier
        if self.stage == STAGES[0] and screen_tasks(self.design, self.state, self.options.workers, report):
            self.state = read_registered_state(self.state.folder)
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

    @contextmanager
    def open(self, observer: Observer) -> Iterator[Study]:
        """Open the run directories of the stage and yield its study, which stops when a stopping rule holds.

        Raises:
            InputError, SandboxUnavailable: an attempt cannot run here; nothing was written.
        """
        folder, state = self.state.folder, self.state
        lines = [line for line in state.lines if line.stage == self.stage and line.task_id not in state.removed]
        rows = self.design.rows(lines)
        paths = stage_directories(folder / RUNS, self.stage)
        with continue_study(rows, self._request(), observer, paths, self._link(), state.records.all()) as study:
            study.again = lambda record: not observe(record).complete
            runs = {variant: run.path.name for variant, run in study.runs.items()}
            ids = self._launch_ids([*state.records.by_run, *runs.values()])
            opened = StageDecision(
                "opened",
                self.stage,
                state.registration.registration_id,
                seen=state.records.seen,
                removed=tuple(sorted(state.removed)),
                runs=runs,
                workers=self.options.workers,
                launched=ids.launched,
            )
            append_decision(folder, opened)
            self.state = read_registered_state(folder)
            study.admit = Admission(self.state, self.stage, ids)
            study.choose_id = lambda row: ids.choose(row.key)
            yield study

    def _link(self) -> dict[str, Json]:
        """Return what each `run.json` says about the pilot."""
        rule = efficacy_rule(self.state.pilot)
        link: dict[str, Json] = {
            "registration_id": self.state.registration.registration_id,
            "stage": self.stage,
            "deviations": list(deviations(self.state.registrations)),
        }
        return {"pilot": link if rule is None else {**link, "stopping": rule_json(rule)}}

    def _launch_ids(self, runs: Iterable[str]) -> LaunchIds:
        registration = self.state.registration
        launches = read_launches(self.state.folder / RUNS, dict.fromkeys(runs))
        return LaunchIds.after(registration.registration_id, self.state.lines, launches, registration.frozen_ms)

    def _request(self) -> RunRequest:
        pilot, folder = self.design.pilot, self.design.folder
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
            executor=self.options.name,
            ray_address=self.options.ray_address,
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
        stop = first_stop(state.rules(self.stage))
        if stop is not None:
            launched = len(read_launches(state.folder / RUNS, state.records.by_run))
            registration = state.registration.registration_id
            decision = stop_decision(self.stage, registration, stop, state.records.seen, removed, launched)
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


def prepare_stage(folder: Path, stage: str | None, options: ExecutorOptions) -> StageRun:
    """Check that the next stage of a pilot may be carried out.

    Raises:
        InputError: the pilot is not frozen, something frozen has changed, or recorded attempts were altered.
        CriterionNotMet: the pilot is complete or was stopped, or an earlier stage is not complete.
    """
    state = read_registered_state(folder)
    design = read_design(folder)
    require_unchanged(state.registration, design)
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
    return StageRun(design, state, following, options)


def _require_intact(state: PilotState) -> None:
    """Compare records with their seals and with what decisions have seen.

    Raises:
        InputError: attempts are missing or were altered.
    """
    for decision in state.decisions:
        state.records.until(decision.seen)
    for name in state.records.by_run:
        doubt = open_run(state.folder / RUNS / name).seal_marks.doubt
        if doubt:
            remedy = f"restore it; `ab verify {shell_quoted(state.folder)}` lists everything that was altered"
            raise InputError(f"{state.folder / RUNS / name}: {doubt}", remedy=remedy)


def stage_directories(runs: Path, stage: str) -> dict[str, Path]:
    """Find the run directory of each method in a stage, also one that was created just before a crash."""
    found: dict[str, Path] = {}
    for path in run_directories(runs):
        meta = RunDirectory.open(path).meta
        pilot = meta.get("pilot")
        if isinstance(pilot, Mapping) and pilot.get("stage") == stage:
            found[str(meta["variant"])] = path
    return found
