"""Start, resume and execute all attempts of one `ab run`.

A `Study` holds the attempts of one request: several variants have one run directory each and share a `study_id`. Attempts run
on the executor's workers. The study can be interrupted at any moment and resumed afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agentbench.contract.identity import identify
from agentbench.contract.load import LoadedTask
from agentbench.contract.lock import Identities
from agentbench.core.canonical import Json
from agentbench.core.errors import AgentBenchError, InputError
from agentbench.core.ids import new_ulid
from agentbench.core.reasons import REPEATED_ON_RESUME, InvalidCause, TerminationCode
from agentbench.execution.attempt.pipeline import close_abandoned
from agentbench.execution.config import Configuration
from agentbench.execution.evidence import (
    PASSPHRASE,
    create_store,
    described,
    evidence_terms,
    require_compatible,
    sealed_run_key,
)
from agentbench.execution.executor import Executor, open_executor
from agentbench.execution.extensions import require_extensions
from agentbench.execution.job import AttemptJob, Observer
from agentbench.execution.lab import Lab, declared_secrets
from agentbench.execution.models import Models, read_prices
from agentbench.execution.plan import PlanRow
from agentbench.execution.problems import Problems
from agentbench.execution.request import RunRequest, plan_attempts
from agentbench.execution.stopping import Stopping
from agentbench.execution.version import harness_version
from agentbench.models.ledger import Caps, Ledger
from agentbench.policy.prices import MICRO
from agentbench.record.attempt_folder import EVENTS
from agentbench.record.kept_rules import keep_rules
from agentbench.record.run_directory import RunDirectory, study_runs
from agentbench.record.schema import AttemptRecord
from agentbench.sandbox.socket_forward import remove_stale_sockets
from agentbench.trace.events import AttemptOpened
from agentbench.trace.log import read_events
from agentbench.trace.redaction import Redactor
from agentbench.verdict.headline import judged_only

if TYPE_CHECKING:
    from agentbench.execution.attempt.judge import JudgeChoice

EXIT_INPUT = 2
EXIT_HARNESS = 3
CONTRACT_PARTS = "repository, environment, setup, checks (with hidden files and drivers) or policy"
STATEMENT_PARTS = "statement, hints, turns, budget, scorers, judge or rubric"
"""Parts of a task that its contract id covers, and those that only its digest covers."""
HIGHER_CAP = "resume with a higher --total-usd or --task-usd"
Again = Callable[[AttemptRecord], bool]


@dataclass(frozen=True, slots=True)
class StudyResult:
    """The run directories of a study that was executed."""

    runs: tuple[Path, ...]
    stop_reason: str | None = None
    """The decision of the stopping rule in words; None if there is none."""

    def records(self) -> Iterator[AttemptRecord]:
        """Read the final records from disk: a study can have more than should be held in memory."""
        return (record for path in self.runs for record in RunDirectory.open(path).finals())

    def repeatable(self) -> dict[Path, list[AttemptRecord]]:
        """List the attempts of each run that have no result and that resuming it would repeat."""
        found = {path: [*filter(is_repeatable, RunDirectory.open(path).finals())] for path in self.runs}
        return {path: records for path, records in found.items() if records}

    @property
    def exit_code(self) -> int:
        """Return 0 if an attempt has a result, also if the agent failed. Without any, 3 for harness errors, else 2."""
        causes = {_cause(record) for record in self.records()}
        if not causes or None in causes:
            return 0
        return EXIT_HARNESS if InvalidCause.HARNESS in causes else EXIT_INPUT


@dataclass(slots=True)
class Study:
    """The attempts to make, and the run directory of each variant."""

    rows: Sequence[PlanRow]
    lab: Lab
    runs: Mapping[str, RunDirectory]
    base_seed: int
    executor: Executor
    observer: Observer
    again: Again | None = None
    """Attempts to repeat although they have a final record; by default those that were interrupted."""
    stopping: Stopping | None = None
    """The rule that can end the study before all rows are made."""
    admit: Callable[[], bool] | None = None
    """Asked before each attempt whether it may start. Once it returns False, no further attempt starts."""
    choose_id: Callable[[PlanRow], str] | None = None
    """Chooses the id of an attempt when it is launched; None for a new one."""

    def execute(self) -> None:
        """Make every attempt that has no final record yet, until the stopping rule decides.

        Raises:
            KeyboardInterrupt: after every running attempt was recorded as interrupted.
            RecordError: a run directory cannot be written; no further attempt was started.
            HarnessError: the executor lost all its workers; no further attempt was started.
        """
        executor = self.executor
        pending = remaining_rows(self.runs.values(), self.rows, self.again)
        self.observer.planned(len(pending))
        self.lab.yield_worker = executor.yield_worker
        for sockets in ("gateway", "proxy"):
            remove_stale_sockets(self.lab.state / sockets)
        try:
            if self.stopping is None:
                self._make(pending)
            else:
                self._make_until_decided(self.stopping)
        except BaseException:
            # Ctrl-C, or a worker that could not write its record: running attempts end now, as interrupted.
            self.lab.cancel()
            raise
        finally:
            executor.join()

    def _make(self, pending: Sequence[tuple[PlanRow, str | None]]) -> None:
        """Launch attempts one after the other, each when a worker is free for it: taking a job registers its attempt."""
        self.executor.run(
            self._launch(row, supersedes)
            for row, supersedes in pending
            if not self.lab.cancelled.is_set() and (self.admit is None or self.admit())
        )

    def _launch(self, row: PlanRow, supersedes: str | None) -> AttemptJob:
        run = self.runs[row.configuration.variant]
        keep_rules(run.path)
        attempt_id = None if self.choose_id is None else self.choose_id(row)
        folder = run.begin(row.task.id, row.repeat, supersedes=supersedes, attempt_id=attempt_id)
        # Where a plan decides the ids, it also decides the order of all attempts.
        relaunch = partial(self._launch, row) if self.choose_id is None else None
        return AttemptJob(row, folder, run, self.lab, self.base_seed, self.observer, relaunch)

    def _make_until_decided(self, stopping: Stopping) -> None:
        """Make the attempts up to each look, and look. Attempts after a look are not launched before it."""
        runs = self.runs.values()
        for blocks in stopping.looks:
            rows = self.rows[: 2 * blocks]
            self._make(remaining_rows(runs, rows, self.again))
            if remaining_rows(runs, rows):
                return  # a budget is spent or a model is unavailable: the look is taken when the run is resumed
            decided = stopping.decide(record for run in runs for record in run.finals())
            if decided is not None:
                for run in runs:
                    run.record_decision(decided)
                return

    def close_abandoned(self) -> None:
        """Write a record for every attempt whose process died (after a crash, before a run is resumed)."""
        rows = {row.key: row for row in self.rows}
        for variant, run in self.runs.items():
            for folder in run.unfinished():
                row = rows.get((folder.task_id, variant, folder.repeat))
                if row is not None:
                    run.adopt(folder, close_abandoned(row, self.lab, folder, base_seed=self.base_seed))

    def result(self) -> StudyResult:
        return StudyResult(tuple(run.path for run in self.runs.values()))


def _cause(record: AttemptRecord) -> InvalidCause | None:
    """Return why an attempt has no result; None if it has one, which can also be a judge's or an operator's decision."""
    if judged_only(record.run_status, record.result.failure_reason, record.attribution):
        return None
    decided = record.invalid_cause is InvalidCause.SAFETY or record.termination.code is TerminationCode.OPERATOR_ABORT
    return None if decided else record.invalid_cause


def is_repeatable(record: AttemptRecord) -> bool:
    """Return whether resuming the run repeats the attempt: it was cut off, or its model was unavailable."""
    return record.termination.code in REPEATED_ON_RESUME


def remaining_rows(
    runs: Iterable[RunDirectory], rows: Sequence[PlanRow], again: Again | None = None
) -> list[tuple[PlanRow, str | None]]:
    """Select the rows without a final record, and those to make again with the attempt that they supersede."""
    repeats = again or is_repeatable
    finished: set[tuple[str, str, int]] = set()
    superseded: dict[tuple[str, str, int], str] = {}
    for record in (record for run in runs for record in run.finals()):
        if repeats(record):
            superseded[record.key] = record.attempt_id
        else:
            finished.add(record.key)
    return [(row, superseded.get(row.key)) for row in rows if row.key not in finished]


@contextmanager
def start_study(
    rows: Sequence[PlanRow],
    request: RunRequest,
    observer: Observer,
    link: Mapping[str, Json] | None = None,
    stopping: Stopping | None = None,
) -> Iterator[Study]:
    """Check the requirements of every attempt, then create one run directory per variant.

    `link` is added to `run.json`: it names the run whose attempts are repeated. `stopping` is the rule of `request`.

    Raises:
        InputError, SandboxUnavailable: an attempt cannot run here; nothing was written.
    """
    executor = open_executor(request.executor_options)
    configurations = _configurations(rows, request)
    tasks = list({row.task.id: row.task for row in rows}.values())
    with _open_lab(request, tasks, observer) as lab, closing(executor), ExitStack() as stack:
        _check_requirements(executor, lab, rows, observer, preflight=request.preflight)
        meta: dict[str, Json] = {
            "study_id": new_ulid(),
            "harness_version": harness_version(),
            **planned_meta(rows, request),
            **(link or {}),
        }
        runs = {
            variant: stack.enter_context(_new_run(request, configuration, meta, lab))
            for variant, configuration in configurations.items()
        }
        yield Study(rows, lab, runs, request.seed, executor, observer, stopping=stopping)


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

    A run with a stopping rule is reopened together with the run of the other method.

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
    with _open_lab(request, tasks, observer) as lab, closing(executor), ExitStack() as stack:
        # A key missing in this terminal must not use attempts up: their records would be final.
        remaining = [row for row, _ in remaining_rows(members, rows, again)]
        _check_requirements(executor, lab, remaining, observer, preflight=request.preflight)
        paths = {str(run.meta["variant"]): run.path for run in members}
        runs = {
            variant: stack.enter_context(
                RunDirectory.open(
                    paths[variant],
                    writable=True,
                    harness_version=harness_version(),
                    redact=lab.models.redact,
                    caps=_shared_caps(request),
                )
            )
            for variant in configurations
        }
        for variant, run in runs.items():
            text = configurations[variant].evidence
            run.evidence = evidence_terms(text, request.store, run.run_id, sealed_run_key(run.meta))
        study = Study(rows, lab, runs, request.seed, executor, observer, again, stopping)
        study.close_abandoned()
        if lab.models.capped:
            lab.models.book(study_records(before))
            _require_budget(study)
        yield study


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

    `earlier` are all records that count against the caps of the request, those of `paths` included.

    Raises:
        InputError, SandboxUnavailable: an attempt cannot run here, or another process writes a run; nothing was written.
    """
    executor = open_executor(request.executor_options)
    configurations = _configurations(rows, request)
    tasks = list({row.task.id: row.task for row in rows}.values())
    with _open_lab(request, tasks, observer) as lab, closing(executor), ExitStack() as stack:
        existing = [RunDirectory.open(path) for path in paths.values()]
        remaining = [row for row, _ in remaining_rows(existing, rows)]
        _check_requirements(executor, lab, remaining, observer, preflight=request.preflight)
        lab.models.book(earlier)
        version, redact = harness_version(), lab.models.redact
        study_id = existing[0].study_id if existing else new_ulid()
        meta = {"study_id": study_id, "harness_version": version, **planned_meta(rows, request), **link}
        runs = {
            variant: stack.enter_context(
                RunDirectory.open(paths[variant], writable=True, harness_version=version, redact=redact)
                if variant in paths
                else _new_run(request, configuration, meta, lab)
            )
            for variant, configuration in configurations.items()
        }
        for variant, run in runs.items():
            text = configurations[variant].evidence
            run.evidence = evidence_terms(text, request.store, run.run_id, sealed_run_key(run.meta))
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


