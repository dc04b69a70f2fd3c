"""Resuming a run needs the same tasks and options, a usable model, and counts what was spent before."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest

from agentbench.cli.replay import recorded_backend
from agentbench.execution.open_study import study_records
from agentbench.record.run_directory import RunDirectory
from tests.execution.conftest import Ab, Interrupt
from tests.execution.tasks import PATCH, make_suite
from tests.execution.test_interruption import Slow, wait_for
from tests.record.samples import attempt, new_run, whole_run

pytestmark = pytest.mark.end_to_end


@pytest.mark.req("R-13", "U-05")
def test_resume_rejects_changed_options_and_tasks(ab: Ab, tmp_path: Path, interrupt: Interrupt) -> None:
    slow = Slow(ab, tmp_path, "one", "two", "three")
    process = slow.start()
    wait_for(lambda: slow.asleep() == 2)
    interrupt(process, signal.SIGINT)
    slow.finish_at_once()
    log = slow.run / "events.jsonl"
    before = log.read_bytes()
    for more in (("--dry-run",), ("--agent", "noop"), ("--temperature", "1"), ("--repeats", "2")):
        refused = ab("run", "--resume", slow.run, *more)
        assert refused.code == 2
        assert more[0] in refused.stderr
    task = slow.tasks / "tiny" / "two" / "task.yaml"
    text = task.read_text()
    task.write_text(text.replace("must say 42", "must say 43"))
    changed = ab("run", "--resume", slow.run)
    assert (changed.code, "task two has changed since the run started: statement" in changed.stderr) == (2, True), (
        changed.stderr
    )
    task.write_text(text)
    shutil.move(slow.tasks / "tiny" / "three", tmp_path / "three")
    gone = ab("run", "--resume", slow.run)
    assert (gone.code, "missing tasks: three" in gone.stderr) == (2, True), gone.stderr
    shutil.move(tmp_path / "three", slow.tasks / "tiny" / "three")
    assert log.read_bytes() == before
    # Repeating the recorded options is allowed.
    ran = ab("run", "--resume", slow.run, "--suite", "tiny", "--workers", "2", "--json")
    assert ran.code == 0, ran.stderr
    assert [record["result"]["passed"] for record in ran.json["attempts"]] == [True] * 3
    assert ab("verify", slow.run).code == 0


@pytest.mark.req("R-13")
def test_retry_announces_missing_attempts_besides_repeated_ones(ab: Ab, tmp_path: Path, interrupt: Interrupt) -> None:
    slow = Slow(ab, tmp_path, "one", "two", "three")
    process = slow.start()
    wait_for(lambda: slow.asleep() == 2)
    interrupt(process, signal.SIGINT)
    slow.finish_at_once()
    (slow.run / "signature.dsse.json").write_text("{}")
    ran = ab("retry", slow.run)
    assert f"warning: {slow.run} is signed; its signature becomes stale" in ran.stderr
    assert "Repeating 2 attempts in the same run, and making 1 attempt that is missing." in ran.stderr
    assert "[3/3]" in ran.stderr


@pytest.mark.req("R-13")
def test_resume_of_a_run_with_nothing_left_writes_nothing(ab: Ab, tmp_path: Path) -> None:
    tasks = make_suite(tmp_path / "tasks", "one")
    started = ab("run", "--suite", "tiny", "--tasks-dir", tasks, "--agent", "noop", "--out", tmp_path / "out")
    assert started.code == 0, started.stderr
    (run,) = (tmp_path / "out").iterdir()
    (run / "signature.dsse.json").write_text("{}")
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*") if path.is_file()}
    resumed = ab("run", "--resume", run)
    assert (resumed.code, resumed.stdout) == (0, started.stdout)
    assert "Nothing is left to do" in resumed.stderr
    assert "stale" not in resumed.stderr
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*") if path.is_file()} == before


@pytest.mark.req("R-13")
def test_resume_without_the_api_key_starts_no_attempt(ab: Ab, tmp_path: Path, interrupt: Interrupt) -> None:
    tasks = make_suite(tmp_path / "tasks", "one", "two")
    for file in tasks.glob("*/*/task.yaml"):
        # The interrupt ends the request to the model, not the attempt's own time limit.
        file.write_text(file.read_text().replace("{timeout_sec: 120,", "{timeout_sec: 900,"))
    script = tmp_path / "answers.yaml"
    script.write_text(json.dumps({"answers": [{"text": "wait", "delay_sec": 600}]}))
    arguments = ("run", "--suite", "tiny", "--tasks-dir", tasks, "--agent", "llm_v0", "--out", tmp_path / "out")
    process = ab.start(*arguments, "--model", f"scripted:{script}")
    wait_for(lambda: any("llm_request" in log.read_text() for log in tmp_path.glob("out/*/tasks/*/events.jsonl")))
    interrupt(process, signal.SIGINT)
    (run,) = (tmp_path / "out").iterdir()
    script.unlink()
    records = (run / "attempts.jsonl").read_bytes()
    refused = ab("run", "--resume", run)
    assert (refused.code, "no such file" in refused.stderr) == (2, True), refused.stderr
    assert (run / "attempts.jsonl").read_bytes() == records
    call = {"name": "apply_patch", "arguments": {"unified_diff": PATCH}}
    script.write_text(json.dumps({"answers": [{"tool_calls": [call]}, {"text": "done"}], "after": "repeat"}))
    ran = ab("run", "--resume", run, "--json")
    assert [record["result"]["passed"] for record in ran.json["attempts"]] == [True, True], ran.stderr


@pytest.mark.req("R-13", "R-10")
def test_grade_run_cannot_be_resumed(ab: Ab, tmp_path: Path) -> None:
    tasks = make_suite(tmp_path / "tasks", "one")
    task = tasks / "tiny" / "one"
    assert ab("grade", "--task", task, "--patch", task / "reference.patch", "--out", tmp_path / "out").code == 0
    (run,) = (tmp_path / "out").iterdir()
    before = (run / "events.jsonl").read_bytes()
    refused = ab("run", "--resume", run)
    assert (refused.code, "ab grade" in refused.stderr) == (2, True), refused.stderr
    assert (run / "events.jsonl").read_bytes() == before


@pytest.mark.component
@pytest.mark.req("C-09", "M-07a", "R-13")
def test_resume_counts_everything_the_study_has_spent(tmp_path: Path) -> None:
    run = RunDirectory.open(whole_run(tmp_path))
    with RunDirectory.create(
        tmp_path, suite="demo", variant="other", model=None, meta={"study_id": run.study_id, "harness_version": "0.1.0"}
    ) as sibling:
        attempt(sibling)
    with new_run(tmp_path) as stranger:
        attempt(stranger)
    (tmp_path / "notes.txt").write_text("no run")
    assert len(list(study_records(run))) == 4
    assert sum(not record.final for record in study_records(run)) == 1


@pytest.mark.component
@pytest.mark.req("E-13")
def test_replay_chooses_the_recorded_backend(tmp_path: Path) -> None:
    run = whole_run(tmp_path)
    assert recorded_backend(run) == "bwrap"
    manifest = run / "tasks" / "other" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"bwrap"', '"docker"'))
    assert recorded_backend(run) == "auto"
