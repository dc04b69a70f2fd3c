"""A job is one command that the server runs: its process, its pipes, its output and its result."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
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
        timeout_us, keep, side, self.cwd, argv, env, stdin_mode, stdin, live, observed = request
        self.name = name
        self.argv = unpack(argv)
        self.env = unpack(env)
        self.started = time.monotonic()
        self.deadline = self.started + int(timeout_us) / 1e6
        self.out = Capture(int(keep), b"1")
        self.err = Capture(int(keep), b"2")
        self.side = SideCapture(int(side)) if side else None
        self.live = live == b"1"
        self.observed = observed == b"1"
        self.pipes: dict[int, Capture | SideCapture] = {}
        self.stdin_fd = -1
        self.stdin = bytearray(stdin)
        self.stdin_open = stdin_mode == b"open"
        self.has_stdin = self.stdin_open or bool(stdin)
        self.program = b""
        self.pid = 0
        self.status: int | None = None
        self.grace_until = 0.0
        self.timed_out = False
        self.killed = 0
        self.ooms = 0

    def start(self, base: dict[bytes, bytes], null: int, *, fork: bool) -> None:
        """Start the command in its own session. If that fails, the failure is the result.

        `fork`: do not wait until the program was executed, because the server has to answer that call of its child.
        """
        child_fds: list[int] = []
        try:
            posix.chdir(self.cwd)
            self.spawn(base, null, child_fds, fork=fork)
        except (OSError, ValueError) as error:
            self.fail_to_start(error)
        finally:
            posix.chdir("/")
            for fd in child_fds:
                posix.close(fd)

    def fail_to_start(self, error: Exception) -> None:
        self.err.feed(self.start_failure(error))
        self.status = exit_code(error) << 8

    def start_failure(self, error: Exception) -> bytes:
        why = getattr(error, "strerror", None) or str(error)
        return b"cannot start in " + self.cwd + b": " + why.encode("utf-8", "replace") + b"\n"

    def spawn(self, base: dict[bytes, bytes], null: int, child_fds: list[int], *, fork: bool) -> None:
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
        targets = [(stdin, 0)]
        for capture, target in ((self.out, 1), (self.err, 2), (self.side, 3)):
            if capture is not None:
                reader, writer = posix.pipe()
                child_fds.append(writer)
                posix.set_blocking(reader, False)
                self.pipes[reader] = capture
                targets.append((writer, target))
        if self.side is not None:
            env[b"AB_RESULT_FD"] = b"3"
        argv = self.argv
        if argv[:2] == [b"/bin/sh", b"-c"] and len(argv[2]) > MAX_ARGUMENT:
            child_fds.append(script_file(argv[2]))
            targets.append((child_fds[-1], 9))
            argv = [b"/bin/sh", b"/dev/fd/9"]
        self.program = find_program(argv[0], env)
        if not fork:
            actions = [(posix.POSIX_SPAWN_DUP2, fd, target) for fd, target in targets]
            self.pid = posix.posix_spawn(
                self.program, argv, env, file_actions=actions, setsid=True, setsigmask=(), setsigdef=DEFAULT_SIGNALS
            )
            return
        self.pid = posix.fork()
        if not self.pid:
            self.become(argv, env, targets)

    def become(self, argv: list[bytes], env: dict[bytes, bytes], targets: list[tuple[int, int]]) -> None:
        """Turn this forked child into the program. Never returns."""
        try:
            for fd, target in targets:
                posix.dup2(fd, target)
            posix.setsid()
            for signal in DEFAULT_SIGNALS:
                _signal.signal(signal, _signal.SIG_DFL)
            _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
            posix.execve(self.program, argv, env)
        except (OSError, ValueError) as error:
            posix.write(2, self.start_failure(error))
            posix._exit(exit_code(error))  # noqa: SLF001 - the module has no public name for it
        finally:
            posix._exit(126)  # noqa: SLF001 - the module has no public name for it

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


def exit_code(error: Exception) -> int:
    """Return the exit code that a shell gives a program that did not start."""
    return 127 if isinstance(error, FileNotFoundError) else 126


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
