"""A node without Ray that opens a sandbox and then does nothing that could end it.

python -m tests.execution.cluster.lone_node STATE URL LOST_SEC     prints its certificate, and reads the driver's
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

from agentbench.core.command import Command
from agentbench.execution.cluster.node import Node
from agentbench.execution.cluster.probe import NodeReport
from agentbench.sandbox.protocol import Limits, Phase, SandboxSpec
from agentbench.sandbox.registry import open_backend

HANGS: dict[str, Callable[[], object]] = {
    "in its probe": lambda: time.sleep(900),
    "in native code, with the interpreter's lock": lambda: ctypes.PyDLL(None).sleep(900),
    "stopped": lambda: os.kill(os.getpid(), signal.SIGSTOP),
}


def show(**values: object) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


def main() -> None:
    hang, url, lost_sec = sys.argv[1], sys.argv[2], float(sys.argv[3])

    def probe(state: Path) -> NodeReport:
        backend = open_backend("bwrap", state=state, needs_image=False)
        with backend.open(SandboxSpec(Phase.AGENT, Limits(memory_mb=256, disk_mb=64)), None) as sandbox:
            line = f"sleep {os.getpid()}.25"
            sandbox.start(Command(line=line))
            while sandbox.run(Command(line="pgrep -c sleep")).stdout.kept != b"1\n":
                time.sleep(0.01)
            show(sandboxed=line)
            HANGS[hang]()
        raise AssertionError("unreachable")

    node = Node("lone")
    show(certificate=node.introduce(), memory=str(node._memory.path))
    problem = node.connect(url, json.loads(sys.stdin.readline()), lost_sec)
    assert problem == ""
    with patch("agentbench.execution.cluster.node.probe_node", probe):
        node.probe()


if __name__ == "__main__":
    main()
