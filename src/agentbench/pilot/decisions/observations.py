"""Attempts of a pilot reduced to what its decisions need, and reading them from run directories.

A decision names how many records of each run directory it has seen. Records are only appended, so the same prefix gives the
same attempts later.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from agentbench.agents.registry import canonical_name
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError
from agentbench.core.reasons import (
    InvalidCause,
    Outcome,
    Reason,
    RunStatus,
    TerminationCategory,
    TerminationCode,
)
from agentbench.record.run_directory import RunDirectory
from agentbench.record.schema import AttemptRecord
from agentbench.statistics.trials import Trial

BREAKERS = frozenset(
    {
        TerminationCode.REPEATED_CALLS,
        TerminationCode.REPEATED_INSTALLS,
        TerminationCode.OSCILLATION,
        TerminationCode.NO_PROGRESS,
        TerminationCode.DOMINANCE,
    }
)
"""Terminations by a breaker: loops and work without progress."""
CAPS = frozenset(
    {
        TerminationCode.MAX_STEPS,
        TerminationCode.TOOL_CALL_CAP,
        TerminationCode.TOKEN_CAP,
        TerminationCode.COST_CAP,
        TerminationCode.WALL_CAP,
        TerminationCode.FAILED_CYCLE_CAP,
    }
)
"""Terminations by a hard cap on one attempt."""
REPEATED = frozenset(
    {
        TerminationCode.INTERRUPTED,
        TerminationCode.MODEL_UNAVAILABLE,
        TerminationCode.SANDBOX_ERROR,
        TerminationCode.SETUP_FAILED,
    }
)
"""Terminations without a result, which the next `ab pilot run` repeats. Unlike in other runs, a spent budget is a result, and a
failed setup is not: it worked in the flake screen. A task whose setup goes on failing can be removed."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One final attempt."""

    attempt_id: str
    task_id: str
    method: str
    agent: str
    """Name of the agent, never an alias."""
    repeat: int
    status: RunStatus
    passed: bool
    cause: InvalidCause | None
    reason: Reason | None
    termination: TerminationCode
    category: TerminationCategory | None
    cost: float
    unit: str
    priced: bool
    """Whether the record says how its cost was computed."""
    subscores: bool
    """Whether every component of the rubric was computed."""
    checks: Outcome
    """Outcome of the mandatory checks."""
    patch: str | None
    """Digest of the graded patch."""
    contract_id: str

    @property
    def key(self) -> tuple[str, str, int]:
        return (self.task_id, self.method, self.repeat)

    @property
    def trial(self) -> Trial:
        """Return what statistics needs. An attempt that a spent budget ended counts as not passed, as the protocol asks."""
        if self.termination is TerminationCode.TOTAL_BUDGET:
            return Trial(self.task_id, self.repeat, RunStatus.FAILURE, False, None, self.cost)
        return Trial(self.task_id, self.repeat, self.status, self.passed, self.cause, self.cost)

    @property
    def complete(self) -> bool:
        """Whether the attempt has a result."""
        return self.termination not in REPEATED

    @property
    def violation(self) -> bool:
        """Whether the attempt violated the boundary of the sandbox or the policy."""
        return (
            self.cause is InvalidCause.SAFETY
            or self.termination is TerminationCode.SAFETY
            or self.category is TerminationCategory.BOUNDARY_VIOLATION
        )


def observe(record: AttemptRecord) -> Observation:
    components = record.components
    values = (components.correctness, components.validity, components.safety, components.efficiency)
    return Observation(
        attempt_id=record.attempt_id,
        task_id=record.task_id,
        method=record.variant,
        agent=canonical_name(record.agent),
        repeat=record.repeat,
        status=record.run_status,
        passed=record.result.passed,
        cause=record.invalid_cause,
        reason=record.result.failure_reason,
        termination=record.termination.code,
        category=record.termination.category,
        cost=record.cost.total,
        unit=record.cost.unit,
        priced=record.cost.method_id is not None,
        subscores=record.run_status is RunStatus.INVALID or all(value is not None for value in values),
        checks=next((result.outcome for gate, result in record.gates.items() if gate == "G3"), Outcome.ERROR),
        patch=record.patch.sha256 if record.patch else None,
        contract_id=record.contract_id,
    )


Seen = Mapping[str, int]
"""Number of records by the name of a run directory."""


@dataclass(frozen=True, slots=True)
class Records:
    """The records of some run directories in the order in which attempts ended."""

    by_run: Mapping[str, tuple[AttemptRecord, ...]]

    @property
    def seen(self) -> dict[str, int]:
        return {name: len(records) for name, records in self.by_run.items()}

    def until(self, seen: Seen) -> Records:
        """Return the records that a decision has seen.

        Raises:
            InputError: records that it has seen are missing now.
        """
        for name, number in seen.items():
            found = len(self.by_run.get(name, ()))
            if found < number:
                msg = f"runs/{name} has {found} records, but a decision was based on {number}: attempts are missing"
                raise InputError(msg, remedy="restore the run directory; `ab verify` lists everything that was altered")
        return Records({name: self.by_run[name][: seen[name]] for name in self.by_run if name in seen})

    def finals(self) -> list[AttemptRecord]:
        """Return the last record of each task, method and repeat."""
        last: dict[tuple[str, str, int], AttemptRecord] = {}
        for record in self.all():
            last[record.key] = record
        return list(last.values())

    def all(self) -> Iterable[AttemptRecord]:
        return (record for records in self.by_run.values() for record in records)

    @property
    def spent(self) -> float:
        """Return the cost of all attempts, superseded ones included."""
        return math.fsum(record.cost.total for record in self.all())

    def observations(self) -> list[Observation]:
        return [observe(record) for record in self.finals()]


def read_run_records(folder: Path, runs: Sequence[str]) -> Records:
    """Read the records of run directories.

    Raises:
        InputError: a run directory is missing.
        RecordError: a record cannot be read.
    """
    by_run: dict[str, tuple[AttemptRecord, ...]] = {}
    for name in runs:
        if not (folder / name).is_dir():
            msg = f"{folder / name} is missing: a stage of this pilot made its attempts there"
            raise InputError(msg, remedy="restore the run directory; attempts cannot be removed from a pilot")
        by_run[name] = tuple(RunDirectory.open(folder / name).records())
    return Records(by_run)
