"""The command server: PID 1 of a sandbox. Single-threaded; its stdin is the command channel.

Rules, in order of importance:
- It is PID 1, so no signal from inside can end it, and it is undumpable, so no process inside can read its memory. It
  blocks the one signal that it handles, so a flood of signals cannot interrupt it. The system call filter denies calls
  that would change its limits, scheduling or priority.
- When a command has ended, the processes that it left get 0.1 s to exit and are then killed. With one job these are all
  other processes. With several, parent, session or the marker in the environment decide which job a process belongs to;
  a process that names no running job is killed with the first job that ends.
- Memory is bounded: of each stream the server keeps the beginning and the end, and counts and digests all of it. If the
  host reads slowly, the server stops reading streams that it forwards live, but never stops handling requests.
- When the host closes the channel, the server exits, and the kernel ends everything in its namespace.

The channel carries frames `u32 length, body`; a body is a packed list of fields. The few imports are C modules on
purpose: they determine how fast a sandbox starts and how much memory it needs.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import posix
import select
import sys
import time

from agentbench.sandbox.server.capture import CHUNK, number, pack, unpack
from agentbench.sandbox.server.exec_observer import ExecObserver, observation_problem
from agentbench.sandbox.server.job import Job
from agentbench.sandbox.server.process_tree import (
    freeable_kb,
    has_ended,
    has_processes,
    job_processes,
    kill_all,
    kill_job,
    private_bytes,
    processes,
    reap,
    send_signal,
    stop_all,
)

GRACE_SEC = 0.1
"""For processes that a command left, to exit by themselves (a `tee` behind a process substitution, for example)."""
QUEUE_BYTES = 1 << 20
"""With more unsent output than this, live streams are not read."""
CHILD_OOM_SCORE = b"800"
MEMORY_CHECK_SEC = 0.1
DYING_SEC = 5.0
"""How long a killed process may take to free its memory before another is killed."""
SIGINT, SIGCHLD = 2, 17
SIGNAL_SET_BYTES, SIGNAL_INFO_BYTES = 128, 128
SIGNALFD_FLAGS = posix.O_NONBLOCK | posix.O_CLOEXEC
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
SECCOMP_SET_MODE_FILTER, SECCOMP_NEW_LISTENER, SECCOMP_WAIT_KILLABLE = 1, 1 << 3, 1 << 5
if False:  # for type checkers; the imports would slow every sandbox's start
    from collections.abc import Callable

    from agentbench.sandbox.server.walker import Digests, Walk
    from agentbench.sandbox.server.writer import Batch

    Handler = Callable[[int], object]


class Server:
    def __init__(self, channel: int, options: dict[str, str]) -> None:
        self.channel = channel
        self.null = posix.open("/dev/null", posix.O_RDWR)
        for fd in (0, 1):
            posix.dup2(self.null, fd)
        posix.set_blocking(self.channel, False)
        # Not epoll: the kernel limits that per user, and sandboxes that share a user could use it up for each other.
        self.poll = select.poll()
        self.handlers: dict[int, Handler] = {self.channel: self.on_channel}
        self.poll.register(self.channel, select.POLLIN)
        self.inbox = bytearray()
        self.outbox: list[bytes] = []
        self.outbox_size = 0
        self.jobs: dict[bytes, Job] = {}
        self.observer: ExecObserver | None = None
        self.observation_problem = ""
        self.paused: set[int] = set()
        self.batches: dict[bytes, Batch] = {}
        self.walks: dict[bytes, Walk] = {}
        self.digests: Digests = {}
        self.started = (time.time_ns(), time.monotonic_ns())
        self.memory_limit = int(options.get("memory", "0"))
        self.workdir = options["workdir"].encode()
        self.server_dir = options["server_dir"]
        self.env = dict(posix.environ)
        # Opened before the process becomes undumpable, which makes its /proc files root's.
        self.score_fd = posix.open("/proc/self/oom_score_adj", posix.O_RDWR)
        self.own_score = posix.read(self.score_fd, 16).strip()
        self.next_memory_check = 0.0
        self.unreaped = False
        """More children have ended than were collected in one turn."""
        self.victim = 0
        """The process killed for its memory that has not ended yet."""
        self.victim_until = 0.0
        self.freed_at = 0.0
        """When the last victim had ended. What was measured before includes its memory."""

    def serve(self) -> None:
        ended_children = block_child_signal()
        self.watch(ended_children, select.POLLIN, lambda _: posix.read(ended_children, SIGNAL_INFO_BYTES))
        self.send([b"ready", sys.version.split()[0].encode(), self.observation_problem.encode()])
        while True:
            try:
                self.run_once()
            except (MemoryError, OSError):
                # Out of memory, processes or descriptors: the next turn deals with the process that used them up.
                time.sleep(0.01)

    def run_once(self) -> None:
        for fd, event in self.poll.poll(1000 * self.poll_timeout()):
            handler = self.handlers.get(fd)
            if handler:
                handler(event)
        self.unreaped = reap(self.jobs, GRACE_SEC)
        self.check_victim()
        now = time.monotonic()
        if self.memory_limit and self.jobs and now >= self.next_memory_check:
            self.check_memory(now)
        for job in list(self.jobs.values()):
            self.check_job(job, now)
        if self.observer is not None:
            self.observer.flush()

    def poll_timeout(self) -> float:
        if self.unreaped:
            return 0
        if not self.jobs:
            return -1
        due = min(job.deadline if job.status is None else job.grace_until for job in self.jobs.values())
        if self.memory_limit:
            due = min(due, self.next_memory_check)
        return min(max(0.0, due - time.monotonic()), 3600.0) + 0.0005

    def check_job(self, job: Job, now: float) -> None:
        if job.status is None:
            if now < job.deadline:
                return
            job.timed_out = True
            job.killed += kill_job(job, self.jobs)
        elif has_processes(job, self.jobs):
            if now < job.grace_until:
                return
            job.killed += kill_job(job, self.jobs)
        self.finish(job)

    def finish(self, job: Job) -> None:
        for fd in list(job.pipes):
            # Every writer is dead, so the pipe holds everything that is left.
            while self.pull(job, fd):
                pass
            self.drop_pipe(job, fd)
        self.drop_stdin(job)
        reap(self.jobs, GRACE_SEC)
        counts = self.observer.finish(job) if self.observer is not None else b""
        del self.jobs[job.name]
        self.send([*job.result(), counts])

    def check_memory(self, now: float) -> None:
        """Enforce the memory limit where no cgroup does."""
        self.next_memory_check = now + MEMORY_CHECK_SEC
        if sum(private_bytes(pid) for pid in processes()) > self.memory_limit:
            self.kill_largest(now)

    def kill_largest(self, measured_at: float) -> None:
        """Kill the process that uses most memory, unless the last one killed had not freed its memory at `measured_at`."""
        self.check_victim()
        if self.victim or measured_at < self.freed_at:
            return
        sizes = {pid: freeable_kb(pid) for pid in processes()}
        if not sizes:
            return
        victim = max(sizes, key=lambda pid: sizes[pid])
        owners = [job for job in self.jobs.values() if victim in job_processes(job, self.jobs)]
        if send_signal(victim, 9):
            self.victim, self.victim_until = victim, time.monotonic() + DYING_SEC
            for job in owners:
                job.ooms += 1

    def check_victim(self) -> None:
        if self.victim and (has_ended(self.victim) or time.monotonic() > self.victim_until):
            self.victim, self.freed_at = 0, time.monotonic()

    def start(self, job: Job) -> None:
        job.cwd = job.cwd or self.workdir
        self.set_oom_score(CHILD_OOM_SCORE)
        try:
            job.start(self.env, self.null, fork=self.observer is not None)
        finally:
            self.set_oom_score(self.own_score)
        self.jobs[job.name] = job
        if self.observer is not None:
            self.observer.add_job(job)
        for fd in job.pipes:
            self.attach(job, fd)
        if job.stdin_fd >= 0:
            self.pump_stdin(job)

    def set_oom_score(self, value: bytes) -> None:
        """Set the score that the next child inherits, so that the kernel kills commands before the server."""
        try:
            posix.lseek(self.score_fd, 0, 0)
            posix.write(self.score_fd, value)
        except OSError:
            pass

    def attach(self, job: Job, fd: int) -> None:
        self.watch(fd, select.POLLIN, lambda _: self.on_pipe(job, fd))

    def watch(self, fd: int, events: int, handler: Handler) -> None:
        self.poll.register(fd, events)
        self.handlers[fd] = handler

    def on_pipe(self, job: Job, fd: int) -> None:
        if job.live and self.outbox_size > QUEUE_BYTES:
            self.poll.unregister(fd)
            self.paused.add(fd)
        else:
            self.pull(job, fd)

    def pull(self, job: Job, fd: int) -> bool:
        """Read once. Return False if there is nothing to read now or ever."""
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
            self.close_fd(fd)

    def close_fd(self, fd: int) -> None:
        # Closing it is not enough: a child that has not executed its program yet has a copy.
        if self.handlers.pop(fd, None) is not None and fd not in self.paused:
            self.poll.unregister(fd)
        self.paused.discard(fd)
        posix.close(fd)

    def pump_stdin(self, job: Job) -> None:
        written = 0
        try:
            while job.stdin:
                count = posix.write(job.stdin_fd, bytes(job.stdin[:CHUNK]))
                del job.stdin[:count]
                written += count
        except BlockingIOError:
            if job.stdin_fd not in self.handlers:
                self.watch(job.stdin_fd, select.POLLOUT, lambda _: self.pump_stdin(job))
        except OSError:
            written += len(job.stdin)
            job.stdin.clear()
            job.stdin_open = False
        if written:
            self.send([b"ack", job.name, number(written)])
        if not job.stdin:
            if not job.stdin_open:
                self.drop_stdin(job)
            elif self.handlers.pop(job.stdin_fd, None):
                self.poll.unregister(job.stdin_fd)

    def drop_stdin(self, job: Job) -> None:
        if job.stdin_fd >= 0:
            self.close_fd(job.stdin_fd)
            job.stdin_fd = -1

    def send(self, fields: list[bytes]) -> None:
        body = pack(fields)
        self.outbox.append(len(body).to_bytes(4, "big") + body)
        self.outbox_size += len(body) + 4
        self.flush()

    def flush(self) -> None:
        try:
            while self.outbox:
                data = self.outbox[0]
                count = posix.write(self.channel, data[: CHUNK * 4])
                self.outbox_size -= count
                if count == len(data):
                    self.outbox.pop(0)
                else:
                    self.outbox[0] = data[count:]
        except BlockingIOError:
            self.poll.modify(self.channel, select.POLLIN | select.POLLOUT)
            return
        except OSError:
            posix._exit(0)  # noqa: SLF001 - the module has no public name for it
        self.poll.modify(self.channel, select.POLLIN)
        while self.paused:
            self.poll.register(self.paused.pop(), select.POLLIN)

    def on_channel(self, event: int) -> None:
        if event & select.POLLOUT:
            self.flush()
        if not event & ~select.POLLOUT:
            return
        try:
            data = posix.read(self.channel, CHUNK * 4)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            posix._exit(0)  # noqa: SLF001 - the module has no public name for it
        self.inbox += data
        while len(self.inbox) >= 4:
            size = 4 + int.from_bytes(self.inbox[:4], "big")
            if len(self.inbox) < size:
                return
            body = bytes(self.inbox[4:size])
            del self.inbox[:size]
            self.handle(unpack(body))

    def handle(self, fields: list[bytes]) -> None:
        verb, name, rest = fields[0], fields[1], fields[2:]
        if verb == b"exec":
            self.start(Job(name, rest))
        elif verb == b"killall":
            alive = stop_all()
            kill_all(self.jobs)
            self.send([b"count", name, number(len(alive))])
        elif verb == b"kill-largest":
            self.kill_largest(int(rest[0]) / 1e6)
        elif verb == b"write":
            self.write_files(name, rest)
        elif verb == b"stat":
            self.send([b"usage", name, *usage()])
        elif verb == b"space":
            self.send([b"space", name, number(used_bytes(rest))])
        elif verb == b"denied":
            denied = self.observer.denied if self.observer is not None else {}
            self.send([b"denied", name, *(b"%d %d" % item for item in denied.items())])
        elif verb in (b"walk", b"read"):
            self.send([verb, name, *self.walk_or_read(verb, rest)])
        elif verb == b"env":
            self.env = dict(item.partition(b"=")[::2] for item in unpack(rest[0]))
            self.send([b"env", name])
        elif name in self.jobs:
            self.handle_for_job(self.jobs[name], verb, rest)
        elif verb == b"stdin":
            self.send([b"ack", name, number(len(rest[0]))])

    def handle_for_job(self, job: Job, verb: bytes, rest: list[bytes]) -> None:
        if verb == b"kill" and job.status is None:
            kill_job(job, self.jobs)
        elif verb == b"stdin" and job.stdin_fd >= 0:
            job.stdin += rest[0]
            self.pump_stdin(job)
        elif verb == b"stdin":
            self.send([b"ack", job.name, number(len(rest[0]))])
        elif verb == b"eof" and job.stdin_fd >= 0:
            job.stdin_open = False
            self.pump_stdin(job)

    def write_files(self, name: bytes, request: list[bytes]) -> None:
        """Stage the files of one request. A batch takes several, to bound memory; the last one moves all into place."""
        if name not in self.batches:
            self.import_from_own_folder()
            import writer  # type: ignore[import-not-found]  # noqa: PLC0415

            self.batches[name] = writer.Batch(self.workdir)
        batch = self.batches[name]
        batch.add([unpack(item) for item in unpack(request[0])])
        if request[1] == b"last":
            del self.batches[name]
            self.send([b"wrote", name, *batch.finish()])

    def walk_or_read(self, verb: bytes, request: list[bytes]) -> list[bytes]:
        """Return the next piece of a listing, or a part of one file."""
        self.import_from_own_folder()
        import walker  # type: ignore[import-not-found]  # noqa: PLC0415

        if verb == b"read":
            root, path, offset, count = request
            return walker.read(root, path, int(offset), int(count))  # type: ignore[no-any-return]
        root, listing, max_bytes, mode = request
        try:
            since = 0 if mode == b"all" else walker.unchanged_since(self.started)
            digests = self.digests if mode == b"quick" and since else None
            walk = self.walks.pop(listing, None) or walker.Walk(root, int(max_bytes), since, digests)
            piece: list[bytes] = walk.piece()
        except OSError as error:
            return [b"failed", str(error.strerror).encode()]
        if piece[0] == b"more":
            self.walks[listing] = walk
        return piece

    def import_from_own_folder(self) -> None:
        """Make the modules beside this file importable. Many sandboxes never need them, so they load on demand."""
        if self.server_dir not in sys.path:
            sys.path.insert(0, self.server_dir)


def usage() -> list[bytes]:
    alive = processes()
    times = posix.times()
    cpu_us = int((times[2] + times[3]) * 1e6)
    return [number(len(alive)), number(sum(private_bytes(pid) for pid in alive)), number(cpu_us)]


def used_bytes(folders: list[bytes]) -> int:
    """Return the space used in the file systems that are mounted at `folders`."""
    systems = [posix.statvfs(folder) for folder in folders]
    return sum((system.f_blocks - system.f_bfree) * system.f_frsize for system in systems)


def connect(path: str) -> int:
    import _socket  # noqa: PLC0415 - only used if the host listens at a path

    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    sock.connect(path)
    return sock.detach()


def make_undumpable() -> None:
    call_libc("prctl", PR_SET_DUMPABLE, 0, 0, 0, 0)


def block_child_signal() -> int:
    """Block SIGCHLD and return a descriptor that is readable when a child has ended.

    A handler would run for every signal: processes that send it without pause would leave the server no time.
    """
    _signal.pthread_sigmask(_signal.SIG_BLOCK, (SIGCHLD,))
    fd = call_libc("signalfd", -1, (1 << SIGCHLD - 1).to_bytes(SIGNAL_SET_BYTES, "little"), SIGNALFD_FLAGS)
    if fd < 0:
        raise OSError("the kernel has no signalfd")
    return fd


def call_libc(name: str, *arguments: int | bytes) -> int:
    """Call a function that the standard library has no binding for. All of ctypes would take 3 ms to load."""
    import _ctypes  # noqa: PLC0415

    function = _ctypes.dlsym(_ctypes.dlopen(None, 2), name)  # type: ignore[arg-type]
    return _ctypes.call_function(function, arguments)  # type: ignore[no-any-return]


def apply_filters(server: Server, options: dict[str, str]) -> None:
    """Apply a system call filter to the server and all its children, on top of the one it was started with.

    The filter with which the server observes programs denies the same calls as the plain one. If it cannot be applied,
    the plain one is.
    """
    server.observation_problem = options.get("problem") or observation_problem()
    if not server.observation_problem:
        *calls, seccomp = (int(call) for call in options["calls"].split(","))
        try:
            listener = apply_filter(options["observe"], seccomp)
        except OSError as error:
            server.observation_problem = str(error.strerror)
        else:
            server.observer = ExecObserver(server, listener, calls)
            return
    if "filter" in options:
        apply_filter(options["filter"])


def apply_filter(path: str, seccomp: int = 0) -> int:
    """Apply one filter. With the number of the system call `seccomp`, return a descriptor that its notifications reach."""
    import ctypes  # noqa: PLC0415 - not needed if the backend applies the filter itself

    fd = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    instructions = posix.read(fd, 1 << 16)
    posix.close(fd)

    class Program(ctypes.Structure):
        _fields_ = (("count", ctypes.c_ushort), ("instructions", ctypes.c_char_p))

    libc = ctypes.CDLL(None, use_errno=True)
    program = ctypes.byref(Program(len(instructions) // 8, instructions))
    result: int = -1
    if not seccomp:
        result = libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0)
    else:
        # Since Linux 5.19 only fatal signals interrupt a waiting call. Before, an interrupted call is notified again.
        for flags in (SECCOMP_NEW_LISTENER | SECCOMP_WAIT_KILLABLE, SECCOMP_NEW_LISTENER):
            result = libc.syscall(
                *(ctypes.c_long(value) for value in (seccomp, SECCOMP_SET_MODE_FILTER, flags)), program
            )
            if result >= 0:
                break
    if result < 0:
        what = "no seccomp listener" if seccomp else "the kernel refused the system call filter"
        raise OSError(ctypes.get_errno(), what + ": " + posix.strerror(ctypes.get_errno()))
    return result


def main() -> None:
    options = dict(item.partition("=")[::2] for item in sys.argv[1:])
    # Bubblewrap leaks descriptors (status, filter), which commands must not inherit.
    posix.closerange(3, 1024)
    # Python's handler would turn `kill -INT 1` from inside into an exception here.
    _signal.signal(SIGINT, _signal.SIG_IGN)
    if "nproc" in options:
        import resource  # noqa: PLC0415 - only used without a pids cgroup

        resource.setrlimit(resource.RLIMIT_NPROC, (int(options["nproc"]),) * 2)
    # The channel is stdin or listens at a path. All descriptors close on exec, so commands never see them.
    server = Server(connect(options["socket"]) if "socket" in options else posix.dup(0), options)
    make_undumpable()
    apply_filters(server, options)
    server.serve()


if __name__ == "__main__":
    main()
