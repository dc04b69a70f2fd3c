"""The data that the server sends, and what it writes."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agentbench.acceptance.mutation.audit import Audit
from agentbench.acceptance.validation import TaskValidation
from agentbench.contract.load import load_task
from agentbench.contract.templates import NewTask, new_task
from agentbench.core.errors import InputError
from agentbench.execution.operator import read_answer
from agentbench.execution.task_results import keep_result
from agentbench.execution.validation import audit_json
from agentbench.record.run_directory import RunDirectory
from agentbench.record.schema import ArtifactPaths, Cost
from agentbench.reports.adjudications import Finding, Truth, adjudicate, read_adjudications
from agentbench.reports.record_rows import read_rows
from agentbench.reports.sources import open_run
from agentbench.view.explorer import Explorer
from agentbench.view.index import Entry, RunIndex
from agentbench.view.roots import Roots
from agentbench.view.scenario import replace_scorers
from agentbench.view.suites import suites_json
from tests.record.samples import whole_run
from tests.reports.large import large_run
from tests.reports.runs import record, write_planned_run
from tests.view.conftest import Served, serve, write_runs, write_suite
from tests.web.sample import events, sample, write_run

pytestmark = pytest.mark.component


@pytest.fixture(scope="module")
def editable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server whose runs and tasks the tests change."""
    folder = tmp_path_factory.mktemp("editable")
    yield from serve(write_runs(folder / "runs"), tasks_dir=write_suite(folder / "tasks"))


def test_runs_are_listed_with_their_results(served: Served) -> None:
    runs = {run["name"]: run for run in served.get("/api/runs")["runs"]}
    assert {"a", "b", "hostile"} <= set(runs)
    assert runs["a"]["counts"]["passed"] == 2
    assert runs["a"]["counts"]["needs_review"] == 1
    assert runs["b"]["counts"]["attempts"] == 6
    assert runs["b"]["state"] == "finished"


