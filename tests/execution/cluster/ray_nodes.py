"""A Ray cluster on this machine whose nodes share nothing: each has its own home, state, memory, processes and network interface.

The head and the driver are in a network namespace with a bridge; every other node is in its own, connected to the bridge. A supervisor
process starts and ends the nodes; it ends with the process it was started for, and the kernel ends the nodes with the supervisor, so
nothing is left behind.

    python -m tests.execution.cluster.ray_nodes FOLDER PID     the supervisor; commands come through FOLDER/control
"""

from __future__ import annotations

import contextlib
import ctypes
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
HEAD = "10.77.0.1"
WAIT_SEC = 110.0
_SLOW_START = {"RAY_raylet_start_wait_time_s": "100", "RAY_prestart_worker_first_driver": "0"}
_KEPT = ("PATH", "LANG", "DOCKER_HOST", "SSL_CERT_FILE", "PYTHONPATH")
_ISOLATED = ("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")
_HEAD_NETWORK = f"""
ip link set lo up
ip link add bridge type bridge
ip addr add {HEAD}/24 dev bridge
ip link set bridge up
"""
CLONE_NEWNET = 0x40000000


def missing() -> str | None:
    """Return why no cluster can be started here; None if one can."""
    if os.geteuid() != 0:
        return "starting isolated Ray nodes needs root"
    if any(shutil.which(name) is None for name in ("unshare", "nsenter", "mount", "ip")):
        return "starting isolated Ray nodes needs unshare, nsenter, mount and ip"
    line = ["unshare", "--net", "--mount", "--pid", "--fork", "sh", "-ec", _HEAD_NETWORK]
    tried = subprocess.run(line, check=False, capture_output=True)
    return None if tried.returncode == 0 else "this machine does not allow network namespaces with a bridge"


