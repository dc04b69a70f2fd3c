"""A node that its driver leaves ends with its sandboxes, whatever it does at that moment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from agentbench.execution.cluster.channel_keys import new_channel_key
from agentbench.execution.cluster.channel_server import ChannelServer
from agentbench.execution.cluster.content import ContentStore
from tests.execution.cluster.lone_node import HANGS
from tests.execution.cluster.test_channel import Listener
from tests.sandbox.host_processes import processes, until

pytestmark = [pytest.mark.component, pytest.mark.req("R-14a")]


@pytest.mark.parametrize("hang", HANGS)
def test_node_that_hangs_ends_with_its_sandbox_after_its_driver(hang: str, shared_state: Path) -> None:
    with closing(ContentStore()) as store:
        channel = ChannelServer("127.0.0.1", new_channel_key("driver"), store, Listener())
        line = [sys.executable, "-m", "tests.execution.cluster.lone_node", hang, channel.url, "2"]
        env = {**os.environ, "AB_STATE": str(shared_state)}
        with subprocess.Popen(line, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as node:
            assert node.stdin is not None
            assert node.stdout is not None
            own = json.loads(node.stdout.readline())
            channel.trust(own["certificate"])
            node.stdin.write(json.dumps(channel.certificate) + "\n")
            node.stdin.flush()
            sandboxed = json.loads(node.stdout.readline())["sandboxed"]
            assert processes(sandboxed)
            channel.close()
            assert node.wait(300) == -signal.SIGKILL
    until(lambda: not processes(sandboxed), "its sandbox is still alive")
    until(lambda: not Path(own["memory"]).exists(), "its folder in memory still exists")
