"""A paired comparison as Markdown: the decision, comparability, rates, notes and the tasks that differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from agentbench.reports.escape import code, link, markdown_table, plain
from agentbench.reports.number_format import amount, percent, plural, point_interval, points, probability
from agentbench.reports.paired import PairedReport
from agentbench.reports.paired_costs import common_unit, cost_of, costs_per_attempt, no_common_cost
from agentbench.reports.paired_decision import decision
from agentbench.reports.record_rows import Row
from agentbench.reports.sequential_text import stopping_lines
from agentbench.reports.sources import Side
from agentbench.statistics.intervals import ALPHA, Interval
from agentbench.statistics.paired import Comparison, Pairing

MAX_ROWS = 300
MAX_LINKS = 3


def as_markdown(report: PairedReport) -> str:
    """Render the decision, comparability, rates, notes and the tasks that differ."""
    comparison = report.comparison
    lines = [f"# {decision(report)}", ""]
    lines += [
        f"- A: {code(report.a.name)} from {code(report.a.origin)}",
        f"- B: {code(report.b.name)} from {code(report.b.origin)}",
    ]
    lines += [f"- Significance level {ALPHA}, two-sided, on the {comparison.rate} rate", ""]
    if report.stopped:
        lines += ["## Stopping rule", "", *(f"- {text}" for text in stopping_lines(report.stopped)), ""]
    lines += ["## Comparability", "", *(f"- {text}" for text in comparability_lines(report)), ""]
    lines += ["## Rates", "", *_rates_table(report), ""]
    if comparison.contingency:
        table = comparison.contingency
        lines += [f"## Tasks by outcome ({comparison.rate} rate)", ""]
        rows = [
            ("**A passed**", str(table.both), str(table.only_a)),
            ("**A did not pass**", str(table.only_b), str(table.neither)),
        ]
        lines += [*markdown_table(("", "B passed", "B did not pass"), rows), ""]
    notes = [*comparison.notes, *_unpaired_notes(comparison.pairing), *_uncertainty_notes(report)]
    if notes:
        lines += ["## Notes", "", *(f"- {note}" for note in notes), ""]
    lines += ["## Tasks that differ", "", *_flip_table(report), ""]
    lines += _cost_line(report)
    return "\n".join(lines).rstrip() + "\n"


def comparability_lines(report: PairedReport) -> list[str]:
    comparability = report.comparability
    lines = []
    if comparability.comparable:
        lines.append("A and B have the same contracts, configuration class, seeds and harness version.")
    if comparability.across_versions:
        lines.append(f"Different contract versions: {', '.join(map(code, comparability.across_versions))}")
    lines += map(_sentence, (*comparability.differences, *comparability.remarks))
    lines += (f"Protocol deviation: {code(text)}" for text in report.deviations)
    return [*lines, *report.unknown_conditions]


def _sentence(difference: str) -> str:
    # The part after the colon comes from records and must be escaped.
    sentence, colon, values = difference.partition(": ")
    return sentence[:1].upper() + sentence[1:] + (f": {code(values)}" if colon else ".")


_P_VALUES: Mapping[str, Callable[[Comparison], float | None]] = {
    "p (McNemar mid-p)": lambda comparison: comparison.mcnemar_mid_p,
    "p (McNemar exact)": lambda comparison: comparison.mcnemar_exact,
    "p (sign-flip)": lambda comparison: comparison.sign_flip,
}


def _rates_table(report: PairedReport) -> list[str]:
    comparisons = [comparison for comparison in (report.comparison, report.other) if comparison]
    # Which tests apply depends on repeats; columns without any value are left out.
    tests = {
        name: p_value
        for name, p_value in _P_VALUES.items()
        if any(p_value(comparison) is not None for comparison in comparisons)
    }
    rows = [
        (
            str(comparison.rate),
            percent(comparison.share_a),
            percent(comparison.share_b),
            points(comparison.difference),
            _interval_cell(comparison.interval),
            _interval_cell(comparison.bootstrap),
            *(probability(p_value(comparison)) for p_value in tests.values()),
            _detectable_cell(comparison),
            str(len(comparison.pairing.pairs)),
        )
        for comparison in comparisons
    ]
    head = ("rate", "A", "B", "B − A", "CI", "bootstrap CI", *tests, "minimum detectable effect", "tasks")
    lines = markdown_table(head, rows)
    if report.comparison.by_repository:
        lines += ["", f"Clustered by repository: {_interval_cell(report.comparison.by_repository)}."]
    return lines


def _interval_cell(interval: Interval | None) -> str:
    return f"{point_interval(interval)} ({interval.method})" if interval else "none"


def _detectable_cell(comparison: Comparison) -> str:
    effect = comparison.detectable.effect if comparison.detectable else None
    return "none" if effect is None else f"{effect * 100:.1f} points"


def _unpaired_notes(pairing: Pairing) -> list[str]:
    groups = (
        (pairing.only_a, "run only by A"),
        (pairing.only_b, "run only by B"),
        (pairing.uncounted, "excluded because one side has only invalid attempts"),
    )
    return [
        f"{plural(len(tasks), 'task')} {reason}: {', '.join(map(code, tasks[:10]))}"
        for tasks, reason in groups
        if tasks
    ]


def _flip_table(report: PairedReport) -> list[str]:
    if not report.flips:
        return ["None."]
    rows = [
        (
            code(flip.task),
            flip.shares,
            _verdict_links(flip.headlines_a, flip.rows_a, report.a),
            _verdict_links(flip.headlines_b, flip.rows_b, report.b),
        )
        for flip in report.flips[:MAX_ROWS]
    ]
    more = len(report.flips) - MAX_ROWS
    return markdown_table(("task", "A → B", "A", "B"), rows) + ([f"\nand {more} more"] if more > 0 else [])


def _verdict_links(headlines: Sequence[str], rows: Sequence[Row], side: Side) -> str:
    """The verdicts of one side, each linked to its evidence."""
    links = [
        link(plain(text, 120), row.task_dir, str(side.folder))
        for text, row in zip(headlines[:MAX_LINKS], rows[:MAX_LINKS], strict=True)
    ]
    more = len(rows) - MAX_LINKS
    return "<br>".join([*links, *([f"and {more} more"] if more > 0 else [])])


def _uncertainty_notes(report: PairedReport) -> list[str]:
    lines = []
    bounds = report.bounds
    if bounds and bounds[1] - bounds[0] > 1e-12 and any(_has_undecided(side) for side in (report.a, report.b)):
        lines.append(
            f"Depending on the undecided attempts, B − A over common tasks is between {points(bounds[0])} and"
            f" {points(bounds[1])}."
        )
    if report.new_safety:
        lines.append(
            f"B broke a rule or had a safety stop at {plural(len(report.new_safety), 'task')} where A is not known to have: "
            f"{', '.join(map(code, report.new_safety[:10]))}"
        )
    return lines


def _has_undecided(side: Side) -> bool:
    return any(trial.status in {"invalid", "acceptance_error"} for trial in side.trials)


def _cost_line(report: PairedReport) -> list[str]:
    unit, per_attempt = common_unit(report), costs_per_attempt(report)
    a, b = (cost_of(side) for side in (report.a, report.b))
    if problem := no_common_cost(report):
        known = any(trial.cost is not None for side in (report.a, report.b) for trial in side.trials)
        return [f"Total cost: not comparable; {problem}."] if known else []
    if a is None or b is None:
        return []
    line = f"Total cost: A {amount(a)}, B {amount(b)}" + (f" {code(unit, 40)}" if unit else "")
    if per_attempt:
        mean_a, mean_b = (amount(cost or 0.0) for cost in per_attempt.costs)
        basis = f" {per_attempt.basis}" if per_attempt.basis else ""
        line += f"; per attempt at the compared tasks{basis}: A {mean_a}, B {mean_b}"
    return [line + "."]
