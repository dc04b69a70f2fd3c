"""A gateway with an upstream, a ledger, a log, and a real forwarder as in a sandbox."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentbench.models.dialects.translation import TranslatedUpstream
from agentbench.models.gateway.relay import KeepAliveIntervals
from agentbench.models.gateway.server import Gateway
from agentbench.models.ledger import Account, Caps, Ledger
from agentbench.models.metered_model import LogSink, MeteredModel, ModelIdentity
from agentbench.models.scripted import ModelScript, ScriptedUpstream
from agentbench.models.upstream import Upstream
from agentbench.policy.prices import FALLBACK, Prices
from agentbench.sandbox.server import forward
from agentbench.trace.blobs import BlobStore
from agentbench.trace.events import LlmRequest, LlmResponse
from agentbench.trace.log import EventLog, read_events
from agentbench.trace.redaction import Redactor

if TYPE_CHECKING:
    import anthropic
    import openai

PROMPT: list[Any] = [{"role": "user", "content": "hi"}]


def script(*answers: Mapping[str, Any], after: str = "fail") -> TranslatedUpstream:
    return TranslatedUpstream(ScriptedUpstream(ModelScript.model_validate({"answers": list(answers), "after": after})))


@dataclass
class MeteredGateway:
    """A metered model with its log. `url` is the gateway's once `open_gateway` was called."""

    folder: Path
    upstream: Upstream
    caps: Caps = field(default_factory=Caps)
    prices: Prices = FALLBACK
    ledger: Ledger = field(default_factory=Ledger)
    redact: Redactor | None = None
    url: str = ""
    clients: list[openai.OpenAI | anthropic.Anthropic] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        self.log = EventLog.create(self.folder / "events.jsonl", redact=self.redact)
        self.blobs = BlobStore(self.folder / "blobs", redact=self.redact)
        self.account: Account = self.ledger.attempt("t", self.caps)
        sink = LogSink(self.log, self.blobs)
        self.metered_model = MeteredModel(
            self.upstream, ModelIdentity("test", "vendor/model"), self.account, self.prices, sink
        )
        self.gateway: Gateway | None = None
        self.forwarder: subprocess.Popen[bytes] | None = None

    def open_gateway(self, keep_alive: KeepAliveIntervals | None = None) -> MeteredGateway:
        self.gateway = Gateway(self.folder / "gateway", self.metered_model, keep_alive=keep_alive)
        self.forwarder = subprocess.Popen(
            [sys.executable, "-I", forward.__file__, "0", str(self.gateway.forward.socket)], stdout=subprocess.PIPE
        )
        assert self.forwarder.stdout is not None
        word, port = self.forwarder.stdout.readline().split()
        assert word == b"ready"
        self.url = f"http://127.0.0.1:{int(port)}"
        return self

    def openai(self, **options: Any) -> openai.OpenAI:
        import openai

        client = openai.OpenAI(base_url=self.url + "/v1", api_key="placeholder", **{"max_retries": 0, **options})
        self.clients.append(client)
        return client

    def anthropic(self, **options: Any) -> anthropic.Anthropic:
        import anthropic

        client = anthropic.Anthropic(base_url=self.url, api_key="placeholder", **{"max_retries": 0, **options})
        self.clients.append(client)
        return client

    def requests(self) -> list[LlmRequest]:
        return [e.payload for e in read_events(self.log.path) if isinstance(e.payload, LlmRequest)]

    def responses(self) -> list[LlmResponse]:
        return [e.payload for e in read_events(self.log.path) if isinstance(e.payload, LlmResponse)]

    def close(self) -> None:
        for client in self.clients:
            client.close()
        if self.gateway is not None:
            self.gateway.close()
        if self.forwarder is not None:
            self.forwarder.kill()
            self.forwarder.communicate()
            self.forwarder = None
        self.metered_model.close()
        self.log.release()
