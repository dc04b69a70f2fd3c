"""The harness's handle on its spawner process and on each sandbox that the spawner started."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import resource
import select
import socket
import sys
import threading
from pathlib import Path

import agentbench
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import HarnessError, SandboxError
from agentbench.core.host_evidence import ManagerState
from agentbench.process import BackgroundProcess
from agentbench.sandbox.bwrap.spawn.child import SpawnRequest
from agentbench.sandbox.cgroups import Cgroups, discover, read_text
from agentbench.sandbox.state import Owner, remove_leftovers

_START_SEC = 30.0
_END_SEC = 30.0
_STOP_SEC = 20.0
_MESSAGE_BYTES = 65536
_STDERR_BYTES = 4000
_SPAWNER_CODE = (
    "import sys; sys.path.insert(0, sys.argv[3]); from agentbench.sandbox.bwrap.spawn.main import main; "
    "main(int(sys.argv[1]), sys.argv[2])"
)


class Supervisor:
    """An owner's folder, its cgroups and its spawner process: they are created together and removed together."""

    def __init__(self, state: Path) -> None:
        """
        Raises:
            SandboxError: the state folder cannot be written or the spawner cannot be started.
        """
        _raise_open_files_limit()
        remove_leftovers(state)
        self._owner = Owner(state)
        self.cgroups: Cgroups = discover(self._owner.name)
        # Recorded before anything is created, so that the next harness finds all of it if this one is killed.
        self._owner.record_cgroups(self.cgroups.owner_dirs())
        try:
            self.cgroups.create_owner_dirs()
        except OSError:
            self.cgroups = Cgroups((), self._owner.name)
        self.spawner = Spawner(self._owner)

    @property
    def folder(self) -> Path:
        """A folder that is removed with this supervisor."""
        return self._owner.folder

    def alive(self) -> bool:
        return self.spawner.alive()

    def close(self) -> None:
        """End every sandbox of this supervisor and remove everything that belongs to it."""
        self.spawner.close()
        self._owner.release()


@dataclass(frozen=True, slots=True)
class ExitReport:
    """The end of a sandbox, as the spawner saw it."""

    status: int | None
    evidence: dict[str, str]
    """Contents of its cgroup files at the end, by path."""


class SpawnedSandbox:
    """One started sandbox: its command channel, its trees, and the control socket; closing that ends the sandbox."""

    def __init__(
        self,
        name: str,
        spawner: Spawner,
        control: socket.socket,
        channel: socket.socket,
        errors: int,
        fds: tuple[int, int],
    ) -> None:
        self.name = name
        self.spawner = spawner
        self._control = control
        self.channel = channel
        self._errors = errors
        self.merged_fd, self.upper_fd = fds
        self._report: ExitReport | None = None
        self._lock = threading.Lock()

    def wait(self, timeout_sec: float = _END_SEC) -> ExitReport | None:
        """Wait for the sandbox to end. Return None if it is still alive."""
        with self._lock:
            if self._report is None:
                self._report = self._receive(timeout_sec)
            return self._report

    def _receive(self, timeout_sec: float) -> ExitReport | None:
        try:
            self._control.settimeout(timeout_sec)
            data = self._control.recv(_MESSAGE_BYTES)
        except OSError:
            return None
        if not data:
            return ExitReport(None, {})
        message = json.loads(data)
        return ExitReport(message["status"], message["evidence"])

    def stderr(self) -> str:
        """Return the end of what bubblewrap or the command server wrote to stderr."""
        try:
            size = os.fstat(self._errors).st_size
            data = os.pread(self._errors, _STDERR_BYTES, max(0, size - _STDERR_BYTES))
        except OSError:
            return ""
        return data.decode("utf-8", "replace").strip()

    def end(self) -> ExitReport | None:
        """Kill the sandbox and wait until none of its processes lives."""
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)
        report = self.wait()
        self._control.close()
        for fd in (self.merged_fd, self.upper_fd, self._errors):
            os.close(fd)
        return report


class Spawner:
    """The spawner process, see `spawn`."""

    def __init__(self, owner: Owner) -> None:
        """
        Raises:
            SandboxError: it cannot be started.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        root = str(Path(agentbench.__file__).resolve().parent.parent)
        argv = [sys.executable, "-I", "-S", "-c", _SPAWNER_CODE, str(theirs.fileno()), str(owner.folder), root]
        try:
            # The spawner inherits the owner's lock, which is therefore held while either process lives.
            fds = (theirs.fileno(), owner.lock_fd)
            self._process = BackgroundProcess(argv, env={"LANG": "C.UTF-8"}, cwd="/", pass_fds=fds)
        except HarnessError as error:
            ours.close()
            raise SandboxError(f"cannot start the sandbox spawner: {error}") from error
        finally:
            theirs.close()
        self._socket = ours
        self._closing = False

    @property
    def pid(self) -> int:
        return self._process.pid

    def alive(self) -> bool:
        return self._process.alive()

    def state(self) -> ManagerState:
        """Return whether the process runs. Closing it ends its sandboxes, so it counts as gone from then on."""
        if self._closing or not self.alive():
            return "gone"
        status = read_text(f"/proc/{self.pid}/stat").rpartition(")")[2].split()
        return "stopped" if status[:1] in (["T"], ["t"]) else "running"

    def spawn(self, request: SpawnRequest) -> SpawnedSandbox:
        """
        Raises:
            SandboxError: the sandbox did not start; the message quotes the kernel or bubblewrap.
        """
        control, their_control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        channel, their_channel = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        errors = os.memfd_create("sandbox-errors", os.MFD_CLOEXEC)
        message = json.dumps({**request, "seccomp": base64.b64encode(request["seccomp"]).decode()}).encode()
        try:
            socket.send_fds(self._socket, [message], [their_control.fileno(), their_channel.fileno(), errors])
        except OSError as error:
            for sock in (control, channel):
                sock.close()
            os.close(errors)
            msg = f"the sandbox spawner has exited: {error.strerror}"
            raise SandboxError(msg, remedy="look for killed processes in the kernel log (`dmesg`)") from error
        finally:
            their_control.close()
            their_channel.close()
        trees = _receive_trees(control)
        if trees is None:
            spawned = SpawnedSandbox(request["id"], self, control, channel, errors, (os.dup(errors), os.dup(errors)))
            stderr = spawned.stderr()
            spawned.end()
            channel.close()
            raise SandboxError(f"the sandbox did not start: {stderr or 'no error message'}")
        return SpawnedSandbox(request["id"], self, control, channel, errors, trees)

    def close(self) -> None:
        """End every sandbox and wait until the spawner has removed what they left."""
        self._closing = True
        self._socket.close()
        self._process.stop(_STOP_SEC)


def _raise_open_files_limit() -> None:
    """Let this process and the spawner open as many files as they may.

    The kernel refuses to pass a descriptor while more descriptors of its user are on their way than the sender may open.
    Sandboxes of an ordinary user share that count. Their own limit is lower, so they cannot exhaust it for the harness.
    """
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _receive_trees(control: socket.socket) -> tuple[int, int] | None:
    """Wait for the sandbox's mounts and return descriptors of its merged tree and upper layer, or None if it failed."""
    if not select.select([control], [], [], _START_SEC)[0]:
        return None
    data, fds, _, _ = socket.recv_fds(control, _MESSAGE_BYTES, 2)
    for fd in fds:
        os.set_inheritable(fd, False)
    if data == b"fds" and len(fds) == 2:
        return fds[0], fds[1]
    for fd in fds:
        os.close(fd)
    return None
