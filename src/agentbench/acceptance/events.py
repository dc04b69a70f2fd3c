"""Write grading results to the log as events.

Cancelling also breaks sandboxes, so that nothing that was decided afterwards may count: steps then finish as interrupted, and checks have no
acceptance event.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from agentbench.acceptance.grading_context import CheckOutcome, CheckResult, Finding, GradingContext, StepResult
from agentbench.contract.schema import Check
from agentbench.core.command import Completed, Stream
from agentbench.core.errors import Interrupted
from agentbench.core.reasons import Outcome
from agentbench.trace.blobs import excerpt
from agentbench.trace.events import (
    AcceptanceCheck,
    BuildFinished,
    BuildStarted,
    Excerpt,
    IntegrityFinding,
    PatchApplied,
    StaticFinished,
    StaticStarted,
    TestsFinished,
    TestsStarted,
)
from agentbench.tree.entry import Entry, FileWrite
from agentbench.workspace.diff.compare import ChangeKind, FileChange
from agentbench.workspace.diff.events import file_digests

MAX_FAILING_TESTS = 200
INTERRUPTED = "interrupted"


def microseconds(seconds: float) -> int:
    return round(seconds * 1_000_000)


def _excerpt(context: GradingContext, stream: Stream | bytes) -> Excerpt:
    return excerpt(stream, store=context.blobs)


def patch_applied(
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
            patch=_excerpt(context, patch),
            fuzz=fuzz,
            outcome=result.outcome,
            why=result.why,
        )
    )


def _change(write: FileWrite, before: Entry | None) -> FileChange | None:
    after = write.entry()
    if before is None and after is None:
        return None
    kind: ChangeKind = "added" if before is None else "deleted" if after is None else "modified"
    return FileChange(write.path, kind, before, after)


def step_started(
    context: GradingContext,
    kind: type[BuildStarted | StaticStarted | TestsStarted],
    step: str,
    command: str,
    ceiling: float,
) -> None:
    context.log.append(kind(step=step, command=command, ceiling_us=microseconds(ceiling)))


def step_finished(
    context: GradingContext,
    kind: type[BuildFinished | StaticFinished],
    result: StepResult,
    completed: Completed | None,
) -> None:
    """Log the end of a step. `completed` is None if nothing ran: no command is declared, or it could not start."""
    if context.cancelled.is_set():
        result, completed = StepResult(result.step, Outcome.ERROR, INTERRUPTED), None
    context.log.append(
        kind(
            step=result.step,
            outcome=result.outcome,
            exit_code=completed.exit_code if completed else None,
            timed_out=completed.timed_out if completed else False,
            duration_us=microseconds(completed.duration_sec) if completed else 0,
            stdout=_excerpt(context, completed.stdout if completed else b""),
            stderr=_excerpt(context, completed.stderr if completed else b""),
            why=result.why,
        )
    )


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
            step_started(self._context, TestsStarted, self._name, command, self._check.timeout_sec)

    def finish(self, outcome: CheckOutcome) -> None:
        if self._context.cancelled.is_set():
            outcome = CheckOutcome(Outcome.ERROR, INTERRUPTED)
        self.start()
        self._context.log.append(
            TestsFinished(
                step=self._name,
                outcome=outcome.outcome,
                exit_code=outcome.exit_code,
                timed_out=outcome.timed_out,
                duration_us=microseconds(outcome.duration_sec),
                stdout=_excerpt(self._context, outcome.stdout),
                stderr=_excerpt(self._context, outcome.stderr),
                why=outcome.why,
            )
        )

    def substep(self, number: int) -> CheckStep:
        return CheckStep(self._context, self._check, f"{self._name}~{number}")


def check_decided(context: GradingContext, result: CheckResult) -> None:
    """Log the acceptance event of a check.

    Raises:
        Interrupted: grading was cancelled, so the check has no decision.
    """
    if context.cancelled.is_set():
        raise Interrupted(INTERRUPTED)
    check, decided = result.check, result.decided
    context.log.append(
        AcceptanceCheck(
            check_id=check.id,
            layer=check.layer,
            mandatory=check.mandatory,
            outcome=decided.outcome,
            why=decided.why,
            command=check.command or f"{check.candidate} | {check.driver}",
            started_at=result.started_at,
            exit_code=decided.exit_code,
            duration_us=microseconds(decided.duration_sec),
            ceiling_us=microseconds(check.timeout_sec),
            timed_out=decided.timed_out,
            assurance=decided.assurance,
            failing_tests=list(decided.failing[:MAX_FAILING_TESTS]),
            omitted_failing=max(0, len(decided.failing) - MAX_FAILING_TESTS),
            diagnostics=_excerpt(context, decided.diagnostics.encode("utf-8", "backslashreplace")),
            stdout_sha256=decided.stdout.sha256,
            stderr_sha256=decided.stderr.sha256,
            f2p_passed=decided.f2p_passed,
            f2p_total=decided.f2p_total,
            p2p_kept=decided.p2p_kept,
            p2p_total=decided.p2p_total,
            decoys=decided.decoys,
            decoy_plan=context.reference_evidence.plan_digest(check.id),
            run=result.runs,
            not_run=result.not_run,
            not_started=decided.not_started,
            starts_on_base=decided.starts_on_base,
        )
    )


def integrity_finding(context: GradingContext, finding: Finding) -> None:
    context.log.append(IntegrityFinding(**dataclasses.asdict(finding)))
