"""Connecting to a cluster that does not answer."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from agentbench.core.errors import HarnessError
from agentbench.execution.cluster.ray_cluster import Closable, RayCluster

pytestmark = [pytest.mark.component, pytest.mark.req("R-14b")]


def test_cluster_that_does_not_answer_is_a_harness_error() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(HarnessError, match="cannot connect to a Ray cluster") as caught:
            RayCluster(address)
    assert caught.value.exit_code == 3
    assert "--ray-address" in caught.value.remedy


def test_connection_is_closed_when_no_thread_uses_it_any_more() -> None:
    """Ray ends the process with status 1 if a thread uses a connection that is closed."""
    connection, used = Closable(), threading.Event()
    left: list[float] = []

    def use() -> None:
        with connection.in_use():
            used.set()
            time.sleep(0.2)
            left.append(time.monotonic())

    thread = threading.Thread(target=use)
    thread.start()
    assert used.wait(30)
    connection.close(30)
    assert left
    with pytest.raises(HarnessError, match="is closed"), connection.in_use():
        pass
    thread.join()


def test_a_call_that_does_not_return_does_not_keep_a_connection_open() -> None:
    connection = Closable()
    with connection.in_use():
        connection.close(0.01)
    assert connection.closed
