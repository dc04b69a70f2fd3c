"""Opens the lab of a study and checks that its attempts can run here, before anything is written or spent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agentbench.agents.cli.names import is_third_party
from agentbench.contract.load import LoadedTask
from agentbench.core.problems import Problems
from agentbench.execution.evidence import PASSPHRASE
from agentbench.execution.executor import Executor
from agentbench.execution.extensions import require_extensions
from agentbench.execution.job import Observer
from agentbench.execution.lab import Lab, declared_secrets
from agentbench.execution.models import Models, read_prices
from agentbench.execution.plan import PlanRow
from agentbench.execution.request import RunRequest
from agentbench.models.keys import preset_key_names
from agentbench.models.ledger import Caps, Ledger
from agentbench.trace.redaction import Redactor

if TYPE_CHECKING:
    from agentbench.execution.attempt.judge import JudgeChoice


def open_lab(request: RunRequest, tasks: Sequence[LoadedTask], observer: Observer) -> Lab:
    """Open what the attempts of a request share, with its prices and caps and what must be redacted.

    Raises:
        InputError: the price file cannot be used, or a secret is not set.
    """
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
    values = models.keys.values([*preset_key_names(), *declared])
    for task in tasks:
        values |= declared_secrets(task)
    return Redactor({**values, PASSPHRASE: passphrase})


def check_requirements(
    executor: Executor,
    lab: Lab,
    rows: Sequence[PlanRow],
    observer: Observer,
    *,
    preflight_sec: float | None,
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
    collect_model_problems(lab, rows, problems)
    problems.raise_all()
    _warn_about_ignored_images(lab, tasks, observer)
    if not install:
        return
    if preflight_sec is not None:
        lab.models.preflight(rows, lab.judge, preflight_sec, observer.note)
    for agent in filter(is_third_party, dict.fromkeys(row.configuration.agent for row in rows)):
        observer.note(f"{agent}: preparing its program, which takes minutes the first time")
    for row in rows:
        agent = row.configuration.agent
        lab.program(agent, row.task, partial(observer.installing, agent))


def collect_model_problems(lab: Lab, rows: Iterable[PlanRow], problems: Problems) -> None:
    for row in rows:
        problems.collect(partial(lab.models.require, row))
        if lab.judge is not None:
            problems.collect(partial(lab.judge.require, row, lab.models))


def _warn_about_ignored_images(lab: Lab, tasks: Sequence[LoadedTask], observer: Observer) -> None:
    ignored = [task.id for task in tasks if task.task.environment.docker_image or task.task.environment.dockerfile]
    if lab.sandbox == "bwrap" and ignored:
        more = f" and {len(ignored) - 1} more" if len(ignored) > 1 else ""
        observer.warn(f"--sandbox bwrap ignores the image of {ignored[0]}{more} and uses this machine's system")
