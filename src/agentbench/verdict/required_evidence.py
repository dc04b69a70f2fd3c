"""The evidence that a scorable attempt must have in its log, and what is missing or contradictory."""

from __future__ import annotations

from agentbench.trace.events import AcceptanceCheck
from agentbench.verdict.facts import Facts, Logged
from agentbench.verdict.terms import Terms


def identity_problem(facts: Facts) -> str | None:
    """Return why it is uncertain what was graded, or None."""
    if facts.opened is None:
        return "evidence incomplete: the log has no attempt_opened event"
    if not facts.identities:
        return "evidence incomplete: the log has no identity_bound event"
    if any(identity.payload != facts.identities[0].payload for identity in facts.identities):
        return "evidence contradictory: identity_bound events differ"
    return None


def acceptance_problem(facts: Facts, terms: Terms) -> str | None:
    """Return why the acceptance evidence is unusable, or None if each mandatory check has exactly one event."""
    missing = missing_checks(facts, terms)
    if missing:
        return f"evidence incomplete: no acceptance event for {', '.join(missing)}"
    known = {check.id for check in terms.checks}
    for event in facts.checks:
        check = event.payload
        if len(facts.decisions(check.check_id)) > 1:
            return f"evidence contradictory: check {check.check_id} was decided more than once"
        if check.mandatory and check.check_id not in known:
            return f"evidence contradictory: the task has no check {check.check_id}"
    return None


def missing_checks(facts: Facts, terms: Terms) -> tuple[str, ...]:
    """Return the mandatory checks without an acceptance event."""
    return tuple(check.id for check in terms.mandatory if not facts.decisions(check.id))


def mandatory_decisions(facts: Facts, terms: Terms) -> tuple[Logged[AcceptanceCheck], ...]:
    """Return the acceptance events of the mandatory checks, in task order."""
    return tuple(event for check in terms.mandatory for event in facts.decisions(check.id))
