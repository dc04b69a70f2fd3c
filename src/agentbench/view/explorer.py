"""The data explorer: one table with every attempt of every run, asked with SQL.

The table is kept in DuckDB, in memory, filled from the rows that the index reads. The database may not open files, and only single
read-only statements are executed, with limits on time, memory and rows.
"""

from __future__ import annotations

import csv
import io
import json
import os
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError
from agentbench.reports.attempt_table import retry_of
from agentbench.reports.query import not_read_only, plain_value
from agentbench.reports.record_rows import Row

if TYPE_CHECKING:
    import duckdb

MEMORY = "96MB"
QUERY_SEC = 10.0
BATCH_ROWS = 1_000
MAX_ROWS = 5_000
MAX_EXPORT_ROWS = 200_000
MAX_SQL = 20_000
MAX_CELL = 2_000
EXPORTS = {"csv": "text/csv", "json": "application/json", "parquet": "application/vnd.apache.parquet"}

_RUN_COLUMNS = {
    "run_key": "VARCHAR",
    "run": "VARCHAR",
    "started_at": "VARCHAR",
    "retry_of": "VARCHAR",
    "altered": "VARCHAR",
}
_OWN_COLUMNS = {
    "attempt_id": "VARCHAR", "suite": "VARCHAR", "task": "VARCHAR",
    "repeat": "INTEGER", "variant": "VARCHAR", "agent": "VARCHAR", "model": "VARCHAR", "status": "VARCHAR", "passed": "BOOLEAN",
    "counted": "BOOLEAN", "reason": "VARCHAR", "invalid_cause": "VARCHAR", "attribution": "VARCHAR", "badge": "VARCHAR",
    "needs_review": "BOOLEAN", "scorers": "VARCHAR", "judge": "VARCHAR", "g1": "VARCHAR", "g2": "VARCHAR", "g3": "VARCHAR", "g4": "VARCHAR",
    "score": "DOUBLE", "mean_score": "DOUBLE", "duration_sec": "DOUBLE", "agent_sec": "DOUBLE", "cost": "DOUBLE", "cost_unit": "VARCHAR",
    "prompt_tokens": "BIGINT", "completion_tokens": "BIGINT", "tokens": "BIGINT", "model_requests": "BIGINT", "tool_calls": "BIGINT",
    "f2p_passed": "INTEGER", "f2p_total": "INTEGER", "p2p_kept": "INTEGER", "p2p_total": "INTEGER", "assurance": "VARCHAR",
    "ending": "VARCHAR", "harness_version": "VARCHAR",
}  # fmt: skip
COLUMNS = {**_RUN_COLUMNS, **_OWN_COLUMNS}
"""Columns of the view `attempts`. What the attempts of a run share is kept once, in the table `runs`."""


def _table(name: str, columns: Mapping[str, str]) -> str:
    return f"CREATE TABLE {name} (run_id INTEGER, {', '.join(f'{column} {kind}' for column, kind in columns.items())})"


_TABLES = (
    _table("runs", _RUN_COLUMNS),
    _table("rows", _OWN_COLUMNS),
    f"CREATE VIEW attempts AS SELECT {', '.join(COLUMNS)} FROM rows JOIN runs USING (run_id)",  # noqa: S608 - own names
)
# One list per column. A table of numpy arrays would be inserted faster, and numpy needs 15 MB.
_INSERT = f"INSERT INTO rows SELECT {', '.join(f'unnest(?::{kind}[])' for kind in ('INTEGER', *_OWN_COLUMNS.values()))}"


@dataclass(frozen=True, slots=True)
class Result:
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    truncated: bool
    seconds: float

    def as_json(self) -> dict[str, Json]:
        return {
            "columns": list(self.columns),
            "rows": [[_cell(value) for value in row] for row in self.rows],
            "truncated": self.truncated,
            "seconds": round(self.seconds, 4),
        }


