"""A harness that is itself supervised: the kernel allows one listener only, so programs cannot be observed."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from agentbench.process import run_host
from agentbench.sandbox.protocol import Backend

SCRIPT = """
import ctypes, os, struct, sys
from pathlib import Path
from agentbench.core.command import Command
from agentbench.sandbox.registry import open_backend
from tests.sandbox.conftest import SPEC

libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(38, 1, 0, 0, 0)
allow_all = ctypes.create_string_buffer(struct.pack("<HBBI", 6, 0, 0, 0x7FFF0000))
program = struct.pack("@HP", 1, ctypes.addressof(allow_all))
seccomp = {"x86_64": 317, "aarch64": 277}[os.uname().machine]
listener = libc.syscall(ctypes.c_long(seccomp), ctypes.c_long(1), ctypes.c_long(8), program)
assert listener >= 0, ctypes.get_errno()
backend = open_backend("bwrap", state=Path(sys.argv[1]), needs_image=False)
with backend.open(SPEC, None) as sandbox:
    done = sandbox.run(Command(line="/bin/true; unshare -U true; grep Seccomp_filters /proc/self/status"), observe=print)
    print([sandbox.observation_problem, done.processes, done.stderr.text, done.stdout.text])
backend.close()
"""


@pytest.mark.req("M-02b")
@pytest.mark.component
def test_second_listener_is_refused_and_the_plain_filter_applied(backend: Backend, state: Path) -> None:
    done = run_host([sys.executable, "-c", SCRIPT, str(state)], cwd=str(Path(__file__).parents[3]), timeout_sec=900)
    assert done.ok, done.stderr.text
    problem, processes, stderr, stdout = ast.literal_eval(done.stdout.text)
    assert problem == "no seccomp listener: Device or resource busy"
    assert processes is None
    assert "Operation not permitted" in stderr
    # The outer one and the sandbox's.
    assert stdout.split() == ["Seccomp_filters:", "2"]
