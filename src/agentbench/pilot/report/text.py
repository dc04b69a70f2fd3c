"""Write the report of a pilot as Markdown, JSON and CSV."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict

from agentbench.core.canonical import Json
from agentbench.pilot.decisions.decision_log import StageDecision
from agentbench.pilot.decisions.efficacy import decision_text
from agentbench.pilot.design.cost_figure import LABEL
from agentbench.pilot.report.comparisons import Pair
from agentbench.pilot.report.results import CostLine, PilotReport, RateLine
from agentbench.pilot.report.status import criterion_lines, status_json
from agentbench.reports.csv_results import joined_deviations
from agentbench.reports.escape import Cell, code, csv_text, markdown_table
from agentbench.reports.number_format import (
    amount,
    counted,
    percent,
    plural,
    point_interval,
    points,
    probability,
    share_interval,
)
from agentbench.reports.paired_data import comparison_json
from agentbench.reports.sequential_text import decision_json
from agentbench.reports.spending import Quartiles

RATE_COLUMNS = (
    "stratum",
    "method",
    "tasks",
    "passed",
    "invalid",
    "check errors",
    "rate",
    "95% interval",
    "method of the interval",
)
COST_COLUMNS = ("stratum", "method", "attempts", "total", "quartiles", "tokens", "seconds")
QUARTILES = ("low", "median", "high")
CSV_COLUMNS = (
    "stratum", "method", "endpoint", "tasks", "passed", "attempts", "invalid", "check_errors", "rate", "ci_low", "ci_high", "interval",
    "cost_total", "unit", *(f"{what}_{name}" for what in ("cost", "tokens", "seconds") for name in QUARTILES),
    "removed_tasks", "deviations",
)  # fmt: skip


def headline(report: PilotReport) -> str:
    """Return the result of the primary comparison in one line, or the state of the pilot."""
    primary = next((pair for pair in report.pairs if pair.primary), None)
    if report.status.phase in {"running", "blocked"} or primary is None or primary.comparison is None:
        return f"{report.status.phase.upper()}: {report.status.following}"
    result = sequential_sentence(report) or f"{pair_sentence(primary)}, {_significance(primary, report)}"
    return f"{report.status.phase.upper()}: {result}"


def _significance(pair: Pair, report: PilotReport) -> str:
    alpha = report.state.pilot.power.alpha
    significant = pair.p_value is not None and pair.p_value <= alpha
    return f"{'significant' if significant else 'not significant'} at {alpha:g}"


def sequential_sentence(report: PilotReport) -> str:
    """Describe the decision of the efficacy rule, whose interval is adjusted for its looks; empty without one."""
    return "" if report.sequential is None else decision_text(report.state.pilot, report.sequential)


def pair_sentence(pair: Pair) -> str:
    """Describe a comparison in one line."""
    if pair.comparison is None:
        return f"{pair.b} − {pair.a}: no task to compare"
    p = "no test" if pair.p_value is None else f"p = {probability(pair.p_value)}"
    return f"{pair.b} − {pair.a} = {_effect(pair)}, {'adjusted ' * bool(pair.sequential)}{p}, {pair.tasks} tasks"


def _effect(pair: Pair) -> str:
    """Return difference and interval, adjusted if a stopping rule looked at the comparison."""
    result = pair.result
    if result is None or result.difference is None:
        return "no task to compare"
    return f"{points(result.difference)} ({'adjusted ' * bool(pair.sequential)}{point_interval(result.interval)})"


def decision_line(decision: StageDecision) -> str:
    """Describe a decision in one line."""
    if decision.kind == "stop":
        return f"stopped by rule {decision.rule}: {decision.why}"
    if decision.kind == "opened":
        return f"started with {plural(decision.workers, 'worker')}"
    return f"{decision.kind}: {'met' if decision.met else 'NOT MET'}"


def report_markdown(report: PilotReport) -> str:
    state = report.state
    registration = state.registration
    lines = [f"# {headline(report)}", "", f"Question: {code(state.pilot.question)}", ""]
    lines += [
        f"Primary endpoint: {state.pilot.endpoint} rate within the budget of an attempt.",
        f"Registered as {code(registration.registration_id)} on {registration.frozen_at}, harness {registration.harness_version}.",
        "",
        "## Deviations",
        "",
        *([f"- {code(text)}" for text in report.deviations] or ["None."]),
        "",
        "## Rates",
        "",
        *_table(RATE_COLUMNS, map(rate_cells, report.rates)),
        "",
        "## Paired comparisons",
        "",
        *markdown_table(
            ("A", "B", "B − A", "p", "p, Holm", "tasks"),
            [_pair_cells(pair) for pair in report.pairs],
        ),
        "",
        "P-values: McNemar's mid-p with one attempt per task, the sign-flip test over tasks with repeats.",
        "Holm adjusts for the number of comparisons in this table.",
        *_sequential_lines(report),
        "",
        "## Costs",
        "",
        *_table(COST_COLUMNS, map(cost_cells, report.costs)),
        "",
        f"Recorded costs. {LABEL} is in `cost_projection.csv`.",
        "",
        "## Removed tasks",
        "",
        *(
            [
                f"- {code(removal.task_id)}: {removal.cause}: {code(removal.reason)}, by {code(removal.by)}; "
                f"evidence: {code(removal.evidence)}"
                for removal in state.removals
            ]
            or ["None."]
        ),
        "",
        "## Decisions",
        "",
    ]
    lines += _decision_lines(state.decisions)
    lines += ["", "## Spending and stopping rules", "", *_rule_lines(report)]
    lines += ["", "## Enforced caps", "", *cap_lines(report)]
    return "\n".join(lines) + "\n"


def _table(columns: Sequence[str], rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Return a Markdown table of rows that begin with a stratum and a method."""
    return markdown_table(columns, [(code(stratum), code(method), *cells) for stratum, method, *cells in rows])


