"""The files of a pilot, and its two append-only logs.

Each line of a log contains the digest of the line before it, so an edited or removed line is found.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from agentbench.core.canonical import CanonicalError, Json, canonical, parse_canonical, sha256_hex
from agentbench.core.errors import InputError, RecordError
from agentbench.pilot.config import PILOT_FILE
from agentbench.record.durable import append_line, drop_torn_line, write_atomic

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


@dataclass(frozen=True, slots=True)
class ChainedLog:
    """A JSONL file that is only appended to."""

    path: Path

    def append(self, value: Mapping[str, Json]) -> None:
        """Append one entry.

        Raises:
            InputError: an earlier line was altered.
            RecordError: the file cannot be written.
        """
        drop_torn_line(self.path)
        *_, previous = ("", *(digest for digest, _ in self._lines()))
        append_line(self.path, canonical({**value, "previous": previous}))

    def entries(self) -> list[Mapping[str, Json]]:
        """Read all entries. An incomplete last line, left by a process that died, is ignored.

        Raises:
            InputError: a line was altered or removed; names the line.
        """
        return [value for _, value in self._lines()]

    def _lines(self) -> Iterator[tuple[str, Mapping[str, Json]]]:
        previous = ""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise RecordError.of("read", self.path, error) from error
        for number, line in enumerate(data.split(b"\n")[:-1], start=1):
            try:
                value = parse_canonical(line)
            except CanonicalError as error:
                raise InputError(f"{self.path}:{number}: {error}", remedy=_RESTORE) from None
            if not isinstance(value, Mapping) or value.get("previous") != previous:
                msg = f"{self.path}:{number}: the line or one before it was altered or removed"
                raise InputError(msg, remedy=_RESTORE)
            previous = sha256_hex(line)
            yield previous, value


_RESTORE = "restore the file; `ab verify` lists everything that was altered"
