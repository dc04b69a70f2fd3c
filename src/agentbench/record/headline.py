"""The first line that people read about an attempt, from its record."""

from __future__ import annotations

from agentbench.core.reasons import Outcome
from agentbench.record.schema import AttemptRecord
from agentbench.verdict import headline as verdict_headline
from agentbench.verdict.headline import Progress, describe_judgement, explain, judged_only


def headline(record: AttemptRecord) -> str:
    """Format the decision and its reason, for example `FAIL TESTS_FAILED: 2 of 14 required tests`."""
    reason = record.result.failure_reason
    if judged_only(record.run_status, reason, record.attribution):
        judge = record.judge
        why = (
            describe_judgement(judge.verdict, judge.failure_mode, judge.reasoning)
            if judge
            else describe_judgement(None)
        )
    else:
        why = explain(reason, record.gates, (record.termination.code, record.termination.rationale), _progress(record))
    return verdict_headline.headline(record.run_status, reason, record.attribution, why, passed=record.result.passed)


def _progress(record: AttemptRecord) -> Progress:
    mandatory = [check for check in record.checks if check.mandatory]
    not_passed = [check for check in mandatory if check.outcome is not Outcome.PASS]
    return Progress(
        f2p_passed=record.progress.f2p_passed,
        f2p_total=record.progress.f2p_total,
        p2p_kept=record.progress.p2p_kept,
        p2p_total=record.progress.p2p_total,
        checks_not_passed=len(not_passed),
        checks_total=len(mandatory),
        first_not_passed=f"{not_passed[0].id}: {not_passed[0].why}" if not_passed else "",
    )
