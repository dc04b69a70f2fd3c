"""One command: how it is started, its pipes, what was read of them, and how it ended."""

from __future__ import annotations

import posix
import time

from agentbench.sandbox.server.capture import Capture, Side, number, unpack

LONG_LINE = 100_000
"""A shell line beyond this does not fit into one argument of execve (128 KiB) and goes through a file."""
SIGNALS = (2, 13, 15, 17, 25)
"""INT, PIPE, TERM, CHLD, XFSZ: given back their default meaning in every command."""
NOT_FOUND = 2


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
        self.side = Side(int(side)) if side else None
        self.live = live == b"1"
        self.pipes: dict[int, Capture | Side] = {}
        self.stdin_fd = -1
        self.stdin = bytearray(stdin)
        self.stdin_open = stdin_mode == b"open"
        self.has_stdin = self.stdin_open or bool(stdin)
        self.pid = 0
        self.status: int | None = None
        self.grace = 0.0
        self.timed_out = False
        self.killed = 0
        self.ooms = 0

    def start(self, base: dict[bytes, bytes], null: int) -> None:
        """Spawn it in a session of its own; that it cannot be started is its result, not an error of the server."""
        theirs: list[int] = []
        try:
            posix.chdir(self.cwd)
            self.spawn(base, null, theirs)
        except OSError as error:
            self.refuse(error.strerror or str(error), 127 if self.pid == 0 and error.errno == NOT_FOUND else 126)
        except ValueError as error:
            self.refuse(str(error), 126)
        finally:
            posix.chdir("/")
            for fd in theirs:
                posix.close(fd)

    def refuse(self, why: str, code: int) -> None:
        self.err.feed(b"cannot start in " + self.cwd + b": " + why.encode("utf-8", "replace") + b"\n")
        self.status = code << 8

    def spawn(self, base: dict[bytes, bytes], null: int, theirs: list[int]) -> None:
        """`theirs` collects the descriptors that only the child needs."""
        env = dict(base)
        env[b"PWD"] = self.cwd
        env[b"AB_COMMAND"] = self.name
        for entry in self.env:
            key, _, value = entry.partition(b"=")
            env[key] = value
        stdin = null
        if self.has_stdin:
            stdin, self.stdin_fd = posix.pipe()
            theirs.append(stdin)
            posix.set_blocking(self.stdin_fd, False)
        actions = [(posix.POSIX_SPAWN_DUP2, stdin, 0)]
        for capture, target in ((self.out, 1), (self.err, 2), (self.side, 3)):
            if capture is not None:
                ours, child = posix.pipe()
                theirs.append(child)
                posix.set_blocking(ours, False)
                self.pipes[ours] = capture
                actions.append((posix.POSIX_SPAWN_DUP2, child, target))
        if self.side is not None:
            env[b"AB_RESULT_FD"] = b"3"
        argv = self.argv
        if argv[:2] == [b"/bin/sh", b"-c"] and len(argv[2]) > LONG_LINE:
            theirs.append(script_file(argv[2]))
            actions.append((posix.POSIX_SPAWN_DUP2, theirs[-1], 9))
            argv = [b"/bin/sh", b"/dev/fd/9"]
        self.pid = posix.posix_spawn(
            find(argv[0], env), argv, env, file_actions=actions, setsid=True, setsigdef=SIGNALS
        )

    def result(self) -> list[bytes]:
        code, died = b"", b""
        if self.status is not None and not self.timed_out:
            if posix.WIFSIGNALED(self.status):
                died = number(posix.WTERMSIG(self.status))
                code = number(128 + posix.WTERMSIG(self.status))
            else:
                code = number(posix.WEXITSTATUS(self.status))
        side, truncated = (b"".join(self.side.data), self.side.truncated) if self.side else (b"", False)
        took = int((time.monotonic() - self.started) * 1e6)
        flags = [b"1" if self.timed_out else b"0", b"1" if truncated else b"0"]
        head = [b"done", self.name, code, died, number(self.killed), number(took), number(self.ooms)]
        return head + flags + self.out.fields() + self.err.fields() + [side]


def find(program: bytes, env: dict[bytes, bytes]) -> bytes:
    if b"/" in program:
        return program
    for folder in env.get(b"PATH", b"/usr/bin:/bin").split(b":"):
        candidate = (folder or b".") + b"/" + program
        if posix.access(candidate, posix.X_OK):
            return candidate
    raise FileNotFoundError(NOT_FOUND, "no such program")


def script_file(line: bytes) -> int:
    fd = posix.memfd_create("line")
    view = memoryview(line)
    while view:
        view = view[posix.write(fd, view) :]
    posix.lseek(fd, 0, 0)
    return fd
