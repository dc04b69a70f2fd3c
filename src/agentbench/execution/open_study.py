"""Open a study: check that its attempts can run here, then create or reopen one run directory per variant.

`start_study` opens a new study, `resume_study` one of which all run directories exist (`ab run --resume`, `ab retry`), and
`continue_study` a stage of a pilot, of which some may exist. `plan_study` and `check_study` only check.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from agentbench.contract.load import LoadedTask
from agentbench.core.canonical import Json
from agentbench.core.errors import AgentBenchError, InputError
from agentbench.core.ids import new_ulid
from agentbench.core.problems import Problems
from agentbench.execution.config import Configuration
from agentbench.execution.evidence import (
    create_store,
    described,
    evidence_terms,
    require_compatible,
    sealed_run_key,
)
from agentbench.execution.executor import open_executor
from agentbench.execution.job import Observer
from agentbench.execution.lab import Lab
from agentbench.execution.models import read_prices
from agentbench.execution.plan import PlanRow
from agentbench.execution.request import RunRequest, collect_attempts, plan_attempts, require_agents
from agentbench.execution.requirements import check_requirements, collect_model_problems, open_lab
from agentbench.execution.resumed_rows import rows_of
from agentbench.execution.stopping import Stopping
from agentbench.execution.study import Again, Study, remaining_rows
from agentbench.execution.version import harness_version
from agentbench.policy.prices import MICRO
from agentbench.record.attempt_folder import EVENTS
from agentbench.record.naming import SIGNATURE, require_writable
from agentbench.record.run_directory import RunDirectory, study_runs
from agentbench.record.run_state import run_state
from agentbench.record.schema import AttemptRecord
from agentbench.trace.events import ComparisonDecided
from agentbench.trace.log import read_events

HIGHER_CAP = "resume with a higher --total-usd or --task-usd"


def plan_study(tasks: Sequence[LoadedTask], request: RunRequest, observer: Observer) -> tuple[PlanRow, ...]:
    """List every attempt that the request asks for, in the order in which they start.

    If there is a mistake, its models are checked too, so that one message lists every mistake. Otherwise `start_study`
    and `check_study` check them.

    Raises:
        InputError: the request has mistakes.
    """
    problems = Problems()
    problems.collect(partial(open_executor, request.executor_options))
    problems.collect(partial(read_prices, Path(request.prices) if request.prices else None))
    rows = collect_attempts(tasks, request, problems)
    problems.collect(partial(require_agents, rows))
    if problems:
        with open_lab(replace(request, prices=None), tasks, observer) as lab:
            collect_model_problems(lab, rows, problems)
    problems.raise_all()
    return rows


@contextmanager
def start_study(
    rows: Sequence[PlanRow],
    request: RunRequest,
    observer: Observer,
    link: Mapping[str, Json] | None = None,
    stopping: Stopping | None = None,
) -> Iterator[Study]:
    """Check the requirements of every attempt, then create one run directory per variant.

    `link` is added to `run.json`: such as the run whose attempts are repeated. `stopping` is the rule of `request`.

    Raises:
        InputError, SandboxUnavailable: an attempt cannot run here; nothing was written.
    """
    with continue_study(rows, request, observer, paths={}, link=link or {}, earlier=()) as study:
        study.stopping = stopping
        yield study


def _study_meta(
    study_id: str, rows: Sequence[PlanRow], request: RunRequest, link: Mapping[str, Json]
) -> dict[str, Json]:
    return {"study_id": study_id, "harness_version": harness_version(), **planned_meta(rows, request), **link}


def planned_meta(rows: Sequence[PlanRow], request: RunRequest) -> dict[str, Json]:
    """Return the part of `run.json` that states the request and the plan."""
    return {
        "request": request.as_json(),
        "seed": request.seed,
        "tasks": sorted({row.task.id for row in rows}),
        "order": [list(row.key) for row in rows],
        "repeats": request.repeats,
    }


def _configurations(rows: Sequence[PlanRow], request: RunRequest) -> dict[str, Configuration]:
    """Return one configuration of each variant, in the order of the plan. Those of its tasks keep the same text and use the same model.

    Raises:
        InputError: an option of the request needs text that a variant does not keep.
    """
    configurations = {row.configuration.variant: row.configuration for row in rows}
    for configuration in configurations.values():
        require_compatible(configuration.evidence, operator=request.operator)
    return configurations


def _new_run(request: RunRequest, configuration: Configuration, meta: Mapping[str, Json], lab: Lab) -> RunDirectory:
    """Create the run directory of a variant, after its part of the restricted store."""
    run_id = new_ulid()
    run_key = create_store(request.store, run_id)
    model, text = configuration.value("model"), configuration.evidence
    run = RunDirectory.create(
        request.out,
        suite=request.suite,
        variant=configuration.variant,
        model=None if model is None else str(model),
        meta={**meta, "run_id": run_id, "evidence": described(text, request.store, run_key)},
        redact=lab.models.redact,
    )
    run.evidence = evidence_terms(text, request.store, run_id, run_key)
    return run


def _reopened_run(
    path: Path, request: RunRequest, configuration: Configuration, lab: Lab, caps: Mapping[str, int] | None = None
) -> RunDirectory:
    """Open the run directory of a variant to write to it."""
    run = RunDirectory.open(path, writable=True, harness_version=harness_version(), redact=lab.models.redact, caps=caps)
    run.evidence = evidence_terms(configuration.evidence, request.store, run.run_id, sealed_run_key(run.meta))
    return run


@contextmanager
def resume_study(
    path: Path,
    tasks: Sequence[LoadedTask],
    request: RunRequest,
    observer: Observer,
    again: Again | None = None,
    stopping: Stopping | None = None,
) -> Iterator[Study]:
    """Reopen a run. Finished attempts are kept; interrupted ones are repeated, or with `again` those that it selects.

    A run with a stopping rule is reopened together with the run of the other method. A finished run that has nothing left to do is
    only read, so that its signature stays valid.

    Raises:
        InputError, SandboxUnavailable: the run cannot be resumed here; nothing was written.
    """
    executor = open_executor(request.executor_options)
    before = RunDirectory.open(path)
    members = [before] if stopping is None else _both_methods(before)
    plan = plan_attempts(tasks, request)
    keys = {row.key for run in members for row in rows_of(run, plan)}
    rows = [row for row in plan if row.key in keys]
    configurations = _configurations(rows, request)
    with open_lab(request, tasks, observer) as lab, closing(executor), ExitStack() as stack:
        # A key missing in this terminal must not use attempts up: their records would be final.
        remaining = [row for row, _ in remaining_rows(members, rows, again)]
        check_requirements(executor, lab, remaining, observer, preflight_sec=request.preflight_limit)
        runs, caps = {str(run.meta["variant"]): run for run in members}, _shared_caps(request)
        complete = _has_ended(members) and (not remaining or (stopping is not None and _is_decided(members)))
        if not complete:
            _warn_of_signatures(members, observer)
            runs = {
                variant: stack.enter_context(_reopened_run(runs[variant].path, request, configuration, lab, caps))
                for variant, configuration in configurations.items()
            }
        study = Study(rows, lab, runs, request.seed, executor, observer, again, stopping)
        if not complete:
            study.close_abandoned()
        if lab.models.capped:
            lab.models.book(study_records(before))
            _require_budget(study)
        yield study


def _has_ended(runs: Iterable[RunDirectory]) -> bool:
    return all(run_state(run.path) == "finished" for run in runs)


def _is_decided(runs: Iterable[RunDirectory]) -> bool:
    """Return whether the stopping rule has ended the comparison."""
    return all(any(True for _ in read_events(run.path / EVENTS, types={ComparisonDecided.type})) for run in runs)


def _warn_of_signatures(runs: Iterable[RunDirectory], observer: Observer) -> None:
    for run in runs:
        if (run.path / SIGNATURE).is_file():
            observer.warn(f"{run.path} is signed; its signature becomes stale, so sign it again with `ab sign`")


def _both_methods(run: RunDirectory) -> list[RunDirectory]:
    """Return the runs of both methods of a comparison, whose folders are beside each other.

    Raises:
        InputError: the run of the other method is missing.
    """
    members = list(study_runs(run))
    if len(members) != 2:
        msg = f"{run.path} cannot be resumed: expected the runs of 2 methods of its comparison, found {len(members)}"
        raise InputError(msg, remedy="move the run of the other method beside it, or start a new run")
    return members


@contextmanager
def continue_study(
    rows: Sequence[PlanRow],
    request: RunRequest,
    observer: Observer,
    paths: Mapping[str, Path],
    link: Mapping[str, Json],
    earlier: Iterable[AttemptRecord],
) -> Iterator[Study]:
    """Open one run directory per variant: those in `paths` are continued, the others are created.

    `link` is added to `run.json` of those that are created. `earlier` are all records that count against the caps of the
    request, those of `paths` included.

    Raises:
        InputError, SandboxUnavailable: an attempt cannot run here, or another process writes a run; nothing was written.
    """
    executor = open_executor(request.executor_options)
    configurations = _configurations(rows, request)
    tasks = list({row.task.id: row.task for row in rows}.values())
    with open_lab(request, tasks, observer) as lab, closing(executor), ExitStack() as stack:
        existing = [RunDirectory.open(path) for path in paths.values()]
        remaining = [row for row, _ in remaining_rows(existing, rows)]
        check_requirements(executor, lab, remaining, observer, preflight_sec=request.preflight_limit)
        lab.models.book(earlier)
        study_id = existing[0].study_id if existing else new_ulid()
        meta = _study_meta(study_id, rows, request, link)
        runs = {
            variant: stack.enter_context(
                _reopened_run(paths[variant], request, configuration, lab)
                if variant in paths
                else _new_run(request, configuration, meta, lab)
            )
            for variant, configuration in configurations.items()
        }
        study = Study(rows, lab, runs, request.seed, executor, observer)
        study.close_abandoned()
        yield study


def _shared_caps(request: RunRequest) -> dict[str, int]:
    """Return the caps over several attempts in millionths."""
    caps = {"task_usd": request.task_usd, "total_usd": request.total_usd}
    return {name: round(usd * MICRO) for name, usd in caps.items() if usd is not None}


def _require_budget(study: Study) -> None:
    """
    Raises:
        InputError: a total budget is spent, so that no remaining attempt could start.
    """
    remaining = remaining_rows(study.runs.values(), study.rows, study.again)
    spent = [study.lab.models.account(row).total_spent() for row, _ in remaining]
    if spent and all(spent) and spent[0] is not None:
        raise InputError(spent[0].message, remedy=HIGHER_CAP)


def study_records(run: RunDirectory) -> Iterator[AttemptRecord]:
    """Read every record of the study, interrupted attempts and other variants included: all of them cost something."""
    for other in study_runs(run):
        with suppress(AgentBenchError):
            yield from other.records()


def check_study(rows: Sequence[PlanRow], request: RunRequest, observer: Observer) -> None:
    """Check what `start_study` checks, without installing programs or asking models.

    Raises:
        InputError, SandboxUnavailable: the attempts cannot run here.
    """
    tasks = list({row.task.id: row.task for row in rows}.values())
    require_writable(request.out)
    executor = open_executor(request.executor_options)
    with open_lab(request, tasks, observer) as lab, closing(executor):
        check_requirements(executor, lab, rows, observer, preflight_sec=None, install=False)