def rate_cells(line: RateLine) -> tuple[str, ...]:
    """Return the cells of `RATE_COLUMNS`."""
    interval = line.proportion.interval
    return (
        line.stratum,
        line.method,
        str(line.tasks),
        counted(line.proportion),
        str(line.invalid),
        str(line.check_errors),
        percent(line.proportion.share),
        share_interval(interval),
        interval.method if interval else "",
    )


def _sequential_lines(report: PilotReport) -> list[str]:
    if not report.rule_text:
        return []
    lines = ["", f"Stopping rule of the primary comparison: {report.rule_text}."]
    text = sequential_sentence(report)
    if not text:
        return [*lines, "Its first look is not complete."]
    note = "Interval and p-value of the primary comparison are adjusted for the looks; those of the other comparisons are not."
    return [*lines, "", f"Decision: {code(text, 600)}", "", note]


def _pair_cells(pair: Pair) -> tuple[str, ...]:
    if pair.comparison is None:
        return code(pair.a), code(pair.b), "no task to compare", "", "", "0"
    name = f"{code(pair.b)}{' (primary)' if pair.primary else ''}"
    p_values = probability(pair.p_value), probability(pair.adjusted_p)
    return code(pair.a), name, _effect(pair), *p_values, str(pair.tasks)


def cost_cells(line: CostLine) -> tuple[str, ...]:
    """Return the cells of `COST_COLUMNS`."""
    quartiles = (line.cost, line.tokens, line.seconds)
    total = f"{amount(line.total)} {line.unit}"
    return line.stratum, line.method, str(line.attempts), total, *map(_quartiles_text, quartiles)


def _quartiles_text(quartiles: Quartiles) -> str:
    return " / ".join(map(amount, (quartiles.low, quartiles.median, quartiles.high)))


def _decision_lines(decisions: Sequence[StageDecision]) -> list[str]:
    lines: list[str] = []
    for decision in decisions:
        lines.append(f"- {decision.stage}, {decision.at}: {code(decision_line(decision))}")
        lines += [f"    - {code(line)}" for line in criterion_lines(decision.criteria)]
        lines += [f"    - attempt {code(attempt)}" for attempt in decision.evidence]
    return lines or ["None yet."]


