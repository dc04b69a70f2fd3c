"""The harness's handle on its spawner process, and on each sandbox that it started."""

from __future__ import annotations

import array
import base64
import contextlib
import json
import os
import select
import socket
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import agentbench
from agentbench.core.errors import HarnessError, SandboxError
from agentbench.process import Helper
from agentbench.sandbox.bwrap.spawn.launch import Request
from agentbench.sandbox.state import Owner

_START_SEC = 30.0
_END_SEC = 15.0
_STOP_SEC = 20.0
_MESSAGE = 65536
_CODE = (
    "import sys; sys.path.insert(0, sys.argv[3]); from agentbench.sandbox.bwrap.spawn.main import main; "
    "main(int(sys.argv[1]), sys.argv[2])"
)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a sandbox ended, as the kernel tells it."""

    status: int | None
    evidence: dict[str, str]
    """Cgroup files as they were at the end."""


class Spawned:
    """One started sandbox: its channel, its trees, and the line to the spawner that ends it when closed."""

    def __init__(self, control: socket.socket, channel: socket.socket, errors: int, fds: tuple[int, int]) -> None:
        self._control = control
        self.channel = channel
        self._errors = errors
        self.merged_fd, self.upper_fd = fds
        self._ending: Ending | None = None
        self._lock = threading.Lock()

    def ending(self, timeout_sec: float = _END_SEC) -> Ending | None:
        """Wait for the end; None when it has not come."""
        with self._lock:
            if self._ending is None:
                self._ending = self._receive(timeout_sec)
            return self._ending

    def _receive(self, timeout_sec: float) -> Ending | None:
        try:
            self._control.settimeout(timeout_sec)
            data = self._control.recv(_MESSAGE)
        except OSError:
            return None
        if not data:
            return Ending(None, {})
        message = json.loads(data)
        return Ending(message["status"], message["evidence"])

    def last_words(self) -> str:
        """What bubblewrap or the server said on stderr."""
        try:
            size = os.fstat(self._errors).st_size
            return os.pread(self._errors, 4000, max(0, size - 4000)).decode("utf-8", "replace").strip()
        except OSError:
            return ""

    def end(self) -> Ending | None:
        """Kill it and wait until nothing of it lives."""
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)
        ending = self.ending()
        self._control.close()
        for fd in (self.merged_fd, self.upper_fd, self._errors):
            os.close(fd)
        return ending


class Spawner:
    def __init__(self, owner: Owner) -> None:
        """
        Raises:
            SandboxError: it cannot be started.
        """
        self._owner = owner
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        root = str(Path(agentbench.__file__).resolve().parent.parent)
        argv = [sys.executable, "-I", "-S", "-c", _CODE, str(theirs.fileno()), str(owner.folder), root]
        try:
            # The lock goes along: it is held for as long as either of us lives.
            fds = (theirs.fileno(), owner.lock_fd)
            self._helper = Helper(argv, env={"LANG": "C.UTF-8"}, cwd="/", pass_fds=fds)
        except HarnessError as error:
            ours.close()
            raise SandboxError(f"the sandbox spawner cannot be started: {error}") from error
        finally:
            theirs.close()
        self._socket = ours

    @property
    def pid(self) -> int:
        return self._helper.pid

    def alive(self) -> bool:
        return self._helper.alive()

    def spawn(self, request: Request) -> Spawned:
        """
        Raises:
            SandboxError: it did not come up; the message is the kernel's or bubblewrap's own.
        """
        control, their_control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        channel, their_channel = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        errors = os.memfd_create("sandbox-errors", os.MFD_CLOEXEC)
        message = json.dumps({**request, "seccomp": base64.b64encode(request["seccomp"]).decode()}).encode()
        fds = array.array("i", [their_control.fileno(), their_channel.fileno(), errors])
        try:
            self._socket.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
        except OSError as error:
            for sock in (control, channel):
                sock.close()
            os.close(errors)
            raise SandboxError(f"the sandbox spawner is gone: {error.strerror}") from error
        finally:
            their_control.close()
            their_channel.close()
        trees = _receive_trees(control)
        if trees is None:
            spawned = Spawned(control, channel, errors, (os.dup(errors), os.dup(errors)))
            words = spawned.last_words()
            spawned.end()
            channel.close()
            raise SandboxError(f"the sandbox did not start: {words or 'no reason was given'}")
        return Spawned(control, channel, errors, trees)

    def close(self) -> None:
        """End every sandbox, and wait until the spawner has cleaned up behind them."""
        self._socket.close()
        self._helper.stop(_STOP_SEC)


def _receive_trees(control: socket.socket) -> tuple[int, int] | None:
    """Descriptors of the merged tree and the upper layer, once its mounts are made; None when it failed."""
    fds = array.array("i")
    if not select.select([control], [], [], _START_SEC)[0]:
        return None
    data, ancillary, _, _ = control.recvmsg(_MESSAGE, socket.CMSG_SPACE(2 * fds.itemsize))
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
    for fd in fds:
        os.set_inheritable(fd, False)
    if data == b"fds" and len(fds) == 2:
        return fds[0], fds[1]
    for fd in fds:
        os.close(fd)
    return None
