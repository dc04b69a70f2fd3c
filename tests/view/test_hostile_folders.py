"""The server lists hostile run directories and pilots, refuses to open them and goes on."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from agentbench.pilot.folder import PILOT_FILE
from agentbench.view.index import Entry, RunIndex
from agentbench.view.live import AttemptFollow, RunWatch
from agentbench.view.roots import Roots
from agentbench.view.tail import Tail
from tests.view.conftest import serve
from tests.web.sample import sample, write_run

pytestmark = [pytest.mark.component, pytest.mark.timeout(200)]


def read(folder: Path) -> dict[str, Entry]:
    index = RunIndex(Roots.of([folder]))
    assert index.wait_until_read(100)
    entries = index.entries()
    index.close()
    return {entry.path.name: entry for entry in entries}


@pytest.mark.parametrize("name", ["attempts.jsonl", "events.jsonl", "adjudications.jsonl", "anything"])
def test_pipe_in_a_run_does_not_block_the_server(tmp_path: Path, name: str) -> None:
    write_run(tmp_path / "good", [sample("t")])
    bad = write_run(tmp_path / "bad", [sample("t")])
    (bad / name).unlink(missing_ok=True)
    os.mkfifo(bad / name)
    for served in serve(tmp_path, tasks_dir=tmp_path):
        key = served.key("bad")
        states = {run["name"]: run["state"] for run in served.get("/api/runs")["runs"]}
        assert states == {"good": "finished", "bad": "unreadable"}
        for path in (
            f"/api/run/{key}/page",
            f"/api/run/{key}/attempt/x",
            f"/api/compare/{key}/{served.key('good')}/page",
        ):
            answer = served.client.get(path)
            assert answer.status_code == 400
            assert "not opened" in answer.json()["error"]
        assert served.get("/api/queue")["questions"] == []
        assert served.post("/api/query", {"sql": "select count(*) from attempts"}).json()["rows"] == [[1]]


def test_pipe_among_questions_does_not_block_the_server(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [sample("t")])
    (run / "operator").mkdir()
    os.mkfifo(run / "operator" / "01-1.json")
    for served in serve(tmp_path, tasks_dir=tmp_path):
        body = {"run": served.key("run"), "question": "01-1", "decision": "stop", "reason": "no"}
        assert served.act("decide", body).status_code == 400


def test_linked_records_are_not_read(tmp_path: Path) -> None:
    other = write_run(tmp_path / "elsewhere" / "other", [sample("t")])
    bad = write_run(tmp_path / "runs" / "bad", [sample("t")])
    (bad / "attempts.jsonl").unlink()
    (bad / "attempts.jsonl").symlink_to(other / "attempts.jsonl")
    assert read(tmp_path / "runs")["bad"].refused


def test_links_that_form_a_loop_end_the_scan(tmp_path: Path) -> None:
    write_run(tmp_path / "good", [sample("t")])
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "self").symlink_to("self")
    deep = tmp_path
    for _ in range(60):
        deep /= "deeper"
    deep.mkdir(parents=True)
    write_run(deep / "hidden", [sample("t")])
    assert list(read(tmp_path)) == ["good"]


def test_huge_files_are_not_read(tmp_path: Path) -> None:
    records = write_run(tmp_path / "records", [sample("t")])
    os.truncate(records / "attempts.jsonl", 8 * 1024**3)
    meta = write_run(tmp_path / "meta", [sample("t")])
    os.truncate(meta / "run.json", 8 * 1024**3)
    entries = read(tmp_path)
    assert "larger than 1 GB" in entries["records"].problem
    assert "larger than 32 MB" in entries["meta"].problem


def test_run_that_vanishes_while_it_is_watched_is_reported(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [sample("t")])
    for served in serve(tmp_path, tasks_dir=tmp_path):
        key = served.key("run")
        shutil.rmtree(run)
        with served.client.stream("GET", f"/api/run/{key}/live") as response:
            text = next(response.iter_text())
        assert "event: problem" in text or '"state":' in text
        assert served.client.get("/api/runs").status_code == 200


def test_pilot_with_a_pipe_is_not_opened(tmp_path: Path) -> None:
    for name, pipe in (("one", "registration.json"), ("two", "registrations/1/registration.json")):
        pilot = tmp_path / name
        (pilot / pipe).parent.mkdir(parents=True)
        (pilot / PILOT_FILE).write_text("{}")
        os.mkfifo(pilot / pipe)
    for served in serve(tmp_path, tasks_dir=tmp_path):
        problems = {pilot["name"]: pilot["problem"] for pilot in served.get("/api/pilots")["pilots"]}
        assert "registration.json" in problems["one"]
        assert "registrations/1/registration.json" in problems["two"]


def test_tail_reads_only_regular_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("a line\n")
    (tmp_path / "link").symlink_to("file")
    assert Tail(tmp_path / "pipe").lines() == []
    assert Tail(tmp_path / "link").lines() == []
    assert Tail(tmp_path / "file").lines() == [(7, b"a line")]


def test_chain_with_nonsense_is_watched_without_an_error(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [sample("t")])
    with (run / "events.jsonl").open("ab") as file:
        file.write(b'nonsense\n{"type":"attempt_begun","payload":{}}\n' + b"[" * 100_000 + b"\n")
    index = RunIndex(Roots.of([tmp_path]))
    assert index.wait_until_read(100)
    (entry,) = index.entries()
    watch = RunWatch(index, entry.key)
    assert watch.snapshot()["workers"] == []
    watch.update()
    assert AttemptFollow(index, entry.key, "nothing").events() is None
    index.close()
