"""Pilots for the page: stages, criteria, spending, stopping rules and decisions."""

from __future__ import annotations

from pathlib import Path

from agentbench.core.canonical import Json
from agentbench.core.errors import AgentBenchError
from agentbench.pilot.decisions.decision_log import read_decisions
from agentbench.pilot.report.status import pilot_status, status_json
from agentbench.pilot.report.text import decision_line
from agentbench.reports.html.bounded import bounded

MAX_DECISIONS = 200


def pilots_json(pilots: dict[str, Path]) -> dict[str, Json]:
    """Return every pilot with its status, or why it cannot be read."""
    return {"pilots": [_pilot(key, path) for key, path in sorted(pilots.items(), key=lambda item: item[1].name)]}


def _pilot(key: str, path: Path) -> dict[str, Json]:
    named: dict[str, Json] = {"key": key, "name": bounded(path.name, text=300), "path": bounded(str(path), text=1000)}
    try:
        status = bounded(status_json(pilot_status(path)), text=1000)
        decisions: list[Json] = [
            {"at": decision.at, "stage": decision.stage, "text": bounded(decision_line(decision), text=1000)}
            for decision in read_decisions(path)[-MAX_DECISIONS:]
        ]
    except (AgentBenchError, OSError) as error:
        return {**named, "problem": bounded(str(error), text=1000)}
    return {**named, "status": status, "decisions": decisions}
