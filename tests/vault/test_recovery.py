"""Originals of an attempt whose process died are listed like those of any other."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agentbench.record.attempt_folder import ORIGINALS
from agentbench.record.audit import verify_run
from agentbench.record.run_directory import RunDirectory
from agentbench.trace.originals import EvidenceTerms
from agentbench.trace.redaction import Redactor
from agentbench.vault.age import Protection, new_identity
from agentbench.vault.store import RunStore
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
