"""The events of grading: one place that knows how results become payloads."""

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

SHOWN_FAILURES = 200


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
    """`completed` None: nothing was run, by declaration or because it could not be."""
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


def tests_finished(context: GradingContext, step: str, seen: CheckOutcome) -> None:
    context.log.append(
        TestsFinished(
            step=step,
            outcome=seen.outcome,
            exit_code=seen.exit_code,
            timed_out=seen.timed_out,
            duration_us=microseconds(seen.duration_sec),
            stdout=_excerpt(context, seen.stdout),
            stderr=_excerpt(context, seen.stderr),
            why=seen.why,
        )
    )


def check_decided(context: GradingContext, result: CheckResult) -> None:
    """The one acceptance event of a check."""
    check, seen = result.check, result.decided
    context.log.append(
        AcceptanceCheck(
            check_id=check.id,
            layer=check.layer,
            mandatory=check.mandatory,
            outcome=seen.outcome,
            why=seen.why,
            command=check_command(result),
            started_at=result.started_at,
            exit_code=seen.exit_code,
            duration_us=microseconds(seen.duration_sec),
            ceiling_us=microseconds(check.timeout_sec),
            timed_out=seen.timed_out,
            assurance=seen.assurance,
            failing_tests=list(seen.failing[:SHOWN_FAILURES]),
            omitted_failing=max(0, len(seen.failing) - SHOWN_FAILURES),
            diagnostics=_excerpt(context, seen.diagnostics.encode("utf-8", "backslashreplace")),
            stdout_sha256=seen.stdout.sha256,
            stderr_sha256=seen.stderr.sha256,
            f2p_passed=seen.f2p_passed,
            f2p_total=seen.f2p_total,
            p2p_kept=seen.p2p_kept,
            p2p_total=seen.p2p_total,
            run=result.runs,
            not_run=result.not_run,
        )
    )


def check_command(result: CheckResult) -> str:
    check = result.check
    return check.command or f"{check.candidate} | {check.driver}"


def finding(context: GradingContext, found: Finding) -> None:
    context.log.append(
        IntegrityFinding(
            rule=found.rule,
            severity=found.severity,
            path=found.path,
            line=found.line,
            detail=found.detail,
            excerpt=found.excerpt,
        )
    )
