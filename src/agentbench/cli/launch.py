"""From what was asked on the command line to finished run directories. Shared by `run`, `run-task` and `demo`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from agentbench.agents.registry import require_agent, require_conversation
from agentbench.cli.fail_on import Condition, held, parse
from agentbench.cli.interrupts import patiently
from agentbench.cli.options import RunOptions
from agentbench.cli.output import print_done
from agentbench.cli.progress import Progress
from agentbench.contract.load import LoadedTask
from agentbench.core.errors import InputError
from agentbench.core.ids import new_ulid
from agentbench.core.reasons import Reason
from agentbench.models.ledger import Caps, Ledger
from agentbench.record.run_directory import RunDirectory
from agentbench.record.schema import AttemptRecord
from agentbench.reports.writing import write_summary
from agentbench.run.attempt.judge import JudgeChoice
from agentbench.run.config import PROTOCOL_SEED, CliChoices, Configuration, VariantFile, load_variant, resolve
from agentbench.run.executor import open_executor
from agentbench.run.lab import Lab, declared_secrets
from agentbench.run.models import Models, model_text, read_prices
from agentbench.run.plan import PlanRow, make_plan
from agentbench.run.resume import left_to_do, rows_of, spent_before
from agentbench.run.study import Study
from agentbench.run.version import harness_version
from agentbench.sandbox.protocol import SetupStep
from agentbench.trace.redaction import Redactor

VARIANTS = Path("configs/variants")
EXIT_HARNESS = 3


@dataclass(frozen=True, slots=True)
class Asked:
    """A study as it was asked for; kept in `run.json`, so that a resumed run asks the same."""

    suite: str
    tasks_dir: str
    task_paths: tuple[str, ...]
    variants: tuple[str, ...]
    choices: CliChoices
    repeats: int = 1
    seed: int = PROTOCOL_SEED
    workers: int = 1
    executor: str = "local"
    sandbox: str = "auto"
    fresh_setup: bool = False
    prices: str | None = None
    task_usd: float | None = None
    total_usd: float | None = None
    operator: bool = False
    lenient: bool = False
    judge_model: str | None = None
    judge_repeats: int = 1
    out: Path = Path("artifacts/runs")

    def as_json(self) -> dict[str, Any]:
        return json.loads(json.dumps(asdict(self), default=str))  # type: ignore[no-any-return]

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Asked:
        choices = dict(value["choices"])
        for name in ("agent_files", "script"):
            choices[name] = Path(choices[name]) if choices[name] else None
        lists = {name: tuple(value[name]) for name in ("task_paths", "variants")}
        return cls(**{**value, **lists, "choices": CliChoices(**choices), "out": Path(value["out"])})


def asked_for(
    suite: str,
    options: RunOptions,
    choices: CliChoices,
    *,
    tasks_dir: str = "",
    task_paths: tuple[str, ...] = (),
    variants: tuple[str, ...] = (),
) -> Asked:
    """What the options of a verb ask for."""
    return Asked(
        suite=suite,
        tasks_dir=tasks_dir,
        task_paths=task_paths,
        variants=variants,
        choices=choices,
        repeats=options["repeats"],
        seed=options["seed"],
        workers=options["workers"],
        executor=options["executor"],
        sandbox=options["sandbox"],
        fresh_setup=options["fresh_setup"],
        prices=str(options["prices"].absolute()) if options["prices"] else None,
        lenient=options["lenient"],
        judge_model=options["judge_model"],
        judge_repeats=options["judge_repeats"],
        task_usd=options["task_usd"],
        total_usd=options["total_usd"],
        operator=options["operator"],
        out=options["out"],
    )


@dataclass(frozen=True, slots=True)
class Done:
    """What a study left."""

    runs: tuple[Path, ...]

    def records(self) -> Iterator[AttemptRecord]:
        """The records that count, read from the run directories: a study may have more than memory should hold."""
        return (record for path in self.runs for record in RunDirectory.open(path).finals())

    @property
    def exit_code(self) -> int:
        """3 when not one attempt got past our own infrastructure; a failing agent is a result."""
        reasons = {record.result.failure_reason for record in self.records()}
        return EXIT_HARNESS if reasons == {Reason.SANDBOX_ERROR} else 0


def launch(tasks: Sequence[LoadedTask], asked: Asked, *, quiet: bool = False) -> Done:
    """Run a study from its beginning."""
    return begin(planned_rows(tasks, asked), asked, quiet=quiet)


def planned_rows(tasks: Sequence[LoadedTask], asked: Asked) -> tuple[PlanRow, ...]:
    """Every attempt that was asked for.

    Raises:
        InputError: a variant or agent that nobody has.
    """
    variants = _variants(asked)
    plan = [(task, [resolve(task, variant, asked.choices) for variant in variants]) for task in tasks]
    _refuse_unknown(plan)
    return make_plan(plan, repeats=asked.repeats, seed=asked.seed)


def carry_out_or_estimate(tasks: Sequence[LoadedTask], asked: Asked, options: RunOptions) -> int:
    """What `run` and `run-task` do with what was asked; the exit code."""
    from agentbench.cli.dry_run import estimate, print_estimate

    as_json = options["as_json"]
    conditions = parse(options["fail_on"]) if options["fail_on"] is not None else ()
    open_executor(asked.executor, asked.workers)
    if options["dry_run"]:
        rows = planned_rows(tasks, asked)
        print_estimate(estimate(rows, asked), as_json=as_json)
        return 0
    return finish(launch(tasks, asked, quiet=as_json), conditions, as_json=as_json)


def finish(done: Done, conditions: Sequence[Condition], *, as_json: bool) -> int:
    """Print what a study left and decide the exit code: our own trouble first, then the user's conditions."""
    print_done(done, as_json=as_json)
    if done.exit_code or not conditions:
        return done.exit_code
    broken = held(conditions, list(done.records()))
    if broken is None:
        return 0
    click.echo(f"--fail-on: {broken}", err=True)
    return 1


