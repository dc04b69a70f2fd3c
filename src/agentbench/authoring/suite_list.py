"""List suites: how many tasks each has, of which strata, and what is left to do before they are used. Nothing runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, field
from pathlib import Path

from agentbench.authoring.commit.from_commit import APPROVE
from agentbench.authoring.commit.task_draft import NOTES_NAME
from agentbench.contract.freeze_scenario import notice_of_other_scenario
from agentbench.contract.load import TASK_NAME, LoadedTask, load_task
from agentbench.contract.selection import strata_of
from agentbench.contract.suite import available, suite_folder, suite_problems
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import ContractError


@dataclass(frozen=True, slots=True)
class SuiteEntry:
    """One suite of the list."""

    name: str
    path: str
    tasks: int
    valid: int
    """Tasks whose files are valid, as `ab task check` decides."""
    locked: int
    """Tasks with a `task.lock.json`."""
    to_approve: int
    """Tasks whose notes list something that a person must approve."""
    strata: dict[str, dict[str, int]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    notice: str = ""
    """How many tasks keep other scorers than the suite has now, and what changes that; empty if none does."""


def list_suites(tasks_dir: Path) -> list[SuiteEntry]:
    """Read every suite in a folder, and the bundled one."""
    return [_entry(name, suite_folder(name, tasks_dir)) for name in available(tasks_dir)]


def as_json(entries: Sequence[SuiteEntry]) -> list[dict[str, object]]:
    return [asdict(entry) for entry in entries]


def as_lines(entry: SuiteEntry) -> list[str]:
    """Describe one suite in a few lines."""
    counts = [f"{entry.valid} readable", f"{entry.locked} locked"]
    counts += [f"{entry.to_approve} to approve"] if entry.to_approve else []
    lines = [f"{entry.name}: {entry.tasks} task{'' if entry.tasks == 1 else 's'} ({', '.join(counts)}) in {entry.path}"]
    for name, values in entry.strata.items():
        lines.append(f"    {name}: " + ", ".join(f"{value} {count}" for value, count in values.items()))
    lines += [f"    note: {entry.notice}"] if entry.notice else []
    lines += [f"    not readable: {problem}" for problem in entry.problems[:5]]
    lines += [f"    and {len(entry.problems) - 5} more problems"] if len(entry.problems) > 5 else []
    return lines


def _entry(name: str, folder: Path) -> SuiteEntry:
    tasks: list[LoadedTask] = []
    problems: list[str] = []
    files = sorted(folder.glob(f"*/{TASK_NAME}"))
    for file in files:
        try:
            tasks.append(load_task(file))
        except ContractError as error:
            problems += [problem for problem in error.problems if problem not in problems]
    misplaced = suite_problems(name, tasks)
    return SuiteEntry(
        name=name,
        path=str(folder),
        tasks=len(files),
        valid=max(0, len(tasks) - len(misplaced)),
        locked=sum(task.lock is not None for task in tasks),
        to_approve=sum(_to_approve(file.parent) for file in files),
        strata=_strata(tasks),
        problems=(*problems, *misplaced),
        notice=notice_of_other_scenario(tasks) if tasks else "",
    )


def _strata(tasks: Sequence[LoadedTask]) -> dict[str, dict[str, int]]:
    counts: dict[str, Counter[str]] = {}
    for task in tasks:
        for name, value in strata_of(task).items():
            counts.setdefault(name, Counter())[value] += 1
    return {name: dict(sorted(values.items())) for name, values in sorted(counts.items())}


def _to_approve(folder: Path) -> bool:
    try:
        return APPROVE in (folder / NOTES_NAME).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
