"""Write the page of a pilot: plan, stages with criteria, spending, results and decisions, with the style of other reports.

The page has no script. Its attempts are on the ordinary report page of the pilot's runs, which it links.
"""

from __future__ import annotations

import base64
import html
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from agentbench.core.errors import RecordError
from agentbench.core.text import printable
from agentbench.pilot.decisions.criteria import Criterion
from agentbench.pilot.design.cost_figure import LABEL, cost_figure
from agentbench.pilot.design.cost_model import project_costs
from agentbench.pilot.design.pilot_file import STAGES
from agentbench.pilot.folder import RUNS
from agentbench.pilot.report.results import PilotReport
from agentbench.pilot.report.text import (
    COST_COLUMNS,
    RATE_COLUMNS,
    cost_cells,
    decision_line,
    headline,
    pair_sentence,
    rate_cells,
    sequential_sentence,
)
from agentbench.reports.html.page import asset, policy_digest, write_page
from agentbench.reports.number_format import amount, probability
from agentbench.reports.sources import open_run

PAGE = "report/index.html"
ATTEMPTS = "report/attempts"
_TONES = {"complete": "pass", "stopped": "fail", "running": "accent", "next": "accent", "waiting": "none"}


def write_pilot_page(report: PilotReport) -> Path:
    """Write the page into the folder of the pilot, and return its path.

    Raises:
        RecordError: it cannot be written.
    """
    folder = report.state.folder
    runs = [open_run(folder / RUNS / name) for name in report.state.records.by_run]
    runs = [run for run in runs if run.rows]
    try:
        if runs:
            write_page(folder / ATTEMPTS, runs)
        path = folder / PAGE
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(pilot_page(report, attempts=bool(runs)), encoding="utf-8")
    except OSError as error:
        raise RecordError.of("write", folder / PAGE, error) from error
    return path


def pilot_page(report: PilotReport, *, attempts: bool) -> str:
    """Return the page as text."""
    style = asset("page.css")
    policy = (
        f"default-src 'none'; style-src '{policy_digest(style)}'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    title = headline(report)
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">',
        '<meta name="referrer" content="no-referrer">',
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">',
        f"<title>{_text(title)} · AgentBench</title><style>{style}</style></head><body>",
        '<a class="skip" href="#main">Skip to content</a>',
        f'<div class="bar"><div><span class="brand">AgentBench pilot</span><nav>{_links(attempts=attempts)}</nav></div></div>',
        '<main id="main" class="stack" tabindex="-1">',
        *_overview(report, title),
        *_stages(report),
        *_results(report),
        *_plan(report),
        *_history(report),
        "</main></body></html>",
    ]
    return "\n".join(parts) + "\n"


def _links(*, attempts: bool) -> str:
    sections = [("#stages", "Stages"), ("#results", "Results"), ("#plan", "Plan"), ("#decisions", "Decisions")]
    sections += [("attempts/index.html", "Attempts")] if attempts else []
    return "".join(f'<a href="{target}">{name}</a>' for target, name in sections)


def _overview(report: PilotReport, title: str) -> Iterable[str]:
    state, status = report.state, report.status
    tone = {"complete": "pass", "stopped": "fail"}.get(status.phase, "invalid")
    yield f'<section class="card hero {tone}"><h1 class="lead">{_text(title)}</h1>'
    yield f'<p>{_text(state.pilot.question)}</p><p class="sub">Primary endpoint: {state.pilot.endpoint} rate. '
    yield f"Registered {_text(state.registration.frozen_at)} as <code>{state.registration.registration_id}</code>, "
    yield f"harness {_text(state.registration.harness_version)}. Next: {_text(status.following)}</p></section>"
    if report.deviations:
        yield _card("deviations", "Protocol deviations", _list(report.deviations))


