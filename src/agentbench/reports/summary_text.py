"""The summary of a run in Markdown: the decision first, everything else below it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

from agentbench.record.headline import headline
from agentbench.reports.escape import code, link, markdown_table
from agentbench.reports.figures import (
    amount,
    counted,
    percent,
    plural,
    seconds,
    share_interval,
    total,
)
from agentbench.reports.record_rows import Row
from agentbench.reports.sources import Run
from agentbench.reports.summary import COUNTING, Summary, decision, vector
from agentbench.statistics.rates import Proportion
from agentbench.statistics.survival import Curve

BAR = 30
MOST_ATTEMPTS = 200
MOST_LISTED = 50
_LABEL = 80


def as_markdown(summary: Summary) -> str:
    run, found = summary.run, summary.rates
    lines = [f"# {decision(summary)}", ""]
    lines += [f"Run {code(run.path.name)}, suite {code(run.suite)}, {_method(run.rows)}"]
    lines += [f"{plural(found.attempts, 'attempt')} at {plural(found.tasks, 'task')}{_superseded(run)}.", ""]
    lines += [*_rate_table(summary), "", COUNTING, ""]
    sections = (
        ("Protocol deviations", [f"- {code(text)}" for text in summary.deviations]),
        ("Invalid runs by cause", _invalid(summary)),
        ("Undecided outcomes", _undecided(summary)),
        ("Repeats", _repeats(summary)),
        ("Gates", _gates(summary)),
        ("Why attempts did not pass", _histogram(summary.reasons)),
        ("Hardest tasks", _hardest(summary)),
        ("Flaky tasks", _flaky(summary)),
        ("Strata", _strata(summary)),
        ("Cost, tokens and time", _costs(summary)),
        ("Success under caps", _survival(summary)),
        ("False positives and negatives", _truth(summary)),
        ("What was enforced", enforced_lines(summary)),
        ("Reproducibility", reproducibility_lines(summary)),
        ("Attempts", _attempts(summary)),
    )
    for title, body in sections:
        if body:
            lines += [f"## {title}", "", *body, ""]
    lines += _review(run.rows)
    return "\n".join(lines).rstrip() + "\n"


def _rate_table(summary: Summary) -> list[str]:
    found = summary.rates
    named: tuple[tuple[str, Proportion, str], ...] = (
        ("contract", found.contract, "scorable runs and runs the agent made unsafe"),
        ("acceptance", found.acceptance, "scorable runs"),
        ("acceptance errors", found.acceptance_error, "scorable runs"),
        ("invalid", found.invalid_fraction, "all runs"),
    )
    rows = [
        (
            name,
            counted(one),
            percent(one.share),
            share_interval(one.interval),
            one.interval.method if one.interval else "",
            over,
        )
        for name, one, over in named
    ]
    if summary.by_repository:
        shared = summary.by_repository
        rows.insert(1, ("contract", "", "", share_interval(shared), shared.method, "the same"))
    return markdown_table(("rate", "count", "share", "95% interval", "method", "over"), rows)


def _undecided(summary: Summary) -> list[str]:
    found = summary.bounds
    if not found.undecided:
        return []
    lines = [
        (
            f"{found.undecided} of {plural(found.attempts, 'attempt')} could not be decided ({percent(found.undecided_share)}). "
            f"Over all attempts the share that passed lies between {percent(found.worst)} (all of them failed) and "
            f"{percent(found.best)} (all passed)."
        )
    ]
    errors = [row for row in summary.run.rows if row.status == "acceptance_error"]
    return lines + (["", *_listed(summary.run, errors)] if errors else [])


def _invalid(summary: Summary) -> list[str]:
    """Invalid runs by cause, the agent's own unsafe acts among them."""
    if not summary.rates.invalid:
        return []
    rows = [(cause, str(n)) for cause, n in sorted(summary.rates.invalid.items())]
    invalid = [row for row in summary.run.rows if row.status == "invalid"]
    return [*markdown_table(("cause", "runs"), rows), "", *_listed(summary.run, invalid)]


def _listed(run: Run, rows: Sequence[Row]) -> list[str]:
    shown = run.records(rows[:MOST_LISTED])
    lines = [f"- {code(one.task_id)} repeat {one.repeat}: {code(headline(one), 160)}" for one in shown]
    return lines + ([f"- and {len(rows) - MOST_LISTED} more"] if len(rows) > MOST_LISTED else [])


def _repeats(summary: Summary) -> list[str]:
    if not summary.pass_k:
        return []
    rows = [(str(one.k), percent(one.any_of), percent(one.all_of), str(one.tasks)) for one in summary.pass_k]
    head = ("k", "pass@k: one of k passes", "pass^k: all k pass", "tasks")
    return [*markdown_table(head, rows), "", "Unbiased, as means over tasks with at least k counted attempts."]


