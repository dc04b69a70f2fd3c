"""Run by test_ordinary_user.py as an ordinary user. Prints one JSON object with what it observed in a sandbox."""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
from pathlib import Path

from agentbench.core.command import Command
from agentbench.sandbox.bwrap.backend import BwrapBackend
from agentbench.sandbox.protocol import Limits, Phase, ProcessEnd, ProcessStart, Sandbox, SandboxSpec, SetupPlan

LIMITS = Limits(cpus=2, memory_mb=256, pids=40, disk_mb=48, inodes=5000)
SPEC = SandboxSpec(Phase.AGENT, LIMITS)
FLOOD = """
import os, socket, time
sockets = []
try:
    while True:
        sockets.append(socket.socketpair())
        socket.send_fds(sockets[-1][0], [b"x"], [0] * 250)
except OSError as error:
    print(error.strerror, flush=True)
time.sleep(60)
"""


def main() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    state, source, layer = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    backend = BwrapBackend(state, writable_layer=layer)  # type: ignore[arg-type]
    limits = backend.limits()
    commands = ("echo made > artefact", "rm -r folder && mkdir folder && echo again > folder/new", "touch ~/home-file")
    plan = SetupPlan("user", source, commands, ("python --version",), 120)
    prepared = backend.prepare(plan, SPEC, on_step=lambda _: None)
    report: dict[str, object] = {
        "uid": os.geteuid(),
        "limits": [limits.cpu, limits.memory, limits.pids, limits.disk],
        "changed": [os.fsdecode(path) for path in prepared.setup_changed],
        "spawner": backend._supervisor.spawner.pid,
    }
    with backend.open(SPEC, prepared) as sandbox:
        report |= observe(sandbox)
        report["neighbour"] = neighbour(backend, sandbox)
    with backend.open(SPEC, prepared) as sandbox:
        sandbox.run(
            Command(line="rm -rf folder artefact; mkdir folder; echo x > folder/y; chmod 700 folder; chmod 0 .")
        )
        report["tree"] = sorted(os.fsdecode(entry.path) for entry in sandbox.tree().entries())
        report["usage"] = [sandbox.usage().processes is not None, sandbox.usage().cpu_sec is not None]
    backend.close()
    report["live"] = [path.name for path in (state / "live").iterdir()]
    sys.stdout.write(json.dumps(report))


def observe(sandbox: Sandbox) -> dict[str, object]:
    def out(line: str, stdin: bytes = b"") -> str:
        done = sandbox.run(Command(line=line, stdin=stdin, timeout_sec=30))
        return (done.stdout.kept + done.stderr.kept).decode(errors="replace").strip()

    forks = "import os, time\nn = 0\ntry:\n    while True:\n        if os.fork() == 0: time.sleep(60)\n        n += 1\nexcept OSError: print(n)"
    bomb = sandbox.run(Command(line="python3 -c 'x = []\nwhile True: x.append(bytearray(1 << 20))'", timeout_sec=60))
    return {
        "identity": out("id -u; grep -E 'CapEff|NoNewPrivs|Seccomp:' /proc/self/status | tr -s '\\t\\n' '  '"),
        "prepared": out("cat artefact folder/new; ls ~/home-file"),
        "refused": out(
            "for c in 'mount -t tmpfs x /tmp' 'unshare -U true' 'cat /etc/shadow' 'ls /root'; do $c 2>/dev/null && echo $c; done; true"
        ),
        "attacks": out("python3 -", Path(__file__).with_name("server_attacks.py").read_bytes()),
        "network": out("python3 -c 'import socket; print([n for _, n in socket.if_nameindex()])'"),
        "fill": out("head -c 80M /dev/zero > /tmp/fill; rm -f /tmp/fill"),
        "forks": out(f"python3 -c '{forks}'"),
        "bomb": [bomb.exit_code, bomb.oom],
        "after": out("echo alive"),
        "programs": programs(sandbox),
    }


def neighbour(backend: BwrapBackend, sandbox: Sandbox) -> str:
    """Open a sandbox beside one that has as many descriptors on their way through sockets as its user may have."""
    printed = threading.Event()
    flood = sandbox.start(Command(argv=("python3", "-c", FLOOD)), on_stdout=lambda _: printed.set())
    printed.wait(60)
    with backend.open(SPEC, None) as other:
        answer = other.run(Command(line="echo alive")).stdout.text.strip()
    flood.kill()
    return f"{flood.wait().stdout.text.strip()}, {answer}"


def programs(sandbox: Sandbox) -> list[object]:
    """Return why programs cannot be observed, the arguments of those that were, and the denied system calls."""
    seen: list[ProcessStart | ProcessEnd] = []
    before = sandbox.denied_calls()
    sandbox.run(Command(line="/bin/true one; unshare -U true"), observe=seen.append)
    starts = [event.argv for event in seen if isinstance(event, ProcessStart)]
    counts = {name: count - before.get(name, 0) for name, count in sandbox.denied_calls().items()}
    return [sandbox.observation_problem, starts[1:], counts["namespaces"]]


if __name__ == "__main__":
    main()
