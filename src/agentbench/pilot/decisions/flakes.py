"""Flaky tasks: differing outcomes on an unchanged snapshot, from the flake screen and from the recorded attempts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from agentbench.core.canonical import sha256_hex
from agentbench.core.errors import InputError
from agentbench.core.reasons import Outcome
from agentbench.pilot.decisions.observations import Observation
from agentbench.pilot.folder import FLAKE_SCREEN, read_text, write_text


class ScreenedTask(BaseModel):
    """Baseline and reference of one task, checked several times before the first stage."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    task_id: str
    contract_id: str
    valid: bool
    baseline: str
    reference: str
    flaky: tuple[str, ...]
    """Checks and tests with differing outcomes."""
    why: str


class FlakeScreen(BaseModel):
    """The content of `flake_screen.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    repeats: int
    tasks: tuple[ScreenedTask, ...]

    @property
    def by_task(self) -> Mapping[str, ScreenedTask]:
        return {task.task_id: task for task in self.tasks}


def write_screen(folder: Path, screen: FlakeScreen) -> None:
    write_text(folder / FLAKE_SCREEN, screen.model_dump_json(indent=2) + "\n")


def read_screen(folder: Path) -> FlakeScreen | None:
    """Read the flake screen; None if it was not made yet.

    Raises:
        InputError: the file is invalid.
    """
    path = folder / FLAKE_SCREEN
    if not path.exists():
        return None
    try:
        return FlakeScreen.model_validate_json(read_text(path))
    except ValidationError as error:
        raise InputError(f"{path} is not a flake screen: {error.errors()[0]['msg']}") from None


def screen_digest(folder: Path) -> str | None:
    path = folder / FLAKE_SCREEN
    return "sha256:" + sha256_hex(path.read_bytes()) if path.exists() else None


def flaky_tasks(screen: FlakeScreen | None, observations: Sequence[Observation]) -> dict[str, str]:
    """Return every flaky task with the evidence."""
    evidence = {
        task.task_id: f"flake screen: differing outcomes of {', '.join(task.flaky[:3])}"
        for task in (screen.tasks if screen else ())
        if task.flaky
    }
    outcomes: dict[tuple[str, str, str], dict[Outcome, str]] = {}
    for attempt in observations:
        if attempt.patch is not None and attempt.checks is not Outcome.ERROR and attempt.complete:
            key = (attempt.task_id, attempt.contract_id, attempt.patch)
            outcomes.setdefault(key, {}).setdefault(attempt.checks, attempt.attempt_id)
    for (task_id, _, _), by_outcome in outcomes.items():
        if len(by_outcome) > 1:
            attempts = ", ".join(f"{outcome} in {attempt}" for outcome, attempt in sorted(by_outcome.items()))
            evidence.setdefault(task_id, f"the same patch: {attempts}")
    return evidence
