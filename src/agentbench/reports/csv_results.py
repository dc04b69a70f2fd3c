"""Read results of other tools from CSV files with the columns `task,method,repeat,outcome[,cost][,G4]`."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from agentbench.core.errors import ContractError, InputError
from agentbench.core.reasons import InvalidCause, Outcome, RunStatus
from agentbench.core.text import printable
from agentbench.reports.record_rows import is_safe
from agentbench.reports.seal_marks import ALTERED, IMPORTED, NO_SEAL, SealMarks
from agentbench.statistics.trials import Trial

DEVIATIONS = "deviations"
"""Optional column with the protocol deviations of the run that a row comes from."""
COST_UNIT = "cost_unit"
"""Optional column with the unit of the column `cost`."""
UNKNOWN_UNIT = "unknown unit"
_SAFETY = "g4"
"""Optional column that says whether the agent was safe: `pass`, `fail`, or `error` and nothing if unknown."""
_STATUS = "run_status"
"""Optional column; `success` at a failed outcome says that all checks passed, so that the acceptance rate counts it."""
_CHECKS = "g3"
_SEPARATOR = " | "
_YES, _NO = frozenset({"true", "1"}), frozenset({"", "false", "0"})
"""How `ab query` and other tools write whether a row is altered."""
REQUIRED = ("task", "method", "repeat", "outcome")
MAX_PROBLEMS = 50

_Outcome = tuple[RunStatus, bool, InvalidCause | None]
OUTCOMES: Mapping[str, _Outcome] = {
    **dict.fromkeys(("pass", "passed", "success", "1", "true"), (RunStatus.SUCCESS, True, None)),
    **dict.fromkeys(("fail", "failed", "failure", "0", "false"), (RunStatus.FAILURE, False, None)),
    **dict.fromkeys(("error", "acceptance_error"), (RunStatus.ACCEPTANCE_ERROR, False, None)),
    "invalid": (RunStatus.INVALID, False, InvalidCause.HARNESS),
    **{f"invalid:{cause}": (RunStatus.INVALID, False, cause) for cause in InvalidCause},
}


def read_results(path: Path) -> dict[str, tuple[Trial, ...]]:
    """Read trials by method, in order of first appearance.

    Raises:
        InputError: the file cannot be read.
        ContractError: some lines are invalid; lists every problem.
    """
    problems: list[str] = []
    methods: dict[str, dict[tuple[str, int], Trial]] = {}
    lines: dict[tuple[str, str, int], int] = {}
    for line, row in _rows(path):
        trial = _trial(row, f"{path}:{line}", problems)
        if trial is None:
            continue
        method = row["method"].strip()
        key = (method, trial.task, trial.repeat)
        if key in lines:
            name = f"{_quoted(trial.task)}, {_quoted(method)}, repeat {trial.repeat}"
            problems.append(f"{path}:{line}: {name} is already on line {lines[key]}")
        lines.setdefault(key, line)
        methods.setdefault(method, {})[trial.task, trial.repeat] = trial
    if problems:
        more = [f"and {len(problems) - MAX_PROBLEMS} more"] if len(problems) > MAX_PROBLEMS else []
        msg = f"{path}: {len(problems)} problem{'s' if len(problems) > 1 else ''}"
        raise ContractError(msg, problems=(*problems[:MAX_PROBLEMS], *more))
    return {method: tuple(trials.values()) for method, trials in methods.items()}


def joined_deviations(deviations: Iterable[str]) -> str:
    """Return the value of the `deviations` column."""
    return _SEPARATOR.join(deviations)


def read_deviations(path: Path, method: str) -> tuple[str, ...]:
    """Return the distinct deviations of a method's rows, in order of first appearance.

    Raises:
        InputError: the file cannot be read.
    """
    cells = dict.fromkeys(row.get(DEVIATIONS, "").strip() for _, row in _rows(path) if row["method"].strip() == method)
    return tuple(dict.fromkeys(text for cell in cells for text in cell.split(_SEPARATOR) if text))


def read_cost_units(path: Path, method: str) -> frozenset[str]:
    """Return the units of the costs of a method's rows, `UNKNOWN_UNIT` where a row does not state it.

    Raises:
        InputError: the file cannot be read.
    """
    rows = (row for _, row in _rows(path) if row["method"].strip() == method)
    return frozenset(
        printable(row.get(COST_UNIT, "").strip())[:40] or UNKNOWN_UNIT for row in rows if row.get("cost", "").strip()
    )


def read_seal_marks(path: Path, method: str) -> SealMarks:
    """Return what the columns `altered` and `imported` say of a method's rows.

    Raises:
        InputError: the file cannot be read.
    """
    rows = [(line, row) for line, row in _rows(path) if row["method"].strip() == method]
    cells = [(line, row.get(ALTERED, "").strip()) for line, row in rows]
    altered = (
        f"{path}:{line} is marked as altered" if cell.lower() in _YES else cell
        for line, cell in cells
        if cell.lower() not in _NO and cell != NO_SEAL
    )
    imported = (tool for _, row in rows if (tool := row.get(IMPORTED, "").strip()))
    unsealed = sum(cell == NO_SEAL for _, cell in cells)
    return SealMarks(len(rows), tuple(dict.fromkeys(altered)), unsealed, printable(next(imported, ""))[:80])


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Check the header, then yield data rows with their line numbers."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, restkey="\0rest", restval="", strict=True)
            head = [name.strip().lower() for name in reader.fieldnames or ()]
            missing = [name for name in REQUIRED if name not in head]
            if missing or len(set(head)) != len(head):
                problem = f"missing column {', '.join(missing)}" if missing else "duplicate column"
                raise InputError(f"{path}:1: {problem}; expected task,method,repeat,outcome and optionally cost")
            reader.fieldnames = head
            for row in reader:
                yield reader.line_num, row
    except FileNotFoundError:
        raise InputError(f"{path} does not exist") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"cannot read {path} as UTF-8 CSV: {error}") from error


def _trial(row: Mapping[str, str], place: str, problems: list[str]) -> Trial | None:
    """Convert one row, or append its problems and return None."""
    before = len(problems)
    if "\0rest" in row:
        problems.append(f"{place}: more cells than columns in the header")
        return None
    problems += [f"{place}: {name} is empty" for name in ("task", "method") if not row[name].strip()]
    repeat = row["repeat"].strip()
    if not (repeat.isascii() and repeat.isdigit() and len(repeat) <= 9 and int(repeat)):
        problems.append(f"{place}: repeat: expected an integer from 1, got {_quoted(repeat)}")
    outcome = OUTCOMES.get(row["outcome"].strip().lower())
    if outcome is None:
        problems.append(f"{place}: outcome: expected one of {', '.join(OUTCOMES)}, got {_quoted(row['outcome'])}")
    cost = _cost(row.get("cost", "").strip(), place, problems)
    safety = _safety(row.get(_SAFETY, "").strip().lower(), place, problems)
    if len(problems) > before or outcome is None:
        return None
    status, passed, cause = outcome
    if status is RunStatus.FAILURE and row.get(_STATUS, "").strip().lower() == RunStatus.SUCCESS:
        status = RunStatus.SUCCESS  # every check passed, but a rule was broken
    return Trial(
        row["task"].strip(),
        int(repeat),
        status,
        passed,
        cause,
        cost,
        is_safe(safety, cause),
        _acceptance_known(row, status),
    )


def _acceptance_known(row: Mapping[str, str], status: RunStatus) -> bool:
    """Return False for an imported row whose status does not come from checks, as `Row.checks_decided` does."""
    undecided = row.get(_CHECKS, "").strip().lower() == Outcome.ERROR
    return not (row.get(IMPORTED, "").strip() and undecided and status in {RunStatus.SUCCESS, RunStatus.FAILURE})


def _safety(text: str, place: str, problems: list[str]) -> Outcome:
    try:
        return Outcome(text or Outcome.ERROR)
    except ValueError:
        problems.append(f"{place}: G4: expected {', '.join(Outcome)} or nothing, got {_quoted(text)}")
        return Outcome.ERROR


def _cost(text: str, place: str, problems: list[str]) -> float | None:
    if not text:
        return None
    try:
        cost = float(text)
    except ValueError:
        cost = math.nan
    if not math.isfinite(cost) or cost < 0:
        problems.append(f"{place}: cost: expected a number from 0 or nothing, got {_quoted(text)}")
        return None
    return cost


def _quoted(text: str) -> str:
    return f"'{printable(text[:80])}'"
