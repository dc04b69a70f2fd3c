"""Write grading results to the log as events."""

from __future__ import annotations

from agentbench.acceptance.grading_context import CheckOutcome, CheckResult, Finding, GradingContext
from agentbench.core.command import Completed, Stream
from agentbench.core.reasons import Outcome
from agentbench.trace.blobs import excerpt
from agentbench.trace.events import (
    AcceptanceCheck,
    BuildFinished,
    BuildStarted,
    Excerpt,
    IntegrityFinding,
    StaticFinished,
    StaticStarted,
    TestsFinished,
    TestsStarted,
)

MAX_FAILING_TESTS = 200


def microseconds(seconds: float) -> int:
    return round(seconds * 1_000_000)


def _excerpt(context: GradingContext, stream: Stream | bytes) -> Excerpt:
    return excerpt(stream, store=context.blobs)


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
    step: str,
    completed: Completed | None,
    decided: tuple[Outcome, str],
) -> None:
    """Log the end of a step. `completed` is None if nothing ran: no command is declared, or it could not start."""
    context.log.append(
        kind(
            step=step,
            outcome=decided[0],
            exit_code=completed.exit_code if completed else None,
            timed_out=completed.timed_out if completed else False,
            duration_us=microseconds(completed.duration_sec) if completed else 0,
            stdout=_excerpt(context, completed.stdout if completed else b""),
            stderr=_excerpt(context, completed.stderr if completed else b""),
            why=decided[1],
        )
    )


def tests_finished(context: GradingContext, step: str, outcome: CheckOutcome) -> None:
    context.log.append(
        TestsFinished(
            step=step,
            outcome=outcome.outcome,
            exit_code=outcome.exit_code,
            timed_out=outcome.timed_out,
            duration_us=microseconds(outcome.duration_sec),
            stdout=_excerpt(context, outcome.stdout),
            stderr=_excerpt(context, outcome.stderr),
            why=outcome.why,
        )
    )


def check_decided(context: GradingContext, result: CheckResult) -> None:
    """Log the acceptance event of a check."""
    check, decided = result.check, result.decided
    context.log.append(
        AcceptanceCheck(
            check_id=check.id,
            layer=check.layer,
            mandatory=check.mandatory,
            outcome=decided.outcome,
            why=decided.why,
            command=check_command(result),
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
            run=result.runs,
            not_run=result.not_run,
        )
    )


def check_command(result: CheckResult) -> str:
    check = result.check
    return check.command or f"{check.candidate} | {check.driver}"


def integrity_finding(context: GradingContext, finding: Finding) -> None:
    context.log.append(
        IntegrityFinding(
            rule=finding.rule,
            severity=finding.severity,
            path=finding.path,
            line=finding.line,
            detail=finding.detail,
            excerpt=finding.excerpt,
        )
    )
