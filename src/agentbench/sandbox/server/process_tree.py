"""Finds the processes that belong to a job, and kills them."""

from __future__ import annotations

import posix
import time

from agentbench.sandbox.server.job import Job

SIGSTOP = 19
KILL_SEC = 10.0
MAX_REAPED = 1000
"""Ended children that are collected in one turn."""
MAX_GROWTHS = 100
"""If new processes of a job appear this often while it is being killed, they fork faster than they are found. Then all
processes are killed, also those of other jobs: that happens at once, and no fork escapes it."""
MARKER = b"AB_COMMAND="


def processes() -> dict[int, tuple[int, int]]:
    """Return pid -> (parent, session) of every process but the server. Zombies do not count, unless other threads of
    theirs are alive.
    """
    alive = {}
    for name in posix.listdir("/proc"):
        if not name.isdigit() or name == "1":
            continue
        stat = read_proc(name, "stat")
        if stat:
            fields = stat_fields(stat)
            if not is_dead(fields):
                alive[int(name)] = (int(fields[1]), int(fields[3]))
    return alive


def stat_fields(stat: bytes) -> list[bytes]:
    """Return the fields after the name, which may contain anything: state, parent, group, session, …"""
    return stat[stat.rindex(b")") + 2 :].split()


def is_dead(fields: list[bytes]) -> bool:
    """Return whether all threads of a process have ended. Its state is that of the main thread, which may end first."""
    return fields[0] in (b"Z", b"X") and int(fields[17]) <= 1


def read_proc(pid: str, name: str, size: int = 1 << 17) -> bytes:
    try:
        fd = posix.open("/proc/" + pid + "/" + name, posix.O_RDONLY)
    except OSError:
        return b""
    try:
        return posix.read(fd, size)
    except OSError:
        return b""
    finally:
        posix.close(fd)


def private_bytes(pid: int) -> int:
    """Return the resident memory of a process without its shared part."""
    fields = read_proc(living_thread(pid), "statm").split()
    return (int(fields[1]) - int(fields[2])) * 4096 if fields else 0


def freeable_kb(pid: int) -> int:
    """Return the kilobytes, private and shared, that killing the process can free."""
    total = 0
    # Split at newlines only: a process chooses its name, and a carriage return in it could imitate a line.
    for line in read_proc(living_thread(pid), "status").split(b"\n"):
        if line.startswith((b"RssAnon:", b"RssShmem:")):
            total += int(line.split()[1])
    return total


def living_thread(pid: int) -> str:
    """Return the folder below /proc of a thread that is alive. A main thread that has ended shows no memory."""
    try:
        for tid in posix.listdir(f"/proc/{pid}/task"):
            thread = f"{pid}/task/{tid}"
            stat = read_proc(thread, "stat")
            if stat and stat_fields(stat)[0] not in (b"Z", b"X"):
                return thread
    except OSError:
        pass  # the process ended meanwhile
    return str(pid)


def has_ended(pid: int) -> bool:
    """Return whether a process has ended. Only then its memory is free."""
    stat = read_proc(str(pid), "stat")
    return not stat or is_dead(stat_fields(stat))


def send_signal(pid: int, signal: int) -> bool:
    try:
        posix.kill(pid, signal)
    except OSError:
        return False
    return True


def reap(jobs: dict[bytes, Job], grace_sec: float) -> bool:
    """Collect the exit status of children that ended. Return whether more may have ended: a flood does not delay the rest."""
    for _ in range(MAX_REAPED):
        try:
            pid, status = posix.waitpid(-1, posix.WNOHANG)
        except OSError:
            return False
        if not pid:
            return False
        for job in jobs.values():
            if job.pid == pid and job.status is None:
                job.status = status
                job.grace_until = time.monotonic() + grace_sec
    return True


def has_processes(job: Job, jobs: dict[bytes, Job]) -> bool:
    if len(jobs) == 1:
        return send_signal(-1, 0)
    return bool(job_processes(job, jobs))


def job_processes(job: Job, jobs: dict[bytes, Job]) -> list[int]:
    """Return the living processes of this job: all processes, if it is the only job."""
    alive = processes()
    if len(jobs) == 1:
        return list(alive)
    owner = {other.pid: other.name for other in jobs.values()}
    for pid, (parent, session) in alive.items():
        if pid in owner:
            continue
        if session in owner:
            owner[pid] = owner[session]
        elif parent <= 1:
            owner[pid] = job_in_environment(pid, jobs) or job.name
    changed = True
    while changed:
        changed = False
        for pid, (parent, _) in alive.items():
            if pid not in owner and parent in owner:
                owner[pid] = owner[parent]
                changed = True
    return [pid for pid in alive if owner.get(pid, job.name) == job.name]


def job_in_environment(pid: int, jobs: dict[bytes, Job]) -> bytes:
    """Return the name of the running job in a process's environment, or nothing."""
    for entry in read_proc(str(pid), "environ").split(b"\0"):
        if entry.startswith(MARKER) and entry[len(MARKER) :] in jobs:
            return entry[len(MARKER) :]
    return b""


def kill_job(job: Job, jobs: dict[bytes, Job]) -> int:
    """Kill all processes of the job and return how many were alive, not counting the command itself."""
    if len(jobs) == 1:
        before = stop_all()
        kill_all(jobs)
        return len(before) - (job.pid in before)
    killed: set[int] = set()
    growths = 0
    deadline = time.monotonic() + KILL_SEC
    while time.monotonic() < deadline:
        alive = job_processes(job, jobs)
        if not alive:
            break
        growths += not killed.issuperset(alive)
        killed.update(alive)
        if growths > MAX_GROWTHS:
            kill_all(jobs)
            break
        for pid in alive:
            send_signal(pid, 9)
        reap(jobs, 0)
        time.sleep(0.0005)
    killed.discard(job.pid)
    return len(killed)


def stop_all() -> dict[int, tuple[int, int]]:
    """Stop every process but the server, and return them. Hundreds of busy ones would leave it little time to list them."""
    send_signal(-1, SIGSTOP)
    return processes()


def kill_all(jobs: dict[bytes, Job]) -> None:
    """Kill every process but the server."""
    deadline = time.monotonic() + KILL_SEC
    while send_signal(-1, 9) and time.monotonic() < deadline:
        time.sleep(0.0003)
        reap(jobs, 0)
    reap(jobs, 0)
