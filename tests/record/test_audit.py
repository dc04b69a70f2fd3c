from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentbench.core.canonical import canonical
from agentbench.core.errors import InputError
from agentbench.core.reasons import Outcome, TerminationCode
from agentbench.record.audit import RunReport, verify_run
from agentbench.record.recompute import recompute
from agentbench.trace.log import EventLog
from tests.record.samples import SampleAttempt, attempt, finish, new_run, whole_run, write_events
from tests.trace.test_verify import rewritten

pytestmark = [pytest.mark.req("E-12"), pytest.mark.synthetic]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return whole_run(tmp_path)


def audit(path: Path) -> RunReport:
    return verify_run(path, recompute=recompute)


def first(path: Path) -> tuple[str, str]:
    report = audit(path)
    assert not report.ok
    assert report.decision in {"altered", "incomplete"}
    return report.problems[0].kind, report.problems[0].place


def edit(path: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))


def test_untouched_run_verifies(run: Path) -> None:
    report = audit(run)
    assert report.ok, report.problems
    assert (report.decision, report.attempts, report.recomputed) == ("verified", 3, 3)
    assert report.notes == ()
    assert report.head.startswith("sha256:")


def test_reports_and_copies_do_not_affect_verification(run: Path) -> None:
    (run / "report_summary.md").write_text("# Summary\n")
    (run / "tasks/toy/repo/src").mkdir(parents=True)
    (run / "tasks/toy/repo/src/core.py").write_text("x = 1\n")
    assert audit(run).ok


@given(data=st.data())
@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_changing_any_byte_of_evidence_is_detected(small: Path, data: st.DataObject) -> None:
    files = sorted(path for path in small.rglob("*") if path.is_file())
    path = data.draw(st.sampled_from(files))
    whole = path.read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    byte = data.draw(st.sampled_from([whole[place] ^ 1, whole[place] ^ 0x20, 0x0A, 0x20, 0x30, 0x31, 0xFF]))
    mutated = whole[:place] + bytes([byte]) + whole[place + 1 :]
    try:
        path.write_bytes(mutated)
        assert verify_run(small).ok == (mutated == whole), (path, place)
    finally:
        path.write_bytes(whole)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = new_run(tmp_path_factory.mktemp("small"))
    attempt(run, "toy", sample=SampleAttempt(output="x" * 4200))
    run.close()
    assert verify_run(run.path).ok
    return run.path


