"""Who watches a run: progress on a terminal, plain lines in CI, nobody in a library call."""

from __future__ import annotations

from typing import Protocol

from agentbench.record.schema import AttemptRecord
from agentbench.run.plan import PlanRow


class Observer(Protocol):
    """Called from worker threads; must be quick and must not raise."""

    def planned(self, rows: int) -> None: ...

    def started(self, row: PlanRow) -> None: ...

    def phase(self, row: PlanRow, phase: str) -> None: ...

    def finished(self, row: PlanRow, record: AttemptRecord) -> None: ...


class Nobody:
    """An observer that does nothing."""

    def planned(self, rows: int) -> None: ...

    def started(self, row: PlanRow) -> None: ...

    def phase(self, row: PlanRow, phase: str) -> None: ...

    def finished(self, row: PlanRow, record: AttemptRecord) -> None: ...
