"""The parts of a run's summary in Markdown that show costs, tokens and time."""

from __future__ import annotations

from agentbench.policy.prices import MICRO
from agentbench.record.schema import AttemptRecord
from agentbench.reports.escape import code, markdown_table
from agentbench.reports.number_format import amount, percent, plural, seconds, total
from agentbench.reports.record_rows import OVERRUN
from agentbench.reports.spending import Quartiles
from agentbench.reports.summary import Summary, unknown_cost
from agentbench.statistics.survival import Curve

MAX_LABEL = 80
"""Characters shown of a name that a record chose."""
MAX_LISTED = 50


def cost_lines(summary: Summary) -> list[str]:
    """Render costs by component and by phase, reviews, overruns, durations, and totals with the most expensive tasks."""
    if not summary.run.rows:
        return []
    tables = (_components, _spent, _phases, _reviews, _overruns, _durations)
    return [*(line for table in tables for line in table(summary)), _totals(summary), *_most_tokens(summary)]


def _components(summary: Summary) -> list[str]:
    head = ("cost", "model", "execution", "human", "overhead", "judge", "total", "per pass")
    rows = [
        (
            code(costs.unit, MAX_LABEL),
            *map(amount, (costs.lm, costs.exec, costs.human, costs.overhead, costs.judge, costs.total)),
            amount(costs.per_pass) if costs.per_pass is not None else "none passed",
        )
        for costs in summary.spending
    ]
    unknown = [f"Cost: {line}.", ""] if (line := "".join(unknown_cost(summary))) else []
    return [*markdown_table(head, rows), "", *unknown] if rows else unknown


def _spent(summary: Summary) -> list[str]:
    """State the sum that was spent where it differs from the total above."""
    lines = [
        f"Spent: {amount(costs.spent)} {code(costs.unit, MAX_LABEL)}"
        + (
            f", {amount(costs.superseded)} of it by superseded attempts, which no rate and no other cost counts"
            if costs.superseded
            else ""
        )
        for costs in summary.spending
        if costs.superseded or costs.reviews
    ]
    return [*(f"{line}." for line in lines), ""] if lines else []


def _durations(summary: Summary) -> list[str]:
    head = ("outcome", "attempts", "median time", "90th percentile", "longest", "total")
    rows = [
        (times.outcome, str(times.attempts), *map(seconds, (times.median, times.p90, times.longest, times.total)))
        for times in summary.times
    ]
    return [*markdown_table(head, rows), ""]


def _totals(summary: Summary) -> str:
    rows = summary.run.rows
    usages = [row.usage for row in rows]
    calls = sum([usage.tool_calls for usage in usages])
    requests = sum([usage.model_requests for usage in usages])
    prompt = sum([usage.prompt_tokens for usage in usages])
    completion = sum([usage.completion_tokens for usage in usages])
    cached = sum([usage.cached_tokens for usage in usages])
    return (
        f"Total: {seconds(total([row.duration for row in rows]))}, {plural(calls, 'tool call')}, "
        f"{plural(requests, 'model request')}, {prompt} prompt and {completion} completion tokens ({cached} cached)."
    )


def _most_tokens(summary: Summary) -> list[str]:
    """State the mean tokens per task and the tasks with the most; nothing if no task used any."""
    expensive = sorted((line for line in summary.tasks if line.tokens), key=lambda line: -line.tokens)[:5]
    if not expensive:
        return []
    tokens = sum([row.usage.prompt_tokens + row.usage.completion_tokens for row in summary.run.rows])
    listed = ", ".join(f"{code(line.task, MAX_LABEL)} {line.tokens}" for line in expensive)
    return [f"Mean tokens per task: {tokens / max(1, len(summary.tasks)):.0f}. Most: {listed}."]


def _phases(summary: Summary) -> list[str]:
    if all(row.cost.phases is None for row in summary.run.rows):
        return []
    names = dict.fromkeys(name for costs in summary.spending for name in costs.phases)
    rows = [
        (code(costs.unit, MAX_LABEL), *(amount(costs.phases.get(name, 0.0)) for name in names), amount(costs.total))
        for costs in summary.spending
    ]
    return [*markdown_table(("cost by phase", *names, "total"), rows), ""]


def _reviews(summary: Summary) -> list[str]:
    """State the reviews, which are not part of any record."""
    minutes = total([adjudication.minutes for adjudication in summary.adjudications])
    if not minutes:
        return []
    priced = [f"{amount(costs.reviews)} {code(costs.unit, MAX_LABEL)}" for costs in summary.spending if costs.reviews]
    line = f"Reviews: {', '.join(priced)}, part of human cost and total, but not of what was spent." if priced else ""
    unpriced = summary.review_costs.unpriced_minutes
    if unpriced:
        line += f" {unpriced:g} minutes of review have no price: the price table has no row `review`."
    return [line.strip(), ""]


def _overruns(summary: Summary) -> list[str]:
    rows = [row for row in summary.run.rows if row.overrun]
    if not rows:
        return []
    lines = [
        f"- {code(record.task_id)} repeat {record.repeat}: {amount(record.cost.total - record.cost.judge)} of {_cap(record)}"
        for record in summary.run.records(rows[:MAX_LISTED])
    ]
    lines += [f"- and {len(rows) - MAX_LISTED} more"] if len(rows) > MAX_LISTED else []
    return [
        f"{plural(len(rows), 'attempt')} cost more than {'its' if len(rows) == 1 else 'their'} cap:",
        "",
        *lines,
        "",
    ]


def _cap(record: AttemptRecord) -> str:
    cap = next(tag.attributes.get("cap") for tag in record.tags if tag.id == OVERRUN)
    return f"{amount(int(str(cap)) / MICRO)} {code(record.cost.unit, MAX_LABEL)}"


def distribution_lines(summary: Summary) -> list[str]:
    rows = [
        (
            code(group.dimension, MAX_LABEL),
            code(group.value, MAX_LABEL),
            group.outcome,
            str(group.attempts),
            f"{_quartiles(group.cost)} {code(group.unit, MAX_LABEL)}" if group.cost else "unknown",
            _quartiles(group.tokens),
            f"{_quartiles(group.seconds)} s",
        )
        for group in summary.distributions
    ]
    head = ("stratum", "value", "outcome", "attempts", "cost", "tokens", "time")
    note = "Median (lower to upper quartile) of an attempt."
    return [*markdown_table(head, rows), "", note] if rows else []


def _quartiles(values: Quartiles) -> str:
    return f"{amount(values.median)} ({amount(values.low)} to {amount(values.high)})"


def survival_lines(summary: Summary) -> list[str]:
    lines = _curve("Agent time", summary.time_to_success, "s")
    if summary.spending and len(summary.spending) == 1 and summary.spending[0].total:
        lines += _curve("Cost", summary.cost_to_success, code(summary.spending[0].unit, MAX_LABEL))
    if not lines:
        return []
    return [
        *lines,
        "",
        (
            "Kaplan–Meier estimate: attempts stopped by a cap or undecided are censored; attempts that ended on their "
            "own without passing stay at risk."
        ),
    ]


def _curve(name: str, curve: Curve, unit: str) -> list[str]:
    if not curve.events:
        return []
    last = curve.steps[-1]
    median = f"median {amount(curve.median)} {unit}" if curve.median is not None else "median not reached"
    reached = f"{percent(1 - last.survival)} passed by {amount(last.amount)} {unit}"
    interval = f"95% CI {percent(1 - last.high)} to {percent(1 - last.low)}"
    return [f"- {name} to success: {median}; {reached} ({interval})."]
