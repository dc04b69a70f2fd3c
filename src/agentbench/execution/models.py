"""The models of a study: what `--model` selects, and the budgets that requests are charged to."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError
from agentbench.execution.config import Configuration, Setting
from agentbench.execution.plan import PlanRow
from agentbench.models.keys import Keys
from agentbench.models.ledger import Account, Amount, Caps, Ledger
from agentbench.policy.prices import MICRO, FallbackSchedule, Prices, parse_prices
from agentbench.record.attempt_folder import EVENTS, MANIFEST, attempt_path
from agentbench.record.manifest import evidence_text
from agentbench.record.run_directory import RunDirectory
from agentbench.record.schema import AttemptRecord
from agentbench.trace.blobs import BlobStore
from agentbench.trace.log import EventLog
from agentbench.trace.redaction import Redactor

if TYPE_CHECKING:
    from agentbench.execution.attempt.judge import JudgeChoice
    from agentbench.models.client.chat_model import ChatModel
    from agentbench.models.factory import ModelFactory
    from agentbench.models.metered_model import EventSink, MeteredModel, ModelIdentity
    from agentbench.models.presets import ModelChoice
    from agentbench.models.recording.recorded import Recording

PATIENCE_SEC = 600.0


@dataclass
class Models:
    """Models, keys, prices and budgets of all attempts of a study. Opens no connection before the first request."""

    keys: Keys = field(default_factory=lambda: Keys.find(os.environ, Path.cwd()))
    prices: Prices = field(default_factory=FallbackSchedule)
    ledger: Ledger = field(default_factory=Ledger)
    lenient: bool = False
    task_usd: float | None = None
    """Cap on all attempts at one task together. The ledger has the cap on the whole study."""
    patience_sec: float = PATIENCE_SEC
    """How long requests wait for a service that is unavailable."""
    report: Callable[[str], None] = lambda _message: None
    """Called when a service becomes unavailable, and when it answers again."""
    redact: Redactor | None = None
    """Redacts the secrets that all attempts share. Each attempt adds those of its base repository to a copy."""

    @cached_property
    def factory(self) -> ModelFactory:
        from agentbench.models.client.outages import Outages  # noqa: PLC0415
        from agentbench.models.factory import ModelFactory  # noqa: PLC0415 - grading a patch needs no model

        outages = Outages(self.patience_sec, self.report)
        return ModelFactory(self.keys, prices=self.prices, ledger=self.ledger, outages=outages)

    @property
    def capped(self) -> bool:
        """Whether a cap applies to several attempts together."""
        return self.task_usd is not None or self.ledger.run.statement().caps != Caps()

    def close(self) -> None:
        if "factory" in vars(self):
            self.factory.close()

    def require(self, row: PlanRow) -> None:
        """Reject a model that cannot be used, before anything runs.

        Raises:
            InputError: a missing API key (names the variable), an unreadable script, or a missing recording.
        """
        choice = self.agent_choice(row)
        if choice is None:
            return
        if choice.source == "recorded":
            from agentbench.agents.registry import needs_model  # noqa: PLC0415 - slow import

            if not _recording(Path(choice.name), row).exchanges and needs_model(row.configuration.agent):
                msg = f"{choice.option} recorded:{choice.name}: no recorded answers for task {row.task.id}, repeat {row.repeat}"
                raise InputError(msg, remedy="name a run whose attempts asked a model")
        else:
            self.factory.check(choice)

    def preflight(
        self, rows: Sequence[PlanRow], judge: JudgeChoice | None, limit_sec: float, report: Callable[[str], None]
    ) -> None:
        """Ask every service for one token, before anything runs. `report` is called if one does not answer soon.

        Raises:
            InputError: a service refuses the key or does not know the model.
            HarnessError: a service is not available.
        """
        choices = [self.agent_choice(row) for row in rows]
        if judge is not None:
            choices += [judge.choice(row, self) for row in rows if row.task.judge_enabled]
        services = {(choice.provider, choice.name, choice.base_url): choice for choice in choices if choice is not None}
        for choice in services.values():
            self.factory.preflight(choice, limit_sec, report)

    def book(self, records: Iterable[AttemptRecord]) -> None:
        """Charge what a resumed run has spent already."""
        for record in records:
            spent = Amount(
                round(record.cost.total * MICRO), record.usage.prompt_tokens + record.usage.completion_tokens
            )
            self.ledger.task(record.task_id, Caps.of(self.task_usd)).charge("lm", spent)

    def account(self, row: PlanRow) -> Account:
        """Open an account for one attempt, below those of its task and of the study."""
        budget = row.task.task.budget
        return self.ledger.attempt(row.task.id, Caps.of(budget.usd, budget.tokens), task_caps=Caps.of(self.task_usd))

    def metered_model(self, row: PlanRow, account: Account, log: EventLog, blobs: BlobStore) -> MeteredModel | None:
        """Return the metered model of one attempt, or None if its configuration names no model."""
        choice = self.agent_choice(row)
        if choice is None:
            return None
        from agentbench.models.factory import ModelParams  # noqa: PLC0415 - grading a patch needs no model
        from agentbench.models.metered_model import LogSink  # noqa: PLC0415

        params = ModelParams(
            account=account,
            sink=LogSink(log, blobs),
            recording=agent_recording(choice, row),
            lenient=self.lenient,
            # Requests are redacted before they are compared with a recording, whose requests were redacted too.
            redact=log.redact,
            overrides=overrides(row.configuration),
        )
        return self.factory.metered_model(choice, params)

    def identity(self, row: PlanRow) -> ModelIdentity | None:
        """Return the model of the agent as records name it, or None if the configuration names none.

        Raises:
            InputError: there is no recording for this attempt.
        """
        choice = self.agent_choice(row)
        return None if choice is None else self.factory.identity(choice, agent_recording(choice, row))

    def with_sampling(self, row: PlanRow) -> PlanRow:
        """Return the row with the sampling settings of its model's preset, or the defaults, where no other source gives one.

        For agents that use the model of `chat`: programs send settings of their own.
        """
        choice = self.agent_choice(row)
        if choice is None:
            return row
        given = row.configuration.settings
        preset = self.factory.presets.models[choice.preset].model_fields_set if choice.preset else frozenset[str]()
        added = {
            name: Setting(value, "preset" if name in preset else "default")
            for name, value in choice.sampling.model_dump().items()
            if name not in given or given[name].value is None
        }
        return replace(row, configuration=replace(row.configuration, settings={**given, **added}))

    def chat(self, metered_model: MeteredModel, row: PlanRow) -> ChatModel:
        """Return the model for a built-in agent, with the sampling settings and the seed of the attempt."""
        from agentbench.models.presets import Sampling  # noqa: PLC0415 - grading a patch needs no model

        sampling = Sampling.model_validate({name: row.configuration.value(name) for name in Sampling.model_fields})
        seed = row.seed if row.configuration.value("send_seed") else None
        return self.factory.model(metered_model, sampling, seed=seed)

    def choose(self, text: str, row: PlanRow, option: str = "--model") -> ModelChoice:
        """Parse the value of `--model` (or of another option).

        Raises:
            InputError: it does not name a model.
        """
        # There can be one script per task: `scripted:answers/{task}.yaml`.
        return self.factory.choose(text.replace("{task}", row.task.id), option)

    def judge_account(self, row: PlanRow) -> Account:
        """Open an account for the judge of one attempt, which is charged to the study and not to the agent."""
        return self.ledger.attempt(f"judge of {row.task.id}")

    def judge_model(
        self,
        choice: ModelChoice,
        row: PlanRow,
        sink: EventSink,
        redact: Redactor | None,
        recording: Callable[[ModelChoice, PlanRow], Recording | None],
    ) -> MeteredModel:
        """Return the metered model for the judge of one attempt, charged to the study and not to the agent."""
        from agentbench.models.factory import ModelParams  # noqa: PLC0415 - few runs have a judge

        account = self.judge_account(row)
        params = ModelParams(
            account=account, sink=sink, recording=recording(choice, row), lenient=self.lenient, redact=redact
        )
        return self.factory.metered_model(choice, params)

    def agent_choice(self, row: PlanRow) -> ModelChoice | None:
        """Return the model of the agent, or None if its configuration names none."""
        setting = row.configuration.settings.get("model")
        if setting is None or setting.value is None:
            return None
        option = f"variant {row.configuration.variant}: model" if setting.origin == "variant" else "--model"
        return self.choose(str(setting.value), row, option)


def recorded_folder(run: Path, row: PlanRow) -> Path | None:
    """Return the folder of the same task and repeat in another run, or None if that run has no such attempt."""
    for record in RunDirectory.open(run).finals():
        if (record.task_id, record.repeat) == (row.task.id, row.repeat):
            return attempt_path(run, record.artifact_paths.task_dir)
    return None


def agent_recording(choice: ModelChoice, row: PlanRow) -> Recording | None:
    """Return the recording that the agent's model repeats; None if it is not `recorded:`."""
    return _recording(Path(choice.name), row) if choice.source == "recorded" else None


