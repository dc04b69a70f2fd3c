"""The spawner's loop."""

from __future__ import annotations

import array
import base64
import contextlib
import json
import os
import re
import select
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable

from agentbench.sandbox.bwrap.spawn.kernel import become_subreaper
from agentbench.sandbox.bwrap.spawn.launch import Request, become

MESSAGE_BYTES = 256 * 1024
FDS = 3
END_SEC = 10.0


class Live:
    """A sandbox that was started and is not yet known to be gone."""

    def __init__(self, request: Request, pid: int, control: socket.socket, info: int) -> None:
        self.request = request
        self.pid = pid
        self.control = control
        self.info = info
        self.inner = 0
        """PID 1 of the sandbox as we see it; killing it ends everything inside, and then bubblewrap itself."""
        self.status: int | None = None

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.inner or self.pid, signal.SIGKILL)

    def learn_inner(self) -> None:
        # Bubblewrap writes its status piece by piece; the pid comes whole in the first.
        found = re.search(rb'"child-pid": (\d+)', os.read(self.info, 4096))
        # We will send signals to it, perhaps as root: it must be what it is said to be.
        if found is not None and _parent(int(found[1])) == self.pid:
            self.inner = int(found[1])


class Spawner:
    def __init__(self, control: socket.socket, owner_dir: str) -> None:
        self.control = control
        self.owner_dir = owner_dir
        self.live: dict[int, Live] = {}
        self.ended: list[Live] = []
        self.graves: list[str] = []
        """Cgroup folders to remove; the kernel may take a moment until they are empty."""
        self.poll = select.epoll()
        self.handlers: dict[int, Callable[[], None]] = {}
        self.closing = False

    def serve(self) -> None:
        become_subreaper()
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.watch(reader, lambda: _empty(reader))
        self.watch(self.control.fileno(), self.on_request)
        while not self.closing:
            for fd, _ in self.poll.poll(0.005 if self.graves or self.ended else -1):
                handler = self.handlers.get(fd)
                if handler:
                    handler()
            self.reap()
        self.end()

    def watch(self, fd: int, handler: Callable[[], None]) -> None:
        self.handlers[fd] = handler
        self.poll.register(fd, select.EPOLLIN)

    def unwatch(self, fd: int) -> None:
        if self.handlers.pop(fd, None):
            self.poll.unregister(fd)

    def on_request(self) -> None:
        try:
            data, fds = _receive(self.control)
        except OSError:
            data, fds = b"", []
        if not data:
            self.closing = True
            return
        request: Request = json.loads(data)
        request["seccomp"] = base64.b64decode(request["seccomp"])
        control = socket.socket(fileno=fds[0])
        channel, errors = fds[1], fds[2]
        try:
            self.start(request, control, channel, errors)
        except OSError as error:
            os.write(errors, f"sandbox start: {error}\n".encode())
            self.graves += [group["dir"] for group in request["cgroups"]]
            control.close()
        finally:
            os.close(channel)
            os.close(errors)

    def start(self, request: Request, control: socket.socket, channel: int, errors: int) -> None:
        for group in request["cgroups"]:
            os.mkdir(group["dir"])
            for name, value in group["settings"]:
                _put(f"{group['dir']}/{name}", value)
        info, info_writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.set_inheritable(info_writer, True)
            request["argv"] = [str(info_writer) if item == "{info}" else item for item in request["argv"]]
            become(request, control, channel, errors)
        os.close(info_writer)
        box = Live(request, pid, control, info)
        self.live[pid] = box
        self.watch(info, lambda: self.on_info(box))
        self.watch(control.fileno(), lambda: self.on_hang_up(box))

    def on_info(self, box: Live) -> None:
        box.learn_inner()
        self.unwatch(box.info)

    def on_hang_up(self, box: Live) -> None:
        """The harness let go of the sandbox: end it."""
        self.unwatch(box.control.fileno())
        box.kill()

    def reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if not pid:
                break
            box = self.live.pop(pid, None)
            if box is not None:
                box.status = status
                self.ended.append(box)
        for box in list(self.ended):
            # With the inside gone first, all is well; a monitor that was killed leaves it to us.
            left = [box.inner] if box.inner and _parent(box.inner) is not None else []
            if not box.inner:
                left = self.strays()
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            if left:
                continue
            self.ended.remove(box)
            self.bury(box)
        self.graves = [path for path in self.graves if not _removed(path)]

    def strays(self) -> list[int]:
        """Insides whose monitor was killed: they were given to us, and are dying."""
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        return [pid for pid in pids if pid not in self.live and _parent(pid) == os.getpid()]

    def bury(self, box: Live) -> None:
        """Everything inside is dead: say so, with the evidence of how it lived, and remove what held it."""
        evidence = {path: _read(path) for path in box.request["evidence"]}
        self.unwatch(box.info)
        self.unwatch(box.control.fileno())
        os.close(box.info)
        # Nobody may listen any more; the socket buffer is empty and takes it without blocking.
        with contextlib.suppress(OSError):
            box.control.send(json.dumps({"status": box.status, "evidence": evidence}).encode())
        box.control.close()
        self.graves += [group["dir"] for group in box.request["cgroups"]]
        if box.request["upper"]:
            remove_tree(box.request["upper"])

    def end(self) -> None:
        for box in self.live.values():
            box.kill()
        self.graves += _owner_cgroups(self.owner_dir)
        limit = time.monotonic() + END_SEC
        while (self.live or self.ended or self.graves) and time.monotonic() < limit:
            self.reap()
            time.sleep(0.002)
        remove_tree(self.owner_dir)


def remove_tree(path: str) -> None:
    """A folder of ours; the overlay's work folder inside it has mode 000."""

    def unlock(_: object, name: str, __: object) -> None:
        with contextlib.suppress(OSError):
            os.chmod(os.path.dirname(name), 0o700)
            os.chmod(name, 0o700)
            shutil.rmtree(name, ignore_errors=True) if os.path.isdir(name) else os.unlink(name)

    shutil.rmtree(path, onerror=unlock)


def _owner_cgroups(owner_dir: str) -> list[str]:
    try:
        return list(json.loads(_read(f"{owner_dir}/owner.json"))["cgroups"])
    except (ValueError, KeyError):
        return []


def _receive(control: socket.socket) -> tuple[bytes, list[int]]:
    fds = array.array("i")
    data, ancillary, _, _ = control.recvmsg(MESSAGE_BYTES, socket.CMSG_SPACE(FDS * fds.itemsize))
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
    for fd in fds:
        os.set_inheritable(fd, False)
    return data, list(fds)


def _parent(pid: int) -> int | None:
    """The parent of a process; None when there is no such process."""
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return int(fields[1]) if fields else None


def _removed(path: str) -> bool:
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(4096)
    except OSError:
        return ""


def _put(path: str, value: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(value)


def _empty(fd: int) -> None:
    with contextlib.suppress(OSError):
        while os.read(fd, 512):
            pass


def main(control_fd: int, owner_dir: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Spawner(socket.socket(fileno=control_fd), owner_dir).serve()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
