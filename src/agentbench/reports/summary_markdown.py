"""Summary of a run in Markdown: the decision first, everything else below it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path

from agentbench.record.durable import write_atomic
from agentbench.record.headline import headline
from agentbench.record.naming import REPORT
from agentbench.reports.adjudications import Agreement, to_review
from agentbench.reports.escape import code, link, markdown_table
from agentbench.reports.number_format import amount, counted, percent, plural, seconds, share_interval, total
from agentbench.reports.record_rows import Row
from agentbench.reports.sources import Run, open_run
from agentbench.reports.spending_markdown import MAX_LABEL, MAX_LISTED, cost_lines, distribution_lines, survival_lines
from agentbench.reports.summary import (
    COUNTING,
    GATE_NAMES,
    Summary,
    coverage_sentence,
    decision,
    summarise,
    unseen_commands,
)
from agentbench.statistics.rates import Proportion

BAR_WIDTH = 30
MAX_ATTEMPTS = 200


def write_summary(run: Path) -> Path:
    """Write `report_summary.md` into the directory of a run that is about to be closed, replacing an older one atomically.

    Raises:
        InputError: `run` is not a run directory, or its records cannot be read.
        RecordError: the file cannot be written.
    """
    path = run / REPORT
    write_atomic(path, as_markdown(summarise(open_run(run).about_to_close())).encode())
    return path


def as_markdown(summary: Summary) -> str:
    run, rates = summary.run, summary.rates
    lines = [f"# {decision(summary)}", ""]
    lines += [f"Run {code(run.path.name)}, suite {code(run.suite)}, {_method(run.rows)}"]
    lines += [f"{plural(rates.attempts, 'attempt')} at {plural(rates.tasks, 'task')}{_superseded(run)}.", ""]
    lines += [f"Signature: {code(run.signature)}.", ""] if run.signature else []
    lines += [*_rate_table(summary), "", " ".join((COUNTING, *summary.few_repositories)), ""]
    sections = (
        ("Protocol deviations", [f"- {code(text)}" for text in summary.deviations]),
        ("Invalid attempts by cause", _invalid(summary)),
        ("Undecided attempts", _undecided(summary)),
        ("Repeats", _repeats(summary)),
        ("Gates", _gates(summary)),
        ("Failure reasons", _histogram(summary.reasons)),
        ("Hardest tasks", _hardest(summary)),
        ("Flaky tasks", _flaky(summary)),
        ("Strata", _strata(summary)),
        ("Cost, tokens and time", cost_lines(summary)),
        ("Distributions", distribution_lines(summary)),
        ("Time and cost to success", survival_lines(summary)),
        ("False positives and negatives", _error_rates(summary)),
        ("Enforced limits", enforced_lines(summary)),
        ("Reproducibility", reproducibility_lines(summary)),
        ("Attempts", _attempts(summary)),
    )
    for title, body in sections:
        if body:
            lines += [f"## {title}", "", *body, ""]
    lines += _review(summary)
    return "\n".join(lines).rstrip() + "\n"


def _rate_table(summary: Summary) -> list[str]:
    rates = summary.rates
    proportions: tuple[tuple[str, Proportion, str], ...] = (
        ("contract", rates.contract, "scorable attempts and safety stops"),
        ("acceptance", rates.acceptance, "scorable attempts"),
        ("acceptance errors", rates.acceptance_error, "scorable attempts"),
        ("invalid", rates.invalid_fraction, "all attempts"),
    )
    rows = [
        (
            name,
            counted(proportion),
            percent(proportion.share),
            share_interval(proportion.interval),
            proportion.interval.method if proportion.interval else "",
            denominator,
        )
        for name, proportion, denominator in proportions
    ]
    if rates.acceptance_unknown:
        rows[1:3] = [(row[0], "unknown: imported", "", "", "", row[-1]) for row in rows[1:3]]
    if summary.by_repository:
        interval = summary.by_repository
        rows.insert(1, ("contract", "", "", share_interval(interval), interval.method, rows[0][-1]))
    return markdown_table(("rate", "count", "share", "95% CI", "method", "of"), rows)


def _undecided(summary: Summary) -> list[str]:
    bounds = summary.bounds
    if not bounds.undecided:
        return []
    count = f"{bounds.undecided} of {plural(bounds.attempts, 'attempt')} ({percent(bounds.undecided_share)})"
    lines = [
        (
            f"{count} undecided. The share of all attempts that pass is between {percent(bounds.worst)} "
            f"(if all of these fail) and {percent(bounds.best)} (if all of these pass)."
        )
    ]
    errors = [row for row in summary.run.rows if row.status == "acceptance_error"]
    return lines + (["", *_listed(summary.run, errors)] if errors else [])


def _invalid(summary: Summary) -> list[str]:
    if not summary.rates.invalid:
        return []
    rows = [(cause, str(count)) for cause, count in sorted(summary.rates.invalid.items())]
    invalid = [row for row in summary.run.rows if row.status == "invalid"]
    return [*markdown_table(("cause", "attempts"), rows), "", *_listed(summary.run, invalid)]


def _listed(run: Run, rows: Sequence[Row]) -> list[str]:
    records = run.records(rows[:MAX_LISTED])
    lines = [f"- {code(record.task_id)} repeat {record.repeat}: {code(headline(record), 160)}" for record in records]
    return lines + ([f"- and {len(rows) - MAX_LISTED} more"] if len(rows) > MAX_LISTED else [])


def _repeats(summary: Summary) -> list[str]:
    if not summary.pass_k:
        return []
    rows = [
        (str(pass_k.k), percent(pass_k.any_of), percent(pass_k.all_of), str(pass_k.tasks)) for pass_k in summary.pass_k
    ]
    head = ("k", "pass@k (at least one of k passes)", "pass^k (all k pass)", "tasks")
    return [*markdown_table(head, rows), "", "Unbiased means over tasks with at least k counted attempts."]


def _gates(summary: Summary) -> list[str]:
    if not summary.gate_vectors:
        return []
    ordered = sorted(summary.gate_vectors.items(), key=lambda item: -item[1])
    rows = [(*map(str, outcomes), str(count)) for outcomes, count in ordered]
    lines = markdown_table((*GATE_NAMES.values(), "attempts"), rows)
    if summary.mean_score is not None:
        lines += [
            "",
            f"Mean score {summary.mean_score:.3f} over {plural(summary.scored, 'attempt')} that passed all gates.",
        ]
    levels = ", ".join(f"{name} {count}" for name, count in sorted(summary.assurance.items()))
    lines += ["", f"Assurance level (of the weakest mandatory check): {levels}."]
    for sentence in (coverage_sentence(summary), unseen_commands(summary)):
        lines += ["", sentence] if sentence else []
    return lines


def _histogram(reasons: Mapping[str, int]) -> list[str]:
    if not reasons:
        return []
    most = max(reasons.values())
    rows = [
        (f"`{reason}`", str(count), "█" * max(1, round(count / most * BAR_WIDTH)))
        for reason, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    ]
    return markdown_table(("reason", "attempts", ""), rows)


def _hardest(summary: Summary) -> list[str]:
    rows = [(code(line.task), f"{line.passed} of {line.counted}") for line in summary.hardest]
    return markdown_table(("task", "passed"), rows) if rows else []


def _flaky(summary: Summary) -> list[str]:
    flaky = summary.flaky
    lines = [f"- {code(line.task)}: {line.passed} of {line.counted} passed" for line in flaky[:MAX_LISTED]]
    return lines + ([f"- and {len(flaky) - MAX_LISTED} more"] if len(flaky) > MAX_LISTED else [])


def _strata(summary: Summary) -> list[str]:
    rows = [
        (
            code(stratum.dimension, MAX_LABEL),
            code(stratum.value, MAX_LABEL),
            str(stratum.tasks),
            counted(stratum.contract),
            percent(stratum.contract.share),
            share_interval(stratum.contract.interval),
            _by_unit(stratum.cost),
            str(stratum.tokens),
            seconds(stratum.seconds),
        )
        for stratum in summary.strata
    ]
    head = ("stratum", "value", "tasks", "passed", "contract rate", "95% CI", "cost", "tokens", "time")
    return markdown_table(head, rows) if rows else []


def _by_unit(costs: Mapping[str, float]) -> str:
    return ", ".join(f"{amount(value)} {code(unit, MAX_LABEL)}" for unit, value in costs.items())


def _error_rates(summary: Summary) -> list[str]:
    if not summary.adjudications:
        return []
    minutes = total([adjudication.minutes for adjudication in summary.adjudications])
    attempts = f"{plural(len(summary.adjudications), 'adjudication')} of {plural(len(summary.reviews), 'attempt')}"
    lines = [f"{attempts}, {minutes:g} minutes of review.{_not_in_rates(summary)}"]
    if summary.error_rates:
        rows = [
            (
                code(category.category, MAX_LABEL),
                counted(category.false_positive),
                share_interval(category.false_positive.interval),
                str(category.correct_rejected),
                counted(category.false_negative),
                share_interval(category.false_negative.interval),
                str(category.defects_passed),
            )
            for category in summary.error_rates
        ]
        head = (
            *("category", "false positives of flagged", "95% CI", "correct but rejected"),
            *("false negatives of actual", "95% CI", "defect but passed"),
        )
        lines += [
            "",
            "- False positives: adjudicated attempts that were rejected with the category (flagged) and do not have it.",
            "- False negatives: adjudicated attempts that have the category (actual) and were not rejected with it.",
            "",
            *markdown_table(head, rows),
        ]
    return lines


def _not_in_rates(summary: Summary) -> str:
    """Count the adjudicated attempts that belong to no rate."""
    words = {
        Agreement.UNDECIDABLE: "undecidable",
        Agreement.DISPUTED: "disputed between reviewers",
        Agreement.UNMAPPED: "with a category outside the taxonomy",
    }
    counts = Counter(review.agreement for review in summary.reviews)
    left_out = [f"{counts[agreement]} {text}" for agreement, text in words.items() if counts[agreement]]
    return f" Not in the rates: {', '.join(left_out)}." if left_out else ""


def enforced_lines(summary: Summary) -> list[str]:
    rows = summary.run.rows
    if not rows:
        return []
    timeouts = Counter((row.timeout_sec, row.tool_timeout_sec) for row in rows)
    lines = [
        f"- agent phase {timeout:g} s, one command {tool_timeout:g} s: {plural(count, 'attempt')}"
        for (timeout, tool_timeout), count in timeouts.most_common(10)
    ]
    origins = summary.provenance.origins.values()
    lines += _value_counts("cap", (origin.caps for origin in origins))
    return lines + _value_counts("sandbox limit", (origin.enforcement for origin in origins))


def reproducibility_lines(summary: Summary) -> list[str]:
    rows, origins = summary.run.rows, summary.provenance.origins
    if not rows:
        return []
    versions = sorted({row.harness_version for row in rows})
    lines = [f"- harness {', '.join(code(version, MAX_LABEL) for version in versions)}"]
    lines += _value_counts("agent parameter", (origin.configuration for origin in origins.values()))
    lines += _value_counts(
        "",
        ({"image": origin.image, "python": origin.python, "sandbox": origin.backend} for origin in origins.values()),
    )
    environments = sorted({row.env_digest for row in rows if row.env_digest})
    lines += [f"- environment {code(digest)}" for digest in environments[:10]]
    lines += [f"- and {len(environments) - 10} more environments"] if len(environments) > 10 else []
    files = [(task, name, digest) for task, origin in origins.items() for name, digest in origin.lockfiles.items()]
    lines += [
        f"- lock file {code(name, MAX_LABEL)} of {code(task, MAX_LABEL)}: {code(digest)}"
        for task, name, digest in files[:MAX_LISTED]
    ]
    return lines


def _value_counts(label: str, mappings: Iterable[Mapping[str, str]]) -> list[str]:
    """List every distinct (name, value) with its number of tasks."""
    counts = Counter((name, value) for mapping in mappings for name, value in mapping.items() if value)
    prefix = f"{label} " if label else ""
    return [
        f"- {prefix}{code(name, MAX_LABEL)}: {code(value)} ({plural(count, 'task')})"
        for (name, value), count in sorted(counts.items())[:MAX_LISTED]
    ]


def _attempts(summary: Summary) -> list[str]:
    run = summary.run
    if not run.rows:
        return []
    selected: Sequence[Row] = run.rows
    if len(selected) > MAX_ATTEMPTS:
        selected = [row for row in selected if not row.passed]
    ordered = sorted(selected, key=attrgetter("task", "repeat"))[:MAX_ATTEMPTS]
    note = []
    if len(run.rows) > MAX_ATTEMPTS:
        note = [
            "",
            f"Showing {len(ordered)} of {len(run.rows)} attempts, none of which passed; use `--format csv` for all.",
        ]
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


def _review(summary: Summary) -> list[str]:
    flagged = sum(row.needs_review for row in summary.run.rows)
    waiting = len(to_review(summary.run.rows, summary.adjudications))
    adjudicated = f", {flagged - waiting} of them adjudicated, {waiting} to review" if waiting < flagged else ""
    return [f"{plural(flagged, 'attempt')} flagged for review{adjudicated}."] if flagged else []


def _method(rows: Sequence[Row]) -> str:
    parts = {
        "variant": {row.variant for row in rows},
        "agent": {row.agent for row in rows},
        "model": {row.model or "none" for row in rows},
        "harness": {row.harness_version for row in rows},
    }
    return (
        ", ".join(f"{name} {' and '.join(map(code, sorted(values)))}" for name, values in parts.items() if values) + ":"
    )


def _superseded(run: Run) -> str:
    return f" ({plural(run.superseded, 'earlier attempt')} superseded; evidence kept)" if run.superseded else ""
