"""Questions to the operator: written to the run directory, answered from another terminal, or ended by the deadline."""

from __future__ import annotations

import json
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from agentbench.core.errors import InputError, Interrupted
from agentbench.execution.operator import (
    FOLDER,
    FileOperator,
    PendingQuestion,
    pending_questions,
    read_answer,
    write_answer,
)
from agentbench.tools.operator import Answer, Question
from tests.execution.conftest import Ab
from tests.execution.tasks import ASKS, make_suite

pytestmark = pytest.mark.end_to_end


def asks(run: Path, *, cancelled: bool = False) -> FileOperator:
    return FileOperator(run, "01A", "task", "v", 1, nullcontext, lambda: cancelled)


@pytest.mark.req("M-04")
def test_first_answer_to_a_question_counts(tmp_path: Path) -> None:
    answers: list[Answer | None] = []
    thread = threading.Thread(target=lambda: answers.append(asks(tmp_path).ask(Question("r", "d", 7, 30))))
    thread.start()
    pending = wait_for_question(tmp_path)
    assert (pending.id, pending.rule, pending.alert) == ("01A-7", "r", 7)
    write_answer(tmp_path, pending, "continue", "ann", "it is fine")
    with pytest.raises(InputError, match="already been answered"):
        write_answer(tmp_path, pending, "stop", "bob", "no")
    thread.join(60)
    assert answers == [Answer("continue", "ann", "it is fine")]
    assert pending_questions(tmp_path) == ()


def wait_for_question(run: Path, seconds: float = 300) -> PendingQuestion:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        questions = pending_questions(run)
        if questions:
            return questions[0]
        time.sleep(0.02)
    raise AssertionError("nobody asked")


@pytest.mark.component
@pytest.mark.req("M-04")
def test_question_without_an_answer_expires(tmp_path: Path) -> None:
    assert asks(tmp_path).ask(Question("r", "d", 7, 0)) is None
    assert pending_questions(tmp_path) == ()


def test_interrupt_ends_the_wait_for_an_answer(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        asks(tmp_path, cancelled=True).ask(Question("r", "d", 7, 30))
    time.sleep(0.002)  # deadlines have millisecond precision
    assert pending_questions(tmp_path) == ()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"decision": "maybe"}', '{"decision": "stop"}'])
def test_invalid_answer_files_are_ignored(tmp_path: Path, content: str) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "x.answer.json").write_text(content)
    (tmp_path / FOLDER / "y.json").write_text(content)
    assert read_answer(tmp_path, "x") is None
    assert pending_questions(tmp_path) == ()


def events_of(run: Path, record: dict[str, Any]) -> list[dict[str, Any]]:
    log = run / record["artifact_paths"]["task_dir"] / "events.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()]


@pytest.mark.req("M-04", "G-16")
def test_paused_attempt_follows_the_decision_of_the_operator(ab: Ab, tmp_path: Path) -> None:
    tasks = make_suite(tmp_path / "tasks", "one", "two")
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "one.yaml").write_text(ASKS)
    (scripts / "two.yaml").write_text(ASKS)
    process = ab.start(
        *("run", "--suite", "tiny", "--tasks-dir", tasks, "--agent", "scripted", "--script", scripts),
        *("--operator", "--out", tmp_path / "out", "--json", "--workers", "1"),
    )
    try:
        end = time.monotonic() + 300
        waiting: tuple[PendingQuestion, ...] = ()
        while len(waiting) < 2 and time.monotonic() < end:
            waiting = (
                pending_questions(next((tmp_path / "out").glob("*"), tmp_path)) if (tmp_path / "out").exists() else ()
            )
            time.sleep(0.05)
        assert {question.task_id for question in waiting} == {"one", "two"}  # one worker serves both
        (run,) = (tmp_path / "out").iterdir()
        assert len(ab("operator", "list", run, "--json").json["questions"]) == 2
        several = ab("operator", "decide", run, "--stop", "--reason", "x")
        assert several.code == 2
        assert "--question" in several.stderr
        for question in waiting:
            what = "--continue" if question.task_id == "one" else "--stop"
            decided = ab("operator", "decide", run, what, "--reason", "looked at it", "--question", question.id)
            assert decided.code == 0, decided.stderr
        stdout, stderr = process.communicate(timeout=600)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0, stderr
    for question in waiting:
        assert f"PAUSED {question.task_id} · scripted: waiting for your decision" in stderr
        assert question.call == "$ sudo make-it-42"
        assert "\n  | $ sudo make-it-42\n" in stderr
        assert f"operator decide {run} --question {question.id} --continue --reason " in stderr
    records = {record["task_id"]: record for record in json.loads(stdout)["attempts"]}
    assert records["one"]["result"]["passed"]
    assert records["two"]["result"]["failure_reason"] == "OPERATOR_ABORT"
    assert records["two"]["invalid_cause"] == "operator"
    (decision,) = [event for event in events_of(run, records["two"]) if event["type"] == "operator_decision"]
    assert decision["actor"] == "operator"
    assert decision["payload"]["justification"] == "looked at it"
    for record in records.values():
        events = {event["type"]: event for event in events_of(run, record)}
        elapsed = (events["termination"]["t"] - events["identity_bound"]["t"]) / 1e6
        waited = events["operator_decision"]["payload"]["waited_us"] / 1e6
        assert record["usage"]["wall_sec"] <= elapsed - waited, "the wait is not the agent's time"
    verified = ab("verify", run)
    assert verified.code == 0, verified.stdout


@pytest.mark.req("M-04")
@pytest.mark.parametrize("verb", [("list",), ("decide", "--stop", "--reason", "x")])
def test_folder_without_a_run_is_rejected(ab: Ab, tmp_path: Path, verb: tuple[str, ...]) -> None:
    (tmp_path / "runs").mkdir()
    ran = ab("operator", verb[0], tmp_path / "runs", *verb[1:])
    assert ran.code == 2
    assert "is not a run directory" in ran.stderr
