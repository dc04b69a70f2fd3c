"""Questions to a human operator, as files in the run directory, so that they can be answered from any terminal.

    operator/<attempt id>-<alert>.json            the question and its deadline
    operator/<attempt id>-<alert>.answer.json     continue or stop, by whom and why

A waiting attempt yields its worker to other attempts. Without an answer in time, the deadline rule stops the attempt.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError, Interrupted, RecordError
from agentbench.core.ids import now_iso
from agentbench.tools.operator import Answer, Question
from agentbench.trace.redaction import Redactor

FOLDER = "operator"
POLL_SEC = 0.2


@dataclass(frozen=True, slots=True)
class PendingQuestion:
    """A question as written to the run directory."""

    id: str
    attempt_id: str
    task_id: str
    variant: str
    repeat: int
    rule: str
    detail: str
    alert: int
    asked_at: str
    deadline_at: str
    call: str = ""
    """The whole call that waits; empty in questions of earlier versions."""

    @property
    def key(self) -> tuple[str, str, int]:
        """Return (task, variant, repeat) of the attempt."""
        return (self.task_id, self.variant, self.repeat)

    def expired(self, now: datetime) -> bool:
        return now > datetime.fromisoformat(self.deadline_at)


@dataclass(frozen=True, slots=True)
class FileOperator:
    """Asks questions for one attempt and waits for the answers."""

    run: Path
    attempt_id: str
    task_id: str
    variant: str
    repeat: int
    yield_worker: Callable[[], AbstractContextManager[None]]
    cancelled: Callable[[], bool] = lambda: False
    redact: Redactor | None = None
    notify: Callable[[Path, PendingQuestion], None] = lambda _run, _question: None
    """Called with the run directory when a question waits for its answer."""

    def ask(self, question: Question) -> Answer | None:
        """Write the question and wait for its answer. Return None if the deadline passes.

        Raises:
            RecordError: the question cannot be written.
            Interrupted: the run is being stopped.
        """
        now = datetime.now().astimezone()
        pending = PendingQuestion(
            id=f"{self.attempt_id}-{question.alert}",
            attempt_id=self.attempt_id,
            task_id=self.task_id,
            variant=self.variant,
            repeat=self.repeat,
            rule=question.rule,
            detail=self.redact.text(question.detail) if self.redact else question.detail,
            alert=question.alert,
            asked_at=_timestamp(now),
            deadline_at=_timestamp(now + timedelta(seconds=question.deadline_sec)),
            call=self.redact.text(question.call) if self.redact else question.call,
        )
        path = self.run / FOLDER / f"{pending.id}.json"
        _write(path, asdict(pending))
        self.notify(self.run, pending)
        with self.yield_worker():
            try:
                return self._wait(pending, question.deadline_sec)
            except Interrupted:
                # The attempt is ending: expire the question, so that it cannot be answered any more.
                with contextlib.suppress(RecordError):
                    _write(path, asdict(replace(pending, deadline_at=_timestamp(datetime.now().astimezone()))))
                raise

    def _wait(self, pending: PendingQuestion, seconds: float) -> Answer | None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            answer = read_answer(self.run, pending.id)
            if answer is not None:
                return answer
            if self.cancelled():
                raise Interrupted("interrupted while waiting for the operator")
            time.sleep(POLL_SEC)
        return None


def _timestamp(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")


def pending_questions(run: Path) -> tuple[PendingQuestion, ...]:
    """Read the unanswered questions of a run, oldest first."""
    questions = []
    now = datetime.now().astimezone()
    for file in sorted((run / FOLDER).glob("*.json")):
        if file.name.endswith(".answer.json") or not file.is_file():
            continue
        try:
            question = PendingQuestion(**json.loads(file.read_text(encoding="utf-8")))
            unanswered = not question.expired(now) and read_answer(run, question.id) is None
        except (OSError, ValueError, TypeError):
            continue
        if unanswered:
            questions.append(question)
    return tuple(sorted(questions, key=lambda question: question.asked_at))


def write_answer(
    run: Path, pending: PendingQuestion, decision: Literal["continue", "stop"], operator: str, reason: str
) -> None:
    """Answer a question. The first answer counts.

    Raises:
        InputError: it has an answer already.
    """
    path = run / FOLDER / f"{pending.id}.answer.json"
    value = {"decision": decision, "operator": operator, "justification": reason, "decided_at": now_iso()}
    if not _write(path, value, once=True):
        raise InputError(f"question {pending.id} has already been answered")


def read_answer(run: Path, name: str) -> Answer | None:
    """Read the answer to a question. Return None if there is none yet, or none that is valid."""
    path = run / FOLDER / f"{name}.answer.json"
    try:
        if not path.is_file():
            return None
        value = json.loads(path.read_text(encoding="utf-8"))
        decision = value["decision"]
        if decision not in {"continue", "stop"}:
            return None
        return Answer(decision, str(value["operator"]), str(value["justification"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _write(path: Path, value: Mapping[str, object], *, once: bool = False) -> bool:
    """Write a whole file or none. With `once`, keep an existing file and return False."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(exist_ok=True)
        temporary.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
        if not once:
            temporary.replace(path)
            return True
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        finally:
            temporary.unlink()
    except OSError as error:
        raise RecordError(f"cannot write {path}: {error.strerror or error}") from error
    return True
