"""List the runs of a folder: how far each came, what it decided, and how much space it takes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import AgentBenchError
from agentbench.core.reasons import RunStatus
from agentbench.core.text import shell_quoted
from agentbench.record.find_run import folders_with_runs, run_directories
from agentbench.record.run_state import RunState, run_state
from agentbench.reports.adjudications import read_adjudications, to_review
from agentbench.reports.escape import columns, plain
from agentbench.reports.missing_results import listed_state
from agentbench.reports.number_format import plural
from agentbench.reports.record_rows import trial_of
from agentbench.reports.sources import open_run
from agentbench.statistics.trials import Rate


@dataclass(frozen=True, slots=True)
class RunEntry:
    """One run of the list. Counts are of final attempts."""

    name: str
    path: str
    run_id: str
    study_id: str
    started_at: str
    suite: str
    variant: str
    model: str | None
    state: RunState | Literal["unreadable"]
    planned: int | None
    """Number of attempts that the run was started for; None in runs of older versions."""
    attempts: int
    passed: int
    not_passed: int
    """Attempts that count in the contract rate and did not pass."""
    not_counted: int
    """Attempts outside the contract rate: harness errors, invalid tasks, operator."""
    invalid: int
    """Invalid attempts, also those that the agent made invalid by an unsafe act, which count as not passed."""
    needs_review: int
    """Flagged attempts without an adjudication."""
    bytes: int
    stops_early: bool = False
    """A stopping rule can end the run before all planned attempts are made."""
    problem: str = ""
    """Why the run is unreadable."""
    altered: int = 0
    """Records, and places of the chain that seals them, that were changed."""
    warning: str = ""
    """What was altered first, or that records have no seal; empty if every record matches its seal."""
    not_sealed: int = 0
    """Records without a seal."""


def list_runs(folder: Path, limit: int | None = None) -> list[RunEntry]:
    """Read the runs of a folder, newest first. A run that cannot be read is listed as such."""
    return [run_entry(path) for path in run_directories(folder)[:limit]]


def as_json(entries: Sequence[RunEntry]) -> list[dict[str, object]]:
    return [asdict(entry) for entry in entries]


def as_lines(entries: Sequence[RunEntry]) -> list[str]:
    """Return one line per run, aligned."""
    header = ("RUN", "STATE", "ATTEMPTS", "RESULT", "SIZE")
    return columns([header, *(_cells(entry) for entry in entries)])


def _cells(entry: RunEntry) -> tuple[str, ...]:
    limit = "at most " if entry.stops_early else ""
    planned = "" if entry.planned is None else f" of {limit}{entry.planned}"
    result = [f"{entry.passed} passed", f"{entry.not_passed} not passed"]
    result += [f"{entry.not_counted} not counted"] if entry.not_counted else []
    result += [f"{entry.needs_review} to review"] if entry.needs_review else []
    text = plain(entry.problem, 80) if entry.problem else plain(f"{entry.warning} {', '.join(result)}".strip(), 200)
    return plain(entry.name, 160), entry.state, f"{entry.attempts}{planned}", text, f"{entry.bytes / 1e6:.1f} MB"


def headline(entries: Sequence[RunEntry], folder: Path) -> str:
    if not folder.exists():
        return f"0 runs: {folder} does not exist"
    altered = sum(entry.altered > 0 for entry in entries)
    mark = f"ALTERED: {plural(altered, 'run')}, see `ab verify`. " if altered else ""
    unsealed = sum(entry.not_sealed > 0 for entry in entries)
    mark += f"NOT SEALED: {plural(unsealed, 'run')}. " if unsealed else ""
    if not entries:
        below = " or ".join(f"--out {shell_quoted(path)}" for path in folders_with_runs(folder))
        return f"0 runs in {folder}" + (f"; there are runs below it: give {below}" if below else "")
    return f"{mark}{plural(len(entries), 'run')} in {folder}, newest first"


def run_entry(path: Path) -> RunEntry:
    """Read one run; one that cannot be read is an entry that says why."""
    try:
        run = open_run(path)
        state = listed_state(run_state(path), run.missing)
        waiting = to_review(run.rows, read_adjudications(path))
    except AgentBenchError as error:
        return RunEntry(
            path.name, str(path), "", "", "", "", "", None, "unreadable", None, 0, 0, 0, 0, 0, 0, _size(path), problem=error.message
        )  # fmt: skip
    rows, meta = run.rows, run.meta
    order, model, request = meta.get("order"), meta.get("model"), meta.get("request")
    variant = str(meta.get("variant", ""))
    planned = sum(isinstance(key, list) and key[1] == variant for key in order) if isinstance(order, list) else None
    counted = [value for row in rows if (value := trial_of(row).value(Rate.CONTRACT)) is not None]
    return RunEntry(
        name=path.name,
        path=str(path),
        run_id=str(meta.get("run_id", "")),
        study_id=str(meta.get("study_id", "")),
        started_at=str(meta.get("created_at", "")),
        suite=str(meta.get("suite", "")),
        variant=variant,
        model=None if model is None else str(model),
        state=state,
        planned=planned,
        attempts=len(rows),
        passed=sum(counted),
        not_passed=len(counted) - sum(counted),
        not_counted=len(rows) - len(counted),
        invalid=sum(row.status is RunStatus.INVALID for row in rows),
        needs_review=len(waiting),
        bytes=_size(path),
        stops_early=isinstance(request, Mapping) and request.get("stop_when") is not None,
        altered=len(run.altered),
        warning="" if run.imported else run.seal_marks.mark("").strip(),
        not_sealed=0 if run.imported else len(run.unsealed),
    )


def _size(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(parent) / name).lstat().st_size
            except OSError:
                continue
    return total
