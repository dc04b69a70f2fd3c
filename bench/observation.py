"""Measure what it costs to observe the workspace while an agent program runs.

A small project (200 files, 1 MB) and a program that sleeps. Each scan is the one that precedes a model request: it finds what
changed since the last scan and writes the event to a log on disk.

    python -m bench.observation [--sandbox bwrap|docker] [--scans N]
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentbench.core.command import Command
from agentbench.sandbox.protocol import Backend, Phase, Prepared, Sandbox, SandboxSpec, SetupPlan
from agentbench.tools.program_run import AgentProgram
from agentbench.tools.session import BriefingText, Session
from agentbench.tools.session_limits import SessionEnvironment, SessionLog
from agentbench.trace.blobs import BlobStore
from agentbench.trace.events import WorkspaceMutated
from agentbench.trace.log import EventLog, read_events
from bench.calls import LIMITS, project, rules
from bench.report import Report, argument_parser, available_backend, available_backends, milliseconds, open_report

SCANS = 300
GOALS = {"p50": 2.0}
ALL_CHANGED_GOALS = {"p50": 4.0}
NOTHING = ""
ONE_FILE = "echo {0} >> package_0/module_0.py"
ALL_FILES = "for f in package_*/*.py; do echo >> $f; done"


@contextmanager
def running_program(
    backend: Backend, prepared: Prepared, record: Path, spec: SandboxSpec
) -> Iterator[tuple[Session, Sandbox]]:
    """Run a program that sleeps, in a session with its log in a folder."""
    with backend.open(spec, prepared) as box, EventLog.create(record / "events.jsonl") as log:
        environment = SessionEnvironment(box, base=prepared.base_tree)
        blobs = BlobStore(record / "blobs")
        session = Session(BriefingText("do it\n"), environment, rules(), SessionLog(log, blobs))
        session.begin()
        program = AgentProgram("agent_command", "touch /tmp/started; sleep 100000")
        thread = threading.Thread(target=lambda: session.run_program(program))
        thread.start()
        box.run(Command(line="until test -e /tmp/started; do sleep 0.01; done", cwd="/"))
        try:
            yield session, box
        finally:
            box.kill_processes()
            thread.join()
            session.close()


def measure(name: str, scans: int, report: Report) -> None:
    with tempfile.TemporaryDirectory(prefix="ab-bench-") as directory, available_backend(name, report) as backend:
        if backend is None:
            return
        source, record = Path(directory) / "source", Path(directory) / "record"
        source.mkdir()
        record.mkdir()
        project(source)
        plan = SetupPlan("bench-calls", source, (), (), 60)
        prepared = backend.prepare(plan, SandboxSpec(Phase.SETUP, LIMITS), on_step=lambda _: None)
        with running_program(backend, prepared, record, SandboxSpec(Phase.AGENT, LIMITS)) as (session, box):
            kinds = {"nothing changed": NOTHING, "one file changed": ONE_FILE}
            for kind, change in kinds.items():
                report.times(f"scan, {kind}", timed(session, box, change, scans), backend=name, goals=GOALS)
            box.run(Command(line=ALL_FILES, cwd="/workspace"))
            took = timed(session, box, ONE_FILE, scans)
            report.times("scan, one file changed, all earlier", took, backend=name, goals=ALL_CHANGED_GOALS)
        events = read_events(record / "events.jsonl", types={WorkspaceMutated.type})
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
