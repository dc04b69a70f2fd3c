"""Terminal cards of a run or an attempt: the decision on the first line, details below."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from agentbench.contract.problem import did_you_mean
from agentbench.core.errors import InputError, RecordError
from agentbench.core.reasons import REPEATED_ON_RESUME, Gate, Outcome, Reason
from agentbench.core.text import shell_quoted
from agentbench.policy.prices import money
from agentbench.record.attempt_folder import EVENTS, MANIFEST
from agentbench.record.headline import headline
from agentbench.record.manifest import read_manifest
from agentbench.record.schema import AttemptRecord, CheckRecord, Tag
from agentbench.reports.adjudications import read_adjudications, to_review
from agentbench.reports.card_evidence import Evidence, read_evidence
from agentbench.reports.card_verdicts import independent_verdicts
from agentbench.reports.escape import columns, plain
from agentbench.reports.number_format import amount, counted, percent, plural, seconds, share_interval
from agentbench.reports.provenance import evidence, origin_of, read_text
from agentbench.reports.record_rows import OVERRUN
from agentbench.reports.sources import Run
from agentbench.reports.spending import Spending
from agentbench.reports.summary import GATE_NAMES, Summary, assurance_of, decision, unknown_cost
from agentbench.trace.log import read_events
from agentbench.verdict.causal_summary import LABEL as CAUSES_LABEL
from agentbench.verdict.causal_summary import causes
from agentbench.verdict.facts import collect_facts
from agentbench.verdict.review import review_reasons
from agentbench.verdict.terms import Terms

MAX_FAILING_TESTS = 20
MAX_ATTEMPTS = 500
LABEL_WIDTH = 13
NEEDS_REVIEW = "needs review"
_NOT_RUN = re.compile(r"\bnot run: (G[1-4]) (failed|undecided)\b")
EVALUATION_ERROR = "evaluation_error"
REVIEW_EVENTS = frozenset(
    {
        "patch_extracted",
        "acceptance_check",
        "integrity_finding",
        "monitor_alert",
        "termination",
        "scorer_result",
        "judge_result",
    }
)
"""Events from which reasons for a review are computed."""


# --- run --------------------------------------------------------------------------------------------------------------


def _spent(costs: Spending) -> str:
    superseded = f" + {amount(costs.superseded)} by superseded attempts" if costs.superseded else ""
    return f"{amount(costs.attempts)} {costs.unit}{superseded}"


def run_card(summary: Summary) -> str:
    """Render a run: rates, and one line per attempt."""
    run, rates = summary.run, summary.rates
    overruns = sum(row.overrun for row in run.rows)
    lines = [decision(summary), ""]
    share = f"{percent(rates.acceptance.share)} ({share_interval(rates.acceptance.interval)})"
    acceptance = f"{counted(rates.acceptance)} scorable attempts, {share}"
    errors = f"{counted(rates.acceptance_error)} scorable attempts"
    if rates.acceptance_unknown:
        acceptance = errors = "unknown: imported"
    invalid = "".join(f", {cause}: {count}" for cause, count in sorted(rates.invalid.items()))
    lines += _labelled(
        ("run", run.given or str(run.path)),
        ("suite", run.suite),
        ("variant", ", ".join(sorted({row.variant for row in run.rows}))),
        ("agent", ", ".join(sorted({row.agent for row in run.rows}))),
        ("acceptance", acceptance),
        ("errors", errors),
        ("invalid", f"{counted(rates.invalid_fraction)} attempts{invalid}"),
        ("superseded", plural(run.superseded, "earlier attempt") if run.superseded else ""),
        ("cost", ", ".join([*map(_spent, summary.spending), *unknown_cost(summary)])),
        ("reviews", ", ".join(f"{amount(costs.reviews)} {costs.unit}" for costs in summary.spending if costs.reviews)),
        ("overruns", f"{plural(overruns, 'attempt')} above the cost cap" if overruns else ""),
        ("deviations", "; ".join(summary.deviations)),
        ("signature", run.signature),
        ("to review", _to_review(summary)),
    )
    if run.rows:
        truncated = len(run.rows) > MAX_ATTEMPTS
        # If not all fit, those that did not pass come first.
        ordered = sorted(run.rows, key=lambda row: (truncated and row.passed, row.task, row.repeat))
        rows = [("task", "repeat", "time", "verdict")]
        rows += [
            (plain(record.task_id, 60), str(record.repeat), seconds(record.duration_sec), _verdict(run, record))
            for record in run.records(ordered[:MAX_ATTEMPTS])
        ]
        lines += ["", *columns(rows)]
        if truncated:
            more = len(run.rows) - MAX_ATTEMPTS
            lines.append(f"and {more} more attempts (ab report summary --format csv lists all)")
        lines += [
            "",
            f"Show one attempt: ab show {plain(shell_quoted(run.given or run.path))} --task {plain(run.rows[0].task)}",
        ]
    return "\n".join(lines)


def _to_review(summary: Summary) -> str:
    rows = to_review(summary.run.rows, summary.adjudications)
    tasks = sorted({row.task for row in rows})
    named = ", ".join(plain(task, 60) for task in tasks[:5]) + (f" and {len(tasks) - 5} more" if len(tasks) > 5 else "")
    return f"{plural(len(rows), 'attempt')}: {named}" if tasks else ""


def _verdict(run: Run, record: AttemptRecord) -> str:
    return plain(run.mark_attempt(record.attempt_id, headline(record)), 140)


def select(run: Run, task: str | None, repeat: int | None = None) -> tuple[AttemptRecord, ...]:
    """Return the attempts at a task (and repeat), ordered by task and repeat.

    Raises:
        InputError: the run has no such attempt.
    """
    rows = [row for row in run.rows if task in (None, row.task) and repeat in (None, row.repeat)]
    if not rows and (task is not None or repeat is not None):
        repeats = sorted({row.repeat for row in run.rows if task in (None, row.task)})
        tasks = sorted({row.task for row in run.rows})
        wanted = f"task '{task}'" if task is not None else "attempt"
        wanted += f" with repeat {repeat}" if repeat is not None else ""
        # A task without any repeat is itself unknown.
        kind, known = ("repeats", list(map(str, repeats))) if repeats and repeat is not None else ("tasks", tasks)
        hint = did_you_mean(task, tasks) if task is not None and not repeats else ""
        available = ", ".join(known[:20]) or "none"
        more = " …" if len(known) > 20 else ""
        raise InputError(plain(f"{run.path} has no finished {wanted}{hint}; available {kind}: {available}{more}", 2000))
    return run.records(sorted(rows, key=lambda row: (row.task, row.repeat)))


# --- attempt ----------------------------------------------------------------------------------------------------------


def attempt_card(record: AttemptRecord, run: Run) -> str:
    """Render an attempt: verdict, gates, findings, checks with failing tests, tags, causes, scorers, usage, files."""
    folder = run.path
    from_trace = read_evidence(evidence(folder, f"{record.artifact_paths.task_dir}/{EVENTS}"))
    lines = [run.mark_attempt(record.attempt_id, headline(record)), ""]
    model = f", model {record.model.name}" if record.model.name else ""
    lines += _labelled(
        ("task", f"{record.task_id} ({record.suite}), repeat {record.repeat}"),
        ("method", f"{record.variant}, agent {record.agent}{model}"),
        ("status", _status(record)),
        ("ended", f"{record.termination.code}{_termination(record)}"),
        ("progress", _progress(record)),
        ("score", _score(record)),
        ("commands", _commands(record)),
        ("signature", run.signature),
    )
    lines += _labelled(*(("review", reason) for reason in review_lines(record, folder)))
    gates = [(GATE_NAMES[gate], result.outcome, _in_words(result.why)) for gate, result in sorted(record.gates.items())]
    lines += ["", "gates", *columns(gates, "  ")]
    lines += from_trace.lines()
    if record.checks:
        lines += ["", "checks"]
        for check in record.checks:
            lines += _check(check, from_trace)
    shown = [tag for tag in record.tags if not (tag.id == EVALUATION_ERROR and _undecided(record))]
    if shown:
        tags = [
            (
                tag.id,
                GATE_NAMES[tag.gate] if tag.gate else "",
                f"events {', '.join(map(str, tag.evidence))}",
                _attributes(tag, record.cost.unit),
            )
            for tag in shown
        ]
        lines += ["", "tags", *columns(tags, "  ")]
    sequence = _causes(record, folder)
    if sequence:
        lines += ["", f"what happened ({CAUSES_LABEL}; the events are authoritative)", *sequence]
    lines += independent_verdicts(record)
    lines += ["", *_labelled(*_usage(record), ("reviews", _reviewed(record, folder)), *_files(record, folder))]
    return "\n".join(lines)


def review_lines(record: AttemptRecord, folder: Path) -> Sequence[str]:
    """Return the reasons for a review, from the trace; the record itself only holds a flag. None while there is no result yet."""
    if not record.needs_review or _undecided(record):
        return ()
    log = evidence(folder, f"{record.artifact_paths.task_dir}/{EVENTS}")
    if log is None:
        return (NEEDS_REVIEW,)
    try:
        facts = collect_facts(read_events(log, types=REVIEW_EVENTS))
    except RecordError:
        return (NEEDS_REVIEW,)
    reasons = review_reasons(facts, Terms(checks=()), record.run_status, passed=record.result.passed)
    return reasons or (NEEDS_REVIEW,)


def _undecided(record: AttemptRecord) -> bool:
    """Return whether resuming the run makes the attempt again, as after an interruption."""
    return record.termination.code in REPEATED_ON_RESUME


def _labelled(*pairs: tuple[str, str]) -> list[str]:
    return [f"{label:<{LABEL_WIDTH}}{plain(value)}" for label, value in pairs if value]


def _status(record: AttemptRecord) -> str:
    parts: list[str] = [record.run_status]
    if record.invalid_cause:
        parts.append(f"cause {record.invalid_cause}")
    if record.attribution:
        parts.append(f"attributed to {record.attribution}")
    assurance = assurance_of(record)
    coverage = (
        "" if record.decoy_coverage is None else f" (decoys for {percent(record.decoy_coverage)} of fail-to-pass)"
    )
    return ", ".join([*parts, f"assurance {assurance}{coverage}"] if assurance else parts)


def _termination(record: AttemptRecord) -> str:
    category = f" ({record.termination.category})" if record.termination.category else ""
    return f"{category}: {record.termination.rationale}" if record.termination.rationale else category


def _progress(record: AttemptRecord) -> str:
    progress = record.progress
    if not progress.f2p_total and not progress.p2p_total:
        return ""
    # Without fail-to-pass tests a check does not say which of its tests passed on the base repository.
    others = "pass-to-pass" if all(check.f2p_total for check in record.checks) else "other required"
    return (
        f"{progress.f2p_passed} of {progress.f2p_total} fail-to-pass and "
        f"{progress.p2p_kept} of {progress.p2p_total} {others} tests passed"
    )


def _score(record: AttemptRecord) -> str:
    if _undecided(record):
        return ""
    components = record.components.model_dump()
    detail = ", ".join(f"{name} {value:.2f}" for name, value in components.items() if value is not None)
    detail += f"; decomposed {record.decomposed_score:.2f}" if record.decomposed_score is not None else ""
    return f"{record.score:.3f} ({detail})" if record.score is not None else f"none, a gate did not pass ({detail})"


def _commands(record: AttemptRecord) -> str:
    """Say that commands of a program were not, or not all, observed."""
    if record.commands is None or record.commands == "observed":
        return ""
    return f"{record.commands.replace('_', ' ')}: {record.commands_why}"


def _check(check: CheckRecord, from_trace: Evidence) -> list[str]:
    kind = "mandatory" if check.mandatory else "diagnostic"
    exit_code = "no exit code" if check.exit_code is None else f"exit {check.exit_code}"
    time = f"{seconds(check.duration_sec)}, limit {check.ceiling_sec:g} s"
    why = f": {_in_words(check.why)}" if check.why else ""
    decoys = (
        "" if check.decoy_coverage is None else f" with decoys for {check.decoys} of {check.f2p_total} fail-to-pass"
    )
    attributes = f"{kind}, {check.layer}, {check.assurance}{decoys}, {exit_code}, {time}"
    lines = [f"  {plain(check.id)} {check.outcome} ({attributes}){why}", f"    $ {plain(check.command)}"]
    for test in check.failing_tests[:MAX_FAILING_TESTS]:
        lines.append(f"    failing {plain(test)}")
        lines += [f"      | {line}" for line in from_trace.failure(check.id, test)]
    if check.outcome is not Outcome.PASS and not check.failing_tests:
        lines += [f"      | {line}" for line in from_trace.output(check.id)]
    if len(check.failing_tests) > MAX_FAILING_TESTS:
        lines.append(f"    and {len(check.failing_tests) - MAX_FAILING_TESTS} more")
    return lines


def _in_words(why: str) -> str:
    """Return an explanation with the gate that kept a check from running in words. Records have its number."""
    return _NOT_RUN.sub(lambda found: f'not run: gate "{GATE_NAMES[Gate(found[1])]}" {found[2]}', plain(why))


def _attributes(tag: Tag, unit: str) -> str:
    def shown(value: object) -> str:
        is_micro = tag.id == OVERRUN and str(value).isdecimal()
        return f"{money(int(str(value)))} {unit}" if is_micro else str(value)

    return plain(", ".join(f"{name} {shown(value)}" for name, value in tag.attributes.items()))


def _causes(record: AttemptRecord, folder: Path) -> list[str]:
    """List the decisive events of an attempt that did not pass."""
    log = None if record.result.passed else evidence(folder, f"{record.artifact_paths.task_dir}/{EVENTS}")
    if log is None:
        return []
    try:
        sequence = causes(read_events(log))
    except RecordError:
        return []
    return columns([(f"events {', '.join(map(str, cause.evidence))}", plain(cause.what)) for cause in sequence], "  ")


def _usage(record: AttemptRecord) -> Sequence[tuple[str, str]]:
    usage = record.usage
    tokens = usage.prompt_tokens + usage.completion_tokens
    phases = f"agent {seconds(usage.wall_sec)}, tools {seconds(usage.tool_sec)}, checks {seconds(usage.check_sec)}"
    calls = f"{plural(usage.tool_calls, 'tool call')}, {plural(usage.model_requests, 'model request')}"
    return (
        ("time", f"{seconds(record.duration_sec)} total, {phases}"),
        ("usage", f"{calls}, {plural(tokens, 'token')}"),
        ("cost", _cost(record)),
    )


def _cost(record: AttemptRecord) -> str:
    cost = record.cost
    if not cost.known:
        return "unknown"
    phases = {} if cost.phases is None else cost.phases.model_dump()
    split = ", ".join(f"{name} {value:.4g}" for name, value in phases.items() if value)
    return f"{cost.total:.4g} {cost.unit}" + (f" ({split})" if split else "")


def _reviewed(record: AttemptRecord, folder: Path) -> str:
    """Describe reviews after the attempt, which its record does not contain, with their price."""
    adjudications = [entry for entry in read_adjudications(folder) if entry.attempt_id == record.attempt_id]
    minutes = sum(entry.minutes for entry in adjudications)
    if not minutes:
        return ""
    text = read_text(evidence(folder, f"{record.artifact_paths.task_dir}/{MANIFEST}"))
    price = minutes / 60 * origin_of(text).review_hour
    priced = f"{price:.4g} {record.cost.unit}" if price else "no price in the price table"
    return f"{minutes:g} minutes by {plural(len(adjudications), 'reviewer')}, {priced}; not part of the cost above"


def _files(record: AttemptRecord, folder: Path) -> Sequence[tuple[str, str]]:
    patch, paths = record.patch, record.artifact_paths
    output = paths.checks_stdout or paths.passing_stdout
    changes = f"{plural(patch.files, 'file')}, +{patch.added} -{patch.removed}, " if patch else ""
    if patch and not patch.files and record.result.failure_reason is Reason.PATCH_INVALID:
        changes = "cannot be applied, so its changes are not counted, "
    return (
        ("patch", f"{changes}{folder / patch.path}" if patch else "none"),
        ("files", str(folder / paths.task_dir)),
        ("output", str(folder / output) if output else ""),
        ("agent output", _agent_output(record, folder)),
        ("secrets", _secrets(folder / paths.task_dir)),
        ("attempt", record.attempt_id),
    )


def _agent_output(record: AttemptRecord, folder: Path) -> str:
    """Return where the whole output of the agent's program is; empty if there is none."""
    logs = evidence(folder, f"{record.artifact_paths.task_dir}/logs")
    if logs is None or not (logs / "agent_stdout.txt").is_file():
        return ""
    return f"{logs}/agent_stdout.txt, agent_stderr.txt"


def _secrets(folder: Path) -> str:
    """Say how many secrets of the base repository were found and redacted; empty if there are none."""
    try:
        observed = read_manifest(folder / MANIFEST).protocol_manifest.observed
    except RecordError:
        return ""
    secrets = observed.repository_secrets if observed is not None else None
    if secrets is None or not secrets.secrets:
        return ""
    more = "" if secrets.complete else " and more that are not"
    return (
        f"{plural(len(secrets.secrets), 'secret')} of the base repository redacted{more}, listed in {folder / MANIFEST}"
    )
