from __future__ import annotations

import builtins
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from agentbench.cli.query import command
from agentbench.core.errors import InputError
from tests.record.samples import whole_run
from tests.reports.runs import record, run_dir

pytest.importorskip("duckdb")


def query(sql: str, *args: object) -> Result:
    return CliRunner().invoke(command, [sql, *map(str, args)])


def test_records_of_several_runs_are_one_table(tmp_path: Path) -> None:
    a = run_dir(tmp_path / "a", [record("x"), record("y", "fail")])
    b = run_dir(tmp_path / "odd [b] 'q' *", [record("x", variant="packer")])
    sql = "select run_dir, variant, count(*) n, sum(passed::int) good from attempts group by all order by variant"
    data = json.loads(query(sql, a, b, "--format", "json").output)
    assert data == [
        {"run_dir": "a", "variant": "baseline", "n": 2, "good": 1},
        {"run_dir": "odd [b] 'q' *", "variant": "packer", "n": 1, "good": 1},
    ]
    checks = json.loads(query("select check_id, outcome, why from checks where outcome = 'fail'", a, "--json").output)
    assert checks == [{"check_id": "unit", "outcome": "fail", "why": "2 of 14 required tests failed"}]


def test_attempts_of_a_retry_name_the_run_that_they_repeat(tmp_path: Path) -> None:
    first = run_dir(tmp_path / "first", [record("x"), record("y", "fail")])
    again = run_dir(tmp_path / "again 'q' *", [record("y", "fail")])
    meta = json.loads((again / "run.json").read_text())
    link = {"run_id": "01R-first", "name": "first", "kind": "failed"}
    (again / "run.json").write_text(json.dumps({**meta, "retry_of": link}))
    sql = "select task_id, retry_of from attempts order by all"
    both = query(sql, first, again, "--format", "csv")
    assert both.stdout == "task_id,retry_of\nx,\ny,first\ny,\n"
    assert "again 'q' * repeats attempts of first" in both.stderr
    assert "`where final and retry_of is null` counts every attempt once" in both.stderr
    alone = query(sql, again, "--format", "csv")
    assert alone.stdout == "task_id,retry_of\ny,first\n"
    assert "repeats attempts" not in alone.stderr


def test_note_says_that_runs_have_superseded_attempts(tmp_path: Path) -> None:
    old = record("x", "harness", attempt_id="01-old", final=False)
    run = run_dir(tmp_path / "run", [old, record("x", supersedes="01-old")])
    counted = query("select count(*) n from attempts", run, "--format", "csv")
    assert counted.stdout == "n\n2\n"
    assert counted.stderr == "note: the runs have 1 superseded attempt, which `where final` leaves out\n"
    final = query("select count(*) n from attempts where final", run, "--format", "csv")
    assert (final.stdout, final.stderr) == ("n\n1\n", "")
    assert "superseded" not in query("select 1", run_dir(tmp_path / "other", [record("x")])).stderr


def test_runs_without_seals_are_named_and_their_records_are_not_called_unaltered(tmp_path: Path) -> None:
    sealed, unsealed = run_dir(tmp_path / "sealed", [record("x")]), run_dir(tmp_path / "unsealed", [record("y")])
    (unsealed / "events.jsonl").unlink()
    answer = query("select task_id, altered from attempts order by all", sealed, unsealed, "--json")
    assert json.loads(answer.stdout) == [{"task_id": "x", "altered": False}, {"task_id": "y", "altered": None}]
    assert answer.stderr == "NOT SEALED: unsealed has records without a seal that shows whether they were edited\n"


def test_missing_records_are_reported_and_the_other_runs_queried(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    run, other = run_dir(tmp_path / "run", [record("x")]), run_dir(tmp_path / "other", [record("y")])
    (run / "attempts.jsonl").unlink()
    for runs, rows in (((run, other), "y\n"), ((run,), "")):
        answer = query("select task_id from attempts", *runs, "--format", "csv")
        assert answer.stdout == f"task_id\n{rows}"
        assert "ALTERED: attempts.jsonl lacks the sealed record of attempt 01-x-1, see `ab verify`" in answer.stderr


def test_events_are_a_table(tmp_path: Path) -> None:
    run = whole_run(tmp_path / "runs")
    data = json.loads(query("select type, count(*) n from events group by type", run, "--json").output)
    counts = {one["type"]: one["n"] for one in data}
    assert counts["attempt_opened"] == 3
    assert counts["attempt_closed"] == 3
    first = json.loads(
        query("select seq, happened_at, payload->>'$.task_id' t from events where seq = 1", run, "--json").output
    )
    assert {one["t"] for one in first} == {"toy", "other"}
    assert all(one["happened_at"].startswith("20") for one in first)


def test_output_is_escaped_and_incomplete_lines_ignored(tmp_path: Path) -> None:
    run = run_dir(tmp_path / "run", [record("=1+1", agent="\x1b[31mred")])
    with (run / "attempts.jsonl").open("ab") as file:
        file.write(record("torn").line()[:100])
    assert query("select count(*) n from attempts", run).output.split()[:2] == ["n", "1"]
    assert "\x1b" not in query("select agent from attempts", run).output
    assert query("select task_id from attempts", run, "--format", "csv").output == "task_id\n'=1+1\n"
    assert query("select count(*) n from events", run, "--format", "csv").output == "n\n0\n"


def test_invalid_query_is_a_clear_error(tmp_path: Path) -> None:
    run = run_dir(tmp_path / "run", [record("x")])
    for sql, args, message in (
        ("select nothing from nowhere", (run,), "query failed"),
        ("selec", (run,), "query failed"),
        ("select 1", (tmp_path,), "is not a run directory"),
    ):
        result = query(sql, *args)
        assert isinstance(result.exception, InputError)
        assert message in result.exception.message


def test_query_error_points_at_the_word(tmp_path: Path) -> None:
    run = run_dir(tmp_path / "run", [record("x")])
    error = query("select task_id,\nnothing from attempts", run).exception
    assert isinstance(error, InputError)
    first, line, carets = error.message.splitlines()
    assert first.startswith('query failed: Binder Error: Referenced column "nothing" not found')
    assert line.strip() == "LINE 2: nothing from attempts"
    assert (carets.strip(), carets.index("^")) == ("^^^^^^^", line.index("nothing"))


def test_query_cannot_write(tmp_path: Path) -> None:
    run = run_dir(tmp_path / "run", [record("x")])
    before = (run / "attempts.jsonl").read_bytes()
    for sql in (
        f"copy (select 1) to '{run / 'attempts.jsonl'}'",
        f"attach '{tmp_path / 'new.db'}'",
        f"select 1; copy (select 1) to '{tmp_path / 'new.csv'}'",
        "create table t as select 1",
        f"explain analyze copy (select 1) to '{run / 'attempts.jsonl'}'",
        f"/* /* */ explain select 1 -- */ explain analyze copy (select 1) to '{run / 'attempts.jsonl'}'",
        "",
    ):
        result = query(sql, run)
        assert isinstance(result.exception, InputError), sql
        assert "expected one read-only statement" in result.exception.message
    assert (run / "attempts.jsonl").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]
    assert "task_id" in query("describe attempts", run).output
    for sql in ("explain select 1", "EXPLAIN\n ANALYZE select task_id from attempts"):
        assert query(sql, run).exception is None


def test_missing_duckdb_gives_the_install_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original: Callable[..., Any] = builtins.__import__

    def missing(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "duckdb":
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    result = query("select 1", run_dir(tmp_path / "run", [record("x")]))
    assert isinstance(result.exception, InputError)
    assert "pip install 'agentbench-harness[query]'" in result.exception.remedy
