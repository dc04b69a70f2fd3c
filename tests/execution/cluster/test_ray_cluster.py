"""Connecting to a cluster that does not answer."""

from __future__ import annotations

import socket

import pytest

from agentbench.core.errors import HarnessError
from agentbench.execution.cluster.ray_cluster import RayCluster

pytestmark = [pytest.mark.component, pytest.mark.req("R-14b")]


def test_cluster_that_does_not_answer_is_a_harness_error() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(HarnessError, match="cannot connect to a Ray cluster") as caught:
            RayCluster(address)
    assert caught.value.exit_code == 3
    assert "--ray-address" in caught.value.remedy