class Explorer:
    """The table of attempts. Safe to use from several threads; one query runs at a time."""

    def __init__(self) -> None:
        self._connection = _connect()
        for table in _TABLES:
            self._connection.execute(table)
        self._connection.execute("SET lock_configuration=true")
        self._writing = threading.Lock()
        self._asking = threading.Lock()
        self._waiting: dict[str, list[tuple[object, ...]]] = {}
        """Attempts by run that are not in the table yet. One insert of many rows is far cheaper than many inserts."""
        self._ids: dict[str, int] = {}
        self._runs: dict[int, tuple[str | None, ...]] = {}
        """Rows of the table `runs` by their id."""
        self._written: set[str] = set()

    def put(self, key: str, path: Path, meta: Mapping[str, Json], rows: Sequence[Row], altered: str = "") -> None:
        """Replace the attempts of one run. `altered`: what was altered first in its records, or that they have no seal."""
        name = os.fsencode(path.name).decode(errors="replace")
        shared = (
            key, name, _text(meta.get("created_at")), retry_of(meta), altered or None,
        )  # fmt: skip
        with self._writing:
            run_id = self._ids.setdefault(key, len(self._ids))
            if self._runs.get(run_id) != shared:
                self._runs[run_id] = shared
                self._connection.execute("DELETE FROM runs WHERE run_id = ?", [run_id])
                self._connection.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?)", [run_id, *shared])
            self._waiting[key] = [(run_id, *_values(row)) for row in rows]
            if sum(map(len, self._waiting.values())) >= BATCH_ROWS:
                self._write()

    def remove(self, key: str) -> None:
        with self._writing:
            self._waiting[key] = []

    def _write(self) -> None:
        """Write the waiting attempts to the table."""
        waiting, self._waiting = self._waiting, {}
        values = [value for of_run in waiting.values() for value in of_run]
        replaced = [self._ids[key] for key in waiting if key in self._written]
        self._connection.execute("BEGIN")
        if replaced:
            self._connection.execute("DELETE FROM rows WHERE run_id IN (SELECT unnest(?))", [replaced])
        if values:
            self._connection.execute(_INSERT, list(map(list, zip(*values, strict=True))))
        self._connection.execute("COMMIT")
        self._written |= waiting.keys()

    def ask(self, sql: str, *, max_rows: int = MAX_ROWS, seconds: float = QUERY_SEC) -> Result:
        """Run one read-only statement.

        Raises:
            InputError: the statement is too long, not read-only, invalid, or exceeds its limits.
        """
        import duckdb  # noqa: PLC0415 - optional dependency

        if len(sql) > MAX_SQL:
            raise InputError(f"the statement is longer than {MAX_SQL:,} characters")
        with self._writing:
            if self._waiting:
                self._write()
        with self._asking, self._connection.cursor() as cursor:
            stop = threading.Timer(seconds, cursor.interrupt)
            stop.start()
            began = time.monotonic()
            try:
                if problem := not_read_only(cursor, sql):
                    raise InputError(problem)
                answer = cursor.execute(sql)
                names = tuple(column[0] for column in answer.description or ())
                rows = answer.fetchmany(max_rows + 1)
            except duckdb.InterruptException:
                raise InputError(f"the query took longer than {seconds:g} s", remedy="add a filter or LIMIT") from None
            except duckdb.OutOfMemoryException:
                raise InputError(f"the query needs more memory than {MEMORY}", remedy="add a filter or LIMIT") from None
            except duckdb.Error as error:
                raise InputError(f"query failed: {' '.join(str(error).split())[:600]}") from None
            finally:
                stop.cancel()
            return Result(names, tuple(rows[:max_rows]), len(rows) > max_rows, time.monotonic() - began)

    def export(self, sql: str, form: str) -> bytes:
        """Return the result of a statement as a file.

        Raises:
            InputError: see `ask`, or the format is unknown.
        """
        if form not in EXPORTS:
            raise InputError(f"unknown format; expected one of {', '.join(EXPORTS)}")
        result = self.ask(sql, max_rows=MAX_EXPORT_ROWS)
        if form == "json":
            names = result.columns
            lines = [dict(zip(names, map(plain_value, row), strict=True)) for row in result.rows]
            return json.dumps(lines, separators=(",", ":")).encode()
        if form == "csv":
            text = io.StringIO()
            writer = csv.writer(text, lineterminator="\n")
            writer.writerow(map(_csv_cell, result.columns))
            writer.writerows([_csv_cell(value) for value in row] for row in result.rows)
            return text.getvalue().encode()
        return _parquet(result)

    def close(self) -> None:
        with self._writing, self._asking:
            self._connection.close()