def rows_of(run: RunDirectory, plan: Sequence[PlanRow]) -> list[PlanRow]:
    """Select the rows of a plan that belong to this run, whose tasks must be the ones it started with.

    Raises:
        InputError: a task is missing or has changed, or the plan has no attempt of this run; nothing was written.
    """
    rows = [row for row in plan if row.configuration.variant == run.meta.get("variant")]
    tasks = {row.task.id: row.task for row in plan}
    order = run.meta.get("order")
    if isinstance(order, list):
        planned = {tuple(key) for key in order if isinstance(key, list)}
        rows = [row for row in rows if row.key in planned]
    listed = run.meta.get("tasks")
    missing = [str(name) for name in listed if name not in tasks] if isinstance(listed, list) else []
    if missing or not rows:
        cause = f"missing tasks: {', '.join(missing)}" if missing else "its attempts cannot be planned again"
        msg = f"{run.path} cannot be resumed: {cause}"
        raise InputError(msg, remedy="restore the tasks; to continue an `ab grade` run, start a new `ab grade`")
    current: dict[str, Identities] = {}
    changed: dict[str, str] = {}
    for task_id, contract_id, task_digest in _recorded_digests(run):
        if task_id in tasks:
            ids = current.setdefault(task_id, identify(tasks[task_id]))
            if ids.task_digest != task_digest:
                changed[task_id] = STATEMENT_PARTS if ids.contract_id == contract_id else CONTRACT_PARTS
    if changed:
        details = "; ".join(
            f"task {task_id} has changed since the run started: {what}" for task_id, what in changed.items()
        )
        raise InputError(f"{run.path} cannot be resumed: {details}", remedy="restore the task, or start a new run")
    return rows


