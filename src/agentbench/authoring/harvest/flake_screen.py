"""Summarise the flake screen of a suite and move flaky tasks into a quarantine suite."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from pathlib import Path

from agentbench.acceptance.validation import TaskValidation
from agentbench.contract.load import TASK_NAME
from agentbench.core.canonical import Json
from agentbench.core.errors import InputError


def summary(validations: Sequence[TaskValidation], repeats: int) -> dict[str, Json]:
    """Summarise a screen; `text` is one line for the terminal."""
    flaky = [validation for validation in validations if validation.flaky]
    invalid = [validation for validation in validations if not validation.valid and not validation.flaky]
    rate = len(flaky) / len(validations) if validations else 0.0
    return {
        "tasks": len(validations),
        "runs_each": repeats,
        "flaky": {validation.task_id: list(validation.flaky) for validation in flaky},
        "not_valid": {validation.task_id: validation.why for validation in invalid},
        "flake_rate": rate,
        "text": (
            f"{len(validations)} tasks, baseline and reference {repeats} times each: "
            f"{len(flaky)} flaky ({rate:.1%}), {len(invalid)} invalid"
        ),
    }


def quarantine_task(folder: Path, quarantine: Path, validation: TaskValidation) -> Path:
    """Move a task to the quarantine suite and record the reason in its notes.

    Raises:
        InputError: the task cannot be moved, or the quarantine suite already has a task of that name.
    """
    target = quarantine / folder.name
    if target.exists():
        raise InputError(f"{target} already exists", remedy="remove it if it is an earlier copy of the same task")
    _move_task(folder, target)
    notes = target / "notes.md"
    ids = "".join(f"- {test_id}\n" for test_id in validation.flaky)
    text = f"\n## In quarantine since {dt.datetime.now(dt.UTC):%Y-%m-%d}\n\n{validation.why}\n\n{ids}"
    try:
        with notes.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise InputError(f"{notes}: cannot write: {error.strerror}") from None
    return target


def _move_task(folder: Path, target: Path) -> None:
    """Move a task to another suite and update the `suite` key.

    Raises:
        InputError: the target cannot be written.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        file = folder / TASK_NAME
        text = re.sub(r"(?m)^suite: .*$", f"suite: {target.parent.name}", file.read_text(encoding="utf-8"), count=1)
        file.write_text(text, encoding="utf-8")
        folder.rename(target)
    except OSError as error:
        raise InputError(f"{target}: cannot write: {error.strerror}") from None
