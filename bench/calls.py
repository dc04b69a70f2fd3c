"""Measure the cost of a tool call through the session, including its events and the detection of its effects.

A small project (200 files, 1 MB). Every call passes the rules and monitors, is executed in the sandbox or on its
tree, and writes its events (start, changes, end) to a log on disk, as in an attempt.

    python -m bench.calls [--sandbox bwrap|docker] [--calls N]
"""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from agentbench.policy.budget import Budget
from agentbench.policy.thresholds import published_thresholds
from agentbench.sandbox.protocol import Backend, Limits, Phase, Prepared, Sandbox, SandboxSpec, SetupPlan
from agentbench.tools.result import ToolResult
from agentbench.tools.rules import Caps, Rules
from agentbench.tools.session import BriefingText, Session
from agentbench.tools.session_limits import SessionEnvironment, SessionLog
from agentbench.trace.blobs import BlobStore
from agentbench.trace.log import EventLog, read_events
from bench.report import Report, argument_parser, available_backend, available_backends, milliseconds, open_report

CALLS = 300
LIMITS = Limits(cpus=2, memory_mb=256, pids=64, disk_mb=256)
GOALS = {"p50": 4.0, "p99": 15.0}
LINE = "def function_{0}_{1}(value):\n    return value + {1}  # what the callers of module {0} expect\n\n\n"


def project(folder: Path) -> None:
    """Write 200 modules of about 5 kB."""
    for number in range(200):
        path = folder / f"package_{number // 20}" / f"module_{number}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(LINE.format(number, line) for line in range(55)), encoding="utf-8")


UNLIMITED = 1_000_000_000
PATIENT = ("identical_calls", "no_progress_calls", "burst_calls", "failed_writes")


def rules() -> Rules:
    """Return rules under which no breaker slows the session down or ends it, because only the cost of calls is measured."""
    thresholds = dataclasses.replace(published_thresholds(), **dict.fromkeys(PATIENT, UNLIMITED))
    return Rules(caps=Caps(budget=Budget(tool_calls=UNLIMITED)), thresholds=thresholds)


@contextmanager
def session(backend: Backend, prepared: Prepared, record: Path, spec: SandboxSpec) -> Iterator[tuple[Session, Sandbox]]:
    """Open a session in its own sandbox, with its log in a folder."""
    with backend.open(spec, prepared) as box, EventLog.create(record / "events.jsonl") as log:
        environment = SessionEnvironment(box, base=prepared.base_tree)
        session_log = SessionLog(log, BlobStore(record / "blobs"))
        opened = Session(BriefingText("do it\n"), environment, rules(), session_log)
        opened.begin()
        try:
            yield opened, box
        finally:
            opened.close()


@contextmanager
def project_session(name: str, report: Report) -> Iterator[tuple[Session, Sandbox, Path] | None]:
    """Open a session on the project. Yields it with its sandbox and the file of its log, or None without the backend."""
    with tempfile.TemporaryDirectory(prefix="ab-bench-") as directory, available_backend(name, report) as backend:
        if backend is None:
            yield None
            return
        source, record = Path(directory) / "source", Path(directory) / "record"
        source.mkdir()
        record.mkdir()
        project(source)
        plan = SetupPlan("bench-calls", source, (), (), 60)
        prepared = backend.prepare(plan, SandboxSpec(Phase.SETUP, LIMITS), on_step=lambda _: None)
        with session(backend, prepared, record, SandboxSpec(Phase.AGENT, LIMITS)) as (opened, box):
            yield opened, box, record / "events.jsonl"


def added(number: int) -> str:
    return f"--- /dev/null\n+++ b/notes/{number}.txt\n@@ -0,0 +1 @@\n+a note\n"


def kinds(agent: Session) -> dict[str, Callable[[int], ToolResult]]:
    """Return one call of each kind. Only patches and the changing command modify the workspace."""
    return {
        "run `true`": lambda _: agent.run("true"),
        "run `cat` of a file": lambda number: agent.run(f"cat package_0/module_{number % 20}.py"),
        "read_file": lambda number: agent.read_file(f"package_0/module_{number % 20}.py"),
        "list_files": lambda _: agent.list_files("package_0"),
        "search for words": lambda number: agent.search(f"def function_{number % 200}_7\\("),
        "search for a regular expression": lambda number: agent.search(f"def function_{number % 200}_[78]\\("),
        "run that changes a file": lambda number: agent.run(f"echo {number} > package_0/module_0.py"),
        "apply_patch": lambda number: agent.apply_patch(added(number)),
    }


def measure(name: str, calls: int, report: Report) -> None:
    with project_session(name, report) as opened:
        if opened is None:
            return
        agent, _, log_file = opened
        for kind, call in kinds(agent).items():
            report.times(f"{kind}, with its events", timed(kind, call, calls), backend=name, goals=GOALS)
        events = sum(1 for _ in read_events(log_file))
        report.value("events in the log", events, "events", backend=name, least=2 * len(kinds(agent)) * calls)


def timed(kind: str, call: Callable[[int], ToolResult], times: int) -> list[float]:
    """Return the times of calls after a warm-up. Exits if a call fails."""
    took = []
    for number in range(-5, times):
        results: list[ToolResult] = []
        spent = milliseconds(lambda number=number, results=results: results.append(call(number)))  # type: ignore[misc]
        if not results[0].ok:
            sys.exit(f"{kind}: {results[0].error_message or results[0]}")
        if number >= 0:
            took.append(spent)
    return took


def main() -> None:
    options = argument_parser(__doc__, sandbox=True)
    options.add_argument("--calls", type=int, default=CALLS, help="calls of each kind (%(default)s)")
    arguments = options.parse_args()
    with open_report("calls", arguments.json) as report:
        for name in available_backends(arguments.sandbox, report):
            measure(name, arguments.calls, report)


if __name__ == "__main__":
    main()
