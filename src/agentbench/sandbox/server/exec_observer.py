"""Observes every program that starts in the sandbox, and counts denied system calls.

The server's filter notifies it of each execve and execveat, and the caller waits for the answer. The server reads path
and arguments from the caller's memory, records them and lets the call continue. Arguments are advisory, because another
thread can change them after they were read, but no program starts unnoticed. If they cannot be read, the call is
refused. All processes are observed while an observed job runs: a program could control a process of another job.

The server must never make a call that it is notified of: it would wait for its own answer. Its children inherit that it
is undumpable until they execute a program, so no process can take the listener from them.
"""

from __future__ import annotations

import posix
import select
import time

from agentbench.sandbox.server.capture import LogBudget, number, pack
from agentbench.sandbox.server.job import Job
from agentbench.sandbox.server.process_tree import processes, read_proc

SECCOMP_RECV, SECCOMP_SEND, SECCOMP_SET_FLAGS = 0xC050_2100, 0xC018_2101, 0x4008_2104
NOTIFICATION, NOTIFICATION_BYTES, ANSWER = "<QIIiIQ6Q", 80, "<QqiI"
CONTINUE, SYNC_WAKE_UP = 1, 1
PIDFD_GET_INFO, PIDFD_INFO, PIDFD_INFO_EXIT = 0xC040_FF0B, "<Q52xi", 1 << 3
TELLS_EXIT_STATUS = (6, 15)
WAKES_SYNCHRONOUSLY = (6, 6)
CONTINUES_CALLS = (5, 5)
EPERM, EIO, EACCES, EFAULT, EAFNOSUPPORT = 1, 5, 13, 14, 97
AT_FDCWD = -100
PAGE = 4096
ARGUMENT_BYTES = 32768
PER_ARGUMENT = 128
"""Added to the length of each argument, which bounds their number too."""
MAX_WATCHED = 512
"""Processes whose end is observed at the same time."""
MAX_MISSING = 64
"""Starts of missing programs that wait at the same time. All of them fit into one frame."""
UNSENT_BYTES = 8 << 20
"""With more unsent data than this, starts are only counted."""
if False:  # for type checkers; the import would slow every sandbox's start
    from agentbench.sandbox.server.server import Server


class Start:
    """A program that is about to start."""

    def __init__(self, pid: int, parent: int, program: bytes, cwd: bytes, argv: list[bytes]) -> None:
        self.pid = pid
        self.parent = parent
        self.program = program
        self.cwd = cwd
        self.argv = argv
        self.truncated = False
        self.exists = True
        self.caller: tuple[bytes, bytes] | None = None
        """The program and arguments of the calling process so far, if the start may belong to a search of PATH."""
        self.elapsed_us = 0

    def continues(self, before: Start) -> bool:
        """Return whether an earlier start of the process failed and this one is the next step of its search of PATH.

        If the earlier start had succeeded, the process would be another program now.
        """
        same_name = before.program.rsplit(b"/", 1)[-1] == self.program.rsplit(b"/", 1)[-1]
        return same_name and before.argv == self.argv and before.caller == self.caller

    def fields(self, index: int) -> list[bytes]:
        numbers = [number(value) for value in (index, self.elapsed_us, self.pid, self.parent, self.truncated)]
        return [b"start", *numbers, self.program, self.cwd, *self.argv]


