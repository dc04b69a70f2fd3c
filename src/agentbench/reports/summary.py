"""The summary of one run: the decision first, rates with their denominators, every task, why attempts did not pass."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentbench.core.canonical import Json
from agentbench.core.reasons import Assurance, InvalidCause, Outcome, RunStatus
from agentbench.grading.headline import headline
from agentbench.record.schema import AttemptRecord
from agentbench.reports.escape import Cell, code, csv_text, link, markdown_table
from agentbench.reports.figures import counted, percent, plural, seconds, share_interval
from agentbench.reports.sources import Run
from agentbench.statistics.comparability import seed_deviations
from agentbench.statistics.intervals import Interval
from agentbench.statistics.rates import Proportion, Rates, rates
from agentbench.statistics.trials import Rate

HARDEST = 10
BAR = 30

COUNTING = (
    "Acceptance errors are scorable and count as not passed in both rates. Runs invalid by the fault of the harness, the task or "
    "an operator stand outside both; a run made invalid by the agent's own unsafe act counts as not passed in the contract rate."
)


@dataclass(frozen=True, slots=True)
class TaskLine:
    """One task over its repeats."""

    task: str
    passed: int
    counted: int
    """Attempts inside the contract rate."""
    attempts: int

    @property
    def share(self) -> float | None:
        return self.passed / self.counted if self.counted else None


@dataclass(frozen=True, slots=True)
class Summary:
    """Everything the formats are made from."""

    run: Run
    rates: Rates
    tasks: tuple[TaskLine, ...]
    reasons: Mapping[str, int]
    deviations: tuple[str, ...]
    mean_score: float | None
    """Over attempts that pass all gates, and only those (P4.3)."""
    scored: int

    @property
    def hardest(self) -> tuple[TaskLine, ...]:
        """Tasks that did not always pass, the least passed first."""
        short = [line for line in self.tasks if line.share is not None and line.share < 1]
        return tuple(sorted(short, key=lambda line: (line.share, line.task))[:HARDEST])


def summarise(run: Run) -> Summary:
    """Fold a run's final records."""
    scores = [record.score for record in run.finals if record.result.passed and record.score is not None]
    return Summary(
        run=run,
        rates=rates(run.trials),
        tasks=_task_lines(run),
        reasons=Counter(
            str(record.result.failure_reason) for record in run.finals if record.result.failure_reason is not None
        ),
        deviations=seed_deviations(run.identities, "this run"),
        mean_score=math.fsum(scores) / len(scores) if scores else None,
        scored=len(scores),
    )


def decision(summary: Summary) -> str:
    """The first line: what share passed, and of what."""
    contract = summary.rates.contract
    if not summary.rates.attempts:
        return "EMPTY: no attempt has finished"
    if contract.share is None:
        return f"NOTHING TO SCORE: all {plural(summary.rates.attempts, 'attempt')} invalid ({_causes(summary.rates)})"
    outside = summary.rates.attempts - contract.total
    line = f"{counted(contract)} passed: contract rate {percent(contract.share)}"
    if contract.interval:
        line += f" ({contract.interval.confidence:.0%} interval {share_interval(contract.interval)})"
    return line + (f"; {plural(outside, 'run')} invalid and outside it" if outside else "")


def assurance_of(record: AttemptRecord) -> Assurance | None:
    """A verdict is as strong as its weakest mandatory check."""
    order = list(Assurance)
    used = [one.assurance for one in record.checks if one.mandatory]
    return max(used, key=order.index) if used else None


# --- Markdown -----------------------------------------------------------------------------------------------------------


