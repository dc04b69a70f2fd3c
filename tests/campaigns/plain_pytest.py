"""Runs the same tests with plain pytest in the same sandbox, to compare with the runner's results."""

from __future__ import annotations

import json
import shlex

from agentbench.acceptance.checks.pytest.records import OWN_REPORT, TestRecord
from agentbench.acceptance.grade import protection_of
from agentbench.acceptance.grading_context import GradingContext
from agentbench.acceptance.protected import compose
from agentbench.acceptance.replica import ENV, base_entries, open_replica
from agentbench.contract.pytest_command import PytestCommand
from agentbench.core.command import MIB, Command
from agentbench.workspace.diff.apply import plan_writes
from agentbench.workspace.diff.parse import parse

FOLDER = "/tmp/plain_reporter"
PLUGIN = """
import json, os
_fd = int(os.environ.pop("AB_RESULT_FD"))
_pid = os.getpid()
def _send(*record):
    if os.getpid() == _pid:
        os.write(_fd, (json.dumps(record) + "\\n").encode())
def pytest_runtest_logreport(report):
    _send(report.nodeid, report.when, report.outcome, type(report).__name__, hasattr(report, "wasxfail"))
def pytest_sessionfinish(exitstatus):
    _send("end")
"""


def outcomes(
    context: GradingContext, patch: bytes, command: PytestCommand, timeout_sec: float
) -> dict[str, str] | None:
    """Return the outcome of each test, or None if pytest did not finish.

    Raises:
        PatchInvalid: the patch cannot be applied.
        SandboxError: the sandbox failed.
    """
    base = base_entries(context)
    planned = plan_writes(parse(patch), context.prepared.base_tree)
    tree = compose(base, planned.writes, protection_of(context), context.loaded.hidden_files())
    arguments = [command.python, *command.options, "-m", "pytest", *command.arguments]
    command_line = shlex.join(
        [*arguments, "-p", "plain_reporter", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    )
    env = " ".join(f"{name}={shlex.quote(value)}" for name, value in command.env.items())
    line = (
        f"mkdir -p {FOLDER} && printf %s {shlex.quote(PLUGIN)} > {FOLDER}/plain_reporter.py && "
        f"cd ./{shlex.quote(command.folder or '.')} && export PYTHONPATH=$PYTHONPATH:{FOLDER} && {env} {command_line}"
    )
    with open_replica(context, tree) as sandbox:
        completed = sandbox.run(
            Command(
                line=line,
                cwd=context.spec.workdir,
                env=ENV,
                timeout_sec=timeout_sec,
                side_channel=True,
                side_bytes=64 * MIB,
            )
        )
    tests: dict[str, TestRecord] = {}
    ended = False
    for raw in completed.side.splitlines():
        report = json.loads(raw)
        if report == ["end"]:
            ended = True
            continue
        test, when, outcome, kind, expected = report
        record = tests.setdefault(test, TestRecord())
        record.expected_failure |= expected
        if kind == OWN_REPORT:
            record.phases.setdefault(when, []).append(outcome)
        elif outcome == "failed":
            record.extra_failed = True
    return {test: record.outcome for test, record in tests.items()} if ended else None