class JobLog:
    """The programs that one observed job has started."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.budget = LogBudget()
        self.started = 0
        self.dropped = 0
        self.refused = 0
        self.unsent: list[bytes] = []
        self.numbers: dict[int, int] = {}
        """Watched process -> number of the last program that it started."""
        self.missing: dict[int, Start] = {}
        """Watched process -> a program that it tried to start and that does not exist, most likely while it searches
        PATH. It is written when the search has ended without success."""

    def add(self, start: Start, *, watched: bool) -> None:
        start.elapsed_us = self.elapsed_us()
        before = self.missing.pop(start.pid, None)
        if before is not None and not start.continues(before):
            self.write(before)
        if watched and not start.exists and len(self.missing) < MAX_MISSING:
            self.missing[start.pid] = start
        else:
            self.write(start)
            if watched:
                self.numbers[start.pid] = self.started

    def write(self, start: Start) -> None:
        self.started += 1
        self.put(start.fields(self.started))

    def end(self, pid: int, code: bytes, signal: bytes) -> None:
        missing = self.missing.pop(pid, None)
        if missing is not None:
            self.write(missing)
        index = self.numbers.pop(pid, 0)
        if index:
            self.put([b"end", number(index), number(self.elapsed_us()), code, signal])

    def put(self, fields: list[bytes]) -> None:
        entry = pack(fields)
        self.budget.spend(len(entry))
        self.unsent.append(entry)

    def elapsed_us(self) -> int:
        return int((time.monotonic() - self.job.started) * 1e6)


class ExecObserver:
    def __init__(self, server: Server, listener: int, calls: list[int]) -> None:
        """`calls`: the numbers of execve, execveat and socket on this machine."""
        # Only sandboxes of the agent phase need them.
        import _struct  # noqa: PLC0415
        import fcntl  # noqa: PLC0415

        self.ioctl, self.pack, self.unpack = fcntl.ioctl, _struct.pack, _struct.unpack
        self.server = server
        self.listener = listener
        self.execve, self.execveat, self.socket = calls
        self.starting: dict[int, Job] = {}
        """Child of the server that has not executed its program yet -> its job."""
        self.logs: dict[bytes, JobLog] = {}
        self.pidfds: dict[int, int] = {}
        """Watched process -> its descriptor."""
        self.denied: dict[int, int] = {}
        """Number of a denied system call -> how often it was called."""
        self.tells_exit_status = kernel_version() >= TELLS_EXIT_STATUS
        if kernel_version() >= WAKES_SYNCHRONOUSLY:
            self.ioctl(listener, SECCOMP_SET_FLAGS, SYNC_WAKE_UP)
        server.watch(listener, select.POLLIN, self.on_notification)

    def add_job(self, job: Job) -> None:
        if job.pid:
            self.starting[job.pid] = job
        if job.observed:
            self.logs[job.name] = JobLog(job)

    def on_notification(self, _event: int) -> None:
        notification = bytearray(NOTIFICATION_BYTES)
        try:
            self.ioctl(self.listener, SECCOMP_RECV, notification)
        except OSError:
            return  # the caller was killed meanwhile
        ident, tid, _, call, _, _, *arguments = self.unpack(NOTIFICATION, notification)
        if call == self.execve:
            self.on_exec(ident, tid, AT_FDCWD, arguments[0], arguments[1])
        elif call == self.execveat:
            self.on_exec(ident, tid, *arguments[:3])
        elif self.answer(ident, EAFNOSUPPORT if call == self.socket else EPERM):
            self.denied[call] = self.denied.get(call, 0) + 1

    def on_exec(self, ident: int, tid: int, folder: int, path: int, argv: int) -> None:
        job = self.starting.get(tid)
        if job is not None and job.status is not None:
            job = None  # it ended before it could start, and its id was reused
        log = self.logs.get(job.name) if job else self.log_of(tid)
        start, watched, error, invalid = None, False, 0, False
        if log is not None and log.budget.available() and self.server.outbox_size < UNSENT_BYTES:
            try:
                start = first_start(job) if job else self.read_start(tid, folder, path, argv)
                if not start.exists or start.pid in log.missing:
                    start.caller = posix.readlink(b"/proc/%d/exe" % tid), read_proc(str(tid), "cmdline")
                watched = self.watch_end(start.pid, log)  # before the answer: the process may end right after it
            except Exception as problem:  # noqa: BLE001 - whatever it is, the caller needs an answer
                error = EACCES if isinstance(problem, PermissionError) else EFAULT
                # An address without memory: the kernel would refuse it too.
                invalid = isinstance(problem, OSError) and problem.errno == EIO
        if not self.answer(ident, error):
            return
        self.starting.pop(tid, None)
        if log is None:
            return
        if error:
            log.refused += not invalid
        elif start is None:
            log.started += 1
            log.dropped += 1
        else:
            log.add(start, watched=watched)

    def answer(self, ident: int, error: int) -> bool:
        """Refuse the call, or let it continue. Return False if it ended meanwhile: killed, or restarted by a signal."""
        answer = self.pack(ANSWER, ident, 0, -error, 0 if error else CONTINUE)
        while True:
            try:
                self.ioctl(self.listener, SECCOMP_SEND, answer)
            except InterruptedError:
                continue  # by a signal to the server (a child ended), and the caller still waits
            except OSError:
                return False
            return True

    def log_of(self, pid: int) -> JobLog | None:
        """Return the log for a process. With several observed jobs its ancestors decide, else it is the first."""
        if len(self.logs) > 1:
            alive = processes()
            jobs = {log.job.pid: log for log in self.logs.values()}
            while pid in alive:
                if pid in jobs:
                    return jobs[pid]
                pid = alive[pid][0]
        return next(iter(self.logs.values()), None)

    def watch_end(self, pid: int, log: JobLog) -> bool:
        """Return whether the process's end will be seen. Exit statuses are an extra: too many processes are not watched."""
        if pid in self.pidfds:
            return True
        if len(self.pidfds) >= MAX_WATCHED:
            return False
        try:
            fd = posix.pidfd_open(pid)
        except (AttributeError, OSError):  # Python 3.8; too many descriptors
            return False
        # POLLHUP, which is always reported: its parent has waited for it, so the kernel tells its status.
        event = 0 if self.tells_exit_status or pid == log.job.pid else select.POLLIN
        self.server.watch(fd, event, lambda _: self.on_end(pid, log))
        self.pidfds[pid] = fd
        return True

    def on_end(self, pid: int, log: JobLog) -> None:
        fd = self.pidfds.pop(pid)
        status = log.job.status if pid == log.job.pid else self.exit_status(fd)
        self.server.close_fd(fd)
        if log.job.name not in self.logs:
            return
        if status is None:
            log.end(pid, b"", b"")
        elif posix.WIFSIGNALED(status):
            log.end(pid, b"", number(posix.WTERMSIG(status)))
        else:
            log.end(pid, number(posix.WEXITSTATUS(status)), b"")

    def exit_status(self, fd: int) -> int | None:
        info = bytearray(self.pack(PIDFD_INFO, PIDFD_INFO_EXIT, 0))
        try:
            self.ioctl(fd, PIDFD_GET_INFO, info)
        except OSError:
            return None
        mask, status = self.unpack(PIDFD_INFO, info)
        return status if mask & PIDFD_INFO_EXIT else None

    def flush(self) -> None:
        """Send what was recorded since the last time."""
        for name, log in self.logs.items():
            if log.unsent:
                self.server.send([b"seen", name, *log.unsent])
                log.unsent = []

    def finish(self, job: Job) -> bytes:
        """Send the rest of a job's log and return its counts, or nothing if it was not observed."""
        self.starting.pop(job.pid, None)
        log = self.logs.get(job.name)
        if log is None:
            return b""
        alive = processes()
        for pid in [*log.numbers, *log.missing]:
            if pid in self.pidfds and pid not in alive:
                self.on_end(pid, log)
        for start in log.missing.values():
            log.write(start)
        self.flush()
        del self.logs[job.name]
        return b"%d %d %d" % (log.started, log.dropped, log.refused)

    def read_start(self, tid: int, folder: int, path_at: int, argv_at: int) -> Start:
        """Describe the call of a waiting thread. Opens files in /proc only: another could be a pipe."""
        status = read_proc(str(tid), "status", PAGE)
        pid, parent = (int(status.split(key, 1)[1].split(None, 1)[0]) for key in (b"\nTgid:", b"\nPPid:"))
        memory = Memory(tid)
        try:
            path, _ = memory.text(path_at, PAGE)
            argv, truncated = self.read_arguments(memory, argv_at)
        finally:
            memory.close()
        proc = b"/proc/%d" % tid
        program = path
        if not path.startswith(b"/"):
            fd = (folder & 0xFFFF_FFFF) - (folder << 1 & 1 << 32)
            base = proc + b"/cwd" if fd == AT_FDCWD else proc + b"/fd/%d" % fd
            program = join(posix.readlink(base), path)
            path = join(base, path)
        start = Start(pid, parent, program, posix.readlink(proc + b"/cwd"), argv)
        start.truncated = truncated
        # For the caller, /proc/self is another folder than for the server.
        start.exists = program.startswith(b"/proc/") or posix.access(path, posix.X_OK)
        return start

    def read_arguments(self, memory: Memory, address: int) -> tuple[list[bytes], bool]:
        """Return as many arguments as are kept, and whether they were truncated."""
        argv: list[bytes] = []
        room = ARGUMENT_BYTES
        while address:
            pointer = self.unpack("<Q", memory.read(address, 8))[0]
            if not pointer:
                break
            if room <= 0:
                return argv, True
            text, whole = memory.text(pointer, room)
            argv.append(text)
            if not whole:
                return argv, True
            room -= len(text) + PER_ARGUMENT
            address += 8
        return argv, False