def study_records(run: RunDirectory) -> Iterator[AttemptRecord]:
    """Read every record of the study, interrupted attempts and other variants included: all of them cost something."""
    for other in study_runs(run):
        with suppress(AgentBenchError):
            yield from other.records()


def _recorded_digests(run: RunDirectory) -> Iterator[tuple[str, str, str]]:
    """Read the task id, contract id and task digest of every attempt that was started."""
    for record in run.records():
        yield record.task_id, record.contract_id, record.task_digest
    for folder in run.unfinished():
        if (folder.path / EVENTS).exists():
            for event in read_events(folder.path / EVENTS, types={AttemptOpened.type}):
                if isinstance(event.payload, AttemptOpened):
                    yield event.payload.task_id, event.payload.contract_id, event.payload.task_digest


def _open_lab(request: RunRequest, tasks: Sequence[LoadedTask], observer: Observer) -> Lab:
    prices = read_prices(Path(request.prices) if request.prices else None)
    models = Models(
        prices=prices,
        ledger=Ledger(Caps.of(request.total_usd), prices.unit),
        lenient=request.lenient,
        task_usd=request.task_usd,
        patience_sec=request.model_patience,
        report=observer.warn,
    )
    models.redact = _redactor(tasks, models, request.store.passphrase)
    lab = Lab(
        sandbox=request.sandbox,
        fresh_setup=request.fresh_setup,
        models=models,
        operator=request.operator,
        judge=None if request.judge_model is None else _judge(request.judge_model, request.judge_repeats),
    )
    lab.on_question = observer.asked
    lab.scorers, lab.monitors, lab.executor = request.scorers, request.monitors, request.executor
    return lab