@pytest.mark.parametrize(
    "name,change,kind,place",
    [
        ("attempts.jsonl", lambda ls: ls[1:], "removed", "attempts.jsonl"),
        ("attempts.jsonl", lambda ls: ls[:-1], "removed", "attempts.jsonl"),
        ("attempts.jsonl", lambda ls: [ls[0], ls[2], ls[1]], "reordered", "attempts.jsonl:2"),
        ("attempts.jsonl", lambda ls: [*ls, ls[2]], "appended", "attempts.jsonl:4"),
        ("attempts.jsonl", lambda ls: [*ls[:2], ls[2][:-1]], "truncated", "attempts.jsonl:3"),
        ("attempts.jsonl", lambda ls: [*ls[:2], ls[2][:200]], "truncated", "attempts.jsonl:3"),
        ("attempts.jsonl", lambda _: [], "removed", "attempts.jsonl"),
        (
            "attempts.jsonl",
            lambda ls: [*ls[:2], ls[2].replace(b'"passed":false', b'"passed":true ')],
            "changed",
            "attempts.jsonl:3",
        ),
        (
            "attempts.jsonl",
            lambda ls: [*ls[:2], ls[2].replace(b'"duration_sec":1.5', b'"duration_sec":9.5')],
            "changed",
            "attempts.jsonl:3",
        ),
        (
            "attempts.jsonl",
            lambda ls: [ls[0].replace(b'"final":false', b'"final":true'), *ls[1:]],
            "changed",
            "attempts.jsonl:1",
        ),
        (
            "attempts.jsonl",
            lambda ls: [ls[0], ls[1].replace(b'"final":true', b'"final":false'), ls[2]],
            "changed",
            "attempts.jsonl:2",
        ),
        ("events.jsonl", lambda ls: ls[:-1], "unclosed", "events.jsonl:8"),
        ("events.jsonl", lambda ls: [*ls[:3], *ls[4:]], "removed", "events.jsonl:4"),
        ("events.jsonl", lambda ls: [*ls[:3], ls[4], ls[3], *ls[5:]], "reordered", "events.jsonl:4"),
        ("events.jsonl", lambda ls: [*ls, b"x"], "appended", "events.jsonl:9"),
        ("run.json", lambda ls: [ls[0], *ls[2:]], "changed", "run.json"),
        ("tasks/toy/events.jsonl", lambda ls: ls[:-1], "truncated", "tasks/toy/events.jsonl:14"),
        ("tasks/toy/events.jsonl", lambda ls: [*ls[:4], *ls[5:]], "removed", "tasks/toy/events.jsonl:5"),
        ("tasks/toy/events.jsonl", lambda ls: [*ls, ls[-1]], "appended", "tasks/toy/events.jsonl:15"),
        ("tasks/other/manifest.json", lambda ls: ls[:-1], "changed", "tasks/other/manifest.json"),
        ("tasks/other/diffs/final.patch", lambda ls: [*ls, b"+c\n"], "changed", "tasks/other/diffs/final.patch"),
        ("tasks/other/task.yaml", lambda ls: [*ls, b"x: 1\n"], "changed", "tasks/other/task.yaml"),
        ("tasks/other/meta/files.json", lambda ls: [*ls, b"\n"], "changed", "tasks/other/meta/files.json"),
    ],
)
def test_first_change_is_reported(
    run: Path, name: str, change: Callable[[list[bytes]], list[bytes]], kind: str, place: str
) -> None:
    edit(run / name, change)
    assert first(run) == (kind, place)


@pytest.mark.parametrize(
    "name",
    [
        "run.json",
        "attempts.jsonl",
        "events.jsonl",
        "tasks/toy",
        "tasks/toy/events.jsonl",
        "tasks/toy/manifest.json",
        "tasks/toy/task.yaml",
        "tasks/toy/diffs/final.patch",
        "tasks/toy/meta/files.json",
        "tasks/toy/meta/record.json",
        "tasks/toy@r1a2/logs/setup_stdout.txt",
    ],
)
def test_removed_file_is_reported(run: Path, name: str) -> None:
    target = run / name
    shutil.rmtree(target) if target.is_dir() else target.unlink()
    assert first(run) == ("removed", name)


def test_removed_blob_is_reported(run: Path) -> None:
    (blob,) = (run / "tasks/toy/blobs").iterdir()
    blob.unlink()
    assert first(run) == ("removed", f"tasks/toy/blobs/{blob.name}")


def test_swapped_blob_is_reported(run: Path) -> None:
    (blob,) = (run / "tasks/toy/blobs").iterdir()
    blob.write_bytes(b"nothing to see\n")
    assert first(run) == ("changed", f"tasks/toy/blobs/{blob.name}")


@pytest.mark.parametrize("name", ["tasks/toy/logs/more.txt", "tasks/toy/blobs/" + "0" * 64, "tasks/evil/events.jsonl"])
def test_added_file_is_reported(run: Path, name: str) -> None:
    (run / name).parent.mkdir(parents=True, exist_ok=True)
    (run / name).write_bytes(b"")
    assert first(run) == ("appended", "tasks/evil" if "evil" in name else name)