def grade_rows(rows: Sequence[PlanRow], asked: Asked, *, quiet: bool = False) -> Done:
    """Grade patches made elsewhere; they are attempts whose agent worked somewhere else."""
    return begin(rows, asked, quiet=quiet)


def begin(rows: Sequence[PlanRow], asked: Asked, *, quiet: bool = False) -> Done:
    """Refuse what cannot be honoured, make a run directory per variant, carry the rows out."""
    executor = open_executor(asked.executor, asked.workers)
    tasks = list({row.task.id: row.task for row in rows}.values())
    names = list(dict.fromkeys(row.configuration.variant for row in rows))
    models = _models(asked)
    redact = models.redact = _redactor(tasks, models)
    with Lab(sandbox=asked.sandbox, fresh_setup=asked.fresh_setup, models=models) as lab, ExitStack() as stack:
        lab.judge = _judge(asked)
        _require(lab, rows, quiet=quiet)
        study_id = new_ulid()
        runs = {
            name: stack.enter_context(
                RunDirectory.create(
                    asked.out,
                    suite=asked.suite,
                    variant=name,
                    model=asked.choices.model,
                    meta={
                        "study_id": study_id,
                        "harness_version": harness_version(),
                        "request": asked.as_json(),
                        "seed": asked.seed,
                        "tasks": [task.id for task in tasks],
                        "repeats": asked.repeats,
                    },
                    redact=redact,
                )
            )
            for name in names
        }
        lab.operator = asked.operator
        return _carry_out(Study(rows, lab, runs, asked.seed, executor), quiet=quiet)


