"""A Ray cluster on this machine whose nodes share nothing: each has its own home, state, memory and process namespace.

All of it is in a network namespace that has only a loopback interface. A supervisor process starts and ends the nodes; it ends with
the process it was started for, and the kernel ends the nodes with the supervisor, so nothing is left behind.

    python -m tests.run.cluster.ray_nodes FOLDER PID     the supervisor; commands come through FOLDER/control
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
PORT = 6379
HEAD = "127.0.0.2"
WAIT_SEC = 110.0
_SLOW_START = {"RAY_raylet_start_wait_time_s": "100", "RAY_prestart_worker_first_driver": "0"}
_KEPT = ("PATH", "LANG", "DOCKER_HOST", "SSL_CERT_FILE", "PYTHONPATH")
_ISOLATED = ("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")
CLONE_NEWNET = 0x40000000


def missing() -> str | None:
    """Return why no cluster can be started here; None if one can."""
    if os.geteuid() != 0:
        return "starting isolated Ray nodes needs root"
    if any(shutil.which(name) is None for name in ("unshare", "nsenter", "mount")):
        return "starting isolated Ray nodes needs unshare, nsenter and mount"
    tried = subprocess.run(["unshare", "--net", "--mount", "--pid", "--fork", "true"], check=False, capture_output=True)
    return None if tried.returncode == 0 else "this machine does not allow network namespaces"


@dataclass(frozen=True)
class Cluster:
    """A running cluster, seen from a test."""

    folder: Path
    supervisor: int

    @property
    def address(self) -> str:
        return f"{HEAD}:{PORT}"

    def inside(self, *command: str) -> list[str]:
        """Return a command line that runs in the cluster's network."""
        return ["nsenter", f"--net=/proc/{self.supervisor}/ns/net", *command]

    def state(self, node: str) -> Path:
        return self.folder / node / "state"

    def command(self, action: str, node: str = "") -> Any:
        """Let the supervisor do something: `add`, `kill`, `freeze` or `pids` of a node, or `stop`."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(WAIT_SEC)
            connection.connect(str(self.folder / "control"))
            connection.sendall(json.dumps([action, node]).encode() + b"\n")
            return json.loads(connection.makefile().readline())


def start_cluster(owner: int, nodes: tuple[str, ...], prepare_state: Callable[[Path], None] | None = None) -> Cluster:
    """Start a cluster that ends with the process `owner`."""
    # Ray's sockets are below the folder, and their paths must be short.
    folder = Path(tempfile.mkdtemp(prefix="abray-", dir="/tmp"))
    for node in nodes:
        (folder / node).mkdir()
        if prepare_state is not None:
            prepare_state(folder / node / "state")
    log = folder / "supervisor.log"
    with log.open("w") as output:
        # Not a child of this process, which need not wait for it.
        subprocess.run(
            ["setsid", "--fork", sys.executable, "-m", "tests.run.cluster.ray_nodes", str(folder), str(owner)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=True,
        )
    deadline = time.monotonic() + WAIT_SEC
    while not (folder / "control").exists():
        if time.monotonic() > deadline:
            raise RuntimeError(f"the supervisor did not start: {log.read_text()}")
        time.sleep(0.05)
    cluster = Cluster(folder, int((folder / "pid").read_text()))
    for node in nodes:
        answer = cluster.command("add", node)
        assert answer == "started", answer
    return cluster


# --- the supervisor -------------------------------------------------------------------------------------------------------


class _Supervisor:
    def __init__(self, folder: Path, owner: int) -> None:
        self.folder = folder
        self.owner = os.pidfd_open(owner)
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}
        self.addresses = iter(range(2, 250))
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "unshare")
        _loopback_up()

    def serve(self) -> None:
        """Carry out commands until the owner ends."""
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self.folder / ".control"))
            listener.listen()
            (self.folder / ".control").rename(self.folder / "control")
            while True:
                ready, _, _ = select.select([self.owner, listener.fileno()], [], [])
                if self.owner in ready:
                    return
                connection, _ = listener.accept()
                with connection:
                    action, node = json.loads(connection.makefile().readline())
                    connection.sendall(json.dumps(getattr(self, action)(node)).encode() + b"\n")
                    if action == "stop":
                        return

    def add(self, node: str) -> str:
        folder = self.folder / node
        for name in ("home", "tmp"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        session = self.folder / "ray"
        session.mkdir(exist_ok=True)
        first = not self.nodes
        address = f"127.0.0.{next(self.addresses)}"
        options = [
            "start",
            "--block",
            "--disable-usage-stats",
            "--node-ip-address",
            address,
            "--num-cpus=8",
            f"--memory={8 << 30}",
            f"--object-store-memory={80 << 20}",
        ]
        if first:
            options += ["--head", f"--port={PORT}", f"--temp-dir={session}", "--include-dashboard=false"]
        else:
            options.append(f"--address={HEAD}:{PORT}")
        ray = str(Path(sys.executable).parent / "ray")
        # Only the first node shares the session folder, with the driver; others have their own in its place.
        private = "" if first else f"mount -t tmpfs tmpfs {session} && "
        line = f'{private}mount -t tmpfs tmpfs /dev/shm && exec "$@"'
        log = (folder / "log").open("w")
        self.nodes[node] = subprocess.Popen(
            [*_ISOLATED, "sh", "-c", line, "sh", ray, *options],
            env=_environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - the supervisor has one thread
        )
        deadline = time.monotonic() + WAIT_SEC
        while "Ray runtime started" not in (folder / "log").read_text():
            if time.monotonic() > deadline or self.nodes[node].poll() is not None:
                return (folder / "log").read_text()
            time.sleep(0.1)
        return "started"

    def kill(self, node: str) -> str:
        """End a node without warning: every process of it dies at once."""
        process = self.nodes.pop(node)
        process.kill()
        process.wait()
        return "killed"

    def freeze(self, node: str) -> str:
        """Stop all processes of a node, as if its machine hung."""
        for pid in self.pids(node):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        return "frozen"

    def pids(self, node: str) -> list[int]:
        """List the processes of a node, without the one that started it."""
        found, parents = [], {self.nodes[node].pid}
        children = _children()
        while parents:
            parent = parents.pop()
            found += children.get(parent, [])
            parents.update(children.get(parent, []))
        return found

    def stop(self, _node: str) -> str:
        for node in list(self.nodes):
            self.kill(node)
        return "stopped"


def _environment(folder: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    own = {"HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp"), "AB_STATE": str(folder / "state")}
    return {**kept, **_SLOW_START, **own, "RAY_USAGE_STATS_ENABLED": "0"}


def _children() -> Mapping[int, list[int]]:
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(path.parent.name))
    return children


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as interface:
        up_and_running = b"lo".ljust(16, b"\0") + (0x41).to_bytes(2, "little") + bytes(14)
        fcntl.ioctl(interface, 0x8914, up_and_running)


def main() -> None:
    folder, owner = Path(sys.argv[1]), int(sys.argv[2])
    (folder / "pid").write_text(str(os.getpid()))
    supervisor = _Supervisor(folder, owner)
    try:
        supervisor.serve()
    finally:
        supervisor.stop("")
        shutil.rmtree(folder, ignore_errors=True)


def require_cluster() -> None:
    """Skip the test if no cluster can be started here."""
    if why := missing():
        pytest.skip(why)


if __name__ == "__main__":
    main()
