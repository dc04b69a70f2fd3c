"""Builds models from a `--model` option; the run layer's entry to this package.

    factory = ModelFactory(Keys.find(os.environ, Path.cwd()), prices=load_prices(path), ledger=Ledger(Caps.of(usd=50)))
    choice = factory.choose("openrouter:vendor/name")            # InputError: exit 2
    factory.check(choice)                                        # key set, endpoint allowed: before anything is spent
    metered = factory.metered_model(choice, ModelParams(account, sink, …))    # one per attempt
    model = factory.model(metered, choice.sampling)              # for our own agents
    with Gateway(folder, metered) as gateway: …                  # for a program in the sandbox

One factory serves all workers of a run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import HarnessError, InputError
from agentbench.models.client.chat_model import ChatModel
from agentbench.models.client.endpoint import Endpoint
from agentbench.models.dialects.translation import TranslatedUpstream
from agentbench.models.keys import Keys
from agentbench.models.ledger import Account, Ledger
from agentbench.models.metered_model import EventSink, MeteredModel, ModelIdentity
from agentbench.models.presets import MODEL, ModelChoice, Presets, Sampling, bundled_presets, choose, endpoint_of
from agentbench.models.python_model import PythonUpstream, python_model
from agentbench.models.recording.recorded import RecordedUpstream, Recording
from agentbench.models.scripted import ScriptedUpstream, load_script
from agentbench.models.upstream import Upstream
from agentbench.policy.prices import FALLBACK, Prices, PriceTable, parse_prices
from agentbench.trace.redaction import Redactor

if TYPE_CHECKING:
    from agentbench.models.client.outages import Outages
    from agentbench.models.client.service import ServiceUpstream, Transport


NOTICE_SEC = 2.0
"""A service that has not answered the preflight by then is named on the terminal."""


@dataclass(frozen=True, slots=True)
class ModelParams:
    """Parameters of one attempt's metered model. `recording` and `script` are those of `recorded:` and `scripted:`."""

    account: Account
    sink: EventSink
    recording: Recording | None = None
    script: Path | None = None
    lenient: bool = False
    redact: Redactor | None = None
    overrides: Mapping[str, JsonValue] = field(default_factory=dict)
    """Parameters that replace those a program in the sandbox sends, such as the temperature."""


