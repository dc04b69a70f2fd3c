"""Results made elsewhere: CSV files `task,method,repeat,outcome[,cost]`, read with every problem named by its line."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from agentbench.core.errors import ContractError, InputError
from agentbench.core.reasons import InvalidCause, RunStatus
from agentbench.core.text import printable
from agentbench.statistics.trials import Trial

REQUIRED = ("task", "method", "repeat", "outcome")
MOST_PROBLEMS = 50

_Outcome = tuple[RunStatus, bool, InvalidCause | None]
OUTCOMES: Mapping[str, _Outcome] = {
    **dict.fromkeys(("pass", "passed", "success", "1", "true"), (RunStatus.SUCCESS, True, None)),
    **dict.fromkeys(("fail", "failed", "failure", "0", "false"), (RunStatus.FAILURE, False, None)),
    **dict.fromkeys(("error", "acceptance_error"), (RunStatus.ACCEPTANCE_ERROR, False, None)),
    "invalid": (RunStatus.INVALID, False, InvalidCause.HARNESS),
    **{f"invalid:{cause}": (RunStatus.INVALID, False, cause) for cause in InvalidCause},
}


def read_results(path: Path) -> dict[str, tuple[Trial, ...]]:
    """Trials by method, methods in the order in which they first appear.

    Raises:
        InputError: the file cannot be read, or says something it may not say (then every problem is listed).
    """
    problems: list[str] = []
    found: dict[str, dict[tuple[str, int], Trial]] = {}
    lines: dict[tuple[str, str, int], int] = {}
    for line, row in _rows(path):
        trial = _trial(row, f"{path}:{line}", problems)
        if trial is None:
            continue
        method = row["method"].strip()
        key = (method, trial.task, trial.repeat)
        if key in lines:
            problems.append(
                f"{path}:{line}: {_shown(trial.task)}, {_shown(method)}, repeat {trial.repeat} is already in line {lines[key]}"
            )
        lines.setdefault(key, line)
        found.setdefault(method, {})[trial.task, trial.repeat] = trial
    if problems:
        more = [f"and {len(problems) - MOST_PROBLEMS} more"] if len(problems) > MOST_PROBLEMS else []
        msg = f"{path} cannot be used: {len(problems)} problem{'s' if len(problems) > 1 else ''}"
        raise ContractError(msg, problems=(*problems[:MOST_PROBLEMS], *more))
    return {method: tuple(trials.values()) for method, trials in found.items()}


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Data rows with their line numbers; the header is checked first."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, restkey="\0rest", restval="", strict=True)
            head = [name.strip().lower() for name in reader.fieldnames or ()]
            missing = [name for name in REQUIRED if name not in head]
            if missing or len(set(head)) != len(head):
                what = f"has no column {', '.join(missing)}" if missing else "names a column twice"
                msg = f"{path}:1: the header {what}; expected task,method,repeat,outcome and perhaps cost"
                raise InputError(msg)
            reader.fieldnames = head
            for row in reader:
                yield reader.line_num, row
    except FileNotFoundError:
        msg = f"{path} does not exist"
        raise InputError(msg) from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        msg = f"{path} cannot be read as CSV in UTF-8: {error}"
        raise InputError(msg) from error


def _trial(row: Mapping[str, str], place: str, problems: list[str]) -> Trial | None:
    """One row, or None with its problems noted."""
    before = len(problems)
    if "\0rest" in row:
        problems.append(f"{place}: more cells than the header has columns")
        return None
    problems += [f"{place}: {name} is empty" for name in ("task", "method") if not row[name].strip()]
    repeat = row["repeat"].strip()
    if not (repeat.isascii() and repeat.isdigit() and len(repeat) <= 9 and int(repeat)):
        problems.append(f"{place}: repeat is {_shown(repeat)}, expected a whole number from 1")
    outcome = OUTCOMES.get(row["outcome"].strip().lower())
    if outcome is None:
        problems.append(f"{place}: outcome is {_shown(row['outcome'])}, expected one of {', '.join(OUTCOMES)}")
    cost = _cost(row.get("cost", "").strip(), place, problems)
    if len(problems) > before or outcome is None:
        return None
    status, passed, cause = outcome
    return Trial(row["task"].strip(), int(repeat), status, passed, cause, cost)


def _cost(text: str, place: str, problems: list[str]) -> float | None:
    if not text:
        return None
    try:
        cost = float(text)
    except ValueError:
        cost = math.nan
    if not math.isfinite(cost) or cost < 0:
        problems.append(f"{place}: cost is {_shown(text)}, expected a number from 0 or nothing")
        return None
    return cost


def _shown(text: str) -> str:
    return f"'{printable(text[:80])}'"
