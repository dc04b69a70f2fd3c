"""Replays reach the same verdict from the run directory alone, and name every difference."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentbench.contract.identity import identify
from agentbench.contract.load import load_task
from agentbench.core.canonical import canonical
from agentbench.core.errors import RecordError
from agentbench.execution.task_bundle import CONTRACT, pack, pack_repository, unpack
from tests.execution.conftest import Ab
from tests.execution.tasks import make_task

pytestmark = pytest.mark.end_to_end


def with_hidden(folder: Path) -> Path:
    task = make_task(folder)
    file = task / "task.yaml"
    text = file.read_text()
    hidden = (
        "  hidden: hidden\n  checks:\n    - {id: there, layer: script, command: test -f secret.txt, mandatory: false}\n"
    )
    file.write_text(text.replace("  checks:\n", hidden))
    (task / "hidden").mkdir()
    (task / "hidden" / "secret.txt").write_text("the hidden one\n")
    return task


def forget_repository(ab: Ab, run: Path) -> None:
    """Remove the base repository of this run from the cache. No other test has one with this content."""
    (attempt,) = (run / "tasks").iterdir()
    bound = next(line for line in (attempt / "events.jsonl").read_text().splitlines() if "identity_bound" in line)
    digest = json.loads(bound)["payload"]["snapshot"].removeprefix("sha256:")
    shutil.rmtree(Path(ab.env["AB_STATE"], "snapshots", "snapshots", f"{digest}-1"))


def the_run(out: Path) -> Path:
    (run,) = out.iterdir()
    return run


@pytest.mark.req("E-13")
def test_copied_run_is_replayed_without_task_and_cache(ab: Ab, tmp_path: Path) -> None:
    task = with_hidden(tmp_path / "task")
    (task / "repo" / "own.txt").write_text(str(tmp_path))
    assert ab.by_command(task, "echo 42 > answer.txt", "--out", tmp_path / "out").record["result"]["passed"]
    run = tmp_path / "elsewhere" / "copy"
    shutil.copytree(the_run(tmp_path / "out"), run)
    shutil.rmtree(task)
    forget_repository(ab, run)
    ran = ab("replay", run, "--json")
    assert ran.code == 0, ran.stderr
    (attempt,) = ran.json["attempts"]
    assert (attempt["agreement"], attempt["environment"]) == ("agrees", "same")
    assert [check["id"] for check in attempt["checks"]] == ["patch", "build", "there", "answer"]
    assert {check["now"] for check in attempt["checks"]} == {"pass"}
    assert ab("verify", run).code == 0


@pytest.mark.req("E-13")
def test_replay_names_a_difference_and_exits_1(ab: Ab, tmp_path: Path) -> None:
    task = make_task(tmp_path / "task")
    ab.by_command(task, "echo 41.5 > answer.txt", "--out", tmp_path / "out")
    run = the_run(tmp_path / "out")
    log = run / "tasks" / "answer" / "events.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    lines = [
        line.replace('"outcome":"fail"', '"outcome":"pass"') if "acceptance_check" in line else line for line in lines
    ]
    log.write_text("".join(lines))
    ran = ab("replay", run)
    assert ran.code == 1
    first = ran.stdout.splitlines()[0]
    assert first.startswith("ALTERED: changed: tasks/answer/events.jsonl:")
    assert "DIFFERS: answer · command: answer: recorded pass" in first
    assert "now fail" in first


@pytest.mark.req("E-13")
def test_replay_of_altered_evidence_says_so(ab: Ab, tmp_path: Path) -> None:
    """A failed attempt gets the record, the log and the patch of a passed one."""
    task = make_task(tmp_path / "task")
    ab.by_command(task, "echo 41 > answer.txt", "--out", tmp_path / "failed")
    ab.run_task(task, "--agent", "reference", "--out", tmp_path / "passed")
    failed, passed = the_run(tmp_path / "failed"), the_run(tmp_path / "passed")
    for name in ("attempts.jsonl", "tasks/answer/events.jsonl", "tasks/answer/diffs/final.patch"):
        shutil.copy(passed / name, failed / name)
    ran = ab("replay", failed)
    assert ran.code == 1
    assert ran.stdout.startswith("ALTERED: ")
    assert "AGREES: 1 attempt" in ran.stdout


def _edit_record(run: Path, change: Callable[[dict[str, Any]], object]) -> None:
    value = json.loads((run / "attempts.jsonl").read_bytes())
    change(value)
    (run / "attempts.jsonl").write_bytes(canonical(value) + b"\n")


def _replace_records_by_folder(run: Path) -> None:
    (run / "attempts.jsonl").unlink()
    (run / "attempts.jsonl").mkdir()


UNREADABLE: dict[str, Callable[[Path], object]] = {
    "patch": lambda run: (run / "tasks/answer/diffs/final.patch").write_bytes(b"another patch\n"),
    "attempt folder": lambda run: shutil.rmtree(run / "tasks/answer"),
    "folder outside": lambda run: _edit_record(run, lambda v: v["artifact_paths"].update(task_dir="../outside")),
    "patch outside": lambda run: _edit_record(run, lambda v: v["patch"].update(path="../outside/diffs/final.patch")),
    "records": _replace_records_by_folder,
    "version": lambda run: _edit_record(run, lambda v: v.update(schema_version=99)),
    "line ends": lambda run: (run / "attempts.jsonl").write_bytes(
        (run / "attempts.jsonl").read_bytes().replace(b"\n", b"\r\n")
    ),
    "run.json": lambda run: (run / "run.json").write_text('{"suite": NaN}'),
}


@pytest.mark.req("E-13")
def test_replay_of_evidence_that_cannot_be_used_says_altered(ab: Ab, tmp_path: Path) -> None:
    ab.run_task(make_task(tmp_path / "task"), "--agent", "reference", "--out", tmp_path / "out")
    whole = the_run(tmp_path / "out")
    # What lies outside the run directory is not read, even if it looks like an attempt.
    shutil.copytree(whole / "tasks/answer", tmp_path / "outside")
    for name, change in UNREADABLE.items():
        run = tmp_path / "run"
        shutil.copytree(whole, run)
        change(run)
        ran = ab("replay", run)
        assert (ran.code, ran.stdout.startswith("ALTERED: ")) == (1, True), (name, ran.stdout, ran.stderr)
        assert ". UNAVAILABLE: " in ran.stdout.splitlines()[0], (name, ran.stdout)
        ran = ab("replay", run, "--json")
        assert (ran.code, ran.json["agrees"], ran.json["attempts"]) == (1, False, []), name
        shutil.rmtree(run)


@pytest.mark.req("E-13")
def test_replay_without_the_repository_is_undecided(ab: Ab, tmp_path: Path) -> None:
    task = make_task(tmp_path / "task")
    (task / "repo" / "big.bin").write_bytes(b"x" * 5_000_000 + str(tmp_path).encode())
    ab.run_task(task, "--agent", "reference", "--out", tmp_path / "out")
    run = the_run(tmp_path / "out")
    forget_repository(ab, run)
    assert ab("replay", run).code == 0  # too large to be packed, so it comes from the task's folder
    forget_repository(ab, run)
    (task / "repo" / "answer.txt").write_text("something else\n")
    ran = ab("replay", run, "--json")
    assert ran.code == 2
    (attempt,) = ran.json["attempts"]
    assert (attempt["agreement"], attempt["environment"]) == ("unavailable", "unavailable")
    assert "is unavailable" in attempt["why"]


@pytest.mark.req("E-13")
def test_replay_of_an_attempt_without_grading_has_nothing(ab: Ab, tmp_path: Path) -> None:
    task = make_task(tmp_path / "task", more="setup: {commands: ['false']}\n")
    ab.run_task(task, "--agent", "noop", "--out", tmp_path / "out")
    run = the_run(tmp_path / "out")
    ran = ab("replay", run, "--json")
    (attempt,) = ran.json["attempts"]
    assert (ran.code, ran.json["agrees"], attempt["agreement"], attempt["environment"]) == (
        2,
        False,
        "nothing",
        "not needed",
    )
    text = ab("replay", run).stdout
    assert text.startswith("NOTHING TO COMPARE: 1 attempt: the attempt ended before grading\n")
    other = ab("replay", run, "--task", "nobody")
    assert other.code == 2
    assert "tasks with attempts: answer" in other.stderr


@pytest.mark.component
@pytest.mark.req("E-13", "C-10")
def test_task_bundle_has_hidden_files_and_no_reference(tmp_path: Path) -> None:
    task = load_task(with_hidden(tmp_path / "task"))
    repository = pack_repository(tmp_path / "task" / "repo", tmp_path / "packed")
    data = pack(task, identify(task), repository)
    assert data == pack(task, identify(task), pack_repository(tmp_path / "task" / "repo", tmp_path / "again"))
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        names = set(tar.getnames())
    assert "files/hidden/secret.txt" in names
    assert "repository/answer.txt" in names
    assert not any("reference" in name for name in names)
    into = tmp_path / "into"
    into.mkdir()
    back = unpack(data, into)
    assert back.ids == identify(task)
    assert back.task.task == task.task
    assert back.task.checks == task.checks
    assert {name: file.content for name, file in back.task.hidden_files().items()} == {
        b"secret.txt": b"the hidden one\n"
    }


@pytest.mark.req("E-13")
def test_task_bundle_is_readable_only_by_its_owner(ab: Ab, tmp_path: Path) -> None:
    ab.run_task(make_task(tmp_path / "task"), "--agent", "noop", "--out", tmp_path / "out")
    mode = (the_run(tmp_path / "out") / "tasks" / "answer" / CONTRACT).stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


def archive(fill: Callable[[tarfile.TarFile], None]) -> bytes:
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb") as stream, tarfile.open(fileobj=stream, mode="w") as tar:
        fill(tar)
    return buffer.getvalue()


def member(
    name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 0
) -> Callable[[tarfile.TarFile], None]:
    def fill(tar: tarfile.TarFile) -> None:
        info = tarfile.TarInfo(name)
        info.type, info.linkname, info.size = kind, link, size
        tar.addfile(info, io.BytesIO(b"\0" * size))

    return fill


def through_a_link(tar: tarfile.TarFile) -> None:
    member("repository/out", tarfile.SYMTYPE, "/etc")(tar)
    member("repository/out/evil", size=3)(tar)


@pytest.mark.parametrize(
    "make",
    [
        lambda: b"",
        lambda: b"not an archive",
        lambda: gzip.compress(b"nor this"),
        lambda: archive(member("../evil", size=3)),
        lambda: archive(member("/evil", size=3)),
        lambda: archive(member("x/../../evil", size=3)),
        lambda: archive(member("dev", tarfile.CHRTYPE)),
        lambda: archive(member("hard", tarfile.LNKTYPE, "/etc/passwd")),
        lambda: archive(through_a_link),
        lambda: archive(member("big", size=300 * 1024 * 1024)),
        lambda: archive(member("task.json", size=10)),
    ],
    ids=[
        "empty",
        "text",
        "no tar",
        "dots",
        "absolute",
        "dots inside",
        "device",
        "hard link",
        "link",
        "bomb",
        "no task",
    ],
)
def test_hostile_task_bundle_writes_nothing_outside(tmp_path: Path, make: Callable[[], bytes]) -> None:
    into = tmp_path / "deep" / "into"
    into.mkdir(parents=True)
    with pytest.raises(RecordError):
        unpack(make(), into)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep"]
    assert sorted(path.name for path in (tmp_path / "deep").iterdir()) == ["into"]
    assert not Path("/evil").exists()
    assert not Path("/etc/evil").exists()


def test_replay_rejects_a_patch_with_another_digest(ab: Ab, tmp_path: Path) -> None:
    ab.run_task(make_task(tmp_path / "task"), "--agent", "reference", "--out", tmp_path / "out")
    run = the_run(tmp_path / "out")
    patch = run / "tasks" / "answer" / "diffs" / "final.patch"
    patch.write_text(patch.read_text().replace("42", "43"))
    ran = ab("replay", run)
    assert ran.code == 1
    assert "does not match the record" in ran.stdout
    assert json.loads((run / "attempts.jsonl").read_text())["result"]["passed"]


def test_unusable_patch_is_replayed_as_unusable(ab: Ab, tmp_path: Path) -> None:
    task = make_task(tmp_path / "task")
    ran = ab.by_command(
        task, "head -c 40000000 /dev/urandom > big.bin; echo 42 > answer.txt", "--out", tmp_path / "out"
    )
    assert ran.record["result"]["failure_reason"] == "PATCH_INVALID"
    assert ab("replay", ran.json["run_dir"]).code == 0
