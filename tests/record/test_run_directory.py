from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path

import pytest

from agentbench.core.errors import InputError, RecordError
from agentbench.core.reasons import Outcome
from agentbench.record import durable, run_directory
from agentbench.record.attempt_folder import AttemptFolder, attempt_path, task_dir_name
from agentbench.record.audit import verify_run
from agentbench.record.naming import run_name
from agentbench.record.run_directory import RunDirectory
from agentbench.trace.redaction import Redactor
from tests.record.samples import SampleAttempt, attempt, finish, new_run, write_events
from tests.trace.test_log import file_size_limit

pytestmark = pytest.mark.component


@pytest.mark.req("E-09a")
def test_run_directory_has_the_documented_layout(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    attempt(run, "toy")
    run.close()
    assert {entry.name for entry in run.path.iterdir()} == {"run.json", "attempts.jsonl", "events.jsonl", "tasks"}
    task = run.path / "tasks" / "toy"
    assert {"task.yaml", "manifest.json", "events.jsonl", "logs", "agent", "diffs", "meta"} <= {
        entry.name for entry in task.iterdir()
    }
    meta = json.loads((run.path / "run.json").read_text())
    assert {"run_id", "study_id", "harness_version", "suite", "variant", "model", "created_at", "seed"} <= set(meta)
    assert datetime.fromisoformat(meta["created_at"]).utcoffset() is not None
    assert re.fullmatch(r"[0-9A-HJKMNP-TV-Z]{26}", meta["run_id"])


@pytest.mark.req("E-09a")
def test_run_name_has_time_suite_variant_and_model(tmp_path: Path) -> None:
    name = run_name("custom dev", "base/../line", "anthropic/claude-3.5:beta")
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d[+-]\d{4}__custom_dev__base_.._line__anthropic_claude-3.5_beta", name
    )
    for hostile in ("../../etc", "", "a" * 500, "\x00\n\ud800", ".hidden", "ü/*?", "-rf"):
        parts = run_name(hostile, hostile, hostile).split("__")
        assert len(parts) == 4
        assert all(re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,60})", part) for part in parts[1:])
    (tmp_path / name).mkdir()


def test_runs_started_in_the_same_second_get_different_names(tmp_path: Path) -> None:
    assert len({new_run(tmp_path).path for _ in range(5)}) == 5


def test_unusable_out_folder_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/agentbench")):
        with pytest.raises(InputError, match=re.escape(str(out))):
            new_run(out)


