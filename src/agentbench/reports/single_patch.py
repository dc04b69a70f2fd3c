"""Summary of a run that graded a single patch: its verdict. Rates, costs and times are in `ab report summary`."""

from __future__ import annotations

from pathlib import Path

from agentbench.record.durable import write_atomic
from agentbench.record.headline import headline
from agentbench.record.naming import REPORT
from agentbench.record.run_directory import RunDirectory
from agentbench.reports.escape import code


def write_verdict(run: Path) -> Path:
    """Write `report_summary.md` into the run directory, replacing an older one atomically.

    Raises:
        InputError: `run` is not a run directory, or its records cannot be read.
        RecordError: the file cannot be written.
    """
    path = run / REPORT
    lines = [
        f"# {code(headline(record))}\n\nTask {code(record.task_id)}, one patch."
        for record in RunDirectory.open(run).finals()
    ]
    lines = lines or ["# EMPTY: no finished attempts"]
    lines.append("`ab report summary` shows rates, costs and times.")
    write_atomic(path, ("\n\n".join(lines) + "\n").encode())
    return path
