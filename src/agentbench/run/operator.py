"""A person decides: questions and answers as files in the run directory, so that any terminal can give the answer.

    operator/<attempt id>-<alert>.json            what is asked, and until when
    operator/<attempt id>-<alert>.answer.json     continue or stop, who says so and why

An attempt that waits holds no worker: others go on. When nobody answers in time, the deadline rule stops it.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

from agentbench.core.errors import InputError, Interrupted, RecordError
from agentbench.core.ids import now_iso
from agentbench.tools.operator import Answer, Question

FOLDER = "operator"
POLL_SEC = 0.2


@dataclass(frozen=True, slots=True)
class Pending:
    """A question as it lies in the run directory."""

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

    def expired(self, now: datetime) -> bool:
        return now > datetime.fromisoformat(self.deadline_at)


@dataclass(frozen=True, slots=True)
class FileOperator:
    """Asks on behalf of one attempt."""

    run: Path
    attempt_id: str
    task_id: str
    variant: str
    repeat: int
    yield_worker: Callable[[], AbstractContextManager[None]]
    cancelled: Callable[[], bool] = lambda: False

    def ask(self, question: Question) -> Answer | None:
        """
        Raises:
            RecordError: the question cannot be written.
            Interrupted: the run is being stopped.
        """
        now = datetime.now().astimezone()
        pending = Pending(
            id=f"{self.attempt_id}-{question.alert}",
            attempt_id=self.attempt_id,
            task_id=self.task_id,
            variant=self.variant,
            repeat=self.repeat,
            rule=question.rule,
            detail=question.detail,
            alert=question.alert,
            asked_at=_moment(now),
            deadline_at=_moment(now + timedelta(seconds=question.deadline_sec)),
        )
        place = self.run / FOLDER / f"{pending.id}.json"
        _write(place, asdict(pending))
        with self.yield_worker():
            try:
                return self._wait(pending, question.deadline_sec)
            except Interrupted:
                # Nobody is there any more who would hear an answer.
                with contextlib.suppress(RecordError):
                    _write(place, asdict(replace(pending, deadline_at=_moment(datetime.now().astimezone()))))
                raise

    def _wait(self, pending: Pending, seconds: float) -> Answer | None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            answer = read_answer(self.run, pending.id)
            if answer is not None:
                return answer
            if self.cancelled():
                raise Interrupted("interrupted while an operator was waited for")
            time.sleep(POLL_SEC)
        return None


def _moment(when: datetime) -> str:
    return when.isoformat(timespec="milliseconds")


def pending_questions(run: Path) -> tuple[Pending, ...]:
    """Questions of a run that still wait for an answer, the oldest first."""
    found = []
    now = datetime.now().astimezone()
    for file in sorted((run / FOLDER).glob("*.json")):
        if file.name.endswith(".answer.json"):
            continue
        try:
            one = Pending(**json.loads(file.read_text(encoding="utf-8")))
            open_still = not one.expired(now) and read_answer(run, one.id) is None
        except (OSError, ValueError, TypeError):
            continue
        if open_still:
            found.append(one)
    return tuple(sorted(found, key=lambda one: one.asked_at))


def decide(run: Path, pending: Pending, decision: Literal["continue", "stop"], operator: str, reason: str) -> None:
    """Answer a question. The first answer counts.

    Raises:
        InputError: it was answered already.
    """
    path = run / FOLDER / f"{pending.id}.answer.json"
    value = {"decision": decision, "operator": operator, "justification": reason, "decided_at": now_iso()}
    if not _write(path, value, once=True):
        msg = f"{pending.id} was answered already"
        raise InputError(msg)


def read_answer(run: Path, name: str) -> Answer | None:
    """The answer to a question; None while there is none that can be understood."""
    try:
        value = json.loads((run / FOLDER / f"{name}.answer.json").read_text(encoding="utf-8"))
        decision = value["decision"]
        if decision not in {"continue", "stop"}:
            return None
        return Answer(decision, str(value["operator"]), str(value["justification"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _write(path: Path, value: Mapping[str, object], *, once: bool = False) -> bool:
    """A whole file or none; with `once`, False when there is one already."""
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
        msg = f"cannot write {path}: {error.strerror or error}"
        raise RecordError(msg) from error
    return True
