"""Describe stopping rules and their decisions in words and as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from agentbench.core.canonical import Json
from agentbench.reports.json_parts import interval_json
from agentbench.reports.number_format import finite, plural, point_interval, points, probability
from agentbench.reports.sources import Side
from agentbench.reports.stopping import StoppedComparison, applied_rule
from agentbench.statistics.paired import disagreement
from agentbench.statistics.sequential.rules import (
    Anytime,
    PlannedBlocks,
    Rule,
    SequentialDecision,
    SequentialOutcome,
    Spending,
    look_schedule,
    rule_json,
)

_SPENDING = {Spending.OBRIEN_FLEMING: "O'Brien-Fleming", Spending.POCOCK: "Pocock"}
MAX_LISTED_LOOKS = 10


def describe_rule(rule: Rule, planned: PlannedBlocks) -> str:
    """Describe the rule in one line, for messages before the first attempt."""
    parts = [rule_name(rule), f"{plural(rule.looks, 'look')} at {_schedule(look_schedule(rule, planned))} blocks"]
    parts.append(f"alpha {rule.alpha:g} two-sided")
    if rule.margin is not None:
        parts.append(f"equivalence margin {rule.margin * 100:g} points")
    if not isinstance(rule, Anytime) and rule.futility is not None:
        futility = rule.futility
        parts.append(
            f"futile below {futility.conditional_power:.0%} conditional power for {futility.effect * 100:g} points"
        )
    return ", ".join(parts)


def rule_name(rule: Rule) -> str:
    if isinstance(rule, Anytime):
        return "anytime-valid confidence sequence"
    return f"group sequential with {_SPENDING[rule.spending]} spending"


def _schedule(looks: Sequence[int]) -> str:
    if len(looks) > MAX_LISTED_LOOKS:
        return f"{looks[0]}, {looks[1]}, …, {looks[-1]}"
    return ", ".join(map(str, looks))


def describe_decision(decision: SequentialDecision, name_a: str = "A", name_b: str = "B") -> str:
    """Describe the decision in one sentence: outcome, look, effect with adjusted interval, adjusted p-value."""
    place = f"look {decision.look} of {decision.looks} ({decision.blocks} of {decision.planned_blocks} blocks)"
    if decision.difference is None:
        return f"{outcome_words(decision, name_a, name_b)} at {place}: no valid block"
    interval = point_interval(decision.interval, *margin_limits(decision))
    effect = f"{name_b} − {name_a} = {points(decision.difference)} (adjusted {interval})"
    p_value = f"adjusted p = {probability(decision.adjusted_p)}"
    return f"{outcome_words(decision, name_a, name_b)} at {place}: {effect}, {p_value}"


def margin_limits(decision: SequentialDecision) -> tuple[float, ...]:
    """Return the limits that the interval is compared with: both ends of the equivalence margin, if there is one."""
    margin = decision.rule.margin
    return () if margin is None else (-margin, margin)


def outcome_words(decision: SequentialDecision, name_a: str = "A", name_b: str = "B") -> str:
    """Name the outcome, such as `B is better`."""
    margin = 100 * (decision.rule.margin or 0.0)
    return {
        SequentialOutcome.CONTINUE: "undecided",
        SequentialOutcome.A_BETTER: f"{name_a} is better",
        SequentialOutcome.B_BETTER: f"{name_b} is better",
        SequentialOutcome.EQUIVALENT: f"equivalent within {margin:g} points",
        SequentialOutcome.FUTILE: "futile (a relevant difference has become unlikely to be found)",
        SequentialOutcome.INCONCLUSIVE: "inconclusive",
    }[decision.outcome]


def stopping_lines(stopped: StoppedComparison) -> list[str]:
    """Describe the rule and its decision for a report that also shows unadjusted numbers."""
    declared, decision = stopped.declared, stopped.decision
    lines = [f"Rule, declared before the first attempt: {describe_rule(declared.rule, declared.planned)}"]
    if decision is None:
        return [*lines, f"The first look is not complete: it needs {declared.looks[0]} blocks"]
    used, planned = 2 * decision.blocks, declared.planned.attempts
    lines.append(f"Decision, recomputed from the records: {describe_decision(decision)}")
    if decision.interval is not None:
        decided = decision.outcome in {SequentialOutcome.A_BETTER, SequentialOutcome.B_BETTER}
        lines += disagreement(decision.interval, significant=decided)
    lines.append(
        f"Statistic {decision.statistic:.3f}, boundary {decision.boundary:.3f}; {used} of {planned} attempts used"
    )
    lines.append("Other intervals and p-values below are not adjusted for the looks")
    return lines


def unadjusted_deviation(side: Side, name: str) -> tuple[str, ...]:
    """Say that a rule could end the run of a side early, for a report that does not apply the rule."""
    rule = applied_rule(side.run.meta) if side.run else None
    if rule is None:
        return ()
    where = "; those in the report of the pilot are" if side.run and "pilot" in side.run.meta else ""
    what = f"a stopping rule ({rule_name(rule)}) could end this run early"
    return (f"{name}: {what}; numbers are not adjusted for it{where}",)


def stopping_json(stopped: StoppedComparison) -> dict[str, Json]:
    declared, decision = stopped.declared, stopped.decision
    return {
        "rule": rule_json(declared.rule),
        "rule_text": describe_rule(declared.rule, declared.planned),
        "planned_attempts": declared.planned.attempts,
        "decision": decision_json(decision) if decision else None,
        "decision_text": describe_decision(decision) if decision else None,
    }


def decision_json(decision: SequentialDecision) -> dict[str, Json]:
    """Return the numbers of a decision; infinite boundaries are null."""
    return {
        "outcome": decision.outcome.value,
        "look": decision.look,
        "looks": decision.looks,
        "blocks": decision.blocks,
        "planned_blocks": decision.planned_blocks,
        "information_fraction": decision.information_fraction,
        "tasks": decision.tasks,
        "difference": decision.difference,
        "statistic": finite(decision.statistic),
        "boundary": finite(decision.boundary),
        "p_value_of_look": decision.p_value,
        "adjusted_p": decision.adjusted_p,
        "adjusted_interval": interval_json(decision.interval),
        "conditional_power": decision.conditional_power,
    }