def _connect() -> duckdb.DuckDBPyConnection:
    import duckdb  # noqa: PLC0415 - optional dependency

    config: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "enable_external_access": False,
        "memory_limit": MEMORY,
        "temp_directory": "",
        # Rows are compressed when they are checkpointed: often, because rows that are not need five times the memory.
        "checkpoint_threshold": "512KB",
        "threads": 1,
        "async_threads": 1,
        # Freed memory goes back to the system at once; by default DuckDB keeps up to 128 MB of it.
        "allocator_flush_threshold": "1MB",
        "allocator_bulk_deallocation_flush_threshold": "1MB",
    }
    return duckdb.connect(":memory:", config=config)


def _values(row: Row) -> tuple[object, ...]:
    """Return the values of one attempt, in the order of its own columns."""
    usage, cost = row.usage, row.cost
    return (
        row.attempt_id, row.suite, row.task,
        min(row.repeat, 2**31 - 1), row.variant, row.agent, row.model, str(row.status), row.passed,
        row.cause is None, _text(row.reason), _text(row.cause), row.attribution, row.badge,
        row.needs_review, row.workspace_verdict, row.judge, *(str(gate) for gate in row.gates),
        row.score, row.mean_score, row.duration, usage.wall_sec, cost.known_total, cost.unit,
        *map(_count, (usage.prompt_tokens, usage.completion_tokens, usage.prompt_tokens + usage.completion_tokens, usage.model_requests, usage.tool_calls)),
        *(min(number, 2**31 - 1) for number in row.progress), _text(row.assurance),
        row.ending, row.harness_version,
    )  # fmt: skip


def _count(value: int) -> int:
    return max(-(2**63), min(value, 2**63 - 1))


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _cell(value: object) -> Json:
    plain = plain_value(value)
    if isinstance(plain, str) and len(plain) > MAX_CELL:
        return plain[:MAX_CELL] + "…"
    return plain


def _csv_cell(value: object) -> object:
    """Return a cell that no spreadsheet takes for a formula."""
    plain = plain_value(value)
    if isinstance(plain, dict | list):
        return json.dumps(plain)
    return f"'{plain}" if isinstance(plain, str) and plain.startswith(("=", "+", "-", "@", "\t", "\r")) else plain


def _parquet(result: Result) -> bytes:
    """Write a result with a database of its own, because the explorer's may not open files."""
    import duckdb  # noqa: PLC0415 - optional dependency
    import numpy as np  # noqa: PLC0415 - slow to import

    columns = {}
    for position, name in enumerate(_unique(result.columns)):
        column = np.empty(len(result.rows), dtype=object)
        column[:] = [row[position] for row in result.rows]
        columns[name] = column
    if not columns:
        raise InputError("the result has no columns")
    with tempfile.TemporaryDirectory(prefix="ab-view-") as folder, duckdb.connect(":memory:") as connection:
        file = Path(folder) / "export.parquet"
        connection.register("result", columns)
        try:
            connection.execute("COPY (SELECT * FROM result) TO ? (FORMAT parquet)", [str(file)])
        except duckdb.Error as error:
            raise InputError(f"cannot export: {' '.join(str(error).split())[:300]}") from None
        return file.read_bytes()


def _unique(names: Sequence[str]) -> list[str]:
    return [f"{name}_{index}" if name in names[:index] else name for index, name in enumerate(names)]