def as_markdown(summary: Summary) -> str:
    run, found = summary.run, summary.rates
    lines = [f"# {decision(summary)}", ""]
    lines += [f"Run {code(run.path.name)}, suite {code(run.suite)}, {_method(run.finals)}"]
    lines += [f"{plural(found.attempts, 'attempt')} at {plural(found.tasks, 'task')}{_superseded(run)}.", ""]
    lines += [*_rate_table(found), "", COUNTING, ""]
    if summary.deviations:
        lines += ["## Protocol deviations", "", *(f"- {text}" for text in summary.deviations), ""]
    if found.invalid:
        lines += ["## Invalid runs by cause", ""]
        lines += [
            *markdown_table(("cause", "runs"), [(cause, str(n)) for cause, n in sorted(found.invalid.items())]),
            "",
        ]
    if summary.reasons:
        lines += ["## Why attempts did not pass", "", *_histogram(summary.reasons), ""]
    if summary.hardest:
        lines += ["## Hardest tasks", ""]
        rows = [(code(line.task), f"{line.passed} of {line.counted}") for line in summary.hardest]
        lines += [*markdown_table(("task", "passed"), rows), ""]
    if run.finals:
        lines += ["## Attempts", "", *_attempt_table(run.finals), ""]
    lines += _totals(summary)
    return "\n".join(lines).rstrip() + "\n"


def _rate_table(found: Rates) -> list[str]:
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
    return markdown_table(("rate", "count", "share", "95% interval", "method", "over"), rows)


def _histogram(reasons: Mapping[str, int]) -> list[str]:
    most = max(reasons.values())
    rows = [
        (f"`{reason}`", str(count), "█" * max(1, round(count / most * BAR)))
        for reason, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    ]
    return markdown_table(("reason", "attempts", ""), rows)


def _attempt_table(records: Sequence[AttemptRecord]) -> list[str]:
    rows = [
        (
            code(record.task_id),
            str(record.repeat),
            code(headline(record), 160),
            assurance_of(record) or "none",
            "" if record.score is None else f"{record.score:.3f}",
            seconds(record.duration_sec),
            link("evidence", record.artifact_paths.task_dir),
        )
        for record in sorted(records, key=lambda one: (one.task_id, one.repeat))
    ]
    return markdown_table(("task", "repeat", "verdict", "assurance", "score", "time", "files"), rows)


def _totals(summary: Summary) -> list[str]:
    finals = summary.run.finals
    if not finals:
        return []
    lines = []
    if summary.mean_score is not None:
        lines.append(
            f"Mean graded score {summary.mean_score:.3f} over the {plural(summary.scored, 'attempt')} that passed all gates."
        )
    tokens = sum(one.usage.prompt_tokens + one.usage.completion_tokens for one in finals)
    lines.append(
        f"Used: {seconds(math.fsum(one.duration_sec for one in finals))} of attempts, "
        f"{plural(sum(one.usage.tool_calls for one in finals), 'tool call')}, {plural(tokens, 'token')}, cost {_cost(finals)}."
    )
    reviews = sum(one.needs_review for one in finals)
    if reviews:
        lines.append(f"{plural(reviews, 'attempt')} flagged for a person to look at.")
    return lines


def _cost(finals: Sequence[AttemptRecord]) -> str:
    """Totals by unit: money and abstract units are never added up."""
    totals: dict[str, list[float]] = {}
    for one in finals:
        totals.setdefault(one.cost.unit, []).append(one.cost.total)
    return ", ".join(f"{math.fsum(values):.2f} {code(unit)}" for unit, values in sorted(totals.items()))


# --- JSON and CSV -------------------------------------------------------------------------------------------------------


def as_json(summary: Summary) -> dict[str, Json]:
    run, found = summary.run, summary.rates
    return {
        "decision": decision(summary),
        "run_dir": str(run.path),
        "run_id": run.run_id,
        "suite": run.suite,
        "variants": sorted({record.variant for record in run.finals}),
        "attempts": found.attempts,
        "superseded": run.superseded,
        "tasks": found.tasks,
        "scorable": found.scorable,
        "statuses": {status: found.statuses.get(status, 0) for status in RunStatus},
        "rates": {
            Rate.CONTRACT: proportion_json(found.contract),
            Rate.ACCEPTANCE: proportion_json(found.acceptance),
            "acceptance_error": proportion_json(found.acceptance_error),
            "invalid": proportion_json(found.invalid_fraction),
        },
        "counting": COUNTING,
        "invalid_by_cause": {cause: found.invalid.get(cause, 0) for cause in InvalidCause},
        "failure_reasons": dict(sorted(summary.reasons.items())),
        "hardest": [{"task": line.task, "passed": line.passed, "counted": line.counted} for line in summary.hardest],
        "by_task": [
            {"task": line.task, "passed": line.passed, "counted": line.counted, "attempts": line.attempts}
            for line in summary.tasks
        ],
        "mean_score": summary.mean_score,
        "scored": summary.scored,
        "deviations": list(summary.deviations),
        "needs_review": [record.attempt_id for record in run.finals if record.needs_review],
    }