def _stages(report: PilotReport) -> Iterable[str]:
    cards = []
    for stage in report.status.stages:
        badge = f'<span class="badge {_TONES[stage.state]}">{stage.state}</span>'
        body = f"<p>{stage.made} of {stage.planned} attempts</p>"
        for name, criteria in (("Entry", stage.entry), ("Exit", stage.exit)):
            if criteria:
                body += f"<h3>{name}</h3>{_criteria(criteria)}"
        cards.append(
            f'<section class="card"><header><h2>{stage.name}</h2>{badge}</header><div class="body">{body}</div></section>'
        )
    yield f'<div class="grid three" id="stages">{"".join(cards)}</div>'
    status = report.status
    rules = [(rule.rule, rule.state, "STOP" if rule.stop else "") for rule in status.rules]
    spent = f"<p>{amount(status.spent)} of {amount(status.budget)} {_text(status.unit)} spent</p>"
    yield _card("spending", "Spending and stopping rules", spent + _table(("rule", "state", ""), rules))
    budgets = report.state.pilot.budgets
    caps = [
        ("all attempts", f"{budgets.total:g} {status.unit}", ""),
        ("one task", f"{budgets.task:g} {status.unit}", ""),
    ]
    caps += [(cap.name, cap.value, str(cap.tasks)) for cap in report.caps]
    yield _card("caps", "Enforced caps", _table(("cap", "value", "tasks"), caps))


def _criteria(criteria: Sequence[Criterion]) -> str:
    rows = [
        f'<li><span class="badge {"pass" if criterion.met else "fail"}">{"met" if criterion.met else "not met"}</span> '
        f'{_text(criterion.name)}<div class="sub">{_text(criterion.evidence)}</div></li>'
        for criterion in criteria
    ]
    return f"<ul>{''.join(rows)}</ul>"


def _results(report: PilotReport) -> Iterable[str]:
    yield _card("results", "Rates", _table(RATE_COLUMNS, map(rate_cells, report.rates)))
    pairs = [
        (
            f"{pair.b} with {pair.a}{' (primary)' if pair.primary else ''}",
            pair_sentence(pair),
            probability(pair.adjusted_p),
        )
        for pair in report.pairs
    ]
    sequential = sequential_sentence(report)
    note = f"<p>Stopping rule of the primary comparison: {_text(report.rule_text)}</p>" if report.rule_text else ""
    note += f"<p>Decision, adjusted for the looks: {_text(sequential)}</p>" if sequential else ""
    yield _card("pairs", "Paired comparisons", note + _table(("B with A", "B − A", "p, Holm"), pairs))
    yield _card("costs", "Recorded costs", _table(COST_COLUMNS, map(cost_cells, report.costs)))


def _plan(report: PilotReport) -> Iterable[str]:
    state = report.state
    counts = Counter((line.stage, line.method) for line in state.lines)
    rows = [(method, *(str(counts[stage, method]) for stage in STAGES)) for method in state.pilot.names]
    body = _table(("method", *STAGES), rows)
    body += (
        f"<p>Seed {state.pilot.seed}; the order of all attempts is in plan.csv, the power analysis in power.json.</p>"
    )
    body += _image(cost_figure(project_costs(state.pilot, state.lines), state.pilot.budgets.total))
    yield _card("plan", "Plan", body)


def _history(report: PilotReport) -> Iterable[str]:
    removals = [
        (removal.task_id, removal.cause, removal.reason, removal.by, removal.evidence)
        for removal in report.state.removals
    ]
    if removals:
        yield _card("removals", "Removed tasks", _table(("task", "cause", "reason", "by", "evidence"), removals))
    rows = [
        (
            decision.at,
            decision.stage,
            decision_line(decision),
            "; ".join(f"{c.name}: {c.evidence}" for c in decision.criteria) or ", ".join(decision.evidence),
        )
        for decision in report.state.decisions
    ]
    yield _card("decisions", "Decisions", _table(("time", "stage", "decision", "evidence"), rows))


def _card(name: str, title: str, body: str) -> str:
    return (
        f'<section class="card" id="{name}"><header><h2>{title}</h2></header><div class="body">{body}</div></section>'
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    cells = "".join(f"<th>{_text(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table></div>'


def _image(svg: str) -> str:
    """Embed a figure as an image: the policy of the page does not allow its styles in the page itself."""
    data = base64.b64encode(svg.encode()).decode()
    return f'<img width="760" alt="{html.escape(LABEL)}" src="data:image/svg+xml;base64,{data}">'


def _list(texts: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{_text(text)}</li>" for text in texts) + "</ul>"


def _text(text: str) -> str:
    return html.escape(printable(text))
