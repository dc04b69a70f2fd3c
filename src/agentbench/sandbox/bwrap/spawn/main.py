"""The spawner process: receives requests, forks sandboxes, reports their end and cleans up."""

from __future__ import annotations

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

from agentbench.sandbox.bwrap.spawn.child import SpawnRequest, become_subreaper, exec_sandbox, write_file

MESSAGE_BYTES = 256 * 1024
FDS = 3
END_SEC = 10.0


class SandboxProcess:
    """A sandbox that was started and has not been reported as ended."""

    def __init__(self, request: SpawnRequest, pid: int, control: socket.socket, info: int) -> None:
        self.request = request
        self.pid = pid
        self.control = control
        self.info = info
        self.init_pid = 0
        """PID 1 of the sandbox, as numbered on the host. Killing it ends everything inside, and then bubblewrap."""
        self.status: int | None = None

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.init_pid or self.pid, signal.SIGKILL)

    def read_init_pid(self) -> None:
        # Bubblewrap writes its status in several pieces; the first holds the whole pid.
        match = re.search(rb'"child-pid": (\d+)', os.read(self.info, 4096))
        # This process will be signalled, perhaps by root, so it has to be a child of this bubblewrap.
        if match is not None and _parent(int(match[1])) == self.pid:
            self.init_pid = int(match[1])


class Spawner:
    def __init__(self, control: socket.socket, owner_dir: str) -> None:
        self.control = control
        self.owner_dir = owner_dir
        self.live: dict[int, SandboxProcess] = {}
        self.exited: list[SandboxProcess] = []
        """Bubblewrap has exited; processes from inside may still be dying."""
        self.unused_cgroups: list[str] = []
        """Cgroup folders to remove; the kernel may need a moment until they are empty."""
        self.poll = select.poll()
        self.handlers: dict[int, Callable[[], None]] = {}
        self.closing = False

    def serve(self) -> None:
        become_subreaper()
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.watch(reader, lambda: _drain(reader))
        self.watch(self.control.fileno(), self.on_request)
        while not self.closing:
            for fd, _ in self.poll.poll(5 if self.unused_cgroups or self.exited else -1):
                handler = self.handlers.get(fd)
                if handler:
                    handler()
            self.reap()
        self.end_all()

    def watch(self, fd: int, handler: Callable[[], None]) -> None:
        self.handlers[fd] = handler
        self.poll.register(fd, select.POLLIN)

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
        request: SpawnRequest = json.loads(data)
        request["seccomp"] = base64.b64decode(request["seccomp"])
        control = socket.socket(fileno=fds[0])
        channel, errors = fds[1], fds[2]
        try:
            self.start(request, control, channel, errors)
        except OSError as error:
            os.write(errors, f"sandbox start: {error}\n".encode())
            self.unused_cgroups += [group["dir"] for group in request["cgroups"]]
            control.close()
        finally:
            os.close(channel)
            os.close(errors)

    def start(self, request: SpawnRequest, control: socket.socket, channel: int, errors: int) -> None:
        for group in request["cgroups"]:
            os.mkdir(group["dir"])
            for name, value in group["settings"]:
                write_file(f"{group['dir']}/{name}", value)
        info, info_writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.set_inheritable(info_writer, True)
            request["argv"] = [str(info_writer) if item == "{info}" else item for item in request["argv"]]
            exec_sandbox(request, control, channel, errors)
        os.close(info_writer)
        sandbox = SandboxProcess(request, pid, control, info)
        self.live[pid] = sandbox
        self.watch(info, lambda: self.on_info(sandbox))
        self.watch(control.fileno(), lambda: self.on_hang_up(sandbox))

    def on_info(self, sandbox: SandboxProcess) -> None:
        sandbox.read_init_pid()
        self.unwatch(sandbox.info)

    def on_hang_up(self, sandbox: SandboxProcess) -> None:
        """Kill a sandbox whose control socket the harness closed."""
        self.unwatch(sandbox.control.fileno())
        sandbox.kill()

    def reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if not pid:
                break
            sandbox = self.live.pop(pid, None)
            if sandbox is not None:
                sandbox.status = status
                self.exited.append(sandbox)
        for sandbox in list(self.exited):
            # PID 1 usually ends before bubblewrap does. If bubblewrap was killed, its orphans are killed here.
            if sandbox.init_pid:
                remaining = [sandbox.init_pid] if _parent(sandbox.init_pid) is not None else []
            else:
                remaining = self.orphans()
            for pid in remaining:
                os.kill(pid, signal.SIGKILL)
            if remaining:
                continue
            self.exited.remove(sandbox)
            self.finish(sandbox)
        self.unused_cgroups = [path for path in self.unused_cgroups if not _remove_folder(path)]

    def orphans(self) -> list[int]:
        """Return the processes that the kernel gave to the spawner because their bubblewrap was killed."""
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        return [pid for pid in pids if pid not in self.live and _parent(pid) == os.getpid()]

    def finish(self, sandbox: SandboxProcess) -> None:
        """Report the end of a sandbox in which nothing lives any more, and remove its cgroups and folder."""
        evidence = {path: _read(path) for path in sandbox.request["evidence"]}
        self.unwatch(sandbox.info)
        self.unwatch(sandbox.control.fileno())
        os.close(sandbox.info)
        # The harness may be gone. This does not block: the socket buffer is empty.
        with contextlib.suppress(OSError):
            sandbox.control.send(json.dumps({"status": sandbox.status, "evidence": evidence}).encode())
        sandbox.control.close()
        self.unused_cgroups += [group["dir"] for group in sandbox.request["cgroups"]]
        if sandbox.request["upper"]:
            remove_tree(sandbox.request["upper"])

    def end_all(self) -> None:
        for sandbox in self.live.values():
            sandbox.kill()
        self.unused_cgroups += _owner_cgroups(self.owner_dir)
        deadline = time.monotonic() + END_SEC
        while (self.live or self.exited or self.unused_cgroups) and time.monotonic() < deadline:
            self.reap()
            time.sleep(0.002)
        remove_tree(self.owner_dir)


def remove_tree(path: str) -> None:
    """Remove a folder of the harness, also if it holds an overlay's work folder, which has mode 000."""

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
    data, fds, _, _ = socket.recv_fds(control, MESSAGE_BYTES, FDS)
    for fd in fds:
        os.set_inheritable(fd, False)
    return data, fds


def _parent(pid: int) -> int | None:
    """Return the parent of a process, or None if there is no such process."""
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return int(fields[1]) if fields else None


def _remove_folder(path: str) -> bool:
    """Return whether the folder is gone."""
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


def _drain(fd: int) -> None:
    with contextlib.suppress(OSError):
        while os.read(fd, 512):
            pass


def main(control_fd: int, owner_dir: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # A sandbox must not hold the owner's lock: bubblewrap that is killed while it starts leaves a process that waits for it forever,
    # and nothing would remove it while the owner seems to live.
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            with contextlib.suppress(OSError):
                os.set_inheritable(int(name), False)
    Spawner(socket.socket(fileno=control_fd), owner_dir).serve()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