class Memory:
    """The memory of a process, read by pages."""

    def __init__(self, tid: int) -> None:
        self.fd = posix.open(f"/proc/{tid}/mem", posix.O_RDONLY | posix.O_CLOEXEC)
        self.pages: dict[int, bytes] = {}

    def close(self) -> None:
        posix.close(self.fd)

    def rest_of_page(self, address: int) -> bytes:
        page, offset = divmod(address, PAGE)
        if page not in self.pages:
            data = posix.pread(self.fd, PAGE, page * PAGE)
            if len(data) < PAGE:
                raise ProcessLookupError  # it was killed meanwhile
            self.pages[page] = data
        return self.pages[page][offset:]

    def read(self, address: int, count: int) -> bytes:
        data = self.rest_of_page(address)[:count]
        return data if len(data) == count else data + self.rest_of_page(address + len(data))[: count - len(data)]

    def text(self, address: int, limit: int) -> tuple[bytes, bool]:
        """Return the string at an address up to a limit, and whether that is all of it."""
        parts: list[bytes] = []
        size = 0
        while size <= limit:
            part = self.rest_of_page(address + size)
            end = part.find(b"\0")
            parts.append(part if end < 0 else part[:end])
            size += len(parts[-1])
            if end >= 0:
                break
        return b"".join(parts)[:limit], size <= limit