def _gates(summary: Summary) -> list[str]:
    if not summary.gate_vectors:
        return []
    ordered = sorted(summary.gate_vectors.items(), key=lambda item: -item[1])
    lines = markdown_table(("gate vector", "attempts"), [(vector(key), str(count)) for key, count in ordered])
    if summary.mean_score is not None:
        lines += [
            "",
            f"Mean graded score {summary.mean_score:.3f} over the {plural(summary.scored, 'attempt')} that passed all gates.",
        ]
    kinds = ", ".join(f"{name} {count}" for name, count in sorted(summary.assurance.items()))
    return [*lines, "", f"Assurance of the verdicts (weakest mandatory check): {kinds}."]


def _histogram(reasons: Mapping[str, int]) -> list[str]:
    if not reasons:
        return []
    most = max(reasons.values())
    rows = [
        (f"`{reason}`", str(count), "█" * max(1, round(count / most * BAR)))
        for reason, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    ]
    return markdown_table(("reason", "attempts", ""), rows)


def _hardest(summary: Summary) -> list[str]:
    rows = [(code(line.task), f"{line.passed} of {line.counted}") for line in summary.hardest]
    return markdown_table(("task", "passed"), rows) if rows else []


def _flaky(summary: Summary) -> list[str]:
    found = summary.flaky
    lines = [f"- {code(line.task)}: {line.passed} of {line.counted} passed" for line in found[:MOST_LISTED]]
    return lines + ([f"- and {len(found) - MOST_LISTED} more"] if len(found) > MOST_LISTED else [])


def _strata(summary: Summary) -> list[str]:
    rows = [
        (
            code(one.dimension, _LABEL),
            code(one.value, _LABEL),
            str(one.tasks),
            counted(one.contract),
            percent(one.contract.share),
            share_interval(one.contract.interval),
            _by_unit(one.cost),
            str(one.tokens),
            seconds(one.seconds),
        )
        for one in summary.strata
    ]
    head = ("stratum", "value", "tasks", "passed", "contract rate", "95% interval", "cost", "tokens", "time")
    return markdown_table(head, rows) if rows else []


def _by_unit(costs: Mapping[str, float]) -> str:
    return ", ".join(f"{amount(value)} {code(unit, _LABEL)}" for unit, value in costs.items())


def _costs(summary: Summary) -> list[str]:
    rows = summary.run.rows
    if not rows:
        return []
    head = ("cost", "model", "execution", "human", "overhead", "judge", "total", "per pass")
    cells = [
        (
            code(one.unit, _LABEL),
            *(amount(value) for value in (one.lm, one.exec, one.human, one.overhead, one.judge, one.total)),
            amount(one.per_pass) if one.per_pass is not None else "none passed",
        )
        for one in summary.spending
    ]
    lines = [*markdown_table(head, cells), ""]
    took = [
        (one.outcome, str(one.attempts), *map(seconds, (one.median, one.ninth, one.longest, one.total)))
        for one in summary.times
    ]
    lines += [*markdown_table(("outcome", "attempts", "median time", "90%", "longest", "in all"), took), ""]
    used = [row.usage for row in rows]
    prompt, completion = sum([one.prompt_tokens for one in used]), sum([one.completion_tokens for one in used])
    calls, requests = sum([one.tool_calls for one in used]), sum([one.model_requests for one in used])
    lines.append(
        f"Used: {seconds(total([row.duration for row in rows]))} of attempts, {plural(calls, 'tool call')}, "
        f"{plural(requests, 'model request')}, {prompt} prompt and {completion} completion tokens ({sum([one.cached_tokens for one in used])} cached)."
    )
    dear = sorted((line for line in summary.tasks if line.tokens), key=lambda line: -line.tokens)[:5]
    if dear:
        listed = ", ".join(f"{code(line.task, _LABEL)} {line.tokens}" for line in dear)
        lines.append(
            f"Tokens per task {(prompt + completion) / max(1, len(summary.tasks)):.0f} on average; most: {listed}."
        )
    return lines


def _survival(summary: Summary) -> list[str]:
    lines = _curve("Agent time", summary.time_to_success, "s")
    if summary.spending and len(summary.spending) == 1 and summary.spending[0].total:
        lines += _curve("Cost", summary.cost_to_success, code(summary.spending[0].unit, _LABEL))
    if not lines:
        return []
    return [
        *lines,
        "",
        "Kaplan–Meier: attempts stopped by a cap or undecided are censored; those that ended by themselves without success stay at risk.",
    ]


def _curve(name: str, curve: Curve, unit: str) -> list[str]:
    if not curve.events:
        return []
    last = curve.step(-1)
    half = f"half succeeded by {amount(curve.median)} {unit}" if curve.median is not None else "half was never reached"
    reached = f"{percent(1 - last.survival)} succeeded by {amount(last.amount)} {unit}"
    interval = f"95% interval {percent(1 - last.high)} to {percent(1 - last.low)}"
    return [f"- {name} to success: {half}; {reached} ({interval})."]


