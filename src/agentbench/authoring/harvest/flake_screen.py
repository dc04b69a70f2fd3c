"""The flake screen of a suite: how many of its tasks give different outcomes, and a place apart for those."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path

from agentbench.acceptance.validation import TaskValidation
from agentbench.authoring.harvest.harvest import move
from agentbench.core.canonical import Json
from agentbench.core.errors import InputError


def summary(found: Sequence[TaskValidation], repeats: int) -> dict[str, Json]:
    """What a screen came to; `text` is one line for people."""
    flaky = [one for one in found if one.flaky]
    broken = [one for one in found if not one.valid and not one.flaky]
    rate = len(flaky) / len(found) if found else 0.0
    return {
        "tasks": len(found),
        "runs_each": repeats,
        "flaky": {one.task_id: list(one.flaky) for one in flaky},
        "not_valid": {one.task_id: one.why for one in broken},
        "flake_rate": rate,
        "text": (
            f"{len(found)} tasks, baseline and reference {repeats} times each: {len(flaky)} flaky ({rate:.1%}), "
            f"{len(broken)} that do not hold"
        ),
    }


def set_aside(folder: Path, quarantine: Path, why: TaskValidation) -> Path:
    """Move a task to the suite of those that must not judge anybody; its notes say why.

    Raises:
        InputError: it cannot be moved, or one of its name is there already.
    """
    place = quarantine / folder.name
    if place.exists():
        msg = f"{place} exists already"
        raise InputError(msg, remedy="remove it: it is the same task, put aside before")
    move(folder, place)
    notes = place / "notes.md"
    ids = "".join(f"- {one}\n" for one in why.flaky)
    text = f"\n## In quarantine since {dt.datetime.now(dt.UTC):%Y-%m-%d}\n\n{why.why}\n\n{ids}"
    try:
        with notes.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise InputError(f"{notes} cannot be written: {error.strerror}") from None
    return place
