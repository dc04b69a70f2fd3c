"""The one file a report leaves in a run directory: `report_summary.md`."""

from __future__ import annotations

from pathlib import Path

from agentbench.record.durable import write_atomic
from agentbench.record.naming import REPORT
from agentbench.reports.sources import open_run
from agentbench.reports.summary import summarise
from agentbench.reports.summary_text import as_markdown


def write_summary(run: Path) -> Path:
    """Write the summary beside the records it is made from; an older one is replaced in one step.

    Raises:
        InputError: `run` is no run directory, or its records cannot be read.
        RecordError: the file cannot be written.
    """
    path = run / REPORT
    write_atomic(path, as_markdown(summarise(open_run(run))).encode())
    return path
