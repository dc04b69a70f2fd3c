"""Deleting bulky evidence is explicit, approved and logged, and the run still verifies."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agentbench.cli.retain import command as retain
from agentbench.cli.verify import command as verify
from agentbench.core.errors import InputError
from agentbench.record.retention import MINIMAL, reduce_run
from agentbench.record.run_directory import RunDirectory
from agentbench.trace.events import RunReduced
from agentbench.trace.log import read_events
from tests.record.samples import attempt, new_run, whole_run

pytestmark = [pytest.mark.req("E-11"), pytest.mark.component]
YES = ("--approved-by", "eve", "--reason", "older than a year")


def invoke_retain(run: Path, *more: str) -> Result:
    return CliRunner().invoke(retain, [str(run), *more])


def verified(run: Path) -> dict[str, object]:
    value = json.loads(CliRunner().invoke(verify, [str(run), "--json"]).output)
    assert isinstance(value, dict)
    return value


def files(run: Path) -> set[str]:
    return {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}


def test_retain_without_approval_deletes_nothing(tmp_path: Path) -> None:
    run = whole_run(tmp_path)
    before = files(run)
    result = invoke_retain(run)
    assert result.exit_code == 0
    assert "Would delete" in result.output
    assert invoke_retain(run, "--approved-by", "eve").exit_code == 2
    assert invoke_retain(run, "--reason", "old", "--approved-by", " ").exit_code == 2
    assert files(run) == before


def test_reduced_run_verifies_and_names_the_approver(tmp_path: Path) -> None:
    run = whole_run(tmp_path)
    records = [record.line() for record in RunDirectory.open(run).records()]
    before = files(run)
    assert invoke_retain(run, *YES).exit_code == 0
    left = {name for name in files(run) if name.startswith("tasks/")}
    assert left
    assert {name.split("/", 2)[2] for name in left} <= MINIMAL
    assert len(files(run)) < len(before)
    assert [record.line() for record in RunDirectory.open(run).records()] == records
    audit = verified(run)
    assert audit["ok"], audit
    assert "approved by eve (older than a year)" in str(audit["notes"])
    (event,) = [
        logged.payload for logged in read_events(run / "events.jsonl") if isinstance(logged.payload, RunReduced)
    ]
    assert event.files == len(before) - len(files(run))


def test_changes_to_minimal_evidence_are_detected(tmp_path: Path) -> None:
    run = whole_run(tmp_path)
    invoke_retain(run, *YES)
    for name in ("diffs/final.patch", "manifest.json"):
        path = run / "tasks/other" / name
        kept = path.read_bytes()
        path.write_bytes(kept + b" ")
        assert not verified(run)["ok"]
        path.unlink()
        assert not verified(run)["ok"]
        path.write_bytes(kept)
    assert verified(run)["ok"]


def test_interrupted_reduction_is_finished_by_the_next(tmp_path: Path) -> None:
    run = whole_run(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agentbench.record.retention._remove", lambda _run: None)
        reduce_run(run, approved_by="eve", reason="old")
    assert verified(run)["ok"]
    assert invoke_retain(run, *YES).exit_code == 0
    assert verified(run)["ok"]
    assert {name.split("/", 2)[2] for name in files(run) if name.startswith("tasks/")} <= MINIMAL


def test_unfinished_or_altered_run_is_not_reduced(tmp_path: Path) -> None:
    open_run = new_run(tmp_path)
    attempt(open_run)
    open_run.release()
    with pytest.raises(InputError, match="has not ended"):
        reduce_run(open_run.path, approved_by="eve", reason="old")
    run = whole_run(tmp_path)
    (run / "tasks/other/diffs/final.patch").write_bytes(b"")
    before = files(run)
    done = invoke_retain(run, *YES)
    assert isinstance(done.exception, InputError)
    assert files(run) == before


def test_attempts_after_a_reduction_must_be_complete(tmp_path: Path) -> None:
    path = whole_run(tmp_path)
    invoke_retain(path, *YES)
    before = files(path)
    run = RunDirectory.open(path, writable=True)
    attempt(run, "later")
    run.close()
    assert verified(path)["ok"]
    beyond = [
        name for name in files(path) - before if name.startswith("tasks/") and name.split("/", 2)[2] not in MINIMAL
    ]
    assert beyond
    (path / beyond[0]).unlink()
    assert not verified(path)["ok"]


def test_reducing_again_logs_nothing_and_says_so(tmp_path: Path) -> None:
    run = whole_run(tmp_path)
    invoke_retain(run, *YES)
    audit = verified(run)
    again = invoke_retain(run, "--approved-by", "mallory", "--reason", "none")
    assert again.exit_code == 0
    assert again.output.startswith("Nothing to delete, and nothing logged: evidence was deleted at ")
    assert again.output.endswith("approved by eve (older than a year).\n")
    assert verified(run) == audit


def test_run_without_bulky_evidence_gets_no_approval(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    run.close()
    before = (run.path / "events.jsonl").read_bytes()
    done = invoke_retain(run.path, *YES)
    assert done.output == "Nothing to delete, and nothing logged: the run has only minimal evidence.\n"
    assert (run.path / "events.jsonl").read_bytes() == before
