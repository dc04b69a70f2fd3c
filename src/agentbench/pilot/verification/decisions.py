"""Verify decisions and removals: decide again from the records that each was based on."""

from __future__ import annotations

from collections.abc import Sequence

from agentbench.core.errors import AgentBenchError
from agentbench.pilot.decisions.criteria import entry_criteria, exit_criteria
from agentbench.pilot.decisions.decision_log import StageDecision
from agentbench.pilot.decisions.flakes import screen_digest
from agentbench.pilot.decisions.removals import Removal, claim_evidence
from agentbench.pilot.decisions.stopping_rules import Stop, first_stop
from agentbench.pilot.folder import (
    DECISIONS,
    REMOVALS,
)
from agentbench.pilot.pilot_state import PilotState
from agentbench.pilot.verification.registrations import CURRENT_RULES, made_by_this_version
from agentbench.pilot.verification.result import PilotVerification


def check_decisions(state: PilotState, history: Sequence[PilotState], result: PilotVerification) -> None:
    """Decide again at every decision, from the records that it was based on."""
    completed: set[str] = set()
    entered: set[str] = set()
    by_registration = {then.registration.registration_id: then for then in history}
    for number, decision in enumerate(state.decisions, start=1):
        result.counts["decisions"] += 1
        place = f"{DECISIONS}:{number}"
        then = by_registration.get(decision.registration_id)
        if then is None:
            result.add("inconsistent", place, f"unknown registration {decision.registration_id}")
            continue
        try:
            message = _decision_problem(then, decision, frozenset(completed), frozenset(entered))
        except AgentBenchError as error:
            message = error.message
        if message:
            result.add("inconsistent", place, message)
        if decision.kind == "entry" and decision.met:
            entered.add(decision.stage)
        if decision.kind == "exit" and decision.met:
            completed.add(decision.stage)


def _decision_problem(
    then: PilotState, decision: StageDecision, completed: frozenset[str], entered: frozenset[str]
) -> str:
    """Return how a decision differs from the one that its evidence gives; empty if it does not."""
    unknown = frozenset(decision.removed) - then.removed
    if unknown:
        return f"{', '.join(sorted(unknown))} was removed according to this decision, but {REMOVALS} does not say so"
    if decision.kind == "opened":
        return "" if decision.stage in entered else f"stage {decision.stage} started without meeting its entry criteria"
    if decision.kind == "stop":
        return _stop_problem(then, decision)
    return _criteria_problem(then, decision, completed)


def _stop_problem(then: PilotState, decision: StageDecision) -> str:
    stop = _held(then, decision)
    if stop is None:
        return "no stopping rule held"
    if (stop.rule, stop.evidence) != (decision.rule, decision.evidence):
        return f"rule {stop.rule} held, with other evidence"
    return (
        ""
        if stop.why == decision.why or not made_by_this_version(then.registration)
        else f"rule {stop.rule} held, for another reason"
    )


def _criteria_problem(then: PilotState, decision: StageDecision, completed: frozenset[str]) -> str:
    facts = then.facts(seen=decision.seen, removed=frozenset(decision.removed), completed=completed)
    if decision.kind == "exit" and (held := _held(then, decision)) is not None:
        return f"rule {held.rule} held, but the pilot was not stopped"
    if decision.screen is not None and decision.screen != screen_digest(then.folder):
        # The screen of a refused entry may be made again after an amendment.
        return "the flake screen was changed since this decision" if decision.met else ""
    criteria = (entry_criteria if decision.kind == "entry" else exit_criteria)(decision.stage, facts)
    recorded = {criterion.name: criterion.met for criterion in decision.criteria}
    computed = {criterion.name: criterion.met for criterion in criteria}
    if then.registration.schema_version < CURRENT_RULES and "power_supported" in recorded:
        computed["power_supported"] = recorded["power_supported"]
    if recorded == computed and decision.met == all(computed.values()):
        same = criteria == decision.criteria or not made_by_this_version(then.registration)
        return "" if same else f"{decision.kind} of stage {decision.stage}: the evidence differs when computed again"
    differing = sorted(name for name in recorded.keys() | computed.keys() if recorded.get(name) != computed.get(name))
    what = ", ".join(differing) or "the decision"
    return f"{decision.kind} of stage {decision.stage}: {what} differs when computed again"


def _held(then: PilotState, decision: StageDecision) -> Stop | None:
    """Return the stopping rule that held at a decision."""
    return first_stop(then.rules(decision.stage, seen=decision.seen, removed=frozenset(decision.removed)))


def check_removals(state: PilotState, history: Sequence[PilotState], result: PilotVerification) -> None:
    """Check every claim again, from the records that it was based on."""
    by_registration = {then.registration.registration_id: then for then in history}
    for number, removal in enumerate(state.removals, start=1):
        result.counts["removals"] += 1
        then = by_registration.get(removal.registration_id)
        try:
            message = "unknown registration" if then is None else _removal_problem(then, removal)
        except AgentBenchError as error:
            message = error.message
        if message:
            result.add("inconsistent", f"{REMOVALS}:{number}", message)


def _removal_problem(then: PilotState, removal: Removal) -> str:
    attempts = then.records.until(removal.seen).observations()
    evidence = claim_evidence(removal.task_id, removal.cause, then.screen, attempts)
    if evidence is None:
        return f"no record that the removal was based on shows that task {removal.task_id} is invalid ({removal.cause})"
    return (
        ""
        if evidence == removal.evidence or not made_by_this_version(then.registration)
        else "the evidence differs when computed again"
    )
