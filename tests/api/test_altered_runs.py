"""Runs that were edited, read from Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import agentbench as ab
from agentbench.core.errors import InputError
from tests.record.samples import whole_run

pytestmark = pytest.mark.component


def edit_record(run: Path) -> None:
    records = run / "attempts.jsonl"
    records.write_bytes(records.read_bytes().replace(b'"repeat":1', b'"repeat":2', 1))


def edit_evidence(run: Path) -> None:
    log = next(run.glob("tasks/*/events.jsonl"))
    log.write_bytes(log.read_bytes().replace(b'"seq":1', b'"seq":7', 1))


def write_ids(run: ab.Run, out: Path) -> None:
    out.write_text(" ".join(attempt.attempt_id for attempt in run.attempts))


def test_rows_say_which_records_were_altered(tmp_path: Path) -> None:
    run = whole_run(tmp_path)
    assert [row["altered"] for row in ab.open_run(run).rows()] == [False, False]
    records = run / "attempts.jsonl"
    records.write_bytes(records.read_bytes().replace(b'"passed":false', b'"passed":true'))
    assert {row["task_id"]: row["altered"] for row in ab.open_run(run).rows()} == {"toy": False, "other": True}
    assert ab.open_run(run).to_pandas()["altered"].tolist() == [False, True]
    (run / "events.jsonl").unlink()
    assert [row["altered"] for row in ab.open_run(run).rows()] == [None, None]


@pytest.mark.parametrize("edit", [edit_record, edit_evidence])
def test_function_exports_no_altered_run(edit: Callable[[Path], None], tmp_path: Path) -> None:
    run, out = whole_run(tmp_path / "runs"), tmp_path / "ids.txt"
    ab.open_run(run).export(write_ids, out)
    assert out.read_text()
    out.unlink()
    edit(run)
    with pytest.raises(InputError, match="does not verify"):
        ab.open_run(run).export(write_ids, out)
    assert not out.exists()
