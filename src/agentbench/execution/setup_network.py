"""Network of a task's setup if the contract lists its registries: a proxy that reaches them and nothing else.

The sandbox itself has no network. A request to another host is refused and fails the setup, even if its command succeeds, so
that an environment never depends on a registry that the contract does not name.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from agentbench.core.errors import SandboxError, SetupFailed
from agentbench.core.ids import new_ulid
from agentbench.execution.proxy.allow_list import AllowList
from agentbench.execution.proxy.recorder import ProxyLimits, Recorder
from agentbench.execution.proxy.server import Proxy, environment
from agentbench.sandbox.protocol import Sandbox, SandboxSpec
from agentbench.trace.blobs import BlobStore
from agentbench.trace.events import NetworkRequest
from agentbench.trace.log import EventLog, read_events

KEY = "policy.dependencies.registries"
_LIMITS = ProxyLimits(requests=100_000, total_bytes=64 << 30, kept_bytes=0, kept_in_total=0)
_SHOWN = 5


class SetupNetwork:
    """Implements `sandbox.protocol.SetupNetwork`. Enter it around the preparation."""

    def __init__(self, state: Path, registries: Sequence[str], timeout_sec: float) -> None:
        self._folder = state / "proxy" / f"setup-{new_ulid().lower()}"
        self._requests = self._folder / "requests.jsonl"
        self._allow = AllowList.of(registries, key=KEY)
        self._timeout_sec = timeout_sec
        self._opened = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._folder.mkdir(parents=True)
        except OSError as error:
            raise SandboxError(f"cannot write {self._folder}: {error.strerror}") from error
        self._opened.callback(shutil.rmtree, self._folder, ignore_errors=True)
        log = self._opened.enter_context(EventLog.create(self._requests))
        recorder = Recorder(log, BlobStore(self._folder / "blobs"), _LIMITS)
        self._proxy = self._opened.enter_context(Proxy(self._folder, self._allow, recorder, _LIMITS))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._opened.close()

    def restrict(self, spec: SandboxSpec) -> SandboxSpec:
        """Return the spec of a setup sandbox whose only network is the proxy."""
        return self._proxy.forward.add_to(replace(spec, network=False), environment())

    def open(self, sandbox: Sandbox) -> None:
        self._proxy.forward.start(sandbox, self._timeout_sec)

    def check(self) -> None:
        hosts: dict[str, None] = {}
        for event in read_events(self._requests, types={NetworkRequest.type}):
            if isinstance(event.payload, NetworkRequest) and event.payload.refused:
                hosts[f"{event.payload.host}:{event.payload.port}" if event.payload.host else event.payload.why] = None
        if hosts:
            more = f" and {len(hosts) - _SHOWN} more" if len(hosts) > _SHOWN else ""
            msg = f"setup requested hosts that {KEY} does not allow: {', '.join(list(hosts)[:_SHOWN])}{more}"
            raise SetupFailed(msg, remedy=f"add the hosts to {KEY}, or install from an allowed registry")
