"""Whose process is it, and ending the processes of a command."""

from __future__ import annotations

import posix
import time

from agentbench.sandbox.server.job import Job

KILL_SEC = 10.0
MARKER = b"AB_COMMAND="


def processes() -> dict[int, tuple[int, int]]:
    """Every living process but this one: pid -> (parent, session). Zombies are dead."""
    found = {}
    for name in posix.listdir("/proc"):
        if not name.isdigit() or name == "1":
            continue
        stat = read_proc(name, "stat")
        if stat:
            fields = stat[stat.rindex(b")") + 2 :].split()
            if fields[0] not in (b"Z", b"X"):
                found[int(name)] = (int(fields[1]), int(fields[3]))
    return found


def read_proc(pid: str, name: str) -> bytes:
    try:
        fd = posix.open("/proc/" + pid + "/" + name, posix.O_RDONLY)
    except OSError:
        return b""
    try:
        return posix.read(fd, 1 << 17)
    except OSError:
        return b""
    finally:
        posix.close(fd)


def resident(pid: int) -> int:
    """Bytes of memory that are the process's own."""
    fields = read_proc(str(pid), "statm").split()
    return (int(fields[1]) - int(fields[2])) * 4096 if fields else 0


def held(pid: int) -> int:
    """Kilobytes that go when it does, shared ones included."""
    total = 0
    # By newlines alone: a process chooses its name, which may hold a carriage return and look like a line of its own.
    for line in read_proc(str(pid), "status").split(b"\n"):
        if line.startswith((b"RssAnon:", b"RssShmem:")):
            total += int(line.split()[1])
    return total


def signal_to(pid: int, what: int) -> bool:
    try:
        posix.kill(pid, what)
    except OSError:
        return False
    return True


def reap(jobs: dict[bytes, Job], grace_sec: float) -> None:
    while True:
        try:
            pid, status = posix.waitpid(-1, posix.WNOHANG)
        except OSError:
            return
        if not pid:
            return
        for job in jobs.values():
            if job.pid == pid and job.status is None:
                job.status = status
                job.grace = time.monotonic() + grace_sec


def anything_left(job: Job, jobs: dict[bytes, Job]) -> bool:
    if len(jobs) == 1:
        return signal_to(-1, 0)
    return bool(family(job, jobs))


def family(job: Job, jobs: dict[bytes, Job]) -> list[int]:
    """The living processes that are this command's: all there are, when it is the only one."""
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
            owner[pid] = marked(pid, jobs) or job.name
    grew = True
    while grew:
        grew = False
        for pid, (parent, _) in alive.items():
            if pid not in owner and parent in owner:
                owner[pid] = owner[parent]
                grew = True
    return [pid for pid in alive if owner.get(pid, job.name) == job.name]


def marked(pid: int, jobs: dict[bytes, Job]) -> bytes:
    """The running command that a stray's environment names, if any."""
    for entry in read_proc(str(pid), "environ").split(b"\0"):
        if entry.startswith(MARKER) and entry[len(MARKER) :] in jobs:
            return entry[len(MARKER) :]
    return b""


def end_family(job: Job, jobs: dict[bytes, Job]) -> int:
    """Kill until nothing of the command is left; the count of processes that were alive, the command itself apart."""
    if len(jobs) == 1:
        alive = processes()
        end_everything(jobs)
        return len(alive) - (job.pid in alive)
    seen: set[int] = set()
    limit = time.monotonic() + KILL_SEC
    while time.monotonic() < limit:
        victims = family(job, jobs)
        if not victims:
            break
        seen.update(victims)
        for pid in victims:
            signal_to(pid, 9)
        reap(jobs, 0)
        time.sleep(0.0005)
    seen.discard(job.pid)
    return len(seen)


def end_everything(jobs: dict[bytes, Job]) -> None:
    limit = time.monotonic() + KILL_SEC
    while signal_to(-1, 9) and time.monotonic() < limit:
        time.sleep(0.0003)
        reap(jobs, 0)
    reap(jobs, 0)