def proportion_json(one: Proportion) -> dict[str, Json]:
    return {"count": one.count, "total": one.total, "share": one.share, "interval": interval_json(one.interval)}


def interval_json(one: Interval | None) -> dict[str, Json] | None:
    if one is None:
        return None
    return {"low": one.low, "high": one.high, "confidence": one.confidence, "method": one.method}


CSV_HEAD = (
    "task", "method", "repeat", "outcome", "cost", "failure_reason", "run_status", "invalid_cause", "attribution", "G1", "G2", "G3",
    "G4", "score", "f2p_passed", "f2p_total", "p2p_kept", "p2p_total", "duration_sec", "tool_calls", "contract_id", "attempt_id",
    "task_dir",
)  # fmt: skip


def as_csv(summary: Summary) -> str:
    """One row per attempt. The first five columns are the form in which results made elsewhere are read."""
    return csv_text(CSV_HEAD, [_csv_row(record) for record in summary.run.finals])


def _csv_row(record: AttemptRecord) -> dict[str, Cell]:
    return {
        "task": record.task_id,
        "method": record.variant,
        "repeat": record.repeat,
        "outcome": outcome_word(record),
        "cost": record.cost.total,
        "failure_reason": record.result.failure_reason,
        "run_status": record.run_status,
        "invalid_cause": record.invalid_cause,
        "attribution": record.attribution,
        **{str(gate): one.outcome for gate, one in record.gates.items()},
        "score": record.score,
        "f2p_passed": record.progress.f2p_passed,
        "f2p_total": record.progress.f2p_total,
        "p2p_kept": record.progress.p2p_kept,
        "p2p_total": record.progress.p2p_total,
        "duration_sec": record.duration_sec,
        "tool_calls": record.usage.tool_calls,
        "contract_id": record.contract_id,
        "attempt_id": record.attempt_id,
        "task_dir": record.artifact_paths.task_dir,
    }


def outcome_word(record: AttemptRecord) -> str:
    """`pass`, `fail`, `error` or `invalid:CAUSE`: the vocabulary of result files."""
    if record.run_status is RunStatus.INVALID:
        return f"invalid:{record.invalid_cause or InvalidCause.HARNESS}"
    if record.run_status is RunStatus.ACCEPTANCE_ERROR:
        return Outcome.ERROR
    return Outcome.PASS if record.result.passed else Outcome.FAIL


# --- parts --------------------------------------------------------------------------------------------------------------


def _task_lines(run: Run) -> tuple[TaskLine, ...]:
    values: dict[str, list[int | None]] = {}
    for trial in run.trials:
        values.setdefault(trial.task, []).append(trial.value(Rate.CONTRACT))
    return tuple(
        TaskLine(task, sum(value or 0 for value in seen), sum(value is not None for value in seen), len(seen))
        for task, seen in sorted(values.items())
    )


def _method(finals: Sequence[AttemptRecord]) -> str:
    parts = {
        "variant": {one.variant for one in finals},
        "agent": {one.agent for one in finals},
        "model": {one.model.name or "none" for one in finals},
        "harness": {one.harness_version for one in finals},
    }
    return (
        ", ".join(f"{name} {' and '.join(map(code, sorted(values)))}" for name, values in parts.items() if values) + ":"
    )


def _superseded(run: Run) -> str:
    return (
        f" ({plural(run.superseded, 'earlier attempt')} superseded, kept with their evidence)" if run.superseded else ""
    )


def _causes(found: Rates) -> str:
    return ", ".join(f"{cause}: {count}" for cause, count in sorted(found.invalid.items()))