def _judge(model: str, repeats: int) -> JudgeChoice:
    from agentbench.execution.attempt.judge import JudgeChoice  # noqa: PLC0415 - few runs have a judge

    return JudgeChoice(model, repeats)


def _redactor(tasks: Sequence[LoadedTask], models: Models, passphrase: str) -> Redactor:
    declared = {name for task in tasks for name in task.task.artifacts.redact}
    values = models.keys.values([*models.presets.key_names, *declared])
    for task in tasks:
        values |= declared_secrets(task)
    return Redactor({**values, PASSPHRASE: passphrase})


def _check_requirements(
    executor: Executor,
    lab: Lab,
    rows: Sequence[PlanRow],
    observer: Observer,
    *,
    preflight: bool,
    install: bool = True,
) -> None:
    """Reject what cannot run here before anything is spent, and install agents that are programs.

    Raises:
        InputError, HarnessError.
    """
    tasks = list({row.task.id: row.task for row in rows}.values())
    require_extensions(rows, lab)
    problems = Problems()
    problems.collect(partial(executor.require, lab, rows, observer))
    for row in rows:
        problems.collect(partial(lab.models.require, row))
        if lab.judge is not None:
            problems.collect(partial(lab.judge.require, row, lab.models))
    problems.raise_all()
    _warn_about_ignored_images(lab, tasks, observer)
    if not install:
        return
    if preflight:
        lab.models.preflight(rows, lab.judge)
    for agent in dict.fromkeys(row.configuration.agent for row in rows if row.configuration.agent.startswith("cli:")):
        observer.note(f"{agent}: preparing its program, which takes minutes the first time")
    for row in rows:
        agent = row.configuration.agent
        lab.program(agent, row.task, partial(observer.installing, agent))


def check_study(rows: Sequence[PlanRow], request: RunRequest, observer: Observer) -> None:
    """Check what `start_study` checks, without installing programs or asking models.

    Raises:
        InputError, SandboxUnavailable: the attempts cannot run here.
    """
    tasks = list({row.task.id: row.task for row in rows}.values())
    executor = open_executor(request.executor_options)
    with _open_lab(request, tasks, observer) as lab, closing(executor):
        _check_requirements(executor, lab, rows, observer, preflight=False, install=False)


def _warn_about_ignored_images(lab: Lab, tasks: Sequence[LoadedTask], observer: Observer) -> None:
    ignored = [task.id for task in tasks if task.task.environment.docker_image or task.task.environment.dockerfile]
    if lab.sandbox == "bwrap" and ignored:
        more = f" and {len(ignored) - 1} more" if len(ignored) > 1 else ""
        observer.warn(f"--sandbox bwrap ignores the image of {ignored[0]}{more} and uses this machine's system")
