"""Pilots for the page: stages, criteria, spending, stopping rules and decisions."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentbench.core.canonical import Json
from agentbench.core.errors import AgentBenchError
from agentbench.core.text import printable
from agentbench.pilot.folder import RUNS
from agentbench.reports.html.bounded import bounded
from agentbench.view.index import Entry
from agentbench.view.roots import Folder

MAX_DECISIONS = 200
MAX_FILES = 20_000


def pilots_json(pilots: Mapping[str, Folder], runs: Sequence[Entry]) -> dict[str, Json]:
    """Return every pilot with its status and its runs, or why it cannot be read."""
    by_name = sorted(pilots.items(), key=lambda item: item[1].path.name)
    return {"pilots": [_pilot(key, folder, runs) for key, folder in by_name]}


def _pilot(key: str, folder: Folder, runs: Sequence[Entry]) -> dict[str, Json]:
    path = folder.path
    named: dict[str, Json] = {
        "key": key,
        "name": bounded(path.name, text=300),
        "path": bounded(str(path), text=1000),
        "runs": [
            {
                "key": run.key,
                "name": bounded(run.path.name, text=300),
                "variant": bounded(run.meta.get("variant"), text=120),
                "state": run.state,
            }
            for run in runs
            if run.path.parent == path / RUNS
        ],
    }
    if refused := folder.refused or special_file(path):
        return {**named, "problem": f"this pilot is not opened: {refused}"}
    from agentbench.pilot.decisions.decision_log import read_decisions  # noqa: PLC0415 - needs numpy
    from agentbench.pilot.report.status import pilot_status, status_json  # noqa: PLC0415 - needs numpy
    from agentbench.pilot.report.text import decision_line  # noqa: PLC0415 - needs numpy

    try:
        status = bounded(status_json(pilot_status(path)), text=1000)
        decisions: list[Json] = [
            {"at": decision.at, "stage": decision.stage, "text": bounded(decision_line(decision), text=1000)}
            for decision in read_decisions(path)[-MAX_DECISIONS:]
        ]
    except (AgentBenchError, OSError) as error:
        return {**named, "problem": bounded(str(error), text=1000)}
    return {**named, "status": status, "decisions": decisions}


def special_file(pilot: Path) -> str:
    """Name a file of a pilot whose opening could block, such as a pipe; empty if there is none. Runs are left out."""
    left = MAX_FILES
    for folder, folders, files in os.walk(pilot):
        folders[:] = [name for name in folders if name != RUNS or folder != str(pilot)]
        for name in files:
            left -= 1
            path = Path(folder, name)
            try:
                mode = path.stat().st_mode
            except OSError:
                continue
            if not stat.S_ISREG(mode):
                return f"{printable(str(path.relative_to(pilot)))[:300]} is not a regular file"
        if left < 0:
            return f"it has more than {MAX_FILES:,} files"
    return ""