@dataclass(frozen=True)
class Cluster:
    """A running cluster, seen from a test."""

    folder: Path
    supervisor: int
    earlier: frozenset[str | int] = frozenset()
    """Owners of sandboxes and processes that an earlier test left, so that a test answers only for its own."""
    prepare_state: Callable[[Path], None] = lambda _state: None
    """Called with the state folder of each node before it starts."""

    @property
    def address(self) -> str:
        return f"{HEAD}:{PORT}"

    def inside(self, *command: str) -> list[str]:
        """Return a command line that runs in the cluster's network."""
        return ["nsenter", f"--net=/proc/{self.supervisor}/ns/net", *command]

    def state(self, node: str) -> Path:
        return self.folder / node / "state"

    def add(self, node: str, prepare: str = "true") -> str:
        """Start a node and return its address. `prepare`: shell commands in its mount namespace, before it starts.

        A node has memory folders of its own: files that the commands use must be in the folder of the cluster.
        """
        if not self.state(node).exists():
            self.prepare_state(self.state(node))
        answer = self.command("add", node, prepare)
        assert answer.startswith("10."), answer
        return str(answer)

    def command(self, action: str, *arguments: str) -> Any:
        """Call a method of the supervisor."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(WAIT_SEC)
            connection.connect(str(self.folder / "control"))
            connection.sendall(json.dumps([action, *arguments]).encode() + b"\n")
            return json.loads(connection.makefile().readline())

    def sandboxed(self, node: str, text: str) -> list[int]:
        """List the processes of a node whose command line contains the text, apart from those that prepare a sandbox."""
        found = []
        for pid in self.command("pids", node):
            with contextlib.suppress(OSError):
                line = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
                if text in line and Path(f"/proc/{pid}/comm").read_text().strip() == text.split(maxsplit=1)[0]:
                    found.append(pid)
        return [pid for pid in found if pid not in self.earlier]

    def owners(self, *nodes: str) -> list[str]:
        """List the processes of nodes that have sandboxes, by the names of their folders."""
        names = [path.name for node in nodes for path in self.state(node).glob("live/*")]
        return [name for name in names if name not in self.earlier]

    def on_disk(self, *texts: str) -> list[str]:
        """List the files of all nodes that contain a text, apart from open sandboxes and the layer of the interpreter."""
        found = []
        for base, folders, files in os.walk(self.folder):
            folders[:] = [name for name in folders if name not in ("live", "python")]
            for path in (Path(base, name) for name in files):
                with contextlib.suppress(OSError):
                    if path.is_file() and not path.is_symlink():
                        data = path.read_bytes()
                        found += [f"{text}: {path}" for text in texts if text.encode() in data]
        return found


def start_cluster(
    owner: int, nodes: tuple[str, ...], prepare_state: Callable[[Path], None] = lambda _state: None
) -> Cluster:
    """Start a cluster that ends with the process `owner`."""
    # Ray's sockets are below the folder, and their paths must be short.
    folder = Path(tempfile.mkdtemp(prefix="abray-", dir="/tmp"))
    log = folder / "supervisor.log"
    with log.open("w") as output:
        # Not a child of this process, which need not wait for it.
        subprocess.run(
            ["setsid", "--fork", sys.executable, "-m", "tests.execution.cluster.ray_nodes", str(folder), str(owner)],
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
    cluster = Cluster(folder, int((folder / "pid").read_text()), prepare_state=prepare_state)
    for node in nodes:
        cluster.add(node)
    return cluster


# --- the supervisor -------------------------------------------------------------------------------------------------------


class _Supervisor:
    def __init__(self, folder: Path, owner: int) -> None:
        self.folder = folder
        self.owner = os.pidfd_open(owner)
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}
        self.numbers: dict[str, int] = {}
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "unshare")
        subprocess.run(["sh", "-ec", _HEAD_NETWORK], check=True)

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
                    action, *arguments = json.loads(connection.makefile().readline())
                    with contextlib.suppress(BrokenPipeError):
                        connection.sendall(json.dumps(getattr(self, action)(*arguments)).encode() + b"\n")
                    if action == "stop":
                        return

    def add(self, node: str, prepare: str) -> str:
        folder = self.folder / node
        for name in ("home", "tmp"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "ray").mkdir(exist_ok=True)
        number = self.numbers[node] = len(self.numbers) + 1
        with (folder / "log").open("w") as log:
            process = self.nodes[node] = subprocess.Popen(
                [*_ISOLATED, *(() if number == 1 else ("--net",)), "sh", "-ec", self._script(number, prepare)],
                env=_environment(folder),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - the supervisor has one thread
            )
        if number > 1:
            self._connect(number, process.pid)
        assert process.stdin is not None
        process.stdin.write(b"connected\n")
        process.stdin.close()
        deadline = time.monotonic() + WAIT_SEC
        while "Ray runtime started" not in (folder / "log").read_text():
            if time.monotonic() > deadline or process.poll() is not None:
                return (folder / "log").read_text()
            time.sleep(0.1)
        return f"10.77.0.{number}"

    def _script(self, number: int, prepare: str) -> str:
        """Return the shell script of a node. Only the head shares its session folder, with the driver."""
        options = f"--block --disable-usage-stats --num-cpus=8 --memory={8 << 30} --object-store-memory={80 << 20}"
        options += f" --node-ip-address 10.77.0.{number}"
        session = self.folder / "ray"
        if number == 1:
            options += f" --head --port={PORT} --temp-dir={session} --include-dashboard=false"
            private = "read _"
        else:
            options += f" --address={HEAD}:{PORT}"
            private = f"""
            read _
            ip link set lo up
            ip addr add 10.77.0.{number}/24 dev eth0
            ip link set eth0 up
            mount -t tmpfs tmpfs {session}
            """
        ray = Path(sys.executable).parent / "ray"
        return f"{private}\nmount -t tmpfs tmpfs /dev/shm\n{prepare}\nexec {sys.executable} {ray} start {options} </dev/null"

    def _connect(self, number: int, pid: int) -> None:
        """Connect the network of a node to the bridge, once it exists."""
        own = Path("/proc/self/ns/net").stat().st_ino
        deadline = time.monotonic() + WAIT_SEC
        while Path(f"/proc/{pid}/ns/net").stat().st_ino == own and time.monotonic() < deadline:
            time.sleep(0.01)
        lines = (
            f"link add node{number} type veth peer name eth0 netns {pid}",
            f"link set node{number} master bridge up",
        )
        for line in lines:
            subprocess.run(["ip", *line.split()], check=True)

    def cut(self, node: str) -> str:
        """Take a node from the network."""
        subprocess.run(["ip", "link", "set", f"node{self.numbers[node]}", "down"], check=True)
        return "cut"

    def inside(self, node: str, line: str) -> str:
        """Run a shell command in the mount namespace of a node."""
        pid = _children()[self.nodes[node].pid][0]
        done = subprocess.run(
            ["nsenter", f"--mount=/proc/{pid}/ns/mnt", "sh", "-c", line], capture_output=True, check=False
        )
        return (done.stdout + done.stderr).decode()

    def kill(self, node: str) -> str:
        """End a node without warning: every process of it dies at once."""
        process = self.nodes.pop(node, None)
        if process is not None:
            process.kill()
            process.wait()
        return "killed"

    def thaw(self, node: str) -> str:
        for pid in self.pids(node):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        return "thawed"

    def freeze(self, node: str, program: str = "") -> str:
        """Stop all processes of a node, as if its machine hung, or those of one program."""
        for pid in self.pids(node):
            with contextlib.suppress(OSError):
                if not program or Path(f"/proc/{pid}/comm").read_text().strip() == program:
                    os.kill(pid, signal.SIGSTOP)
        return "frozen"

    def pids(self, node: str) -> list[int]:
        """List the processes of a node, without the one that started it."""
        if node not in self.nodes:
            return []
        found, parents = [], {self.nodes[node].pid}
        children = _children()
        while parents:
            parent = parents.pop()
            found += children.get(parent, [])
            parents.update(children.get(parent, []))
        return found

    def stop(self) -> str:
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


def main() -> None:
    folder, owner = Path(sys.argv[1]), int(sys.argv[2])
    (folder / "pid").write_text(str(os.getpid()))
    supervisor = _Supervisor(folder, owner)
    try:
        supervisor.serve()
    finally:
        supervisor.stop()
        shutil.rmtree(folder, ignore_errors=True)


def require_cluster() -> None:
    """Skip the test if no cluster can be started here."""
    if why := missing():
        pytest.skip(why)


if __name__ == "__main__":
    main()
