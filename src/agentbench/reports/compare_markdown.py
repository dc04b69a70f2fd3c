"""A comparison of several methods as Markdown: the decision, leaderboard, pairwise differences, cost and quality."""

from __future__ import annotations

from agentbench.reports.compare import CompareReport, decision
from agentbench.reports.escape import code, markdown_table, plain
from agentbench.reports.number_format import amount, percent, plural, points, probability, share_interval


def as_markdown(report: CompareReport) -> str:
    """Render the decision, the leaderboard, the pairwise differences, and cost and quality."""
    lines = [f"# {plain(decision(report), 2000)}", "", "## Leaderboard", "", *_leaderboard(report)]
    lines += ["", _explanation(report), "", "## Pairwise differences", "", *_matrix(report)]
    lines += [
        "",
        "Row minus column in points, with the p-value adjusted by Holm's method; **bold** is significant.",
        "",
    ]
    lines += _front_lines(report)
    if report.left_out:
        lines.append(f"Left out: {plural(len(report.left_out), 'task')} without a counted attempt from every method.")
    lines += [f"Difference: {code(text)}" for text in (*report.differences, *report.remarks)]
    lines += [f"Protocol deviation: {code(text)}" for text in report.deviations]
    return "\n".join(lines).rstrip() + "\n"


def _leaderboard(report: CompareReport) -> list[str]:
    head = [
        "method",
        f"{report.rate} rate",
        "95% CI",
        "attempts",
        f"cost per attempt ({report.cost_terms})" if report.unit else "cost per attempt",
        "best set",
    ]
    head += ["strength"] if report.strengths else []
    rows = []
    for index, line in enumerate(report.methods):
        cells = [
            code(line.name),
            percent(line.rate.share),
            share_interval(line.rate.interval),
            f"{line.rate.passed} of {line.rate.attempts}",
            line.cost_text,
            "yes" if index in report.best else "",
        ]
        rows.append([*cells, f"{report.strengths[index]:+.2f}"] if report.strengths else cells)
    return markdown_table(head, rows)


def _explanation(report: CompareReport) -> str:
    text = "The best set has every method that no other method beats significantly."
    if any(line.rate.differs_from_attempts for line in report.methods):
        text = f"Rates are means over tasks: every task has the same weight, however many attempts it has. {text}"
    if report.strengths:
        text += (
            " Strengths are of a Bradley-Terry model over tasks that only one of two methods passed: a method beats another"
            " at such a task with odds exp(difference of strengths). Half a win per pair is added to both."
        )
    return text


def _matrix(report: CompareReport) -> list[str]:
    cells: dict[tuple[int, int], str] = {}
    for duel in report.duels:
        for row, column, sign in ((duel.b, duel.a, 1), (duel.a, duel.b, -1)):
            text = f"{points(sign * duel.comparison.difference or 0.0)}, p = {probability(duel.adjusted)}"
            cells[row, column] = f"**{text}**" if duel.winner is not None else text
    names = [code(line.name) for line in report.methods]
    size = range(len(names))
    return markdown_table(
        ["", *names], [[names[row], *(cells.get((row, column), "") for column in size)] for row in size]
    )


def _front_lines(report: CompareReport) -> list[str]:
    if not report.front:
        return ["## Cost and quality", "", f"There is no front: {plain(report.cost_problem, 2000)}.", ""]
    rows = [
        [code(line.name), amount(line.cost or 0.0), percent(line.share)]
        for line in (report.methods[index] for index in report.front)
    ]
    head = ["method", f"cost per attempt ({report.cost_terms})", f"{report.rate} rate"]
    return [
        "## Cost and quality",
        "",
        "No method is both cheaper and better than these.",
        "",
        *markdown_table(head, rows),
        "",
    ]
