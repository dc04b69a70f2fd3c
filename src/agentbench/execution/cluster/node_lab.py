"""The lab of a node: prepares tasks like any lab, from base repositories and programs that the driver sent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from agentbench.agents.cli.layer import ProgramLayer
from agentbench.contract.load import LoadedTask
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import SourceError
from agentbench.execution.lab import Lab
from agentbench.execution.models import Models
from agentbench.policy.prices import Prices
from agentbench.sandbox.protocol import SetupStep
from agentbench.workspace.source.snapshot import Snapshot, Snapshots

if TYPE_CHECKING:
    from agentbench.execution.attempt.judge import JudgeChoice


@dataclass(frozen=True, slots=True)
class LabSettings:
    """The settings of the driver's lab that a node needs. Keys, secrets and budgets are not among them."""

    sandbox: str
    fresh_setup: bool
    operator: bool
    judge: JudgeChoice | None
    scorers: tuple[str, ...]
    monitors: tuple[str, ...]
    prices: Prices
    lenient: bool
    patience_sec: float
    capped: bool
    """Whether caps apply to several attempts together, so that the driver keeps the accounts."""

    @classmethod
    def of(cls, lab: Lab) -> LabSettings:
        models = lab.models
        return cls(
            lab.sandbox,
            lab.fresh_setup,
            lab.operator,
            lab.judge,
            lab.scorers,
            lab.monitors,
            models.prices,
            models.lenient,
            models.patience_sec,
            models.capped,
        )


class SentSnapshots(Snapshots):
    """Base repositories that the driver sent, by the folder of the unpacked task. Nothing is fetched from its source."""

    def __init__(self, cache: Path) -> None:
        super().__init__(cache)
        self._sent: dict[Path, Snapshot | SourceError] = {}

    def register(self, folder: Path, snapshot: Snapshot | SourceError) -> None:
        self._sent[folder] = snapshot

    def forget(self, folder: Path) -> None:
        self._sent.pop(folder, None)

    def materialize(self, loaded: LoadedTask) -> Snapshot:
        sent = self._sent[loaded.folder]
        if isinstance(sent, SourceError):
            raise sent
        return sent


class NodeLab(Lab):
    """Shared by the attempts of one run on one node."""

    def __init__(self, settings: LabSettings, models: Models, state: Path) -> None:
        super().__init__(
            sandbox=settings.sandbox,
            state=state,
            fresh_setup=settings.fresh_setup,
            models=models,
            operator=settings.operator,
            judge=settings.judge,
        )
        self.scorers, self.monitors, self.executor = settings.scorers, settings.monitors, "ray"
        self.sent_snapshots = SentSnapshots(self.state / "snapshots")
        self.snapshots = self.sent_snapshots
        self.sent_programs: dict[tuple[str, Path], ProgramLayer] = {}

    def forget_task(self, task: LoadedTask) -> None:
        """Forget the base repository and the programs that were sent for an unpacked task; the caches keep them."""
        self.sent_snapshots.forget(task.folder)
        for key in [key for key in self.sent_programs if key[1] == task.folder]:
            del self.sent_programs[key]

    def program(
        self, agent: str, task: LoadedTask, on_step: Callable[[SetupStep], None] = lambda _step: None
    ) -> ProgramLayer | None:
        return self.sent_programs.get((agent, task.folder))
