"""Observers of a study: progress on a terminal, plain lines in CI, nothing in a library call."""

from __future__ import annotations

from typing import Protocol

from agentbench.record.schema import AttemptRecord
from agentbench.run.plan import PlanRow
from agentbench.sandbox.protocol import SetupStep


class Observer(Protocol):
    """Called from worker threads; must be quick and must not raise."""

    def warn(self, message: str) -> None: ...

    def installing(self, agent: str, step: SetupStep) -> None:
        """One step of installing an agent that is a program has finished."""
        ...

    def planned(self, rows: int) -> None: ...

    def started(self, row: PlanRow) -> None: ...

    def phase(self, row: PlanRow, phase: str) -> None: ...

    def finished(self, row: PlanRow, record: AttemptRecord) -> None: ...


class NullObserver:
    """An observer that does nothing."""

    def warn(self, message: str) -> None: ...

    def installing(self, agent: str, step: SetupStep) -> None: ...

    def planned(self, rows: int) -> None: ...

    def started(self, row: PlanRow) -> None: ...

    def phase(self, row: PlanRow, phase: str) -> None: ...

    def finished(self, row: PlanRow, record: AttemptRecord) -> None: ...
