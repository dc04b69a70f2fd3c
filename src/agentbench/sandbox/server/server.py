"""The command server: PID 1 of a sandbox, one thread, talks over the socket that is its stdin.

Policy, in order of importance:
- It is PID 1, so no signal from inside can end it, and it is undumpable, so nothing inside can look into it.
- When a command has ended, whatever it left behind is given 0.1 s to end by itself and is then killed. With a single
  command that is every other process; with several at once, each command's own: descent, session, or the marker in the
  environment say whose a process is, and a stray that names no running command is killed with the first that ends.
- Memory is flat: of each stream the two ends are kept, all of it is counted and digested here. A slow reader on the host
  stops the reading of streams that are forwarded live, never the handling of requests.
- When the host goes away the server exits, and the kernel ends everything in its namespace.

Wire: frames `u32 length, body`; a body is a packed list of fields. The imports are few and of the C kind on purpose: they
decide how fast a sandbox is ready and how much memory each costs.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import posix
import select
import sys
import time

from agentbench.sandbox.server.capture import CHUNK, number, pack, unpack
from agentbench.sandbox.server.job import Job
from agentbench.sandbox.server.process_tree import (
    anything_left,
    end_everything,
    end_family,
    family,
    held,
    processes,
    reap,
    resident,
    signal_to,
)

GRACE_SEC = 0.1
"""For what a command left behind, to end by itself (a `tee` behind a process substitution, say)."""
QUEUE_BYTES = 1 << 20
"""Unsent output beyond which live streams are no longer read."""
CHILD_OOM_SCORE = b"800"
WATCH_SEC = 0.1
DYING_SEC = 2.0
"""How long a killed program may take to give its memory back before another has to go."""
SIGCHLD = 17
if False:  # for type checkers: importing it would cost every sandbox's start
    from collections.abc import Callable

    from agentbench.sandbox.server.walker import Walk
    from agentbench.sandbox.server.writer import Batch

    Handler = Callable[[int], None]


class Server:
    def __init__(self, wire: int, options: dict[str, str]) -> None:
        self.wire = wire
        self.null = posix.open("/dev/null", posix.O_RDWR)
        for fd in (0, 1):
            posix.dup2(self.null, fd)
        posix.set_blocking(self.wire, False)
        self.poll = select.epoll()
        self.handlers: dict[int, Handler] = {self.wire: self.on_wire}
        self.poll.register(self.wire, select.EPOLLIN)
        self.inbox = bytearray()
        self.outbox: list[bytes] = []
        self.outbox_size = 0
        self.jobs: dict[bytes, Job] = {}
        self.paused: set[int] = set()
        self.batches: dict[bytes, Batch] = {}
        self.walks: dict[bytes, Walk] = {}
        self.born = (time.time_ns(), time.monotonic_ns())
        self.memory = int(options.get("memory", "0"))
        self.workdir = options["workdir"].encode()
        self.here = options["here"]
        self.base = dict(posix.environ)
        # Opened before we become undumpable: from then on our own /proc files belong to somebody else.
        self.score = posix.open("/proc/self/oom_score_adj", posix.O_RDWR)
        self.own_score = posix.read(self.score, 16).strip()
        self.next_watch = 0.0
        self.dying = (0, 0.0)

    # --- the loop -----------------------------------------------------------------------------------------------

    def serve(self) -> None:
        waker_out, waker_in = posix.pipe()
        for fd in (waker_out, waker_in):
            posix.set_blocking(fd, False)
        _signal.set_wakeup_fd(waker_in, warn_on_full_buffer=False)
        _signal.signal(SIGCHLD, lambda *_: None)
        self.handlers[waker_out] = lambda _: empty(waker_out)
        self.poll.register(waker_out, select.EPOLLIN)
        self.send([b"ready", sys.version.split()[0].encode()])
        while True:
            try:
                self.turn()
            except (MemoryError, OSError):
                # The kernel refuses what every program may expect: whoever used it all up is dealt with in the next turn.
                time.sleep(0.01)

    def turn(self) -> None:
        for fd, event in self.poll.poll(self.patience()):
            handler = self.handlers.get(fd)
            if handler:
                handler(event)
        reap(self.jobs, GRACE_SEC)
        now = time.monotonic()
        if self.memory and self.jobs and now >= self.next_watch:
            self.watch_memory(now)
        for job in list(self.jobs.values()):
            self.step(job, now)

    def patience(self) -> float:
        if not self.jobs:
            return -1
        due = min(job.deadline if job.status is None else job.grace for job in self.jobs.values())
        if self.memory:
            due = min(due, self.next_watch)
        return min(max(0.0, due - time.monotonic()), 3600.0) + 0.0005

    def step(self, job: Job, now: float) -> None:
        if job.status is None:
            if now < job.deadline:
                return
            job.timed_out = True
            job.killed += end_family(job, self.jobs)
        elif anything_left(job, self.jobs):
            if now < job.grace:
                return
            job.killed += end_family(job, self.jobs)
        self.finish(job)

    def finish(self, job: Job) -> None:
        for fd in list(job.pipes):
            # Every writer is dead: what is in the pipe is all there will be.
            while self.pull(job, fd):
                pass
            self.drop_pipe(job, fd)
        self.drop_stdin(job)
        del self.jobs[job.name]
        self.send(job.result())

    def watch_memory(self, now: float) -> None:
        """Where no cgroup holds the limit: look often, kill the largest."""
        self.next_watch = now + WATCH_SEC
        if sum(resident(pid) for pid in processes()) > self.memory:
            self.end_largest()

    def end_largest(self) -> None:
        """More memory is held than the limit allows: the program that holds most has to go."""
        victim, limit = self.dying
        if time.monotonic() < limit and held(victim):
            return  # what the last one held is not free yet
        sizes = {pid: held(pid) for pid in processes()}
        if not sizes:
            return
        victim = max(sizes, key=lambda pid: sizes[pid])
        owners = [job for job in self.jobs.values() if victim in family(job, self.jobs)]
        if signal_to(victim, 9):
            self.dying = (victim, time.monotonic() + DYING_SEC)
            for job in owners:
                job.ooms += 1

    # --- commands and their pipes -------------------------------------------------------------------------------

    def start(self, job: Job) -> None:
        job.cwd = job.cwd or self.workdir
        self.oom_score(CHILD_OOM_SCORE)
        try:
            job.start(self.base, self.null)
        finally:
            self.oom_score(self.own_score)
        self.jobs[job.name] = job
        for fd in job.pipes:
            self.attach(job, fd)
        if job.stdin_fd >= 0:
            self.pump_stdin(job)

    def oom_score(self, value: bytes) -> None:
        """A child inherits it: under pressure commands die before their server does."""
        try:
            posix.lseek(self.score, 0, 0)
            posix.write(self.score, value)
        except OSError:
            pass

    def attach(self, job: Job, fd: int) -> None:
        self.handlers[fd] = lambda _: self.on_pipe(job, fd)
        self.poll.register(fd, select.EPOLLIN)

    def on_pipe(self, job: Job, fd: int) -> None:
        if job.live and self.outbox_size > QUEUE_BYTES:
            self.poll.unregister(fd)
            self.paused.add(fd)
        else:
            self.pull(job, fd)

    def pull(self, job: Job, fd: int) -> bool:
        """Read once; false when there is nothing more now, or ever."""
        try:
            data = posix.read(fd, CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self.drop_pipe(job, fd)
            return False
        capture = job.pipes[fd]
        capture.feed(data)
        if job.live and capture is not job.side:
            self.send([b"out", job.name, capture.tag, data])
        return True

    def drop_pipe(self, job: Job, fd: int) -> None:
        if job.pipes.pop(fd, None) is not None:
            self.forget(fd)

    def forget(self, fd: int) -> None:
        self.handlers.pop(fd, None)
        self.paused.discard(fd)
        posix.close(fd)  # which also takes it out of the epoll set: no other descriptor of ours refers to the pipe

    def pump_stdin(self, job: Job) -> None:
        done = 0
        try:
            while job.stdin:
                count = posix.write(job.stdin_fd, bytes(job.stdin[:CHUNK]))
                del job.stdin[:count]
                done += count
        except BlockingIOError:
            if job.stdin_fd not in self.handlers:
                self.handlers[job.stdin_fd] = lambda _: self.pump_stdin(job)
                self.poll.register(job.stdin_fd, select.EPOLLOUT)
        except OSError:
            done += len(job.stdin)
            job.stdin.clear()
            job.stdin_open = False
        if done:
            self.send([b"ack", job.name, number(done)])
        if not job.stdin:
            if not job.stdin_open:
                self.drop_stdin(job)
            elif self.handlers.pop(job.stdin_fd, None):
                self.poll.unregister(job.stdin_fd)

    def drop_stdin(self, job: Job) -> None:
        if job.stdin_fd >= 0:
            self.forget(job.stdin_fd)
            job.stdin_fd = -1

    # --- the wire -----------------------------------------------------------------------------------------------

    def send(self, fields: list[bytes]) -> None:
        body = pack(fields)
        self.outbox.append(len(body).to_bytes(4, "big") + body)
        self.outbox_size += len(body) + 4
        self.flush()

    def flush(self) -> None:
        try:
            while self.outbox:
                data = self.outbox[0]
                count = posix.write(self.wire, data[: CHUNK * 4])
                self.outbox_size -= count
                if count == len(data):
                    self.outbox.pop(0)
                else:
                    self.outbox[0] = data[count:]
        except BlockingIOError:
            self.poll.modify(self.wire, select.EPOLLIN | select.EPOLLOUT)
            return
        except OSError:
            posix._exit(0)  # noqa: SLF001 - its public name
        self.poll.modify(self.wire, select.EPOLLIN)
        while self.paused:
            self.poll.register(self.paused.pop(), select.EPOLLIN)

    def on_wire(self, event: int) -> None:
        if event & select.EPOLLOUT:
            self.flush()
        if not event & ~select.EPOLLOUT:
            return
        try:
            data = posix.read(self.wire, CHUNK * 4)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            posix._exit(0)  # noqa: SLF001 - its public name
        self.inbox += data
        while len(self.inbox) >= 4:
            size = 4 + int.from_bytes(self.inbox[:4], "big")
            if len(self.inbox) < size:
                return
            body = bytes(self.inbox[4:size])
            del self.inbox[:size]
            self.handle(unpack(body))

    def handle(self, fields: list[bytes]) -> None:
        what, name, rest = fields[0], fields[1], fields[2:]
        if what == b"exec":
            self.start(Job(name, rest))
        elif what == b"killall":
            alive = len(processes())
            end_everything(self.jobs)
            self.send([b"count", name, number(alive)])
        elif what == b"relieve":
            self.end_largest()
        elif what == b"write":
            self.write_files(name, rest)
        elif what == b"stat":
            self.send([b"usage", name, *usage()])
        elif what in (b"walk", b"read"):
            self.send([what, name, *self.look(what, rest)])
        elif what == b"env":
            self.base = dict(item.partition(b"=")[::2] for item in unpack(rest[0]))
            self.send([b"env", name])
        elif name in self.jobs:
            self.about(self.jobs[name], what, rest)
        elif what == b"stdin":
            self.send([b"ack", name, number(len(rest[0]))])

    def about(self, job: Job, what: bytes, rest: list[bytes]) -> None:
        if what == b"kill" and job.status is None:
            end_family(job, self.jobs)
        elif what == b"stdin" and job.stdin_fd >= 0:
            job.stdin += rest[0]
            self.pump_stdin(job)
        elif what == b"stdin":
            self.send([b"ack", job.name, number(len(rest[0]))])
        elif what == b"eof" and job.stdin_fd >= 0:
            job.stdin_open = False
            self.pump_stdin(job)

    def write_files(self, name: bytes, request: list[bytes]) -> None:
        """Files come in several requests, so that their size is never ours; the last one makes them appear."""
        if name not in self.batches:
            self.find_beside()
            import writer  # type: ignore[import-not-found]  # noqa: PLC0415

            self.batches[name] = writer.Batch(self.workdir)
        batch = self.batches[name]
        batch.add([unpack(item) for item in unpack(request[0])])
        if request[1] == b"last":
            del self.batches[name]
            self.send([b"wrote", name, *batch.finish()])

    def look(self, what: bytes, request: list[bytes]) -> list[bytes]:
        """The next piece of a listing, or a part of one file."""
        self.find_beside()
        import walker  # type: ignore[import-not-found]  # noqa: PLC0415

        if what == b"read":
            root, path, offset, count = request
            return walker.read(root, path, int(offset), int(count))  # type: ignore[no-any-return]
        root, listing, max_bytes, mode = request
        try:
            since = walker.unchanged_since(self.born) if mode == b"changed" else 0
            walk = self.walks.pop(listing, None) or walker.Walk(root, int(max_bytes), since)
            piece: list[bytes] = walk.piece()
        except OSError as error:
            return [b"failed", str(error.strerror).encode()]
        if piece[0] == b"more":
            self.walks[listing] = walk
        return piece

    def find_beside(self) -> None:
        """What many sandboxes never need is loaded when it first is, from beside this file."""
        if self.here not in sys.path:
            sys.path.insert(0, self.here)


def usage() -> list[bytes]:
    alive = processes()
    times = posix.times()
    cpu_us = int((times[2] + times[3]) * 1e6)
    return [number(len(alive)), number(sum(resident(pid) for pid in alive)), number(cpu_us)]


def empty(fd: int) -> None:
    try:
        while posix.read(fd, 512):
            pass
    except OSError:
        pass
