"""The files of a pilot: their names, and reading and writing them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from agentbench.core.canonical import Json
from agentbench.core.errors import InputError, RecordError
from agentbench.record.durable import write_atomic

PILOT_FILE = "pilot.yaml"
PLAN = "plan.csv"
POWER = "power.json"
COST_INPUTS = "cost_inputs.json"
COST_PROJECTION = "cost_projection.csv"
COST_FIGURE = "cost_projection.svg"
REGISTRATION = "registration.json"
REMOVALS = "removals.jsonl"
DECISIONS = "decisions.jsonl"
FLAKE_SCREEN = "flake_screen.json"
AUDIT = "audit.csv"
RUBRIC = "rubric.csv"
COMPARISONS = "comparisons.csv"
RUNS = "runs"
REGISTRATIONS = "registrations"
"""A copy of everything frozen, one folder for each registration."""
FROZEN = (PILOT_FILE, PLAN, POWER, COST_INPUTS, COST_PROJECTION)
"""Files that a registration freezes by their digest."""


def is_pilot(path: Path) -> bool:
    """Return whether a folder is a pilot."""
    return (path / PILOT_FILE).is_file()


def json_text(value: Mapping[str, Json]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def read_text(path: Path) -> str:
    """
    Raises:
        InputError: the file is missing.
        RecordError: it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{path} is missing", remedy=_MISSING.get(path.name, "")) from None
    except OSError as error:
        raise RecordError.of("read", path, error) from error
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text") from None


_MISSING = {
    PILOT_FILE: "create it with `ab pilot init`",
    **dict.fromkeys((PLAN, POWER, COST_INPUTS, COST_PROJECTION), "write it with `ab pilot plan`"),
    REGISTRATION: "freeze the pilot with `ab pilot freeze`; nothing runs before that",
}


def write_text(path: Path, text: str) -> None:
    """Replace a file, or leave it as it was.

    Raises:
        RecordError: it cannot be written.
    """
    write_atomic(path, text.encode())
