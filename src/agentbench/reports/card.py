"""A run or an attempt as a card in a terminal: the decision in the first line, everything else expands below it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from agentbench.core.errors import InputError, RecordError
from agentbench.core.reasons import Gate, Outcome
from agentbench.record.attempt_folder import EVENTS
from agentbench.record.headline import headline
from agentbench.record.schema import AttemptRecord, CheckRecord
from agentbench.reports.card_evidence import Proof, read_proof
from agentbench.reports.escape import columns, plain
from agentbench.reports.figures import counted, percent, plural, seconds, share_interval
from agentbench.reports.provenance import evidence
from agentbench.reports.side_by_side import side_by_side
from agentbench.reports.sources import Run
from agentbench.reports.summary import Summary, assurance_of, decision
from agentbench.trace.log import read_events
from agentbench.verdict.causal_summary import LABEL as ACCOUNT
from agentbench.verdict.causal_summary import causes
from agentbench.verdict.facts import collect_facts
from agentbench.verdict.review import review_reasons
from agentbench.verdict.terms import Terms

GATE_NAMES = {
    Gate.G1: "patch validity",
    Gate.G2: "build and static checks",
    Gate.G3: "functional acceptance",
    Gate.G4: "safety and policy",
}
FAILING_SHOWN = 20
REVIEW = "a person should look at this attempt"
REVIEWED = frozenset(
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
"""The events that reasons for a review come from."""
LABEL = 13
MOST_LINES = 500


def run_card(summary: Summary) -> str:
    """A run: rates, and one line per attempt."""
    run, found = summary.run, summary.rates
    lines = [decision(summary), ""]
    lines += _pairs(
        ("run", str(run.path)),
        ("suite", run.suite),
        ("variant", ", ".join(sorted({one.variant for one in run.rows}))),
        ("agent", ", ".join(sorted({one.agent for one in run.rows}))),
        ("acceptance", f"{counted(found.acceptance)} scorable runs, {percent(found.acceptance.share)} ({share_interval(found.acceptance.interval)})"),
        ("errors", f"{counted(found.acceptance_error)} scorable runs undecided"),
        ("invalid", f"{counted(found.invalid_fraction)} runs" + "".join(f", {cause}: {count}" for cause, count in sorted(found.invalid.items()))),
        ("superseded", plural(run.superseded, "earlier attempt") if run.superseded else ""),
        ("deviations", "; ".join(summary.deviations)),
    )  # fmt: skip
    if run.rows:
        ordered = sorted(
            run.rows, key=lambda one: (one.passed, one.task, one.repeat) if many(run) else (one.task, one.repeat)
        )
        shown = ordered[:MOST_LINES]
        rows = [("task", "repeat", "time", "verdict")]
        rows += [
            (plain(one.task_id, 60), str(one.repeat), seconds(one.duration_sec), plain(headline(one), 140))
            for one in run.records(shown)
        ]
        lines += ["", *columns(rows)]
        if many(run):
            lines.append(f"and {len(run.rows) - MOST_LINES} more attempts (ab report summary --format csv lists all)")
        lines += ["", f"one of them in full: ab show {plain(str(run.path))} --task {plain(run.rows[0].task)}"]
    return "\n".join(lines)


def many(run: Run) -> bool:
    """More attempts than a terminal shows; those that did not pass then come first."""
    return len(run.rows) > MOST_LINES


def attempt_card(record: AttemptRecord, folder: Path) -> str:
    """One attempt: gates with their why, findings, checks, failing tests with what failed them, tags, ending, use, files."""
    proof = read_proof(evidence(folder, f"{record.artifact_paths.task_dir}/{EVENTS}"))
    lines = [headline(record), ""]
    model = f", model {record.model.name}" if record.model.name else ""
    lines += _pairs(
        ("task", f"{record.task_id} ({record.suite}), repeat {record.repeat}"),
        ("method", f"{record.variant}, agent {record.agent}{model}"),
        ("status", _status(record)),
        ("ended", f"{record.termination.code}{_ending(record)}"),
        ("progress", _progress(record)),
        ("score", _score(record)),
    )
    lines += _pairs(*(("review", why) for why in review_lines(record, folder)))
    lines += [
        "",
        "gates",
        *columns(
            [(gate, one.outcome, GATE_NAMES[gate], plain(one.why)) for gate, one in sorted(record.gates.items())], "  "
        ),
    ]
    lines += proof.lines()
    if record.checks:
        lines += ["", "checks"]
        for check in record.checks:
            lines += _check(check, proof)
    if record.tags:
        lines += ["", "tags"]
        lines += columns(
            [
                (tag.id, tag.gate or "", f"events {', '.join(map(str, tag.evidence))}", _attributes(tag.attributes))
                for tag in record.tags
            ],
            "  ",
        )
    account = _account(record, folder)
    if account:
        lines += ["", f"account ({ACCOUNT}; the events are the record)", *account]
    lines += side_by_side(record)
    lines += ["", *_pairs(*_use(record), *_files(record, folder))]
    return "\n".join(lines)


def select(run: Run, task: str | None, repeat: int | None = None) -> tuple[AttemptRecord, ...]:
    """The attempts asked for, in order of repeats.

    Raises:
        InputError: the run has no such attempt.
    """
    chosen = [one for one in run.rows if task in (None, one.task) and repeat in (None, one.repeat)]
    if not chosen and (task is not None or repeat is not None):
        known = sorted({one.task for one in run.rows})
        what = f"task '{task}'" if task is not None else "attempt"
        what += f" with repeat {repeat}" if repeat is not None else ""
        msg = plain(
            f"{run.path} has no finished {what}; its tasks: {', '.join(known[:20]) or 'none'}{' …' if len(known) > 20 else ''}",
            2000,
        )
        raise InputError(msg)
    return run.records(sorted(chosen, key=lambda one: (one.task, one.repeat)))


# --- parts --------------------------------------------------------------------------------------------------------------


def _pairs(*pairs: tuple[str, str]) -> list[str]:
    return [f"{label:<{LABEL}}{plain(value)}" for label, value in pairs if value]


def _status(record: AttemptRecord) -> str:
    parts: list[str] = [record.run_status]
    if record.invalid_cause:
        parts.append(f"cause {record.invalid_cause}")
    if record.attribution:
        parts.append(f"attributed to {record.attribution}")
    assurance = assurance_of(record)
    return ", ".join([*parts, f"assurance {assurance}"] if assurance else parts)


def _ending(record: AttemptRecord) -> str:
    category = f" ({record.termination.category})" if record.termination.category else ""
    return f"{category}: {record.termination.rationale}" if record.termination.rationale else category


def _progress(record: AttemptRecord) -> str:
    done = record.progress
    if not done.f2p_total and not done.p2p_total:
        return ""
    return f"{done.f2p_passed} of {done.f2p_total} tests mended, {done.p2p_kept} of {done.p2p_total} kept"


def review_lines(record: AttemptRecord, folder: Path) -> Sequence[str]:
    """Why a person should look, told by the trace; the record itself only says that one should."""
    if not record.needs_review:
        return ()
    log = evidence(folder, f"{record.artifact_paths.task_dir}/{EVENTS}")
    if log is None:
        return (REVIEW,)
    try:
        facts = collect_facts(read_events(log, types=REVIEWED))
    except RecordError:
        return (REVIEW,)
    return review_reasons(facts, Terms(checks=()), record.run_status, passed=record.result.passed) or (REVIEW,)


def _account(record: AttemptRecord, folder: Path) -> list[str]:
    """How an attempt that did not pass came to its end, line by line with its events."""
    log = None if record.result.passed else evidence(folder, f"{record.artifact_paths.task_dir}/{EVENTS}")
    if log is None:
        return []
    try:
        told = causes(read_events(log))
    except RecordError:
        return []
    return columns([(f"events {', '.join(map(str, one.evidence))}", plain(one.what)) for one in told], "  ")


def _score(record: AttemptRecord) -> str:
    parts = record.components.model_dump()
    shown = ", ".join(f"{name} {value:.2f}" for name, value in parts.items() if value is not None)
    shown += f"; decomposed {record.decomposed_score:.2f}" if record.decomposed_score is not None else ""
    return f"{record.score:.3f} ({shown})" if record.score is not None else f"none, not all gates passed ({shown})"


def _check(check: CheckRecord, proof: Proof) -> list[str]:
    kind = "mandatory" if check.mandatory else "diagnostic"
    code = "no exit code" if check.exit_code is None else f"exit {check.exit_code}"
    took = f"{seconds(check.duration_sec)}, at most {check.ceiling_sec:g} s a run"
    why = f": {plain(check.why)}" if check.why else ""
    lines = [f"  {plain(check.id)} {check.outcome} ({kind}, {check.layer}, {check.assurance}, {code}, {took}){why}"]
    lines.append(f"    $ {plain(check.command)}")
    for name in check.failing_tests[:FAILING_SHOWN]:
        lines.append(f"    failing {plain(name)}")
        lines += [f"      | {line}" for line in proof.why(check.id, name)]
    if check.outcome is not Outcome.PASS and not check.failing_tests:
        lines += [f"      | {line}" for line in proof.output(check.id)]
    if len(check.failing_tests) > FAILING_SHOWN:
        lines.append(f"    and {len(check.failing_tests) - FAILING_SHOWN} more")
    return lines


def _attributes(attributes: Mapping[str, object]) -> str:
    return plain(", ".join(f"{name} {value}" for name, value in attributes.items()))


def _use(record: AttemptRecord) -> Sequence[tuple[str, str]]:
    used = record.usage
    tokens = used.prompt_tokens + used.completion_tokens
    return (
        ("time", f"{seconds(record.duration_sec)} in all, agent {seconds(used.wall_sec)}, tools {seconds(used.tool_sec)}, checks {seconds(used.check_sec)}"),
        ("used", f"{plural(used.tool_calls, 'tool call')}, {plural(used.model_requests, 'model request')}, {plural(tokens, 'token')}"),
        ("cost", f"{record.cost.total:.4g} {record.cost.unit}"),
    )  # fmt: skip


def _files(record: AttemptRecord, folder: Path) -> Sequence[tuple[str, str]]:
    patch = record.patch
    delta = (
        f"{plural(patch.files, 'file')}, +{patch.added} -{patch.removed}, {folder / patch.path}" if patch else "none"
    )
    paths = record.artifact_paths
    return (
        ("patch", delta),
        ("files", str(folder / paths.task_dir)),
        ("output", str(folder / paths.passing_stdout) if paths.passing_stdout else ""),
        ("attempt", record.attempt_id),
    )
