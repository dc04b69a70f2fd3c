"""A paired comparison in Markdown: the decision first, comparability next, then the numbers and the tasks that differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from agentbench.reports.escape import code, link, markdown_table, plain
from agentbench.reports.figures import amount, percent, plural, point_interval, points, probability
from agentbench.reports.paired import PairedReport, cost_of, cost_units, costs_per_attempt, decision, shares
from agentbench.reports.record_rows import Row
from agentbench.reports.sources import Side
from agentbench.statistics.intervals import Interval
from agentbench.statistics.paired import ALPHA, Comparison, Pairing

MOST_ROWS = 300
MOST_LINKS = 3


def as_markdown(report: PairedReport) -> str:
    found = report.comparison
    lines = [f"# {decision(report)}", ""]
    lines += [
        f"- A: {code(report.a.name)} from {code(report.a.origin)}",
        f"- B: {code(report.b.name)} from {code(report.b.origin)}",
    ]
    lines += [f"- decided at {ALPHA} on the {found.rate} rate, two-sided", ""]
    lines += ["## Comparability", "", *(f"- {text}" for text in comparability_lines(report)), ""]
    lines += ["## Rates", "", *_rates(report), ""]
    if found.contingency:
        table = found.contingency
        lines += [f"## Tasks by outcome ({found.rate} rate)", ""]
        rows = [
            ("**A passed**", str(table.both), str(table.only_a)),
            ("**A did not**", str(table.only_b), str(table.neither)),
        ]
        lines += [*markdown_table(("", "B passed", "B did not"), rows), ""]
    notes = [*found.notes, *_left_out(found.pairing), *_unsure(report)]
    if notes:
        lines += ["## Notes", "", *(f"- {note}" for note in notes), ""]
    lines += ["## Tasks that differ", "", *_flip_table(report), ""]
    lines += _costs(report)
    return "\n".join(lines).rstrip() + "\n"


def comparability_lines(report: PairedReport) -> list[str]:
    held = report.comparability
    if held.comparable:
        return ["the two sides share contracts, configuration class, seeds and harness version"]
    lines = (
        [f"different contract versions: {', '.join(map(code, held.across_versions))}"] if held.across_versions else []
    )
    lines += [_escaped(text) for text in (*held.differences, *held.deviations)]
    if held.unknown:
        lines.append("results made elsewhere do not say under which contract and configuration they were made")
    return lines


def _escaped(text: str) -> str:
    """Our words, then what is taken from records."""
    words, colon, values = text.partition(": ")
    return f"{words}: {code(values)}" if colon else text


_TESTS: Mapping[str, Callable[[Comparison], float | None]] = {
    "McNemar mid-p": lambda one: one.mcnemar_mid_p,
    "McNemar exact": lambda one: one.mcnemar_exact,
    "sign-flip p": lambda one: one.sign_flip,
}


def _rates(report: PairedReport) -> list[str]:
    found = [one for one in (report.comparison, report.other) if one]
    # Which tests apply depends on repeats; a column that no rate has a number for is left out.
    tests = {name: ask for name, ask in _TESTS.items() if any(ask(one) is not None for one in found)}
    rows = [
        (
            str(one.rate),
            percent(one.share_a),
            percent(one.share_b),
            points(one.difference),
            _interval(one.interval),
            _interval(one.bootstrap),
            *(probability(ask(one)) for ask in tests.values()),
            _detectable(one),
            str(len(one.pairing.pairs)),
        )
        for one in found
    ]
    lines = markdown_table(("rate", "A", "B", "B minus A", "interval", "bootstrap", *tests, "detects", "tasks"), rows)
    if report.comparison.by_repository:
        lines += ["", f"With repositories as clusters: {_interval(report.comparison.by_repository)}."]
    return lines


def _interval(one: Interval | None) -> str:
    return f"{point_interval(one)} ({one.method})" if one else "no interval"


def _detectable(one: Comparison) -> str:
    """The smallest true difference this comparison would have shown four times in five."""
    effect = one.detectable.effect if one.detectable else None
    return "nothing" if effect is None else f"{effect * 100:.1f} points"


def _left_out(pairing: Pairing) -> list[str]:
    groups = (
        (pairing.only_a, "only A ran"),
        (pairing.only_b, "only B ran"),
        (pairing.uncounted, "left out because a side has only invalid runs:"),
    )
    return [
        f"{plural(len(tasks), 'task')} {words} {', '.join(map(code, tasks[:10]))}" for tasks, words in groups if tasks
    ]


def _flip_table(report: PairedReport) -> list[str]:
    if not report.flips:
        return ["None: both sides did every task equally well."]
    rows = [
        (
            code(one.task),
            shares(one),
            _side_cell(one.why_a, one.rows_a, report.a),
            _side_cell(one.why_b, one.rows_b, report.b),
        )
        for one in report.flips[:MOST_ROWS]
    ]
    more = len(report.flips) - MOST_ROWS
    return markdown_table(("task", "A → B", "A", "B"), rows) + ([f"\nand {more} more"] if more > 0 else [])


def _side_cell(whys: Sequence[str], rows: Sequence[Row], side: Side) -> str:
    """The side's verdicts, each leading to its evidence."""
    shown = [
        link(plain(why, 120), row.task_dir, str(side.folder))
        for why, row in zip(whys[:MOST_LINKS], rows[:MOST_LINKS], strict=True)
    ]
    more = len(rows) - MOST_LINKS
    return "<br>".join([*shown, *([f"and {more} more"] if more > 0 else [])])


def _unsure(report: PairedReport) -> list[str]:
    lines = []
    low_high = report.bounds
    if low_high and low_high[1] - low_high[0] > 1e-12 and any(_undecided(side) for side in (report.a, report.b)):
        lines.append(
            f"undecided attempts could move B minus A anywhere between {points(low_high[0])} and {points(low_high[1])} over common tasks"
        )
    if report.new_safety:
        lines.append(
            f"B broke a rule or was stopped as unsafe at {plural(len(report.new_safety), 'task')} where A was not: "
            f"{', '.join(map(code, report.new_safety[:10]))}"
        )
    return lines


def _undecided(side: Side) -> bool:
    return any(trial.status in {"invalid", "acceptance_error"} for trial in side.trials)


def _costs(report: PairedReport) -> list[str]:
    units, each = cost_units(report), costs_per_attempt(report)
    a, b = (cost_of(side) for side in (report.a, report.b))
    if a is None or b is None or len(units) > 1:
        return []
    unit = f" {code(units[0], 40)}" if units else ""
    line = f"Cost: A {amount(a)}, B {amount(b)}{unit} in all"
    return [line + (f"; {amount(each[0])} and {amount(each[1])} per attempt at the tasks both ran." if each else ".")]
