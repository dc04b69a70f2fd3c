"""JUnit XML of a run for CI systems.

`failure` is the agent's failure, `error` a harness or acceptance error, `skipped` an attempt outside the rates. What was altered
and belongs to no attempt, such as a record that was removed, is an error of its own: few readers show properties.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from agentbench.core.reasons import InvalidCause, Reason, RunStatus
from agentbench.record.headline import headline
from agentbench.record.schema import AttemptRecord
from agentbench.reports.escape import attribute
from agentbench.reports.seal_marks import SealMarks
from agentbench.reports.sources import Run
from agentbench.reports.summary import Summary

RECORDS = "records of the run"
"""Name of the test case that stands for what was altered and belongs to no attempt."""
OUTSIDE = frozenset({InvalidCause.TASK, InvalidCause.OPERATOR})


def as_junit(summary: Summary) -> str:
    """Render one test case per attempt, and one if something else was altered."""
    finals, doubt = summary.run.finals, summary.run.doubt_of_no_row
    kinds = [*(_kind(summary.run, record) for record in finals), *(["error"] if doubt else [])]
    time = math.fsum(record.duration_sec for record in finals)
    counts = (
        f'tests="{len(kinds)}" failures="{kinds.count("failure")}" errors="{kinds.count("error")}" '
        f'skipped="{kinds.count("skipped")}" time="{time:.3f}"'
    )
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f"<testsuites {counts}>",
        f"  <testsuite name={attribute(summary.run.path.name)} {counts}>",
        *_properties(
            [
                *(("protocol_deviation", text) for text in summary.deviations),
                *_seals(summary.run.seal_marks),
            ]
        ),
        *_cases(summary.run),
        *([_altered_case(summary.run, doubt)] if doubt else []),
        "  </testsuite>",
        "</testsuites>",
    ]
    return "\n".join(lines) + "\n"


def _seals(marks: SealMarks) -> Iterator[tuple[str, str]]:
    yield from (("altered", text) for text in marks.altered)
    if marks.imported:
        yield "imported", marks.imported
    elif marks.unsealed:
        yield "not_sealed", str(marks.unsealed)


def _properties(properties: Sequence[tuple[str, str]]) -> Iterator[str]:
    if properties:
        yield "    <properties>"
        for name, text in properties:
            yield f'      <property name="{name}" value={attribute(text)}/>'
        yield "    </properties>"


def _kind(run: Run, record: AttemptRecord) -> str:
    return "error" if run.doubt(record.attempt_id) else kind_of(record)


def kind_of(record: AttemptRecord) -> str:
    """Return `passed`, `failure`, `error` or `skipped`."""
    if record.result.passed:
        return "passed"
    if record.run_status is RunStatus.INVALID:
        if record.invalid_cause is InvalidCause.SAFETY:
            return "failure"
        return "skipped" if record.invalid_cause in OUTSIDE else "error"
    return "error" if record.result.failure_reason is Reason.ACCEPTANCE_ERROR else "failure"


def _cases(run: Run) -> Iterator[str]:
    for record in run.finals:
        name = record.task_id + (f"[{record.repeat}]" if record.repeat > 1 else "")
        classname = f"{record.suite}.{record.variant}"
        case = f'    <testcase classname={attribute(classname)} name={attribute(name)} time="{record.duration_sec:.3f}"'
        kind = _kind(run, record)
        if kind == "passed":
            yield f"{case}/>"
            continue
        why = record.result.failure_reason
        reason = "" if kind == "skipped" or why is None else f" type={attribute(why)}"
        yield f"{case}><{kind}{reason} message={attribute(run.mark_attempt(record.attempt_id, headline(record)))}/></testcase>"


def _altered_case(run: Run, doubt: str) -> str:
    case = f'    <testcase classname={attribute(run.suite)} name="{RECORDS}" time="0.000">'
    return f'{case}<error type="ALTERED" message={attribute(f"{doubt}, see `ab verify`")}/></testcase>'
