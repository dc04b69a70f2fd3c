"""Reasons for a human review: security-relevant changes, undecided checks, contradicting results."""

from __future__ import annotations

from fnmatch import fnmatchcase

from agentbench.core.reasons import Outcome, RunStatus
from agentbench.verdict.facts import Facts
from agentbench.verdict.gates import penalties, violations
from agentbench.verdict.score import workspace_verdict
from agentbench.verdict.tags import disagreements
from agentbench.verdict.terms import Terms

SHOWN_PATHS = 5
COMPILED_FILE = "compiled_file"
"""Rule of findings about compiled code, in a patch or made while tests run."""


def review_reasons(facts: Facts, terms: Terms, status: RunStatus, *, passed: bool) -> tuple[str, ...]:
    """Return the reasons for a review; empty if none is needed."""
    reasons = []
    rules = sorted({event.payload.rule for event in (*violations(facts), *penalties(facts))})
    if rules:
        reasons.append(f"rules violated: {', '.join(rules)}")
    if sensitive := _sensitive_paths(facts, terms):
        reasons.append(f"the patch changes build, dependency or pipeline files: {_listed(sensitive)}")
    if compiled := [finding.payload.path or "" for finding in facts.findings if finding.payload.rule == COMPILED_FILE]:
        reasons.append(f"compiled code, which a diff does not show: {_listed(compiled)}")
    undecided = [check.payload.check_id for check in facts.checks if check.payload.outcome is Outcome.ERROR]
    if undecided:
        reasons.append(f"undecided checks: {', '.join(undecided)}")
    if status is RunStatus.INVALID:
        return tuple(reasons)
    for scorer, check in disagreements(facts):
        reasons.append(
            f"scorer {scorer.payload.name} and check {check.payload.check_id} decided the same command differently"
        )
    workspace = workspace_verdict(facts).verdict
    if workspace != "N/A" and (workspace == "PASS") != passed:
        reasons.append(f"scorers say {workspace}, the gates say {'PASS' if passed else 'FAIL'}")
    judged = facts.judge.payload.verdict if facts.judge else None
    if judged in {"PASS", "FAIL"} and (judged == "PASS") != passed:
        reasons.append(f"the judge says {judged}, the gates say {'PASS' if passed else 'FAIL'}")
    return tuple(reasons)


def _listed(paths: list[str]) -> str:
    more = f" and {len(paths) - SHOWN_PATHS} more" if len(paths) > SHOWN_PATHS else ""
    return f"{', '.join(paths[:SHOWN_PATHS])}{more}"


def _sensitive_paths(facts: Facts, terms: Terms) -> list[str]:
    if facts.patch is None:
        return []
    changed = [file.path for file in facts.patch.payload.files if not file.generated]
    return [path for path in changed if any(fnmatchcase(path, glob) for glob in terms.rubric.review_paths)]
