"""State the decision of a paired comparison in its first line."""

from __future__ import annotations

from agentbench.reports.number_format import percent, plural, point_interval, points, probability
from agentbench.reports.paired import PairedReport, difference_interval
from agentbench.reports.sequential_text import margin_limits, rule_name
from agentbench.reports.sources import mark_sides
from agentbench.statistics.paired import Comparison, Method
from agentbench.statistics.sequential.rules import SequentialOutcome


def decision(report: PairedReport) -> str:
    """Return the first line of the report: decision, effect with interval, p-value with its test, number of tasks, power.

    A significant difference decides first; EQUIVALENT needs a gate with a margin.
    """
    comparison = report.comparison
    if report.stopped is not None:
        return _marked(report, _stopped_decision(report))
    outcome, interval = "INCONCLUSIVE", report.interval
    if comparison.better:
        outcome = f"{comparison.better} IS BETTER"
    elif report.equivalent:
        outcome, interval = "EQUIVALENT", interval or difference_interval(comparison)
    margins = () if report.margin is None else (-report.margin, report.margin)
    effect = f"{report.difference_name} = {points(comparison.difference)} ({point_interval(interval, *margins)})"
    tasks = plural(len(comparison.pairing.pairs), "task")
    return _marked(report, f"{outcome}: {effect}, {_deciding_test(comparison)}, {tasks}. {power_sentence(report)}")


_DECISIONS = {
    SequentialOutcome.CONTINUE: "UNDECIDED",
    SequentialOutcome.A_BETTER: "A IS BETTER",
    SequentialOutcome.B_BETTER: "B IS BETTER",
    SequentialOutcome.EQUIVALENT: "EQUIVALENT",
    SequentialOutcome.FUTILE: "FUTILE",
    SequentialOutcome.INCONCLUSIVE: "INCONCLUSIVE",
}


def _stopped_decision(report: PairedReport) -> str:
    """Return the decision of the stopping rule, with the interval and p-value adjusted for its looks."""
    decision = report.adjusted
    if decision is None or decision.difference is None:
        return "UNDECIDED: the first look of the stopping rule is not complete."
    interval = point_interval(decision.interval, *margin_limits(decision))
    effect = f"{report.difference_name} = {points(decision.difference)} (adjusted {interval})"
    test = f"adjusted p = {probability(decision.adjusted_p)} ({rule_name(decision.rule)})"
    attempts, planned = 2 * decision.blocks, 2 * decision.planned_blocks
    progress = f"Look {decision.look} of {decision.looks}, {attempts} of {planned} planned attempts"
    return f"{_DECISIONS[decision.outcome]}: {effect}, {test}, {plural(decision.tasks, 'task')}. {progress}."


def _marked(report: PairedReport, line: str) -> str:
    """Add the labels of the report, and a mark for each run whose files were altered."""
    line += "".join(f" [{label}]" for label in report.labels)
    return mark_sides(line, (("A", report.a), ("B", report.b)))


def power_sentence(report: PairedReport) -> str:
    """State the power of the comparison in one sentence."""
    comparison, detectable = report.comparison, report.comparison.detectable
    by_test = comparison.method is Method.TEST
    if by_test and not comparison.better and comparison.discordant < comparison.min_discordant:
        required = f"at least {comparison.min_discordant} are needed for significance"
        if not comparison.discordant:
            return f"No task differs; {required}."
        differ = "1 task differs" if comparison.discordant == 1 else f"{comparison.discordant} tasks differ"
        return f"Underpowered: {differ}, {required}."
    assumed = "at the observed spread of the tasks' differences"
    if detectable is not None and detectable.differing is not None:
        assumed = f"if {percent(detectable.differing)} of the tasks differ"
    if detectable is None or detectable.effect is None:
        tasks = plural(len(comparison.pairing.pairs), "task")
        return f"Underpowered: with {tasks}, no effect is detectable at 80% power {assumed}."
    effect = f"{detectable.effect * 100:.1f} points {assumed}"
    if report.underpowered:
        return f"Underpowered: the minimum detectable effect is {effect}."
    return f"Minimum detectable effect: {effect}."


def _deciding_test(comparison: Comparison) -> str:
    if comparison.method is Method.BOOTSTRAP:
        return "bootstrap over tasks"
    name = "McNemar mid-p" if comparison.contingency else "sign-flip test"
    return f"p = {probability(comparison.p_value)} ({name})"
