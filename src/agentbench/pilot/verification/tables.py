"""Verify `audit.csv` and `rubric.csv`: their lines are those of the records.

A report writes them. Attempts made since are missing, which is a note; a line that differs from its record is a problem.
"""

from __future__ import annotations

import csv
import io

from agentbench.core.errors import AgentBenchError
from agentbench.pilot.folder import AUDIT, RUBRIC, read_text
from agentbench.pilot.pilot_state import PilotState
from agentbench.pilot.report.tables import audit_text, rubric_text
from agentbench.pilot.verification.result import PilotVerification

LATER = frozenset({"final", "removed", "deviations", "needs_review", "reviewer", "review_verdict", "review_notes"})
"""Columns that later attempts, removals and reviews change."""
_KEY = "attempt_id"


def check_tables(state: PilotState, result: PilotVerification) -> None:
    """Compare every line of the tables with its attempt."""
    attempts = {record.attempt_id for record in state.records.all()}
    for name, text in ((AUDIT, audit_text(state, ())), (RUBRIC, rubric_text(state, {}, ()))):
        if not (state.folder / name).exists():
            continue
        try:
            rows = _rows(read_text(state.folder / name))
        except (AgentBenchError, csv.Error) as error:
            result.add("changed", name, str(error))
            continue
        computed = {row[_KEY]: row for row in _rows(text)}
        for number, row in enumerate(rows, start=2):
            if row.get(_KEY) not in attempts:
                result.add("appended", f"{name}:{number}", "no attempt of this pilot has this line")
                continue
            expected = computed.pop(row[_KEY], row)
            differing = [column for column in expected if column not in LATER and row.get(column) != expected[column]]
            if differing:
                result.add("changed", f"{name}:{number}", f"differs from the attempt: {', '.join(differing)}")
        if computed:
            result.note(f"{name} lacks {len(computed)} attempts; write it again with `ab pilot report`")


def _rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))
