"""Measure what it costs to observe the workspace while an agent program runs.

A small project (200 files, 1 MB) and a program that sleeps. Each scan is the one that precedes a model request: it finds what
changed since the last scan and writes the event to a log on disk.

    python -m bench.observation [--sandbox bwrap|docker] [--scans N]
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from agentbench.core.command import Command
from agentbench.sandbox.protocol import Sandbox
from agentbench.tools.program_run import AgentProgram
from agentbench.tools.session import Session
from agentbench.trace.events import WorkspaceMutated
from agentbench.trace.log import read_events
from bench.calls import project_session
from bench.report import Report, argument_parser, available_backends, milliseconds, open_report

SCANS = 300
GOALS = {"p50": 2.0}
ALL_CHANGED_GOALS = {"p50": 4.0}
NOTHING = ""
ONE_FILE = "echo {0} >> package_0/module_0.py"
ALL_FILES = "for f in package_*/*.py; do echo >> $f; done"


@contextmanager
def running_program(session: Session, box: Sandbox) -> Iterator[None]:
    """Run a program that sleeps."""
    program = AgentProgram("agent_command", "touch /tmp/started; sleep 100000")
    thread = threading.Thread(target=lambda: session.run_program(program))
    thread.start()
    box.run(Command(line="until test -e /tmp/started; do sleep 0.01; done", cwd="/"))
    try:
        yield
    finally:
        box.kill_processes()
        thread.join()


def measure(name: str, scans: int, report: Report) -> None:
    with project_session(name, report) as opened:
        if opened is None:
            return
        session, box, log_file = opened
        with running_program(session, box):
            kinds = {"nothing changed": NOTHING, "one file changed": ONE_FILE}
            for kind, change in kinds.items():
                report.times(f"scan, {kind}", timed(session, box, change, scans), backend=name, goals=GOALS)
            box.run(Command(line=ALL_FILES, cwd="/workspace"))
            took = timed(session, box, ONE_FILE, scans)
            report.times("scan, one file changed, all earlier", took, backend=name, goals=ALL_CHANGED_GOALS)
        events = read_events(log_file, types={WorkspaceMutated.type})
        report.value("changes in the log", sum(1 for _ in events), "events", backend=name, least=2 * scans)


def timed(session: Session, box: Sandbox, change: str, scans: int) -> list[float]:
    """Return the times of scans after a warm-up, with a change before each."""
    took = []
    for number in range(-5, scans):
        if change:
            box.run(Command(line=change.format(number), cwd="/workspace"))
        spent = milliseconds(session.before_request)
        if number >= 0:
            took.append(spent)
    return took


def main() -> None:
    options = argument_parser(__doc__, sandbox=True)
    options.add_argument("--scans", type=int, default=SCANS, help="scans of each kind (%(default)s)")
    arguments = options.parse_args()
    with open_report("observation", arguments.json) as report:
        for name in available_backends(arguments.sandbox, report):
            measure(name, arguments.scans, report)


if __name__ == "__main__":
    main()
