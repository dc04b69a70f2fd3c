import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

from agentbench_sqlite import sqlite


def test_runs_are_added_and_no_attempt_twice(tmp_path: Path) -> None:
    out = tmp_path / "results.db"
    for attempts in (["1", "2"], ["2", "3"]):
        rows = [{"attempt_id": attempt, "passed": True} for attempt in attempts]
        sqlite(SimpleNamespace(rows=lambda rows=rows: rows), out)
    with closing(sqlite3.connect(out)) as database:
        assert database.execute("SELECT attempt_id FROM attempts ORDER BY 1").fetchall() == [("1",), ("2",), ("3",)]
