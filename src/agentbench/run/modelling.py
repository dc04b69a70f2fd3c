"""Models for attempts: what `--model` means, who answers, and what it may cost. One for a whole study."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from agentbench.core.errors import InputError
from agentbench.models.client import ChatModel
from agentbench.models.desk import Desk, LogSink, ModelIdentity
from agentbench.models.keys import Keys
from agentbench.models.ledger import Caps, Ledger
from agentbench.models.presets import ModelChoice, Presets, Sampling, bundled_presets, choose, endpoint_of
from agentbench.models.recording import Recorded, read_recording
from agentbench.models.scripted import Scripted, load_script
from agentbench.models.wire import Upstream
from agentbench.policy.prices import FallbackSchedule, Prices, parse_prices
from agentbench.record.folder import EVENTS
from agentbench.record.rundir import RunDirectory
from agentbench.run.config import Configuration
from agentbench.run.plan import PlanRow
from agentbench.trace.blobs import BlobStore
from agentbench.trace.log import EventLog

if TYPE_CHECKING:
    from agentbench.models.service import Transport


@dataclass(slots=True)
class Models:
    """What all attempts of a study share. Nothing is contacted before the first request."""

    keys: Keys = field(default_factory=lambda: Keys.find(os.environ, Path.cwd()))
    presets: Presets = field(default_factory=bundled_presets)
    prices: Prices = field(default_factory=FallbackSchedule)
    ledger: Ledger = field(default_factory=Ledger)
    lenient: bool = False
    _transport: Transport | None = None

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def require(self, row: PlanRow) -> None:
        """Refuse a model that cannot be asked, before anything runs.

        Raises:
            InputError: a missing key (names the variable), an unreadable script, a recording that is not there.
        """
        text = model_text(row.configuration)
        if text is not None:
            self._upstream(choose(text, self.presets), row)

    def desk(self, row: PlanRow, log: EventLog, blobs: BlobStore) -> Desk | None:
        """The desk of one attempt; None when its configuration names no model."""
        text = model_text(row.configuration)
        if text is None:
            return None
        choice = choose(text, self.presets)
        budget = row.task.task.budget
        # A script or a recording is known by its name, not by where it lies on this machine.
        name = choice.name if choice.source == "service" else Path(choice.name).name
        identity = ModelIdentity(choice.provider, name, _overrides(row.configuration))
        account = self.ledger.attempt(row.task.id, Caps.of(budget.usd, budget.tokens))
        return Desk(self._upstream(choice, row), identity, account, self.prices, LogSink(log, blobs))

    def chat(self, desk: Desk, row: PlanRow) -> ChatModel:
        """The model as an agent of ours asks it."""
        choice = choose(model_text(row.configuration) or "", self.presets)
        said = {name: value for name in Sampling.model_fields if (value := _value(row.configuration, name)) is not None}
        return ChatModel(desk.identity.name, desk, choice.sampling.model_copy(update=said))

    def _upstream(self, choice: ModelChoice, row: PlanRow) -> Upstream:
        if choice.source == "scripted":
            place = Path(choice.name.replace("{task}", row.task.id))
            return Scripted(load_script(place))
        if choice.source == "recorded":
            return self._recorded(Path(choice.name), row)
        # httpx is 10 MB that runs without a service do not need.
        from agentbench.models.service import Service, Transport  # noqa: PLC0415 - said above

        endpoint = endpoint_of(choice, self.presets, self.keys)
        if self._transport is None:
            self._transport = Transport()
        return Service(endpoint, self._transport)

    def _recorded(self, run: Path, row: PlanRow) -> Recorded:
        for record in RunDirectory.open(run).finals():
            if (record.task_id, record.repeat) == (row.task.id, row.repeat):
                folder = run / record.artifact_paths.task_dir
                recording = read_recording(folder / EVENTS, BlobStore(folder / "blobs"))
                return Recorded(recording, lenient=self.lenient)
        msg = f"{run} has no attempt at task {row.task.id}, repeat {row.repeat}, whose exchanges could be replayed"
        raise InputError(msg)


def read_prices(path: Path | None) -> Prices:
    """The price table of `--prices`, or the fallback schedule.

    Raises:
        InputError: it cannot be read or is no price table.
    """
    if path is None:
        return FallbackSchedule()
    try:
        return parse_prices(path.read_bytes(), str(path))
    except OSError as error:
        msg = f"prices {path} cannot be read: {error.strerror}"
        raise InputError(msg) from None


def model_text(configuration: Configuration) -> str | None:
    value = _value(configuration, "model")
    return None if value is None else str(value)


def _value(configuration: Configuration, name: str) -> str | float | None:
    setting = configuration.settings.get(name)
    return None if setting is None else setting.value


def _overrides(configuration: Configuration) -> Mapping[str, JsonValue]:
    """What was asked for on the command line or in the variant replaces what a client sends."""
    return {name: value for name in ("temperature", "top_p") if (value := _value(configuration, name)) is not None}
