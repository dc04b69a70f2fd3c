from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentbench.models.client.endpoint import Dialect, Endpoint
from agentbench.models.client.service import RetryPolicy, ServiceUpstream, Timeouts, Transport
from agentbench.models.dialects.translation import TranslatedUpstream
from agentbench.models.keys import Secret
from agentbench.models.upstream import Upstream
from tests.models.metered_gateway import MeteredGateway
from tests.models.service import Behaviour, Server

KEY = "sk-test-" + "k" * 32
QUICK = RetryPolicy(tries=3, first_sec=0.01, max_sec=0.02, deadline_sec=120)

Serve = Callable[..., Server]
OpenMetered = Callable[..., MeteredGateway]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start a service with one behaviour per request; the last applies to all further requests."""
    servers: list[Server] = []

    def start(*behaviours: Behaviour) -> Server:
        server = Server(*behaviours)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.release.set()
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="session")
def transport() -> Iterator[Transport]:
    transport = Transport()
    yield transport
    transport.close()


@pytest.fixture
def upstream_for(serve: Serve, transport: Transport) -> Callable[..., ServiceUpstream]:
    """Return an upstream for a service with the given behaviours."""

    def make(
        *behaviours: Behaviour, retry: RetryPolicy = QUICK, silence: float = 60.0, **endpoint: Any
    ) -> ServiceUpstream:
        where = Endpoint("test", serve(*behaviours).url, Secret("TEST_KEY", KEY), **endpoint)
        return ServiceUpstream(where, transport, retry=retry, timeouts=Timeouts(connect_sec=60, silence_sec=silence))

    return make


@pytest.fixture
def open_metered(tmp_path: Path) -> Iterator[OpenMetered]:
    gateways: list[MeteredGateway] = []

    def make(upstream: Upstream, **options: Any) -> MeteredGateway:
        spoken = upstream if upstream.dialects == frozenset(Dialect) else TranslatedUpstream(upstream)
        gateways.append(MeteredGateway(tmp_path / f"g{len(gateways)}", spoken, **options))
        return gateways[-1]

    yield make
    for metered in gateways:
        metered.close()
