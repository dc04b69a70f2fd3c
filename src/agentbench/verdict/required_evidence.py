"""What a scorable run must have left in its log (P3.1), and what is missing or contradictory in this one."""

from __future__ import annotations

from agentbench.trace.events import AcceptanceCheck
from agentbench.verdict.facts import Facts, Seen
from agentbench.verdict.terms import Terms


def identity_problem(facts: Facts) -> str | None:
    """Why it is not certain what was graded; None when it is."""
    if facts.opened is None:
        return "evidence incomplete: the log does not open the attempt"
    if not facts.identities:
        return "evidence incomplete: the identity of the snapshot was never bound"
    if any(one.payload != facts.identities[0].payload for one in facts.identities):
        return "evidence contradictory: two identities were bound"
    return None


def acceptance_problem(facts: Facts, terms: Terms) -> str | None:
    """Why the acceptance evidence does not stand; None when each mandatory check has exactly one event."""
    missing = missing_checks(facts, terms)
    if missing:
        return f"evidence incomplete: no acceptance event for {', '.join(missing)}"
    known = {check.id for check in terms.checks}
    for one in facts.checks:
        if len(facts.decisions(one.payload.check_id)) > 1:
            return f"evidence contradictory: check {one.payload.check_id} was decided twice"
        if one.payload.mandatory and one.payload.check_id not in known:
            return f"evidence contradictory: the contract has no check {one.payload.check_id}"
    return None


def missing_checks(facts: Facts, terms: Terms) -> tuple[str, ...]:
    """Mandatory checks without an acceptance event."""
    return tuple(check.id for check in terms.mandatory if not facts.decisions(check.id))


def mandatory_decisions(facts: Facts, terms: Terms) -> tuple[Seen[AcceptanceCheck], ...]:
    """The acceptance events of the mandatory checks, in the contract's order."""
    return tuple(one for check in terms.mandatory for one in facts.decisions(check.id))
