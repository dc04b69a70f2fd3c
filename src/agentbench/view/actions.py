"""Actions of a person in the view: answer an operator's question, adjudicate an attempt. The commands call the same functions."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Literal

from agentbench.core.canonical import Json
from agentbench.core.errors import AgentBenchError, InputError
from agentbench.core.user_name import user_name
from agentbench.execution.operator import pending_questions, write_answer
from agentbench.reports.adjudications import Finding, Truth, adjudicate, flagged_categories, read_adjudications, reviews
from agentbench.reports.html.bounded import bounded
from agentbench.reports.html.data import KINDS, kind_of
from agentbench.reports.html.detail import review_json
from agentbench.verdict.taxonomy import taxonomy
from agentbench.view.index import Entry, RunIndex
from agentbench.view.pages import RunPages

MAX_QUEUE = 300
QUEUE_SEC = 3.0


def queue(index: RunIndex, pages: RunPages, only: str = "") -> dict[str, Json]:
    """List questions that wait for an operator, and attempts that need review, of all runs or `only` one."""
    questions: list[Json] = []
    waiting: list[Json] = []
    until = time.monotonic() + QUEUE_SEC
    left_out = 0
    for entry in index.entries(wait=True):
        if only and entry.key != only:
            continue
        questions += _questions(entry)
        if entry.counts is None or not entry.counts.flagged:
            continue
        if len(waiting) >= MAX_QUEUE or time.monotonic() > until:
            left_out += entry.counts.flagged
            continue
        try:
            waiting += _reviews(entry, pages)
        except AgentBenchError:
            continue
    return {"questions": questions, "reviews": waiting[:MAX_QUEUE], "left_out": left_out, **categories()}


def categories() -> dict[str, Json]:
    """List what can be wrong with an attempt."""
    return {"categories": [{"id": kind.id, "description": kind.description} for kind in taxonomy().values()]}


def _questions(entry: Entry) -> list[Json]:
    return [
        {
            "run": entry.key,
            "run_name": bounded(entry.path.name, text=300),
            **{name: bounded(getattr(question, name), text=4000) for name in question.__dataclass_fields__},
        }
        for question in (pending_questions(entry.path) if entry.state == "running" and not entry.refused else ())
    ]


def _reviews(entry: Entry, pages: RunPages) -> list[Json]:
    """List the flagged attempts of a run, those without an adjudication first."""
    run = pages.run(entry)
    adjudications = read_adjudications(run.path)
    adjudicated = {adjudication.attempt_id for adjudication in adjudications}
    flagged = (row for row in run.rows if row.needs_review)
    rows = sorted(flagged, key=lambda row: row.attempt_id in adjudicated)[:MAX_QUEUE]
    records = run.records(rows)
    reviewed = {review.attempt_id: str(review) for review in reviews(adjudications, records)}
    return [
        {
            "run": entry.key,
            "run_name": bounded(entry.path.name, text=300),
            "attempt": row.attempt_id,
            "task": bounded(row.task, text=300),
            "repeat": row.repeat,
            "variant": bounded(row.variant, text=120),
            "kind": KINDS[kind_of(row)],
            "reason": row.reason,
            "why": review_json(record, run.path),
            "flagged": list(flagged_categories(record)),
            "adjudicated": bounded(reviewed.get(row.attempt_id), text=300),
        }
        for row, record in zip(rows, records, strict=True)
    ]


def decide(entry: Entry, given: Mapping[str, Json]) -> dict[str, Json]:
    """Answer a question, as `ab operator decide` does.

    Raises:
        InputError: a value is missing or invalid, or the question is not pending.
    """
    decision, reason = _text(given, "decision"), _text(given, "reason").strip()
    chosen: Literal["continue", "stop"]
    if decision == "continue":
        chosen = "continue"
    elif decision == "stop":
        chosen = "stop"
    else:
        raise InputError("decision: expected continue or stop")
    if not reason:
        raise InputError("reason: expected a justification; it is empty")
    wanted = _text(given, "question")
    for question in pending_questions(entry.path):
        if question.id == wanted:
            write_answer(entry.path, question, chosen, user_name(), reason)
            return {"done": f"{chosen}: {question.task_id} · {question.variant}"}
    raise InputError("the question is no longer pending")


def record_adjudication(entry: Entry, pages: RunPages, given: Mapping[str, Json]) -> dict[str, Json]:
    """Record a finding about an attempt, as `ab adjudicate` does.

    Raises:
        InputError: a value is missing or invalid, or the record or a file of the attempt was altered.
    """
    run, record = pages.record(entry, _text(given, "attempt"))
    if alteration := run.evidence_alteration(record):
        raise InputError(f"the attempt was altered: {alteration}", remedy="run `ab verify` to see what was changed")
    truth = _text(given, "truth")
    if truth not in set(Truth):
        raise InputError(f"truth: expected one of {', '.join(Truth)}")
    minutes, chosen = given.get("minutes"), given.get("categories", [])
    if isinstance(minutes, bool) or not isinstance(minutes, int | float) or not 0 <= minutes <= 100_000:
        raise InputError("minutes: expected a number from 0 to 100000")
    if not isinstance(chosen, list) or not all(isinstance(name, str) for name in chosen):
        raise InputError("categories: expected a list of ids")
    finding = Finding(Truth(truth), user_name(), float(minutes), tuple(map(str, chosen)), _text(given, "note"))
    adjudication = adjudicate(run.path, record, finding)
    return {"done": f"{adjudication.truth}: {record.task_id}", "adjudication": adjudication.model_dump(mode="json")}


def _text(given: Mapping[str, Json], name: str) -> str:
    value = given.get(name, "")
    if not isinstance(value, str):
        raise InputError(f"{name}: expected text")
    return value
