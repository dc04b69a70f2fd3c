"""Runs trusted programs on the host. The only module that may import `subprocess`.

Owns spawning, group kill, output limits and timeouts. A non-zero exit, a signal or a timeout is data in `Completed`,
not an exception. Only trusted programs run here (git, interpreters, docker, the harness's own spawner), never those of
a task or an agent: they run in a sandbox.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from agentbench.core.command import MIB, Completed, Stream
from agentbench.core.errors import HarnessError, Interrupted

_CHUNK = 65536
_LINE_BYTES = 1 << 20
_WATCH_PARENT = '"$@" </dev/null & child=$!; exec >&-; read -r _; kill -KILL "$child"'
"""Kills the program when this process ends for any reason: its stdin, a pipe from this process, then closes."""
_DRAIN_SEC = 0.2
"""How long to read on after the program has ended, if its children hold its pipes open."""
_REST_READS = 32
"""Reads of each pipe after that time: more than a pipe can hold, and an end if its children write without pause."""


class Capture:
    """Keeps the beginning and the end of a stream in bounded memory, and the digest and length of all of it."""

    def __init__(self, keep_bytes: int) -> None:
        self._head_room = (keep_bytes + 1) // 2
        self._tail_room = keep_bytes - self._head_room
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._total = 0
        self._sha = hashlib.sha256()

    def feed(self, data: bytes) -> None:
        self._total += len(data)
        self._sha.update(data)
        room = self._head_room - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if not data or not self._tail_room:
            return
        self._tail.append(data)
        self._tail_bytes += len(data)
        while self._tail_bytes - len(self._tail[0]) >= self._tail_room:
            self._tail_bytes -= len(self._tail.popleft())

    def stream(self) -> Stream:
        tail = b"".join(self._tail)
        if self._tail_room:
            tail = tail[-self._tail_room :]
        return Stream(head=bytes(self._head), tail=tail, total_bytes=self._total, sha256=self._sha.hexdigest())


def run_host(  # noqa: PLR0913 - the options of a process, as of subprocess.run
    argv: Sequence[str | bytes | Path],
    *,
    cwd: Path | str | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes | int = b"",
    timeout_sec: float = 60.0,
    keep_bytes: int = 1 * MIB,
    stop: threading.Event | None = None,
) -> Completed:
    """Run a trusted program to its end. Its whole process group is dead when this returns.

    `stdin` is the data or a descriptor to read from. `env` is the entire environment (None: inherited).

    Raises:
        HarnessError: the program cannot be started.
        Interrupted: `stop` is set, or was set while the program ran.
    """
    if stop is not None and stop.is_set():
        raise Interrupted("interrupted")
    started = time.monotonic()
    source = stdin if isinstance(stdin, int) else (subprocess.PIPE if stdin else subprocess.DEVNULL)
    child = _start(argv, env=env, cwd=cwd, stdin=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        pipes = _Pipes(child, b"" if isinstance(stdin, int) else stdin, keep_bytes, stop)
        timed_out = pipes.transfer(started + timeout_sec)
    finally:
        # Also on an exception or Ctrl-C: no process of this program may outlive the call.
        kill_group(child.pid)
        child.wait()
        for stream in (child.stdin, child.stdout, child.stderr):
            if stream is not None:
                stream.close()
    code = child.returncode
    signal_number = -code if code < 0 else None
    return Completed(
        exit_code=None if timed_out else (128 + signal_number if signal_number else code),
        stdout=pipes.stdout.stream(),
        stderr=pipes.stderr.stream(),
        duration_sec=time.monotonic() - started,
        timed_out=timed_out,
        signal=signal_number,
    )


def _start(argv: Sequence[str | bytes | Path], **options: Any) -> subprocess.Popen[bytes]:  # noqa: ANN401 - see Popen
    """Start a program in its own session, so that a terminal's Ctrl-C does not reach it."""
    try:
        return subprocess.Popen(argv, start_new_session=True, **options)
    except OSError as error:
        program = os.fsdecode(argv[0])
        msg = f"cannot start {program}: {error.strerror or error}"
        raise HarnessError(msg, remedy=f"check that {program} is installed and executable") from error