def test_run_inside_a_run_is_rejected(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    with pytest.raises(InputError, match="is a run directory"):
        new_run(run.path)


@pytest.mark.parametrize("make", [lambda _: None, lambda p: p.mkdir(), lambda p: p.write_text("x")])
def test_path_that_is_not_a_run_directory_is_rejected(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / "x")
    with pytest.raises(InputError, match="x"):
        RunDirectory.open(tmp_path / "x")


@pytest.mark.req("E-09a")
def test_repeats_and_retries_get_separate_folders(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    first = attempt(run, "toy")
    second = attempt(run, "toy", repeat=2)
    retry = attempt(run, "toy", repeat=2, supersedes=second.attempt_id)
    again = attempt(run, "toy", supersedes=first.attempt_id)
    dirs = [one.artifact_paths.task_dir for one in (first, second, retry, again)]
    assert dirs == ["tasks/toy", "tasks/toy@r2", "tasks/toy@r2a2", "tasks/toy@r1a2"]
    assert all((run.path / name / "events.jsonl").is_file() for name in dirs)


@pytest.mark.parametrize("task_id", ["", "..", "a/b", "/etc", "a@r2", "a b", ".x", "a\n", "x" * 200])
def test_invalid_task_id_is_rejected(task_id: str) -> None:
    with pytest.raises(InputError):
        task_dir_name(task_id, 1, 1)


@pytest.mark.req("R-13")
def test_superseded_record_stays_and_is_not_final(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    first = attempt(run, "toy", sample=SampleAttempt(outcome=Outcome.ERROR))
    other = attempt(run, "other")
    second = attempt(run, "toy", supersedes=first.attempt_id)
    records = list(run.records())
    assert [one.attempt_id for one in records] == [first.attempt_id, other.attempt_id, second.attempt_id]
    assert [one.final for one in records] == [False, True, True]
    assert {one.attempt_id for one in run.finals()} == {other.attempt_id, second.attempt_id}
    raw = [json.loads(line) for line in (run.path / "attempts.jsonl").read_text().splitlines()]
    assert [one["final"] for one in raw] == [False, True, True]
    assert (run.path / first.artifact_paths.task_dir / "events.jsonl").is_file()
    run.close()
    assert verify_run(run.path).ok


def test_second_final_record_for_a_repeat_is_rejected(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    first = attempt(run, "toy")
    with pytest.raises(RecordError, match="final record"):
        attempt(run, "toy")
    with pytest.raises(RecordError, match="supersedes 01NOBODY"):
        attempt(run, "other", supersedes="01NOBODY")
    assert [one.attempt_id for one in run.records()] == [first.attempt_id]


def test_threads_commit_concurrently(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    threads = [threading.Thread(target=attempt, args=(run, f"task-{number}")) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run.close()
    report = verify_run(run.path)
    assert report.ok, report.problems
    assert report.attempts == 12


def test_attempts_that_supersede_others_are_committed_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = new_run(tmp_path)
    names = [f"task-{number}" for number in range(8)]
    first = {name: attempt(run, name).attempt_id for name in names}
    written: list[int] = []
    real = durable.write_atomic

    def count(path: Path, data: Iterable[bytes]) -> None:
        lines = list(data)
        real(path, lines)
        written.append(len(lines))

    monkeypatch.setattr(run_directory, "write_atomic", count)
    with run._rewriting:  # as if another thread were writing the file anew
        threads = [
            threading.Thread(target=attempt, args=(run, name), kwargs={"supersedes": first[name]}) for name in names
        ]
        for thread in threads:
            thread.start()
        while len(run._superseding) < len(names):
            time.sleep(0.01)
    for thread in threads:
        thread.join()
    assert written == [16]
    assert [record.final for record in run.records()] == [False] * 8 + [True] * 8
    run.close()
    report = verify_run(run.path)
    assert report.ok, report.problems


def test_second_writer_is_rejected(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    attempt(run, "toy")
    code = (
        "import sys; from pathlib import Path; from agentbench.record.run_directory import RunDirectory\n"
        "from agentbench.core.errors import InputError\n"
        "try: RunDirectory.open(Path(sys.argv[1]), writable=True)\n"
        "except InputError as error: print(error); sys.exit(7)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(run.path)], check=False, capture_output=True, text=True)
    assert done.returncode == 7, done.stderr
    assert "another process" in done.stdout
    assert len(list(RunDirectory.open(run.path).records())) == 1
    run.release()
    assert subprocess.run([sys.executable, "-c", code, str(run.path)], check=False).returncode == 0


def test_run_opened_for_reading_cannot_be_written(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    attempt(run, "toy")
    run.close()
    with pytest.raises(RecordError, match="not open for writing"):
        RunDirectory.open(run.path).begin("toy", 2)
    with pytest.raises(RecordError, match="not open for writing"):
        run.begin("toy", 2)


@pytest.mark.req("R-13")
def test_full_disk_loses_nothing(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    for number in range(4):
        attempt(run, f"task-{number}")
    before = (run.path / "attempts.jsonl").read_bytes()
    folder = run.begin("toy", 1)
    log = folder.open_log()
    write_events(folder, log, SampleAttempt(output="short"), run.run_id)
    # The files of the new attempt still fit, the longer attempts.jsonl does not.
    limit = len(before) + 50
    assert (folder.path / "events.jsonl").stat().st_size + 2000 < limit
    with file_size_limit(limit), pytest.raises(RecordError, match=r"attempts\.jsonl"):
        finish(run, folder, log)
    assert (run.path / "attempts.jsonl").read_bytes() == before
    run.release()
    again = RunDirectory.open(run.path, writable=True)
    assert again.unfinished() == ()
    assert [one.task_id for one in again.records()] == ["task-0", "task-1", "task-2", "task-3", "toy"]
    again.close()
    assert verify_run(run.path).ok


@pytest.mark.req("E-10a")
def test_no_file_contains_a_secret(tmp_path: Path) -> None:
    run = new_run(tmp_path, redact=Redactor({"KEY": "s3cr3t-value"}))
    folder = run.begin("toy", 1)
    log = folder.open_log()
    write_events(folder, log, SampleAttempt(output="token s3cr3t-value\n" * 2000), run.run_id)
    folder.write("logs/x.txt", "s3cr3t-value")
    record = finish(run, folder, log, SampleAttempt(lies={"run_badge": "s3cr3t-value"}))
    run.close()
    assert record.run_badge.startswith("[redacted:KEY:")
    assert not [path for path in run.path.rglob("*") if path.is_file() and b"s3cr3t" in path.read_bytes()]
    assert verify_run(run.path).ok


def test_text_that_is_not_utf8_does_not_lose_the_record(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    record = attempt(run, "toy", sample=SampleAttempt(lies={"run_badge": "a\udc80"}))
    assert record.run_badge == "a\\udc80"
    assert list(run.records()) == [record]


def test_written_paths_are_relative_to_the_run(tmp_path: Path) -> None:
    folder = AttemptFolder(run=tmp_path, task_dir="tasks/toy", attempt_id="1", task_id="toy", repeat=1, attempt=1)
    folder.make()
    assert folder.write("logs/a.txt", "text\udc80") == "tasks/toy/logs/a.txt"
    assert (tmp_path / "tasks/toy/logs/a.txt").read_text() == "text\\udc80"
    assert folder.write_exact("diffs/x/final.patch", b"\xff") == "tasks/toy/diffs/x/final.patch"


def test_invalid_record_line_is_reported_with_its_number(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    attempt(run, "toy")
    with (run.path / "attempts.jsonl").open("ab") as file:
        file.write(b"{}\n")
    with pytest.raises(RecordError, match=r"attempts\.jsonl:2: "):
        list(run.records())


@pytest.mark.parametrize("task_dir", ["../outside", "/etc", "tasks", "tasks/..", "tasks/a/b", "tasks/a\n", "tasks/.a"])
def test_only_folders_of_attempts_are_read(tmp_path: Path, task_dir: str) -> None:
    with pytest.raises(RecordError, match="is not an attempt folder"):
        attempt_path(tmp_path, task_dir)
    assert attempt_path(tmp_path, "tasks/a@r2a3") == tmp_path / "tasks/a@r2a3"
