"""Steps of grading that are written to the log: patch application, static commands, runs of checks."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from agentbench.acceptance import events
from agentbench.acceptance.checks.exit_status import step_result
from agentbench.acceptance.grading_context import CheckOutcome, GradingContext, StepResult
from agentbench.acceptance.replica import NONE, STATIC_TIMEOUT_SEC, shell
from agentbench.contract.schema import Check
from agentbench.core.command import Completed
from agentbench.core.errors import HarnessError
from agentbench.core.reasons import Outcome
from agentbench.sandbox.protocol import Sandbox
from agentbench.trace.blobs import excerpt
from agentbench.trace.events import PatchApplied, StaticFinished, StaticStarted, TestsStarted
from agentbench.tree.entry import Entry, FileWrite, Kind
from agentbench.workspace.diff.compare import ChangeKind, FileChange
from agentbench.workspace.diff.events import file_digests


class CheckStep:
    """One run of a check in the log: one start event, one finish event."""

    def __init__(self, context: GradingContext, check: Check, name: str) -> None:
        self._context = context
        self._check = check
        self._name = name
        self._started = False

    def start(self) -> None:
        """Log the start; call it once the replica is built, since the build is a step of its own."""
        if not self._started:
            self._started = True
            command = self._check.command or self._check.candidate or ""
            events.step_started(self._context, TestsStarted, self._name, command, self._check.timeout_sec)

    def finish(self, outcome: CheckOutcome) -> None:
        self.start()
        events.tests_finished(self._context, self._name, outcome)

    def substep(self, number: int) -> CheckStep:
        return CheckStep(self._context, self._check, f"{self._name}~{number}")


def log_application(
    context: GradingContext,
    patch: bytes,
    writes: Sequence[FileWrite],
    base: Mapping[bytes, Entry],
    result: StepResult,
    *,
    fuzz: int = 0,
) -> None:
    """Log the event that says whether the patch applied."""
    files, _ = file_digests([change for write in writes if (change := _change(write, base.get(write.path)))])
    context.log.append(
        PatchApplied(
            call_id=None,
            files=files,
            patch=excerpt(patch, store=context.blobs),
            fuzz=fuzz,
            outcome=result.outcome,
            why=result.why,
        )
    )


def _change(write: FileWrite, before: Entry | None) -> FileChange | None:
    after = _entry(write)
    if before is None and after is None:
        return None
    kind: ChangeKind = "added" if before is None else "deleted" if after is None else "modified"
    return FileChange(write.path, kind, before, after)


def _entry(write: FileWrite) -> Entry | None:
    content = write.symlink if write.symlink is not None else write.content
    if content is None:
        return None
    kind = Kind.FILE if write.symlink is None else Kind.SYMLINK
    return Entry(write.path, kind, write.executable, len(content), hashlib.sha256(content).hexdigest())


def run_static(context: GradingContext, sandbox: Sandbox) -> tuple[StepResult, ...]:
    """Run every static command in the built replica, also after one that failed."""
    declared = context.loaded.task.oracle.static
    return tuple(
        _run_static_command(context, sandbox, f"static#{number}", line)
        for number, line in enumerate(() if declared == NONE else declared, start=1)
    )


def _run_static_command(context: GradingContext, sandbox: Sandbox, step: str, line: str) -> StepResult:
    events.step_started(context, StaticStarted, step, line, STATIC_TIMEOUT_SEC)
    completed: Completed | None = None
    try:
        completed = sandbox.run(shell(context, line, STATIC_TIMEOUT_SEC))
        result = step_result(context, step, line, completed, STATIC_TIMEOUT_SEC)
    except HarnessError as error:
        result = StepResult(step, Outcome.ERROR, f"harness error: {error.message}")
    events.step_finished(context, StaticFinished, step, completed, (result.outcome, result.why))
    return result
