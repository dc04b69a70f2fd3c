"""A job is one command that the server runs: its process, its pipes, its output and its result."""

from __future__ import annotations

import posix
import time

from agentbench.sandbox.server.capture import Capture, SideCapture, number, unpack

MAX_ARGUMENT = 100_000
"""A longer shell line goes through a file: an argument of execve holds 128 KiB at most."""
DEFAULT_SIGNALS = (2, 13, 15, 17, 25)
"""INT, PIPE, TERM, CHLD, XFSZ: reset to their defaults in every command."""
ENOENT = 2


class Job:
    def __init__(self, name: bytes, request: list[bytes]) -> None:
        timeout_us, keep, side, self.cwd, argv, env, stdin_mode, stdin, live = request
        self.name = name
        self.argv = unpack(argv)
        self.env = unpack(env)
        self.started = time.monotonic()
        self.deadline = self.started + int(timeout_us) / 1e6
        self.out = Capture(int(keep), b"1")
        self.err = Capture(int(keep), b"2")
        self.side = SideCapture(int(side)) if side else None
        self.live = live == b"1"
        self.pipes: dict[int, Capture | SideCapture] = {}
        self.stdin_fd = -1
        self.stdin = bytearray(stdin)
        self.stdin_open = stdin_mode == b"open"
        self.has_stdin = self.stdin_open or bool(stdin)
        self.pid = 0
        self.status: int | None = None
        self.grace_until = 0.0
        self.timed_out = False
        self.killed = 0
        self.ooms = 0

    def start(self, base: dict[bytes, bytes], null: int) -> None:
        """Spawn the command in its own session. If that fails, the failure is the result."""
        child_fds: list[int] = []
        try:
            posix.chdir(self.cwd)
            self.spawn(base, null, child_fds)
        except OSError as error:
            self.fail_to_start(error.strerror or str(error), 127 if self.pid == 0 and error.errno == ENOENT else 126)
        except ValueError as error:
            self.fail_to_start(str(error), 126)
        finally:
            posix.chdir("/")
            for fd in child_fds:
                posix.close(fd)

    def fail_to_start(self, why: str, code: int) -> None:
        self.err.feed(b"cannot start in " + self.cwd + b": " + why.encode("utf-8", "replace") + b"\n")
        self.status = code << 8

    def spawn(self, base: dict[bytes, bytes], null: int, child_fds: list[int]) -> None:
        """`child_fds` collects the descriptors that only the child needs, for the caller to close."""
        env = dict(base)
        env[b"PWD"] = self.cwd
        env[b"AB_COMMAND"] = self.name
        for entry in self.env:
            key, _, value = entry.partition(b"=")
            env[key] = value
        stdin = null
        if self.has_stdin:
            stdin, self.stdin_fd = posix.pipe()
            child_fds.append(stdin)
            posix.set_blocking(self.stdin_fd, False)
        actions = [(posix.POSIX_SPAWN_DUP2, stdin, 0)]
        for capture, target in ((self.out, 1), (self.err, 2), (self.side, 3)):
            if capture is not None:
                reader, writer = posix.pipe()
                child_fds.append(writer)
                posix.set_blocking(reader, False)
                self.pipes[reader] = capture
                actions.append((posix.POSIX_SPAWN_DUP2, writer, target))
        if self.side is not None:
            env[b"AB_RESULT_FD"] = b"3"
        argv = self.argv
        if argv[:2] == [b"/bin/sh", b"-c"] and len(argv[2]) > MAX_ARGUMENT:
            child_fds.append(script_file(argv[2]))
            actions.append((posix.POSIX_SPAWN_DUP2, child_fds[-1], 9))
            argv = [b"/bin/sh", b"/dev/fd/9"]
        self.pid = posix.posix_spawn(
            find_program(argv[0], env), argv, env, file_actions=actions, setsid=True, setsigdef=DEFAULT_SIGNALS
        )

    def result(self) -> list[bytes]:
        code, signal = b"", b""
        if self.status is not None and not self.timed_out:
            if posix.WIFSIGNALED(self.status):
                signal = number(posix.WTERMSIG(self.status))
                code = number(128 + posix.WTERMSIG(self.status))
            else:
                code = number(posix.WEXITSTATUS(self.status))
        side, truncated = (b"".join(self.side.data), self.side.truncated) if self.side else (b"", False)
        duration_us = int((time.monotonic() - self.started) * 1e6)
        flags = [b"1" if self.timed_out else b"0", b"1" if truncated else b"0"]
        head = [b"done", self.name, code, signal, number(self.killed), number(duration_us), number(self.ooms)]
        return head + flags + self.out.fields() + self.err.fields() + [side]


def find_program(program: bytes, env: dict[bytes, bytes]) -> bytes:
    if b"/" in program:
        return program
    for folder in env.get(b"PATH", b"/usr/bin:/bin").split(b":"):
        candidate = (folder or b".") + b"/" + program
        if posix.access(candidate, posix.X_OK):
            return candidate
    raise FileNotFoundError(ENOENT, "no such program")


def script_file(line: bytes) -> int:
    fd = posix.memfd_create("line")
    view = memoryview(line)
    while view:
        view = view[posix.write(fd, view) :]
    posix.lseek(fd, 0, 0)
    return fd