def _recording(run: Path, row: PlanRow) -> Recording:
    """Read the recorded exchanges of the same task and repeat from another run.

    Raises:
        InputError: the run has no such attempt.
    """
    from agentbench.models.recording.recorded import read_recording  # noqa: PLC0415 - few runs replay a recording

    folder = recorded_folder(run, row)
    if folder is None:
        raise InputError(f"{run} has no recorded attempt at task {row.task.id}, repeat {row.repeat}")
    if (folder / MANIFEST).is_file() and evidence_text(folder) == "digest":
        raise InputError(f"{run} keeps digests instead of text, so the answers of its model cannot be repeated")
    return read_recording(folder / EVENTS, BlobStore(folder / "blobs"))


def read_prices(path: Path | None) -> Prices:
    """Read the price table of `--prices`, or return the fallback schedule.

    Raises:
        InputError: it cannot be read, or is not a price table.
    """
    if path is None:
        return FallbackSchedule()
    try:
        return parse_prices(path.read_bytes(), str(path))
    except OSError as error:
        raise InputError(f"cannot read price table {path}: {error.strerror}") from None


def overrides(configuration: Configuration) -> Mapping[str, JsonValue]:
    """Return the sampling settings of the attempt, which replace those that a program sends."""
    return {name: value for name in ("temperature", "top_p") if (value := configuration.value(name)) is not None}