def _truth(summary: Summary) -> list[str]:
    if not summary.adjudications:
        return []
    minutes = total([one.minutes for one in summary.adjudications])
    lines = [f"{plural(len(summary.adjudications), 'adjudication')}, {minutes:g} minutes of reviewers."]
    if summary.truth:
        rows = [
            (
                code(one.category, _LABEL),
                counted(one.false_positive),
                share_interval(one.false_positive.interval),
                counted(one.false_negative),
                share_interval(one.false_negative.interval),
            )
            for one in summary.truth
        ]
        head = ("category", "correct but rejected", "95% interval", "defect but passed", "95% interval")
        lines += ["", *markdown_table(head, rows)]
    return lines


def enforced_lines(summary: Summary) -> list[str]:
    rows = summary.run.rows
    if not rows:
        return []
    caps = Counter((row.timeout_sec, row.tool_timeout_sec) for row in rows)
    lines = [
        f"- agent phase {limit:g} s, one command {tool:g} s: {plural(count, 'attempt')}"
        for (limit, tool), count in caps.most_common(10)
    ]
    origins = summary.provenance.origins.values()
    lines += _pairs("cap", (one.caps for one in origins))
    return lines + _pairs("limit of the sandbox", (one.enforcement for one in origins))


def reproducibility_lines(summary: Summary) -> list[str]:
    rows, origins = summary.run.rows, summary.provenance.origins
    if not rows:
        return []
    lines = [f"- harness {', '.join(code(one, _LABEL) for one in sorted({row.harness_version for row in rows}))}"]
    lines += _pairs("agent parameter", (one.configuration for one in origins.values()))
    lines += _pairs(
        "", ({"image": one.image, "python": one.python, "sandbox": one.backend} for one in origins.values())
    )
    environments = sorted({row.env_digest for row in rows if row.env_digest})
    lines += [f"- environment {code(one)}" for one in environments[:10]]
    lines += [f"- and {len(environments) - 10} more environments"] if len(environments) > 10 else []
    files = [(task, name, digest) for task, one in origins.items() for name, digest in one.lockfiles.items()]
    lines += [
        f"- lock file {code(name, _LABEL)} of {code(task, _LABEL)}: {code(digest)}"
        for task, name, digest in files[:MOST_LISTED]
    ]
    unlocked = sum(one.locked is False for one in origins.values())
    if unlocked:
        lines.append(f"- {plural(unlocked, 'task')} without a lock file of its own (`ab task lock`)")
    return lines


def _pairs(what: str, found: Iterable[Mapping[str, str]]) -> list[str]:
    """Every different (name, value) with the number of tasks it holds for."""
    counts = Counter((name, value) for one in found for name, value in one.items() if value)
    lead = f"{what} " if what else ""
    return [
        f"- {lead}{code(name, _LABEL)}: {code(value)} ({plural(count, 'task')})"
        for (name, value), count in sorted(counts.items())[:MOST_LISTED]
    ]


def _attempts(summary: Summary) -> list[str]:
    run = summary.run
    if not run.rows:
        return []
    shown: Sequence[Row] = run.rows
    if len(shown) > MOST_ATTEMPTS:
        shown = [row for row in shown if not row.passed]
    ordered = sorted(shown, key=attrgetter("task", "repeat"))[:MOST_ATTEMPTS]
    note = []
    if len(run.rows) > MOST_ATTEMPTS:
        note = ["", f"The first {len(ordered)} that did not pass, of {len(run.rows)}; `--format csv` lists all."]
    rows = [
        (
            code(record.task_id),
            str(record.repeat),
            code(headline(record), 160),
            row.assurance or "none",
            "" if record.score is None else f"{record.score:.3f}",
            seconds(record.duration_sec),
            link("evidence", record.artifact_paths.task_dir),
        )
        for row, record in zip(ordered, run.records(ordered), strict=True)
    ]
    return [*markdown_table(("task", "repeat", "verdict", "assurance", "score", "time", "files"), rows), *note]


def _review(rows: Sequence[Row]) -> list[str]:
    flagged = sum(row.needs_review for row in rows)
    return [f"{plural(flagged, 'attempt')} flagged for a person to look at."] if flagged else []


def _method(rows: Sequence[Row]) -> str:
    parts = {
        "variant": {one.variant for one in rows},
        "agent": {one.agent for one in rows},
        "model": {one.model or "none" for one in rows},
        "harness": {one.harness_version for one in rows},
    }
    return (
        ", ".join(f"{name} {' and '.join(map(code, sorted(values)))}" for name, values in parts.items() if values) + ":"
    )


def _superseded(run: Run) -> str:
    return (
        f" ({plural(run.superseded, 'earlier attempt')} superseded, kept with their evidence)" if run.superseded else ""
    )
