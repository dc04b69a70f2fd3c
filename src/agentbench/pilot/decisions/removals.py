"""Removal of tasks for objective invalidity. A claim is accepted only if recorded evidence supports it.

Removed tasks are not replaced. Their attempts stay on disk and in `audit.csv`, outside the rates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, field
from enum import StrEnum
from pathlib import Path

from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError
from agentbench.core.ids import now_iso
from agentbench.core.reasons import Outcome, Reason, TerminationCode
from agentbench.pilot.chained_log import ChainedLog
from agentbench.pilot.decisions.flakes import FlakeScreen, flaky_tasks
from agentbench.pilot.decisions.observations import Observation
from agentbench.pilot.folder import REMOVALS


class RemovalCause(StrEnum):
    """Reasons for which a task is invalid."""

    FLAKY = "flaky"
    """Differing outcomes of the checks on an unchanged snapshot."""
    INVALID_ORACLE = "invalid_oracle"
    """The checks accept the base repository, reject the reference, or cannot run."""
    SETUP = "setup"
    """Setup fails."""


@dataclass(frozen=True, slots=True)
class Removal:
    """One line of `removals.jsonl`."""

    task_id: str
    cause: RemovalCause
    reason: str
    by: str
    evidence: str
    registration_id: str
    seen: Mapping[str, int]
    """Number of records of each run directory that the claim was checked against."""
    at: str = field(default_factory=now_iso)


def claim_evidence(
    task_id: str,
    cause: RemovalCause,
    screen: FlakeScreen | None,
    attempts: Sequence[Observation],
) -> str | None:
    """Return the evidence for a claim, or None if no record supports it."""
    own = [attempt for attempt in attempts if attempt.task_id == task_id]
    if cause is RemovalCause.FLAKY:
        return flaky_tasks(screen, own).get(task_id)
    if cause is RemovalCause.SETUP:
        return next(_setup_evidence(task_id, screen, own), None)
    return next(_oracle_evidence(task_id, screen, own), None)


def _setup_evidence(task_id: str, screen: FlakeScreen | None, attempts: Sequence[Observation]) -> Iterator[str]:
    screened = screen.by_task.get(task_id) if screen else None
    if screened is not None and screened.why.startswith("setup:"):
        yield f"flake screen: {screened.why}"
    for attempt in attempts:
        if attempt.termination is TerminationCode.SETUP_FAILED:
            yield f"attempt {attempt.attempt_id}: setup failed"


def _oracle_evidence(task_id: str, screen: FlakeScreen | None, attempts: Sequence[Observation]) -> Iterator[str]:
    screened = screen.by_task.get(task_id) if screen else None
    if screened is not None and not screened.valid and not screened.flaky and not screened.why.startswith("setup:"):
        yield f"flake screen: baseline {screened.baseline}, reference {screened.reference}: {screened.why}"
    for attempt in attempts:
        if attempt.reason is Reason.BASELINE_NOT_FAILING:
            yield f"attempt {attempt.attempt_id}: the checks pass on the base repository"
        if attempt.termination is TerminationCode.CHECK_BROKEN:
            yield f"attempt {attempt.attempt_id}: a check cannot be run on the base repository"
        if attempt.agent == "reference" and attempt.complete and attempt.checks is Outcome.FAIL:
            yield f"attempt {attempt.attempt_id}: the checks reject the reference"


def contrary_evidence(task_id: str, screen: FlakeScreen | None, attempts: Sequence[Observation]) -> str:
    """Say what the records show of a task instead."""
    own = [attempt for attempt in attempts if attempt.task_id == task_id]
    passed = sum(attempt.passed for attempt in own)
    screened = screen.by_task.get(task_id) if screen else None
    parts = (
        [f"{passed} of {len(own)} attempts at it passed, without differing outcomes of the same patch"] if own else []
    )
    if screened is not None:
        stable = "stable" if not screened.flaky else "flaky"
        parts.append(f"flake screen: baseline {screened.baseline}, reference {screened.reference}, {stable}")
    return "; ".join(parts) or "nothing is recorded about it yet"


def append_removal(folder: Path, removal: Removal) -> None:
    value: dict[str, Json] = asdict(removal)
    ChainedLog(folder / REMOVALS).append(value)


def read_removals(folder: Path) -> list[Removal]:
    """Read the log.

    Raises:
        InputError: a line was altered or removed, or is not a removal.
    """
    path = folder / REMOVALS
    removals = []
    for number, entry in enumerate(ChainedLog(path).entries(), start=1):
        value = {name: part for name, part in entry.items() if name != "previous"}
        try:
            removals.append(Removal(**{**value, "cause": RemovalCause(str(value["cause"]))}))  # type: ignore[arg-type]
        except (TypeError, ValueError, KeyError):
            raise InputError(f"{path}:{number}: not a removal") from None
    return removals
