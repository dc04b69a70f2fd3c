"""SQL queries over records and events of runs. DuckDB reads the files in place."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError
from agentbench.core.text import printable
from agentbench.record.naming import ATTEMPTS, RUN_JSON, read_run_json
from agentbench.record.seals import AlteredRecord, ComparedRecords, altered_logs, compare_records
from agentbench.reports.attempt_table import retry_of

if TYPE_CHECKING:
    import duckdb

INSTALL = "pip install 'agentbench-harness[query]'"
READ_ONLY = ("SELECT", "EXPLAIN")
_EXPLAIN = re.compile(r"\s*explain\s+(?:analyze\s+)?", re.IGNORECASE)
"""The beginning of a statement that explains another. Comments are not skipped: DuckDB nests them, and what follows could hide there."""
MAX_LINE_BYTES = 64 * 1024 * 1024

_ATTEMPT_COLUMNS = {
    "run_id": "VARCHAR", "attempt_id": "VARCHAR", "study_id": "VARCHAR", "task_id": "VARCHAR", "suite": "VARCHAR", "variant": "VARCHAR",
    "agent": "VARCHAR", "repeat": "INTEGER", "final": "BOOLEAN", "run_status": "VARCHAR", "invalid_cause": "VARCHAR",
    "attribution": "VARCHAR", "run_badge": "VARCHAR", "needs_review": "BOOLEAN", "score": "DOUBLE", "mean_score": "DOUBLE",
    "workspace_verdict": "VARCHAR", "duration_sec": "DOUBLE", "contract_id": "VARCHAR", "harness_version": "VARCHAR",
}  # fmt: skip
_ATTEMPT_PATHS = {
    "passed": ("$.result.passed", "BOOLEAN"),
    "failure_reason": ("$.result.failure_reason", "VARCHAR"),
    "termination": ("$.termination.code", "VARCHAR"),
    "model": ("$.model.name", "VARCHAR"),
    "judge_verdict": ("$.judge.verdict", "VARCHAR"),
    "g1": ("$.gates.G1.outcome", "VARCHAR"),
    "g2": ("$.gates.G2.outcome", "VARCHAR"),
    "g3": ("$.gates.G3.outcome", "VARCHAR"),
    "g4": ("$.gates.G4.outcome", "VARCHAR"),
    "tool_calls": ("$.usage.tool_calls", "BIGINT"),
    "prompt_tokens": ("$.usage.prompt_tokens", "BIGINT"),
    "completion_tokens": ("$.usage.completion_tokens", "BIGINT"),
    "wall_sec": ("$.usage.wall_sec", "DOUBLE"),
    "cost_unit": ("$.cost.unit", "VARCHAR"),
    "decoy_coverage": ("$.decoy_coverage", "DOUBLE"),
    "started_at": ("$.timestamps.started_at", "VARCHAR"),
    "task_dir": ("$.artifact_paths.task_dir", "VARCHAR"),
}
_KNOWN_COST = (
    "CASE WHEN json->>'$.cost.method_id' IS NOT NULL OR CAST(json->>'$.cost.total' AS DOUBLE) != 0 "
    "THEN CAST(json->>'$.cost.total' AS DOUBLE) END AS cost"
)
"""The total cost; null if it is unknown, see `record.schema.Cost`."""
VIEWS = {
    "attempts": "one row per attempt, superseded ones included (`final` is false): fields as columns, the full record as JSON in `record`, the run in `run_dir`, the run that "
    "`ab retry` repeated in `retry_of`, `altered` if it differs from its seal (null if it has no seal)",
    "checks": "one row per acceptance check: task_id, variant, repeat, check_id, outcome, mandatory, assurance, why",
    "events": "one row per event: run_dir, task_dir, seq, happened_at, type, actor, payload (JSON)",
}


@dataclass(frozen=True, slots=True)
class Answer:
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    altered: tuple[AlteredRecord, ...] = ()
    """Records of the runs that differ from their seals, whether or not the answer uses them; also logs, if it reads events."""
    unsealed: tuple[str, ...] = ()
    """Names of runs with records that have no seal, so that nothing shows whether they were edited."""
    repeated: tuple[tuple[str, str], ...] = ()
    """Names of runs that repeat attempts of another given run, with the name of that run."""
    superseded: int = 0
    """Number of superseded records of the runs, if the statement reads attempts or checks and does not name `final`."""


def ask(runs: Sequence[Path], sql: str) -> Answer:
    """Run one read-only SQL statement over the runs.

    Raises:
        InputError: DuckDB is missing, a folder is not a run directory, or the statement fails or is not read-only.
    """
    try:
        import duckdb  # noqa: PLC0415 - optional dependency
    except ImportError:
        raise InputError("ab query needs DuckDB, which is not installed", remedy=INSTALL) from None
    for run in runs:
        if not (run / RUN_JSON).is_file():
            raise InputError(f"{run} is not a run directory (it has no {RUN_JSON})")
    compared = {run.absolute(): compare_records(run) for run in runs}
    metas = {run: _meta(run) for run in compared}
    connection = duckdb.connect(":memory:", config={"autoinstall_known_extensions": False})
    try:
        for statement in _views(metas, compared):
            connection.execute(statement)
        altered = tuple(record for records in compared.values() for record in records.altered)
        if "events" in _words(sql):
            altered += tuple(record for run in compared for record in altered_logs(run))
        unsealed = tuple(run.name for run, records in compared.items() if records.not_sealed_yet or not records.sealed)
        answer = _answer(connection, sql)
        superseded = _superseded(connection, sql)
        return replace(answer, altered=altered, unsealed=unsealed, repeated=_repeated(metas), superseded=superseded)
    except duckdb.Error as error:
        raise InputError(
            f"query failed: {_lines_of(str(error))}", remedy=f"views: {', '.join(VIEWS)}; see `ab query --help`"
        ) from error
    finally:
        connection.close()


def not_read_only(connection: duckdb.DuckDBPyConnection, sql: str) -> str:
    """Return why a text is not one read-only statement; empty if it is one.

    COPY, ATTACH and similar statements could change the evidence. EXPLAIN ANALYZE executes what it explains.

    Raises:
        duckdb.Error: it is not SQL.
    """
    kinds = [statement.type.name for statement in connection.extract_statements(sql)]
    if kinds == ["EXPLAIN"] and (begin := _EXPLAIN.match(sql)):
        kinds = [f"EXPLAIN {kind.type.name}" for kind in connection.extract_statements(sql[begin.end() :])]
    if kinds in (["SELECT"], ["EXPLAIN SELECT"]):
        return ""
    return f"expected one read-only statement ({', '.join(READ_ONLY)}), got {', '.join(kinds) or 'none'}"


def _answer(connection: duckdb.DuckDBPyConnection, sql: str) -> Answer:
    if problem := not_read_only(connection, sql):
        raise InputError(problem, remedy="to save the result, redirect the output of --format csv or --format json")
    result = connection.execute(sql)
    if result.description is None:
        return Answer((), ())
    return Answer(tuple(column[0] for column in result.description), tuple(result.fetchall()))


def _lines_of(error: str) -> str:
    """Return a message of DuckDB in one line, and below it the line of the statement with carets under the word it means."""
    message, mark, excerpt = error.partition("\nLINE ")
    lines = [" ".join(message.split())[:600], *f"{mark.strip()} {excerpt}".expandtabs(1).splitlines()[:2]]
    return "\n  ".join(printable(line) for line in lines if line.strip())


def _superseded(connection: duckdb.DuckDBPyConnection, sql: str) -> int:
    words = _words(sql)
    if "final" in words or not words & {"attempts", "checks"}:
        return 0
    return int(connection.execute("SELECT count(*) FROM attempts WHERE NOT final").fetchall()[0][0])


def _words(sql: str) -> set[str]:
    return set(re.findall(r"\w+", sql.lower()))


def _meta(run: Path) -> Mapping[str, Json]:
    """Read `run.json`; one that cannot be read says nothing, and its records are reported as altered."""
    try:
        meta = json.loads(read_run_json(run))
    except (OSError, ValueError, RecursionError):
        return {}
    return meta if isinstance(meta, dict) else {}


def _repeated(metas: Mapping[Path, Mapping[str, Json]]) -> tuple[tuple[str, str], ...]:
    """Return the runs that repeat attempts of another of these runs."""
    names = {meta.get("run_id"): run.name for run, meta in metas.items()}
    links = [(run.name, meta["retry_of"]) for run, meta in metas.items() if retry_of(meta) is not None]
    return tuple(
        (name, names[link["run_id"]]) for name, link in links if isinstance(link, dict) and link.get("run_id") in names
    )


def _views(metas: Mapping[Path, Mapping[str, Json]], compared: Mapping[Path, ComparedRecords]) -> list[str]:
    runs = list(metas)
    records = _files([path for run in runs if (path := run / ATTEMPTS).exists()])
    logs = _globs(runs)
    columns = [f"CAST(json->>'$.{name}' AS {kind}) AS {name}" for name, kind in _ATTEMPT_COLUMNS.items()]
    columns += [f"CAST(json->>'{path}' AS {kind}) AS {name}" for name, (path, kind) in _ATTEMPT_PATHS.items()]
    changed = _listed(item.attempt_id for records in compared.values() for item in records.altered if item.attempt_id)
    unsealed = _listed(str(run / ATTEMPTS) for run, records in compared.items() if not records.sealed)
    waiting = _listed(attempt_id for records in compared.values() for attempt_id in records.not_sealed_yet)
    unknown = f"filename IN ({unsealed}) OR attempt_id IN ({waiting})"
    columns.append(f"CASE WHEN {unknown} THEN NULL ELSE attempt_id IN ({changed}) END AS altered")
    columns.append(_KNOWN_COST)
    links = [(run / ATTEMPTS, name) for run, meta in metas.items() if (name := retry_of(meta)) is not None]
    cases = " ".join(f"WHEN {_quoted(str(path))} THEN {_quoted(name)}" for path, name in links)
    columns.append(f"CAST({f'CASE filename {cases} END' if cases else 'NULL'} AS VARCHAR) AS retry_of")
    options = f"filename=true, ignore_errors=true, maximum_object_size={MAX_LINE_BYTES}"
    attempts = (
        f"CREATE VIEW attempts AS SELECT parse_path(filename)[-2] AS run_dir, {', '.join(columns)}, json AS record "  # noqa: S608 - names are constants, paths are quoted
        f"FROM read_ndjson_objects({records}, {options}) WHERE json IS NOT NULL"
    )
    checks = (
        "CREATE VIEW checks AS SELECT run_dir, attempt_id, task_id, variant, repeat, c->>'$.id' AS check_id, c->>'$.layer' AS layer, "
        "CAST(c->>'$.mandatory' AS BOOLEAN) AS mandatory, c->>'$.outcome' AS outcome, c->>'$.assurance' AS assurance, "
        "CAST(c->>'$.duration_sec' AS DOUBLE) AS duration_sec, c->>'$.why' AS why, c->'$.failing_tests' AS failing_tests "
        "FROM (SELECT *, unnest(CAST(record->'$.checks' AS JSON[])) AS c FROM attempts)"
    )
    events = (
        "CREATE VIEW events AS SELECT parse_path(filename)[-4] AS run_dir, parse_path(filename)[-2] AS task_dir, "  # noqa: S608 - as above
        "CAST(json->>'$.seq' AS BIGINT) AS seq, make_timestamp(CAST(json->>'$.t' AS BIGINT)) AS happened_at, "
        "json->>'$.type' AS type, json->>'$.actor' AS actor, json->'$.payload' AS payload "
        f"FROM read_ndjson_objects({logs}, {options}) WHERE json IS NOT NULL"
    )
    return [attempts, checks, events]


def _files(paths: Sequence[Path]) -> str:
    """List files. Without any, /dev/null keeps the view valid."""
    return "[" + ", ".join(_quoted(_literal(path)) for path in paths or [Path("/dev/null")]) + "]"


def _globs(runs: Sequence[Path]) -> str:
    """List the logs of all attempts. Without any, /dev/null keeps the view valid."""
    patterns = [_literal(run) + "/tasks/*/events.jsonl" for run in runs if any(run.glob("tasks/*/events.jsonl"))]
    return "[" + ", ".join(map(_quoted, patterns)) + "]" if patterns else "[" + _quoted("/dev/null") + "]"


def _literal(path: Path) -> str:
    """Escape glob characters in a path for DuckDB."""
    return re.sub(r"([*?\[])", r"[\1]", str(path))


def _listed(texts: Iterable[str]) -> str:
    """Return the members of an SQL list, of which it needs at least one."""
    return ", ".join(map(_quoted, texts)) or "''"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def as_json(answer: Answer) -> list[Json]:
    return [dict(zip(answer.columns, map(plain_value, row), strict=True)) for row in answer.rows]


def plain_value(value: object) -> Json:
    """Convert a DuckDB value to JSON; types that JSON lacks become text."""
    if isinstance(value, dict):
        return {str(key): plain_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(item) for item in value]
    if isinstance(value, float | Decimal):
        return float(value) if math.isfinite(value) else str(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return value if isinstance(value, bool | int | str) or value is None else str(value)
