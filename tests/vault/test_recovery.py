"""Originals of attempts whose process died, or whose originals could not be written."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from agentbench.core.errors import RecordError
from agentbench.core.ids import new_ulid
from agentbench.record.attempt_folder import ORIGINALS
from agentbench.record.audit import verify_run
from agentbench.record.run_directory import RunDirectory
from agentbench.trace.events import StageChanged
from agentbench.trace.log import EventLog
from agentbench.trace.originals import EvidenceTerms
from agentbench.trace.redaction import Redactor
from agentbench.vault.age import Protection, Unlock, decrypt, new_identity
from agentbench.vault.store import RunStore, unsalted
from tests.record.samples import SampleAttempt, finish, new_run, write_events

pytestmark = [pytest.mark.req("E-10b"), pytest.mark.component]

SECRET = "correct-horse-battery"


def test_originals_survive_a_crash_before_the_attempt_is_closed(tmp_path: Path) -> None:
    created = new_run(tmp_path / "runs")
    store = RunStore(tmp_path / "store", created.run_id)
    store.create(Protection((new_identity()[1],)))
    created.release()
    terms = EvidenceTerms("redacted", lambda attempt_id: store.attempt(attempt_id, withhold=False))
    redact = Redactor({"WORD": SECRET})

    run = RunDirectory.open(created.path, writable=True, redact=redact)
    run.evidence = terms
    folder = run.begin("toy", 1)
    log = folder.open_log()
    write_events(folder, log, replace(SampleAttempt(), output=f"the word is {SECRET}"), run.run_id)
    log.release()
    run.release()

    again = RunDirectory.open(created.path, writable=True, redact=redact)
    again.evidence = terms
    (abandoned,) = again.unfinished()
    finish(again, abandoned, abandoned.reopen_log())
    again.close()
    listed = json.loads((abandoned.path / ORIGINALS).read_text())["originals"]
    assert [place.partition(":")[0] for place in listed] == ["output"]
    assert verify_run(created.path).ok
    (abandoned.path / ORIGINALS).write_text("{}")
    assert [problem.place for problem in verify_run(created.path).problems] == [f"{abandoned.task_dir}/{ORIGINALS}"]


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "store", new_ulid())


def said(text: str) -> StageChanged:
    return StageChanged(before=None, after="plan", cause="agent", reason=text)


def test_event_whose_original_cannot_be_kept_is_not_written(tmp_path: Path, store: RunStore) -> None:
    store.create(Protection((new_identity()[1],)))
    originals = store.attempt(new_ulid(), withhold=False)
    path = tmp_path / "events.jsonl"
    with EventLog.create(path, redact=Redactor({"WORD": SECRET}), originals=originals) as log:
        log.append(said("nothing"))
        before = path.read_bytes()
        originals.file.mkdir()
        with pytest.raises(RecordError):
            log.append(said(SECRET))
        assert (path.read_bytes(), log.count) == (before, 1)
        originals.file.rmdir()
        assert log.append(said(SECRET)) == 2
    assert list(originals.kept()) == ["event:2"]


def test_original_of_an_event_that_was_never_written_is_replaced(tmp_path: Path, store: RunStore) -> None:
    identity, recipient = new_identity()
    store.create(Protection((recipient,)))
    attempt_id = new_ulid()
    originals = store.attempt(attempt_id, withhold=False)
    path = tmp_path / "events.jsonl"
    with EventLog.create(path, originals=originals) as log:
        log.append(said("nothing"))
        originals.keep("event:2", b"the process dies before it writes this event")
    with EventLog.reopen(path, originals=originals)[0] as log:
        log.append(said("interrupted"))
        log.append(said("nothing"))
    *_, last = store.entries(attempt_id)
    assert (last.place, set(originals.kept())) == ("event:2", {"event:2"})
    assert b"interrupted" in unsalted(decrypt(last.data, [store.identity(Unlock((identity,)))]))


def test_originals_are_synced_before_they_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = new_run(tmp_path / "runs", redact=Redactor({"WORD": SECRET}))
    store = RunStore(tmp_path / "store", run.run_id)
    store.create(Protection((new_identity()[1],)))
    run.evidence = EvidenceTerms("redacted", lambda attempt_id: store.attempt(attempt_id, withhold=False))
    folder = run.begin("toy", 1)
    folder.make()
    folder.write("note.txt", SECRET)
    synced: list[tuple[Path, bool]] = []
    fsync = os.fsync

    def record(fd: int) -> None:
        synced.append((Path(f"/proc/self/fd/{fd}").readlink(), (folder.path / ORIGINALS).exists()))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", record)
    folder.write_originals()
    assert (folder.path / ORIGINALS).exists()
    assert synced[:2] == [(store.folder / f"{folder.attempt_id}.jsonl", False), (store.folder, False)]