def kill_group(pid: int) -> None:
    """Send SIGKILL to the process group of `pid`. Do nothing if it is gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


class _Pipes:
    """Transfers stdin, stdout and stderr of one child without blocking on any of them."""

    def __init__(
        self, child: subprocess.Popen[bytes], stdin: bytes, keep_bytes: int, stop: threading.Event | None
    ) -> None:
        self._child = child
        self._stop = stop
        self._stdin = memoryview(stdin)
        self.stdout = Capture(keep_bytes)
        self.stderr = Capture(keep_bytes)

    def transfer(self, deadline: float) -> bool:
        """Return True if the deadline passed before the program ended.

        Raises:
            Interrupted: it must stop.
        """
        with selectors.DefaultSelector() as selector:
            for pipe, target in ((self._child.stdout, self.stdout), (self._child.stderr, self.stderr)):
                if pipe is not None:
                    selector.register(pipe, selectors.EVENT_READ, target)
            if self._child.stdin is not None:
                os.set_blocking(self._child.stdin.fileno(), False)
                selector.register(self._child.stdin, selectors.EVENT_WRITE, None)
            while True:
                if self._stop is not None and self._stop.is_set():
                    raise Interrupted("interrupted")
                ended = self._ended()
                if ended:
                    # The program has ended, but daemonised children may hold its pipes open forever.
                    deadline = min(deadline, time.monotonic() + _DRAIN_SEC)
                if ended and not self._has_outputs(selector):
                    return False
                left = deadline - time.monotonic()
                if left <= 0:
                    if ended:
                        self._read_rest(selector)
                    return not ended
                # Short waits once the pipes are closed: only the exit is missing.
                for key, _ in selector.select(min(left, 0.05 if self._has_outputs(selector) else 0.002)):
                    self._transfer(selector, key)

    def _read_rest(self, selector: selectors.BaseSelector) -> None:
        """Read what the program left in its pipes, also if this process had to wait for a processor until now."""
        for _ in range(_REST_READS):
            ready = [key for key, _ in selector.select(0) if key.data is not None]
            if not ready:
                return
            for key in ready:
                self._transfer(selector, key)

    def _ended(self) -> bool:
        # Not reaped here: while it is a zombie, its pid and its group's id cannot be reused.
        return os.waitid(os.P_PID, self._child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _has_outputs(self, selector: selectors.BaseSelector) -> bool:
        return any(key.data is not None for key in selector.get_map().values())

    def _transfer(self, selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
        pipe: IO[bytes] = key.fileobj  # type: ignore[assignment]  # only the child's pipes are registered
        if key.data is None:
            self._write_stdin(selector, pipe)
            return
        data = os.read(pipe.fileno(), _CHUNK)
        if data:
            key.data.feed(data)
        else:
            selector.unregister(pipe)

    def _write_stdin(self, selector: selectors.BaseSelector, pipe: IO[bytes]) -> None:
        try:
            self._stdin = self._stdin[os.write(pipe.fileno(), self._stdin[:_CHUNK]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._stdin = memoryview(b"")
        if not self._stdin:
            selector.unregister(pipe)
            pipe.close()


class BackgroundProcess:
    """A long-lived process of the harness."""

    def __init__(self, argv: Sequence[str], *, env: Mapping[str, str], cwd: str, pass_fds: Sequence[int]) -> None:
        """
        Raises:
            HarnessError: it cannot be started.
        """
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        self._child = _start(argv, env=env, cwd=cwd, pass_fds=pass_fds, **pipes)

    @property
    def pid(self) -> int:
        return self._child.pid

    def alive(self) -> bool:
        return self._child.poll() is None

    def stop(self, timeout_sec: float) -> str:
        """Wait for the process to end, kill its group if it does not, and return the end of its stderr."""
        try:
            self._child.wait(timeout_sec)
        except subprocess.TimeoutExpired:
            kill_group(self._child.pid)
            self._child.wait()
        return self._stderr_tail()

    def _stderr_tail(self) -> str:
        pipe = self._child.stderr
        if pipe is None or pipe.closed:
            return ""
        os.set_blocking(pipe.fileno(), False)
        data = pipe.read(_CHUNK) or b""
        pipe.close()
        return data.decode("utf-8", "replace").strip()[-2000:]


class DetachedProgram:
    """A program that outlives this process and reads from it. It must fork, and its first process must exit.

    Because it is no child of this process, nothing that ends the children of this process ends it.
    """

    def __init__(self, argv: Sequence[str]) -> None:
        """
        Raises:
            HarnessError: it cannot be started.
        """
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._child = _start(argv, cwd="/", bufsize=0, **pipes)
        if self._child.wait() != 0:
            raise HarnessError(f"{argv[0]} ended with exit code {self._child.returncode} when it was started")

    def write(self, data: bytes) -> None:
        """
        Raises:
            BrokenPipeError: the program has ended.
        """
        if self._child.stdin is not None:
            self._child.stdin.write(data)


class StreamingProcess:
    """A long-lived program whose output lines are passed to a callback as they arrive, from a separate thread."""

    def __init__(self, argv: Sequence[str], *, on_line: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        """
        Raises:
            HarnessError: it cannot be started.
        """
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._child = _start(["/bin/sh", "-c", _WATCH_PARENT, "stream", *argv], **pipes)
        self._on_line = on_line
        self._on_end = on_end
        self._thread = threading.Thread(target=self._read_lines, name=f"stream-{self._child.pid}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        kill_group(self._child.pid)
        self._thread.join(timeout=5)

    def _read_lines(self) -> None:
        pipe = self._child.stdout
        if pipe is not None:
            with pipe:
                while line := pipe.readline(_LINE_BYTES):
                    self._on_line(line)
        kill_group(self._child.pid)
        self._child.wait()
        if self._child.stdin is not None:
            self._child.stdin.close()
        self._on_end()