class ModelFactory:
    """Builds the models of a run. Holds the keys, presets, prices, ledger and connections that all workers share."""

    def __init__(
        self,
        keys: Keys,
        *,
        presets: Presets | None = None,
        prices: Prices | None = None,
        ledger: Ledger | None = None,
        outages: Outages | None = None,
    ) -> None:
        self.keys = keys
        self.presets = presets or bundled_presets()
        self.prices = prices or FALLBACK
        self.ledger = ledger or Ledger()
        self._outages = outages
        self._lock = threading.Lock()
        self._transport: Transport | None = None

    def choose(self, text: str, option: str = MODEL) -> ModelChoice:
        """
        Raises:
            InputError: `text` does not name a model.
        """
        return choose(text, self.presets, option)

    def check(self, choice: ModelChoice) -> Endpoint | None:
        """Check everything that can fail before money is spent.

        Raises:
            InputError: a key is not set, the endpoint is not allowed, or the script cannot be read.
        """
        if choice.source == "service":
            return endpoint_of(choice, self.presets, self.keys)
        if choice.source == "python":
            python_model(choice.name)
            return None
        path = Path(choice.name)
        if not path.exists():
            kind = "run" if choice.source == "recorded" else "file"
            raise InputError(f"{choice.option} {choice.source}:{choice.name}: no such {kind}")
        if choice.source == "scripted" and (path.is_file() or path.is_dir()):
            load_script(path)
        return None

    def preflight(self, choice: ModelChoice, limit_sec: float, report: Callable[[str], None]) -> None:
        """Send one request of one token to the service, if there is one. `report` is called if the answer takes long.

        A service that gives no answer within `limit_sec` and answers another request may be loading the model: it is accepted.

        Raises:
            InputError: it refuses the key or does not know the model.
            HarnessError: it is not available.
        """
        if choice.source != "service":
            return
        from agentbench.models.faults import Rejected, ServiceFault, TimedOut, Unauthorised  # noqa: PLC0415 - as below

        service = self._service(choice)
        named = f"{choice.option} {choice.name} at {choice.base_url or choice.provider}"
        for last in (False, True):
            waiting = f"Waiting for an answer of {named}, up to {limit_sec:g} s (--preflight-wait)"
            notice = threading.Timer(NOTICE_SEC, report, (waiting,))
            notice.start()
            try:
                service.ask_one_token(limit_sec=limit_sec)
            except ServiceFault as fault:
                if isinstance(fault, Unauthorised) or fault.status == 404:
                    remedy = fault.remedy or "check the name of the model and the URL"
                    raise InputError(f"{named}: {fault.message}", remedy=f"{remedy}; nothing was started") from None
                # Any other answer shows that the service works, for example one that rejects such a short response.
                if isinstance(fault, Rejected) or not fault.means_outage:
                    return
                if isinstance(fault, TimedOut) and service.is_alive():
                    report(
                        f"{named} gave no answer within {limit_sec:g} s, but its service runs: it may be loading the model"
                    )
                    return
                if last or isinstance(fault, TimedOut):
                    remedy = "nothing was started; --preflight-wait waits longer, --no-preflight does not ask the model"
                    raise HarnessError(f"{named} is not available: {fault.message}", remedy=remedy) from None
            else:
                return
            finally:
                notice.cancel()

    def metered_model(self, choice: ModelChoice, params: ModelParams) -> MeteredModel:
        """
        Raises:
            InputError: as for `check`, or there is no recording or script for this attempt.
        """
        identity = self.identity(choice, params.recording, params.overrides)
        upstream = self.upstream(
            choice, params.recording, script=params.script, lenient=params.lenient, redact=params.redact
        )
        return MeteredModel(upstream, identity, params.account, self.prices, params.sink, params.redact)

    def identity(
        self, choice: ModelChoice, recording: Recording | None, overrides: Mapping[str, JsonValue] | None = None
    ) -> ModelIdentity:
        """Return the model that a choice selects.

        Raises:
            InputError: there is no recording for this attempt.
        """
        provider, name = choice.provider, choice.name
        if choice.source == "recorded":
            if recording is None:
                msg = f"{choice.option} recorded:{choice.name}: no recorded exchanges for this task and repeat"
                raise InputError(msg)
            provider, name = "recorded", recording.model
        elif choice.source == "scripted":
            name = "scripted"
        return ModelIdentity(provider, name, overrides or {})

    def model(
        self, metered_model: MeteredModel, sampling: Sampling | None = None, *, seed: int | None = None
    ) -> ChatModel:
        """Return a model for one of our own agents. The seed is not sent to providers that do not accept one."""
        preset = self.presets.providers.get(metered_model.identity.provider)
        accepted = preset is None or preset.send_seed
        return ChatModel(metered_model.identity.name, metered_model, sampling, seed=seed if accepted else None)

    def close(self) -> None:
        with self._lock:
            if self._transport is not None:
                self._transport.close()
                self._transport = None

    def upstream(
        self,
        choice: ModelChoice,
        recording: Recording | None,
        *,
        script: Path | None = None,
        lenient: bool = False,
        redact: Redactor | None = None,
    ) -> Upstream:
        """Return what answers the requests of one attempt, without budget and log."""
        if recording is not None and choice.source == "recorded":
            return RecordedUpstream(recording, lenient=lenient, redact=redact)
        if choice.source == "python":
            return TranslatedUpstream(PythonUpstream(python_model(choice.name)))
        if choice.source == "scripted":
            return TranslatedUpstream(ScriptedUpstream(load_script(script or Path(choice.name))))
        return TranslatedUpstream(self._service(choice))

    def _service(self, choice: ModelChoice) -> ServiceUpstream:
        # Importing the HTTP library takes 0.3 s and 20 MB, which scripts and recordings do not need.
        from agentbench.models.client.service import ServiceUpstream, Transport  # noqa: PLC0415

        endpoint = endpoint_of(choice, self.presets, self.keys)
        with self._lock:
            if self._transport is None:
                self._transport = Transport()
            transport = self._transport
        return ServiceUpstream(
            endpoint,
            transport,
            outages=self._outages,
            model=choice.name,
        )


def load_prices(path: Path) -> PriceTable:
    """
    Raises:
        InputError: it cannot be read; a ContractError with all problems if it is invalid.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read price table {path}: {error.strerror or error}") from None
    return parse_prices(data, str(path))
