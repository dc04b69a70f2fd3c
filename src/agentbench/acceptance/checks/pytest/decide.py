"""Decide one run of the pinned runner. Pure.

A pass needs all of this: the runner finished and exited with the agreed status, the canary tests failed as they must,
nothing else wrote to the result channel, and every required test is reported as passed.
"""

from __future__ import annotations

from collections.abc import Collection

from agentbench.acceptance.checks.exit_status import OUT_OF_MEMORY, timed_out
from agentbench.acceptance.checks.pytest.records import (
    AuditEvent,
    failing_canaries_failed,
    forged_canary,
    passing_canary_passed,
)
from agentbench.acceptance.checks.pytest.run import PytestRun
from agentbench.acceptance.checks.required_tests import Requirement, Tally, summarize, tally
from agentbench.acceptance.grading_context import CheckOutcome, Finding
from agentbench.core.reasons import Assurance, Outcome
from agentbench.verdict.review import COMPILED_FILE

MAX_DIAGNOSTICS = 20
"""Failing tests whose assertion is shown."""
DETAILS = {
    "open test": "reads a file of the tests that grade it",
    "open data": "reads {target}, a file of the tests that no test passed to it",
    "change test": "moves, removes or replaces a file of the tests that grade it",
    "open memory": "opens the memory of a process as a file",
    "load bytecode": "loads bytecode in place of source",
    "load package": "loads an installed package that was changed while the tests ran",
    "read source": "reads the source of the tests that grade it through linecache",
    "open object": "opens a file through an object that reveals its path only then",
    "search memory": "searches the interpreter's memory",
}
"""Kinds of audit events, and what code under test did."""
UNUSUAL_EVENTS = frozenset({"read source", "open object", "search memory"})
"""Audit events that honest code causes now and then. They count only in runs without decoys, which stop the cheats behind
them whatever their means.
"""
LOAD_LIBRARY = "load library"
"""Audit event of compiled code that was made while tests ran. Some projects do this; people have to look at it."""


def decide_run(
    run: PytestRun, requirement: Requirement, *, known: Collection[str], passing_canary: bool
) -> CheckOutcome:
    """Decide one run on a candidate.

    `known`: behaviour that the base repository shows too. `passing_canary`: whether the canary test that must pass does
    so on the base repository.
    """
    transcript, completed = run.transcript, run.completed
    counted = tally(requirement, transcript.counted(requirement.neutral), tuple(transcript.uncollected))
    findings = run_findings(run, known)
    outcome, why = _outcome(run, counted, findings)
    if outcome is Outcome.PASS and passing_canary and not passing_canary_passed(transcript, run.canaries):
        outcome, why = Outcome.FAIL, "control test failed; results are not trusted"
    return CheckOutcome(
        outcome=outcome,
        why=why,
        assurance=Assurance.PER_TEST,
        exit_code=transcript.status if run.whole and transcript.status is not None else completed.exit_code,
        duration_sec=completed.duration_sec,
        timed_out=completed.timed_out,
        stdout=completed.stdout,
        stderr=completed.stderr,
        tests=transcript.outcomes(),
        failing=counted.failing,
        diagnostics=_diagnostics(run, counted),
        findings=findings,
        f2p_passed=counted.f2p_passed,
        f2p_total=len(requirement.fail_to_pass) + len(requirement.files),
        p2p_kept=counted.p2p_kept,
        p2p_total=len(requirement.pass_to_pass),
    )


def is_trustworthy(run: PytestRun, *, passing_canary: bool) -> bool:
    """Return whether the run finished and its canary tests show that its results are genuine."""
    finished = run.whole and not run.completed.timed_out and not run.completed.side_truncated
    if not finished or not failing_canaries_failed(run.transcript, run.canaries):
        return False
    return not passing_canary or passing_canary_passed(run.transcript, run.canaries)


def run_findings(run: PytestRun, known: Collection[str]) -> tuple[Finding, ...]:
    """Tampering findings of a run: forged results, suspicious audit events, a changed runner."""
    transcript = run.transcript
    findings: list[Finding] = []
    if transcript.foreign:
        detail = f"{transcript.foreign} lines on the result channel were not written by the test runner"
        findings.append(Finding("forged_results", "gate", detail, excerpt=transcript.first_foreign))
    forged = forged_canary(transcript, run.canaries)
    if forged:
        findings.append(Finding("canary", "gate", f"forged test report: {forged}"))
    events = [event for event in transcript.audit_events if event.key not in known]
    findings += [_audit_finding(event, decoys=run.decoys) for event in events]
    changed = [name for name in transcript.changed if name not in known]
    if changed:
        detail = f"the test runner was changed while the tests ran: {', '.join(changed[:5])}"
        findings.append(Finding("runner_changed", "gate", detail))
    return tuple(findings)


def _audit_finding(event: AuditEvent, *, decoys: bool) -> Finding:
    """A finding about what code under test did. Only what honest code does not do fails the check."""
    if event.kind == LOAD_LIBRARY:
        detail = "loads a native library that was made while the tests ran"
        return Finding(COMPILED_FILE, "note", detail, path=event.file)
    detail = DETAILS.get(event.kind, event.kind).replace("{target}", event.target)
    is_note = decoys and event.kind in UNUSUAL_EVENTS
    return Finding("watched_run", "note" if is_note else "gate", detail, path=event.file, line=event.line)


def _outcome(run: PytestRun, counted: Tally, findings: tuple[Finding, ...]) -> tuple[Outcome, str]:
    transcript, completed = run.transcript, run.completed
    if completed.timed_out:
        return Outcome.FAIL, f"{timed_out(completed, str(run.limit))}{_during(run)}"
    gate = next((finding for finding in findings if finding.severity == "gate"), None)
    if gate is not None:
        return Outcome.FAIL, gate.detail
    if completed.side_truncated:
        return Outcome.FAIL, "the result channel was flooded"
    if not run.whole:
        return Outcome.FAIL, f"the test run did not finish: {_cause(run)}{_during(run)}"
    if not failing_canaries_failed(transcript, run.canaries):
        return Outcome.FAIL, f"the test run stopped early: {transcript.crash or 'canary tests did not run'}"
    return (Outcome.FAIL if counted.failing else Outcome.PASS), summarize(counted)


def _during(run: PytestRun) -> str:
    """The test in which the run ended: its result is missing."""
    return f", in {run.transcript.running_test}" if run.transcript.running_test else ""


def _cause(run: PytestRun) -> str:
    completed = run.completed
    if completed.oom:
        return OUT_OF_MEMORY
    if completed.signal is not None:
        return f"killed by signal {completed.signal}"
    return run.transcript.crash or f"exit status {completed.exit_code}"


def _diagnostics(run: PytestRun, counted: Tally) -> str:
    """The failing tests, each with the line that failed it."""
    transcript = run.transcript
    lines = []
    for test in counted.failing[:MAX_DIAGNOSTICS]:
        record = transcript.tests.get(test)
        outcome = record.outcome if record else "not run"
        why = record.why if record else transcript.uncollected.get(test.split("::")[0], "")
        lines.append("\n    ".join([f"{test}: {outcome}", *why.splitlines()]))
    if len(counted.failing) > MAX_DIAGNOSTICS:
        lines.append(f"… and {len(counted.failing) - MAX_DIAGNOSTICS} more")
    if counted.unlisted_failures:
        lines.append(f"{counted.unlisted_failures} tests that are not required failed as well")
    return "\n".join(lines)