def resume(path: Path, tasks: Sequence[LoadedTask], asked: Asked, *, quiet: bool = False) -> Done:
    """Continue a run whose process ended early: what is finished stays, what was interrupted is tried again."""
    executor = open_executor(asked.executor, asked.workers)
    variants = _variants(asked)
    plan = [(task, [resolve(task, variant, asked.choices) for variant in variants]) for task in tasks]
    before = RunDirectory.open(path)
    variant = str(before.meta["variant"])
    rows = rows_of(before, make_plan(plan, repeats=asked.repeats, seed=asked.seed))
    models = _models(asked)
    with Lab(sandbox=asked.sandbox, fresh_setup=asked.fresh_setup, models=models) as lab:
        redact = models.redact = _redactor(tasks, models)
        lab.judge = _judge(asked)
        # A key that is missing in this terminal must not use attempts up: their records would stand.
        _require(lab, left_to_do(before, rows), quiet=quiet)
        run = RunDirectory.open(path, writable=True, harness_version=harness_version(), redact=redact)
        with run:
            study = Study(rows, lab, {variant: run}, asked.seed, executor)
            study.end_abandoned()
            lab.operator = asked.operator
            models.book(spent_before(run) if models.capped else ())
            return _carry_out(study, quiet=quiet)


def _require(lab: Lab, rows: Sequence[PlanRow], *, quiet: bool) -> None:
    """Refuse what cannot be honoured while nothing is spent.

    Raises:
        InputError, SandboxUnavailable.
    """
    tasks = list({row.task.id: row.task for row in rows}.values())
    for task in tasks:
        lab.require(task)
    _tell_ignored_images(lab, tasks)
    for row in rows:
        lab.models.require(row)
        if lab.judge is not None:
            lab.judge.require(row, lab.models)
        _install(lab, row, quiet=quiet)


def _tell_ignored_images(lab: Lab, tasks: Sequence[LoadedTask]) -> None:
    """Whoever asks for bubblewrap gets it, on another system than the contract names: nobody should find out later."""
    named = [task.id for task in tasks if task.task.environment.docker_image or task.task.environment.dockerfile]
    if lab.sandbox == "bwrap" and named:
        more = f" and {len(named) - 1} more" if len(named) > 1 else ""
        click.echo(
            f"note: --sandbox bwrap ignores the image of {named[0]}{more}: this machine's system is used", err=True
        )


def _carry_out(study: Study, *, quiet: bool) -> Done:
    progress = Progress(quiet=quiet)
    study.observer = progress
    status = "interrupted"
    with patiently():
        try:
            study.carry_out()
            status = "completed"
        finally:
            progress.close()
            for run in study.runs.values():
                write_summary(run.path)
                run.close("completed" if status == "completed" else "interrupted")
                if not quiet:
                    click.echo(f"run directory: {run.path}", err=True)
    return Done(tuple(run.path for run in study.runs.values()))


def _variants(asked: Asked) -> list[VariantFile | None]:
    if asked.variants and asked.choices.agent:
        msg = "--variant names its own agent; give either --variant or --agent"
        raise InputError(msg)
    return [load_variant(name, VARIANTS) for name in asked.variants] or [None]


def _refuse_unknown(plan: Sequence[tuple[LoadedTask, Sequence[Configuration]]]) -> None:
    """An agent nobody has is bad input: it must be said before a run directory exists."""
    for task, configurations in plan:
        for configuration in configurations:
            require_conversation(configuration.agent, len(task.task.turns))
            require_agent(configuration.agent, has_model=model_text(configuration) is not None)


def _install(lab: Lab, row: PlanRow, *, quiet: bool) -> None:
    """An agent that is a program is installed before anything runs, or nothing does."""

    def tell(step: SetupStep) -> None:
        if not quiet:
            click.echo(f"{row.configuration.agent}: installing: {step.command} ({step.duration_sec:.0f} s)", err=True)

    if row.configuration.patch is None:
        lab.program(row.configuration.agent, row.task, tell)


def _judge(asked: Asked) -> JudgeChoice | None:
    return None if asked.judge_model is None else JudgeChoice(asked.judge_model, asked.judge_repeats)


def _models(asked: Asked) -> Models:
    return Models(
        prices=read_prices(Path(asked.prices) if asked.prices else None),
        ledger=Ledger(Caps.of(asked.total_usd)),
        lenient=asked.lenient,
        task_usd=asked.task_usd,
    )


def _redactor(tasks: Sequence[LoadedTask], models: Models) -> Redactor:

    named = {name for task in tasks for name in task.task.artifacts.redact}
    values = models.keys.values([*models.presets.key_names, *named])
    for task in tasks:
        values |= declared_secrets(task)
    return Redactor(values)