def test_attempt_is_what_the_static_page_shows(served: Served) -> None:
    key = served.key("a")
    page = served.get(f"/api/run/{key}/page")
    assert page["keys"] == [key]
    row = page["attempts"][page["columns"].index("run")]
    names = {line[page["columns"].index("task")]: line[page["columns"].index("id")] for line in page["attempts"]}
    assert row
    detail = served.get(f"/api/run/{key}/attempt/{names['median']}")
    assert detail["record"]["task_id"] == "median"
    assert "middle = len(values)" in detail["diff"]["text"]
    assert detail["trace"]["events"] == len(events())
    part = served.get(f"/api/run/{key}/attempt/{names['median']}/trace/0")
    assert [event["seq"] for event in part] == list(range(1, len(events()) + 1))
    assert served.client.get(f"/api/run/{key}/attempt/{names['median']}/trace/7").status_code == 400


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with a run whose files are sealed."""
    folder = tmp_path_factory.mktemp("sealed")
    whole_run(folder / "runs")
    yield from serve(folder / "runs", tasks_dir=folder / "tasks")


@pytest.mark.parametrize("name", ["diffs/final.patch", "events.jsonl", "task.yaml"])
def test_attempt_with_an_edited_file_is_marked_and_not_shown_in_parts(sealed: Served, name: str) -> None:
    (run,) = sealed.get("/api/runs")["runs"]
    row = read_rows(Path(run["path"])).finals[0]
    address = f"/api/run/{run['key']}/attempt/{row.attempt_id}"
    file = Path(run["path"], row.task_dir, name)
    before = file.read_bytes()
    assert not sealed.get(address)["altered"]
    file.write_bytes(before[:-20])
    try:
        part = sealed.client.get(f"{address}/trace/0")
        assert part.status_code == 400
        assert "have changed since it was opened" in part.json()["error"]
        assert sealed.get(address)["altered"].startswith(f"{row.task_dir}/{name}")
    finally:
        file.write_bytes(before)
    assert not sealed.get(address)["altered"]
    assert sealed.get(f"{address}/trace/0")


def test_explorer_names_altered_runs_and_marks_their_attempts(tmp_path: Path) -> None:
    run = write_run(tmp_path / "runs" / "edited", [sample("a"), sample("b", "fail")])
    write_run(tmp_path / "runs" / "sound", [sample("a")])
    file = run / "attempts.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"passed":false', b'"passed":true'))
    for served in serve(tmp_path / "runs", tasks_dir=tmp_path / "tasks"):
        served.get("/api/runs")
        sql = "select run, altered from attempts group by all order by run"
        answer = served.post("/api/query", {"sql": sql}).json()
        assert answer["altered"] == ["edited"]
        assert answer["rows"] == [["edited", "attempts.jsonl:2 differs from its seal"], ["sound", None]]


def test_list_of_runs_counts_what_superseded_attempts_cost(tmp_path: Path) -> None:
    paths = ArtifactPaths(task_dir="tasks/old")
    old = sample("a", "operator", final=False, attempt_id="old", artifact_paths=paths)
    write_run(tmp_path / "runs" / "resumed", [old, sample("a", supersedes="old")])
    for served in serve(tmp_path / "runs", tasks_dir=tmp_path / "tasks"):
        (run,) = served.get("/api/runs")["runs"]
        assert (run["counts"]["attempts"], run["counts"]["spent"], run["counts"]["superseded_spent"]) == (1, 1.0, 0.5)
        assert run["study_spent"] == 1.0


def test_list_of_runs_says_what_is_unknown(tmp_path: Path) -> None:
    free: dict[str, Any] = {"cost": Cost(method_id=None), "suite": "a-dev"}
    write_run(tmp_path / "runs" / "free", [sample("a", **free), sample("b", **(free | {"suite": "b-dev"}))])
    bare = write_run(tmp_path / "runs" / "bare", [sample("a")])
    (bare / "events.jsonl").write_bytes(b"")
    for served in serve(tmp_path / "runs", tasks_dir=tmp_path / "tasks"):
        runs = {run["name"]: run for run in served.get("/api/runs")["runs"]}
        counts = runs["free"]["counts"]
        assert (counts["unknown_costs"], counts["spent"], counts["suites"]) == (2, 0, ["a-dev", "b-dev"])
        assert [runs[name]["not_sealed"] for name in ("free", "bare")] == ["", "1 of 1 attempt has no seal"]
        query = {"sql": "select cost from attempts where suite = 'a-dev'"}
        assert served.post("/api/query", query).json()["rows"] == [[None]]


def test_two_runs_are_compared(served: Served) -> None:
    page = served.get(f"/api/compare/{served.key('a')}/{served.key('b')}/page")
    assert page["comparison"]["a"]["name"] == "baseline"
    assert page["comparison"]["b"]["name"] == "packer"
    assert any(flip["task"] == "median" and flip["b"] == 1 for flip in page["comparison"]["flips"])
    same = served.client.get(f"/api/compare/{served.key('a')}/{served.key('a')}/page")
    assert same.status_code == 400


def test_explorer_answers_over_all_runs(served: Served) -> None:
    served.get("/api/runs")
    sql = "select variant, count(*) n, sum(passed::int) k from attempts where suite = 'demo' group by all order by n desc, variant"
    answer = served.post("/api/query", {"sql": sql}).json()
    assert answer["columns"] == ["variant", "n", "k"]
    assert ["baseline", 6, 2] in answer["rows"]
    assert ["packer", 6, 6] in answer["rows"]


@pytest.mark.parametrize(
    "sql",
    [
        "delete from attempts",
        "select 1; select 2",
        "set memory_limit = '8GB'",
        "copy attempts to '/tmp/stolen.csv'",
        "attach '/tmp/other.db'",
        "select * from read_text('/etc/passwd')",
        "select * from '/etc/passwd'",
        "select * from glob('/*')",
        "install httpfs",
        "pragma database_list",
        "create table mine as select 1",
        "select nonsense from nowhere",
        "",
    ],
)
def test_query_reads_nothing_but_the_table(served: Served, sql: str) -> None:
    answer = served.post("/api/query", {"sql": sql})
    assert answer.status_code == 400, answer.text
    assert "root:" not in answer.text


@pytest.mark.parametrize("change", ["DELETE FROM rows", "UPDATE runs SET altered = NULL", "DROP TABLE rows"])
def test_explained_statements_change_nothing(change: str) -> None:
    explorer = Explorer()
    for form in ("EXPLAIN ANALYZE {}", "EXPLAIN (ANALYZE) {}", "explain analyze /* /* */ select 1 -- */ {}"):
        with pytest.raises(InputError):
            explorer.ask(form.format(change))
    assert explorer.ask("SELECT count(*) FROM rows").rows == ((0,),)
    assert explorer.ask("EXPLAIN ANALYZE SELECT * FROM attempts").rows
    explorer.close()


def test_query_is_bounded_in_time_memory_and_rows() -> None:
    explorer = Explorer()
    with pytest.raises(InputError, match="took longer than"):
        explorer.ask(
            "select count(*) from range(1000000) a, range(1000000) b where hash(a.range, b.range) = 7", seconds=0.2
        )
    with pytest.raises(InputError, match="more memory than"):
        explorer.ask("select list(range) from range(100000000)", seconds=60)
    answer = explorer.ask("select * from range(100000)", max_rows=10)
    assert len(answer.rows) == 10
    assert answer.truncated
    # It still answers afterwards.
    assert explorer.ask("select count(*) from attempts").rows == ((0,),)
    explorer.close()


def test_attempts_of_a_run_are_replaced_with_what_the_run_shares(tmp_path: Path) -> None:
    explorer = Explorer()
    rows = read_rows(write_runs(tmp_path) / "b").finals
    shared = "select run, started_at, count(*) from attempts group by all"
    explorer.put("k", tmp_path / "b", {"created_at": "old"}, rows)
    assert explorer.ask(shared).rows == (("b", "old", 6),)
    explorer.put("k", tmp_path / "b", {"created_at": "new"}, rows[:2])
    assert explorer.ask(shared).rows == (("b", "new", 2),)
    explorer.remove("k")
    assert explorer.ask(shared).rows == ()
    explorer.close()


def test_suites_count_their_tasks_of_a_run_of_several_suites(tmp_path: Path) -> None:
    records = [sample("one", suite="a-dev"), sample("two", "fail", suite="a-dev"), sample("three", suite="b-dev")]
    run = write_run(tmp_path / "both", records)
    explorer = Explorer()
    explorer.put("k", run, {"suite": "a-dev+b-dev"}, read_rows(run).finals)
    for name in ("a-dev", "b-dev"):
        new_task(tmp_path / "tasks" / name / "one", NewTask())
    listed: Any = suites_json(tmp_path / "tasks", explorer)["suites"]
    assert {suite["name"]: suite["attempted"] for suite in listed} == {"a-dev": 2, "b-dev": 1, "demo": 0}
    explorer.close()


def test_explorer_names_the_run_that_a_retry_repeats(tmp_path: Path) -> None:
    explorer = Explorer()
    rows = read_rows(write_runs(tmp_path) / "b").finals
    explorer.put("first", tmp_path / "b", {}, rows)
    explorer.put("again", tmp_path / "c", {"retry_of": {"run_id": "01R-b", "name": "b", "kind": "failed"}}, rows[:2])
    counts = "select retry_of, count(*) from attempts group by all order by all"
    assert explorer.ask(counts).rows == (("b", 2), (None, 6))
    explorer.close()


def test_result_is_exported(served: Served) -> None:
    served.get("/api/runs")
    sql = "select task, passed, cost from attempts where variant = 'packer' order by task"
    text = served.post("/api/export", {"sql": sql, "format": "csv"}).text
    assert [row["task"] for row in csv.DictReader(io.StringIO(text))] == ["median", "t0", "t1", "t2", "t3", "t4"]
    rows = served.post("/api/export", {"sql": sql, "format": "json"}).json()
    assert rows[0]["passed"] is True
    parquet = served.post("/api/export", {"sql": sql, "format": "parquet"}).content
    assert parquet[:4] == b"PAR1"
    assert served.post("/api/export", {"sql": sql, "format": "exe"}).status_code == 400
    formula = served.post("/api/export", {"sql": "select '=1+1' as x", "format": "csv"}).text
    assert formula == "x\n'=1+1\n"


def test_adjudication_is_what_the_command_writes(editable: Served) -> None:
    queue = editable.get("/api/queue")
    (review,) = (one for one in queue["reviews"] if one["task"] == "median")
    body = {
        "run": review["run"],
        "attempt": review["attempt"],
        "truth": "incorrect",
        "minutes": 4,
        "note": "loses a row",
    }
    answer = editable.act("adjudicate", {**body, "categories": ["invariant_violation"]})
    assert answer.status_code == 200, answer.text
    (adjudication,) = read_adjudications(editable.folder / "a")
    assert (adjudication.truth, adjudication.minutes, adjudication.note) == ("incorrect", 4.0, "loses a row")
    assert adjudication.categories == ("invariant_violation",)
    (after,) = (one for one in editable.get("/api/queue")["reviews"] if one["task"] == "median")
    assert after["adjudicated"].startswith("incorrect by ")
    record = next(record for record in open_run(editable.folder / "a").finals if record.task_id == "median")
    adjudicate(editable.folder / "a", record, Finding(Truth.CORRECT, "bo", 1.0))
    (after,) = (one for one in editable.get("/api/queue")["reviews"] if one["task"] == "median")
    assert re.fullmatch("disputed: incorrect by .+, correct by bo", after["adjudicated"])
    for wrong in (
        {"truth": "maybe"},
        {"minutes": -1},
        {"minutes": True},
        {"categories": ["nonsense"]},
        {"attempt": "x"},
    ):
        assert editable.act("adjudicate", {**body, **wrong}).status_code == 400, wrong


def test_answer_to_an_operator_is_what_the_command_writes(editable: Served) -> None:
    run = editable.folder / "a"
    now = datetime.now().astimezone()
    question = {
        "id": "01-7", "attempt_id": "01", "task_id": "median", "variant": "baseline", "repeat": 1, "rule": "policy", "detail": "may it?",
        "alert": 7, "asked_at": now.isoformat(), "deadline_at": (now + timedelta(hours=1)).isoformat(),
    }  # fmt: skip
    (run / "operator").mkdir()
    (run / "operator" / "01-7.json").write_text(json.dumps(question))
    body = {"run": editable.key("a"), "question": "01-7", "decision": "continue", "reason": " it needs it "}
    assert editable.act("decide", {**body, "reason": "  "}).status_code == 400
    assert editable.act("decide", {**body, "decision": "maybe"}).status_code == 400
    assert editable.act("decide", body).status_code == 200
    answer = read_answer(run, "01-7")
    assert answer is not None
    assert (answer.decision, answer.justification) == ("continue", "it needs it")
    assert editable.act("decide", body).status_code == 400, "only the first answer counts"


def test_scenario_is_edited_after_a_preview(editable: Served) -> None:
    scenario = editable.get("/api/suite/mine/scenario")
    assert scenario["scorers"] == [{"name": "scope", "type": "max_files_changed", "limit": 5}]
    scorers = [*scenario["scorers"], {"name": "tests", "type": "command", "command": "true", "required": False}]
    path = Path(scenario["path"])
    before = path.read_text()
    preview = editable.post("/api/scenario/preview", {"suite": "mine", "scorers": scorers}).json()
    assert "+- name: tests" in preview["diff"]
    assert preview["problems"] == []
    assert path.read_text() == before
    invalid = [{"name": "scope", "type": "max_files_changed", "limit": -1}]
    refused = editable.post("/api/scenario/preview", {"suite": "mine", "scorers": invalid}).json()
    assert any("limit" in problem for problem in refused["problems"])
    body = {"suite": "mine", "scorers": scorers, "digest": scenario["digest"]}
    assert editable.act("scenario", {**body, "scorers": invalid}).status_code == 400
    assert editable.act("scenario", {**body, "digest": "0" * 64}).status_code == 400
    assert editable.act("scenario", body).status_code == 200
    text = path.read_text()
    assert text.startswith("# Scorers of the suite.\n")
    assert "\n# Weights are a policy choice.\nweights:\n" in text
    assert [one["name"] for one in editable.get("/api/suite/mine/scenario")["scorers"]] == ["scope", "tests"]
    assert editable.act("scenario", {**body, "suite": "demo"}).status_code == 400


@pytest.mark.parametrize(
    "before",
    [
        "",
        "# nothing yet\n",
        "weights: {minimal: 1.0, trace: 0.0, maintainability: 0.0}\n",
        "scorers: []\n",
        "scorers:\n",
        "judge:\n  enabled: false\nscorers: []\n",
    ],
)
def test_scorers_replace_only_their_part_of_the_file(before: str) -> None:
    import yaml

    scorers = [{"name": "a", "type": "forbid_secrets"}]
    after = replace_scorers(before, scorers)
    expected = {**(yaml.safe_load(before) or {}), "scorers": scorers}
    assert yaml.safe_load(after) == expected
    assert all(line in after.splitlines() for line in before.splitlines() if not line.startswith("scorers"))


def test_suites_show_checks_validation_and_audit(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AB_STATE", str(tmp_path))
    suite = served.get("/api/suite/mine")
    (task,) = suite["tasks"]
    assert task["checks"]
    assert (task["validation"], task["audit"]) == (None, None)
    loaded = load_task(Path(suite["folder"]) / "example" / "task.yaml")
    validation = TaskValidation("example", True, "fail", "pass", (), "")
    keep_result(tmp_path, loaded, "validation", asdict(validation))
    keep_result(tmp_path, loaded, "audit", audit_json(Audit("example", "fail", "pass", "")))
    (task,) = served.get("/api/suite/mine")["tasks"]
    assert (task["validation"]["valid"], task["validation"]["baseline"]) == (True, "fail")
    assert (task["audit"]["sound"], task["audit"]["kill_rate"]) == (True, None)
    assert served.client.get("/api/suite/nothing").status_code == 400
    assert served.get("/api/pilots") == {"pilots": []}


def test_broken_runs_are_listed_and_harm_no_other(tmp_path: Path) -> None:
    write_run(tmp_path / "good", [sample("t")])
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "run.json").write_text("")
    (tmp_path / "list").mkdir()
    (tmp_path / "list" / "run.json").write_text("[]")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "run.json").write_text("[" * 200_000)
    torn = write_run(tmp_path / "torn", [sample("t")])
    with (torn / "attempts.jsonl").open("ab") as file:
        file.write(b'{"half a record')
    lost = write_run(tmp_path / "lost", [sample("t")])
    (lost / "attempts.jsonl").write_bytes(b"\xff\xfe nonsense\n")
    entries = {entry.path.name: entry for entry in _read(tmp_path)}
    assert {name: entry.state for name, entry in entries.items()} == {
        "good": "finished",
        "empty": "unreadable",
        "list": "unreadable",
        "deep": "unreadable",
        "torn": "finished",
        "lost": "unreadable",
    }
    counts = entries["good"].counts
    assert counts is not None
    assert counts.passed == 1


def test_ended_run_with_attempts_without_a_result_is_incomplete(tmp_path: Path) -> None:
    write_planned_run(tmp_path / "runs" / "cut", ["one", "two"], [record("one")])
    write_planned_run(tmp_path / "runs" / "whole", ["one"], [record("one")])
    for served in serve(tmp_path / "runs", tasks_dir=tmp_path):
        served.get("/api/runs")
        states = {run["name"]: run["state"] for run in served.get("/api/runs")["runs"]}
        assert states == {"cut": "incomplete", "whole": "finished"}


def test_index_reads_again_only_what_changed(tmp_path: Path) -> None:
    large_run(tmp_path / "one", 20, 20)
    large_run(tmp_path / "two", 20, 20)
    read: list[str] = []
    index = RunIndex(Roots.of([tmp_path]), on_rows=lambda _key, path, _meta, _rows, _altered: read.append(path.name))
    assert index.wait_until_read(60)
    assert sorted(read) == ["one", "two"]
    index._scanned = -1e9
    assert index.wait_until_read(60)
    assert len(read) == 2
    (tmp_path / "two").rename(tmp_path / "three")
    index._scanned = -1e9
    assert index.wait_until_read(60)
    assert sorted(read) == ["one", "three", "two"]
    assert {entry.path.name for entry in index.entries()} == {"one", "three"}
    index.close()


def test_cap_is_the_one_of_the_last_resume(tmp_path: Path) -> None:
    path = whole_run(tmp_path / "runs")
    meta = json.loads((path / "run.json").read_bytes())
    (path / "run.json").write_text(json.dumps({**meta, "request": {"total_usd": 0.5}}))
    (entry,) = _read(tmp_path / "runs")
    assert entry.cap == 0.5
    with RunDirectory.open(path, harness_version="1", writable=True, caps={"total_usd": 5_000_000}) as run:
        run.close()
    (entry,) = _read(tmp_path / "runs")
    assert entry.cap == 5


def _read(folder: Path) -> list[Entry]:
    index = RunIndex(Roots.of([folder]))
    assert index.wait_until_read(60)
    entries = index.entries()
    index.close()
    return entries