def _rule_lines(report: PilotReport) -> list[str]:
    status = report.status
    lines = [f"- spent {amount(status.spent)} of {amount(status.budget)} {status.unit}"]
    return lines + [f"- {rule.rule}: {code(rule.state)}{' STOP' if rule.stop else ''}" for rule in status.rules]


def cap_lines(report: PilotReport) -> list[str]:
    """List every cap that was enforced: on the pilot, on a task and on an attempt."""
    budgets = report.state.pilot.budgets
    return [
        f"- all attempts {budgets.total:g}, one task {budgets.task:g}, one attempt at most {budgets.run:g} {report.status.unit}".rstrip(),
        *(f"- {code(cap.name)}: {code(cap.value)} ({plural(cap.tasks, 'task')})" for cap in report.caps),
    ]


def report_json(report: PilotReport) -> dict[str, Json]:
    state = report.state
    return {
        "headline": headline(report),
        "question": state.pilot.question,
        "endpoint": state.pilot.endpoint,
        "registrations": [registration.model_dump(mode="json") for registration in state.registrations],
        "status": status_json(report.status),
        "deviations": list(report.deviations),
        "rates": [_rate_json(line) for line in report.rates],
        "comparisons": [
            {
                "a": pair.a,
                "b": pair.b,
                "primary": pair.primary,
                "adjusted_p": pair.adjusted_p,
                "comparison": comparison_json(pair.comparison) if pair.comparison else None,
                "sequential": decision_json(pair.sequential) if pair.sequential else None,
            }
            for pair in report.pairs
        ],
        "stopping_rule": report.rule_text or None,
        "sequential": sequential_sentence(report) or None,
        "costs": [asdict(line) for line in report.costs],
        "caps": {**state.pilot.budgets.model_dump(mode="json"), "attempt": [asdict(cap) for cap in report.caps]},
        "removals": [asdict(removal) for removal in state.removals],
        "decisions": [decision.as_json() for decision in state.decisions],
    }


def _rate_json(line: RateLine) -> dict[str, Json]:
    interval = line.proportion.interval
    return {
        "stratum": line.stratum,
        "method": line.method,
        "tasks": line.tasks,
        "passed": line.proportion.count,
        "attempts": line.proportion.total,
        "invalid": line.invalid,
        "check_errors": line.check_errors,
        "rate": line.proportion.share,
        "interval": asdict(interval) if interval else None,
    }


def report_csv(report: PilotReport) -> str:
    costs = {(line.stratum, line.method): line for line in report.costs}
    rows: list[dict[str, Cell]] = []
    for line in report.rates:
        interval, cost = line.proportion.interval, costs.get((line.stratum, line.method))
        rows.append(
            {
                "stratum": line.stratum,
                "method": line.method,
                "endpoint": report.state.pilot.endpoint,
                "tasks": line.tasks,
                "passed": line.proportion.count,
                "attempts": line.proportion.total,
                "invalid": line.invalid,
                "check_errors": line.check_errors,
                "rate": line.proportion.share,
                "ci_low": interval.low if interval else None,
                "ci_high": interval.high if interval else None,
                "interval": interval.method if interval else None,
                "cost_total": cost.total if cost else None,
                "unit": cost.unit if cost else None,
                **_quartile_cells(cost),
                "removed_tasks": ", ".join(sorted(report.state.removed)),
                "deviations": joined_deviations(report.deviations),
            }
        )
    return csv_text(CSV_COLUMNS, rows)


def _quartile_cells(cost: CostLine | None) -> dict[str, Cell]:
    parts = {"cost": cost.cost, "tokens": cost.tokens, "seconds": cost.seconds} if cost else {}
    return {f"{what}_{name}": getattr(values, name) for what, values in parts.items() for name in QUARTILES}
