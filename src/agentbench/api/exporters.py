"""Exporters of plug-ins: functions that write a run in the format of another tool."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from agentbench.exchange.registry import exporters
from agentbench.plugins.extensions import Extensions
from agentbench.plugins.kinds import Kind

if TYPE_CHECKING:
    from agentbench.api.runs import Run

BUILT_IN = ("bundle", *exporters())


class Exporter(Protocol):
    """Writes a run in the format of another tool; the plug-in of kind `exporter`, used by `ab export-run --format NAME`.

    Examples:
        >>> import agentbench as ab
        >>> from pathlib import Path
        >>> def ids(run: ab.Run, out: Path) -> None:
        ...     _ = out.write_text(" ".join(attempt.task_id for attempt in run.attempts))
        >>> ab.register("exporter", "ids", ids)  # or: run.export(ids, "ids.txt")
    """

    def __call__(self, run: Run, out: Path, /) -> None: ...


OTHER_EXPORTERS: Extensions[Exporter] = Extensions(Kind.EXPORTER, BUILT_IN)