def first_start(job: Job) -> Start:
    """Describe the program that the server starts for a job. The memory of its child cannot be read."""
    argv, room = [], ARGUMENT_BYTES
    for argument in job.argv:
        argv.append(argument[: max(room, 0)])
        room -= len(argument) + PER_ARGUMENT
    start = Start(job.pid, 1, join(job.cwd, job.program), job.cwd, argv)
    start.truncated = argv != job.argv
    return start


def join(folder: bytes, path: bytes) -> bytes:
    while path.startswith(b"./"):
        path = path[2:]
    return path if path.startswith(b"/") else (folder.rstrip(b"/") + b"/" + path).rstrip(b"/")


def kernel_version() -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in posix.uname().release.split("-")[0].split(".")[:2])


def observation_problem() -> str:
    """Return why this kernel cannot let a server observe programs, as far as that shows before trying."""
    if kernel_version() < CONTINUES_CALLS:
        return "the kernel is older than Linux 5.5"
    try:
        scope = posix.open("/proc/sys/kernel/yama/ptrace_scope", posix.O_RDONLY)
    except OSError:
        return ""
    try:
        return "" if posix.read(scope, 8).strip() in (b"0", b"1") else "kernel.yama.ptrace_scope is above 1"
    finally:
        posix.close(scope)
