"""The canonical steps before the checks: Δ put on R, build, static commands."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from agentbench.acceptance import events
from agentbench.acceptance.checks.exit_status import ending, missing_program
from agentbench.acceptance.grading_context import GradingBench, StepResult
from agentbench.acceptance.replica import BUILD_TIMEOUT_SEC, NONE, STATIC_TIMEOUT_SEC, run_build, shell
from agentbench.core.command import Completed
from agentbench.core.errors import HarnessError
from agentbench.core.reasons import Outcome
from agentbench.sandbox.protocol import Sandbox
from agentbench.trace.blobs import excerpt
from agentbench.trace.events import BuildFinished, BuildStarted, PatchApplied, StaticFinished, StaticStarted
from agentbench.tree.entry import Entry, FileWrite, Kind
from agentbench.workspace.diff.compare import ChangeKind, FileChange
from agentbench.workspace.diff.events import file_digests

DECLARED_NONE = "declared no-op"


def applied(
    bench: GradingBench,
    patch: bytes,
    writes: Sequence[FileWrite],
    base: Mapping[bytes, Entry],
    decided: StepResult,
    *,
    fuzz: int = 0,
) -> None:
    """The one event that says how putting Δ on R ended."""
    files, _ = file_digests([change for write in writes if (change := _change(write, base.get(write.path)))])
    bench.log.append(
        PatchApplied(
            call_id=None,
            files=files,
            patch=excerpt(patch, store=bench.blobs),
            fuzz=fuzz,
            outcome=decided.outcome,
            why=decided.why,
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


class Builder:
    """Builds every replica; the first time is the step that G2 is about."""

    def __init__(self, bench: GradingBench) -> None:
        self._bench = bench
        self.result: StepResult | None = None

    def __call__(self, sandbox: Sandbox) -> StepResult:
        """
        Raises:
            SandboxError: ours, in a later replica; in the first it is the step's `error`.
        """
        if self.result is None:
            self.result = self._first(sandbox)
            return self.result
        completed = run_build(self._bench, sandbox)
        if completed is None:
            return self.result
        return _decided(self._bench, "build", self._bench.loaded.task.oracle.build, completed, BUILD_TIMEOUT_SEC)

    def _first(self, sandbox: Sandbox) -> StepResult:
        bench, line = self._bench, self._bench.loaded.task.oracle.build
        ceiling = 0 if line == NONE else BUILD_TIMEOUT_SEC
        events.step_started(bench, BuildStarted, "build", line, ceiling)
        completed: Completed | None = None
        try:
            completed = run_build(bench, sandbox)
            result = (
                StepResult("build", Outcome.PASS, DECLARED_NONE)
                if completed is None
                else _decided(bench, "build", line, completed, ceiling)
            )
        except HarnessError as error:
            result = StepResult("build", Outcome.ERROR, f"our own trouble: {error.message}")
        events.step_finished(bench, BuildFinished, "build", completed, (result.outcome, result.why))
        return result


def run_static(bench: GradingBench, sandbox: Sandbox) -> tuple[StepResult, ...]:
    """Every static command in the built replica; all of them, so that all that is wrong is seen."""
    declared = bench.loaded.task.oracle.static
    return tuple(
        _static(bench, sandbox, f"static#{number}", line)
        for number, line in enumerate(() if declared == NONE else declared, start=1)
    )


def _static(bench: GradingBench, sandbox: Sandbox, step: str, line: str) -> StepResult:
    events.step_started(bench, StaticStarted, step, line, STATIC_TIMEOUT_SEC)
    completed: Completed | None = None
    try:
        completed = sandbox.run(shell(bench, line, STATIC_TIMEOUT_SEC))
        result = _decided(bench, step, line, completed, STATIC_TIMEOUT_SEC)
    except HarnessError as error:
        result = StepResult(step, Outcome.ERROR, f"our own trouble: {error.message}")
    events.step_finished(bench, StaticFinished, step, completed, (result.outcome, result.why))
    return result


def _decided(bench: GradingBench, step: str, line: str, completed: Completed, ceiling: float) -> StepResult:
    outcome, why = ending(completed, ceiling)
    program = missing_program(bench, line, completed, built=step != "build")
    if program:
        return StepResult(step, Outcome.ERROR, f"the command does not exist: `{program}` is not in the environment")
    return StepResult(step, outcome, why)