def test_symlinks_in_evidence_are_not_followed(run: Path, tmp_path: Path) -> None:
    shutil.move(run / "tasks/toy", tmp_path / "elsewhere")
    (run / "tasks/toy").symlink_to(tmp_path / "elsewhere")
    assert first(run) == ("changed", "tasks/toy")
    (run / "tasks/toy").unlink()
    shutil.move(tmp_path / "elsewhere", run / "tasks/toy")
    assert audit(run).ok
    patch = run / "tasks/toy/diffs/final.patch"
    shutil.move(patch, tmp_path / "patch")
    patch.symlink_to(tmp_path / "patch")
    assert not audit(run).ok


@pytest.mark.parametrize(
    "name",
    [
        "run.json",
        "attempts.jsonl",
        "events.jsonl",
        "tasks/toy/events.jsonl",
        "tasks/toy/meta/files.json",
        "tasks/toy/task.yaml",
    ],
)
def test_pipe_in_place_of_a_file_does_not_block(run: Path, name: str) -> None:
    (run / name).unlink()
    os.mkfifo(run / name)
    assert not audit(run).ok


def test_file_names_that_are_not_utf8_are_audited(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    folder = run.begin("toy", 1)
    log = folder.open_log()
    write_events(folder, log, SampleAttempt(), run.run_id)
    odd = folder.path / "logs" / os.fsdecode(b"\xff\n.txt")
    odd.write_bytes(b"x")
    finish(run, folder, log)
    run.close()
    assert audit(run.path).ok
    odd.write_bytes(b"y")
    assert audit(run.path).problems[0].kind == "changed"


def test_rewritten_attempt_chain_does_not_match_the_seal(run: Path) -> None:
    path = run / "tasks/other/events.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)

    def better(_number: int, event: dict[str, object]) -> None:
        payload = event["payload"]
        assert isinstance(payload, dict)
        if event["type"] == "acceptance_check":
            payload.update(outcome="pass", why="", exit_code=0)

    closing = json.loads(lines[-1])["payload"]
    path.write_bytes(b"".join(rewritten(lines[:-1], better)))
    log, _ = EventLog.reopen(path)
    log.close(closing["record_sha256"])
    assert first(run) == ("changed", "tasks/other/events.jsonl")
    assert "rewritten" in audit(run).problems[0].message


def test_evidence_cannot_be_swapped_between_attempts(run: Path) -> None:
    shutil.rmtree(run / "tasks/other")
    shutil.copytree(run / "tasks/toy@r1a2", run / "tasks/other")
    assert first(run) == ("changed", "tasks/other/events.jsonl")


def test_rewritten_run_is_detected_by_a_noted_head(tmp_path: Path) -> None:
    honest, forged = whole_run(tmp_path / "a"), whole_run(tmp_path / "b")
    noted = verify_run(honest).head
    assert verify_run(honest, expect_head=noted.removeprefix("sha256:")).ok
    assert verify_run(forged).ok
    report = verify_run(forged, expect_head=noted)
    assert report.decision == "altered"


@pytest.mark.parametrize("make", [lambda _: None, lambda p: p.mkdir(), lambda p: p.write_text("x")])
def test_path_that_is_not_a_run_directory_is_rejected(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / "x")
    with pytest.raises(InputError):
        verify_run(tmp_path / "x")


# --- completeness and consistency ---------------------------------------------------------------------------------------


@pytest.mark.req("E-08")
def test_scored_attempt_without_acceptance_event_is_reported(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    honest = SampleAttempt(skip=frozenset({"acceptance_check", "gates_decided"}))
    attempt(run, "honest", sample=honest)
    lie = SampleAttempt(
        skip=honest.skip,
        lies={"run_status": "success", "invalid_cause": None, "result": {"passed": True, "failure_reason": None}},
    )
    attempt(run, "liar", sample=lie)
    run.close()
    report = audit(run.path)
    assert all(problem.place.startswith("tasks/liar") for problem in report.problems)
    assert any("no acceptance event for mandatory check unit" in problem.message for problem in report.problems)


@pytest.mark.req("R-02b")
def test_scored_attempt_without_bound_identity_is_reported(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    sample = SampleAttempt(skip=frozenset({"identity_bound"}), lies={"run_status": "failure", "invalid_cause": None})
    attempt(run, "toy", sample=sample)
    run.close()
    assert any("identity_bound" in problem.message for problem in audit(run.path).problems)


@pytest.mark.parametrize(
    "lies,what",
    [
        ({"run_status": "success"}, "run_status"),
        ({"result": {"passed": True, "failure_reason": None}}, "passed"),
        ({"result": {"passed": False, "failure_reason": "TIMEOUT"}}, "reason"),
        ({"attribution": "harness"}, "attribution"),
        ({"run_badge": "splendid"}, "run_badge"),
        ({"progress": {"f2p_passed": 9, "f2p_total": 9}}, "progress.f2p_passed"),
        ({"components": {"correctness": 1.0}}, "components.correctness"),
        ({"tags": ()}, "tags"),
        ({"score": 0.5}, "score"),
        ({"checks": ()}, None),
    ],
)
def test_record_that_contradicts_its_events_is_reported(
    tmp_path: Path, lies: dict[str, object], what: str | None
) -> None:
    run = new_run(tmp_path)
    attempt(run, "toy", sample=SampleAttempt(outcome=Outcome.FAIL, lies=lies))
    run.close()
    report = audit(run.path)
    if what is None:
        assert report.ok
    else:
        assert any(what in problem.message for problem in report.problems), report.problems


def test_decision_that_contradicts_its_events_is_reported(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    sample = SampleAttempt(outcome=Outcome.FAIL, skip=frozenset({"gates_decided"}))
    attempt(run, "toy", sample=sample)
    run.close()
    assert any("gates_decided" in problem.message for problem in audit(run.path).problems)


@pytest.mark.req("E-05a")
def test_change_without_a_mutation_event_is_noted(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    attempt(run, "toy", sample=SampleAttempt(skip=frozenset({"workspace_mutated", "patch_applied"})))
    run.close()
    assert any("no mutation event covers src/core.py" in note for note in verify_run(run.path).notes)


def test_closed_run_with_an_unrecorded_attempt_is_reported(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    run.begin("toy", 1)
    assert verify_run(run.path).decision == "incomplete"
    run.close()
    report = verify_run(run.path)
    assert report.decision == "altered"
    assert (report.problems[0].kind, report.problems[0].place) == ("missing", "tasks/toy")


@pytest.mark.req("R-13")
def test_attempt_that_failed_before_opening_is_noted(tmp_path: Path) -> None:
    early = frozenset({"attempt_opened", "identity_bound", "acceptance_check", "patch_extracted"})
    run = new_run(tmp_path)
    attempt(run, "early", sample=SampleAttempt(skip=early, ending=TerminationCode.SANDBOX_ERROR, lies={"patch": None}))
    run.close()
    report = audit(run.path)
    assert report.ok, report.problems
    assert any("ended before it was opened" in note for note in report.notes)

    run = new_run(tmp_path)
    attempt(run, "scored", sample=SampleAttempt(skip=frozenset({"attempt_opened"}), lies={"run_status": "success"}))
    run.close()
    assert first(run.path) == ("missing", "tasks/scored/events.jsonl:1")


@pytest.mark.req("R-13")
def test_interrupted_attempt_with_a_record_verifies(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    attempt(run, "toy", sample=SampleAttempt(ending=TerminationCode.INTERRUPTED))
    run.close("interrupted")
    report = audit(run.path)
    assert report.ok, report.problems
    (record,) = run.records()
    assert record.result.failure_reason == "INTERRUPTED"


def test_files_contain_canonical_lines(run: Path) -> None:
    for name in ("attempts.jsonl", "events.jsonl", "tasks/toy/events.jsonl"):
        for line in (run / name).read_bytes().splitlines():
            assert canonical(json.loads(line)) == line
