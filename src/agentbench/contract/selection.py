"""Select tasks by id, stratum or earlier result, and say what there is if nothing matches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from agentbench.contract.load import LoadedTask
from agentbench.contract.problem import did_you_mean
from agentbench.contract.schema import Strata
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError
from agentbench.core.problems import Problems
from agentbench.core.text import printable

MAX_SHOWN = 20


@dataclass(frozen=True, slots=True)
class FailedTasks:
    """The tasks that an earlier run attempted and did not pass."""

    run_id: str
    name: str
    tasks: frozenset[str]


@dataclass(frozen=True, slots=True)
class Selection:
    """A choice of tasks: they must satisfy every part that is given."""

    patterns: tuple[str, ...] = ()
    """Ids or globs; a task must match one of them, and each must match a task."""
    strata: tuple[tuple[str, str], ...] = ()
    """Names and values; values of one name are alternatives."""
    failed: FailedTasks | None = None
    limit: int | None = None
    """Keep only this many tasks, in the order given, which is by id within a suite."""

    @property
    def everything(self) -> bool:
        return self == Selection()

    def of(self, tasks: Sequence[LoadedTask], where: str) -> tuple[LoadedTask, ...]:
        """Return the selected tasks in the order given. `where` names the tasks in messages.

        Raises:
            InputError: a pattern or a stratum matches no task, or nothing is selected.
        """
        ids = [task.id for task in tasks]
        problems = Problems()
        for pattern in self.patterns:
            if not any(fnmatchcase(task_id, pattern) for task_id in ids):
                msg = f"--task {printable(pattern)} matches no task of {where}{did_you_mean(pattern, ids)}"
                problems.add(InputError(msg, remedy=f"available: {_listed(ids)}"))
        wanted = self._wanted_strata(tasks, where, problems)
        problems.raise_all("")
        chosen = [
            task
            for task in tasks
            if (not self.patterns or any(fnmatchcase(task.id, pattern) for pattern in self.patterns))
            and all(strata_of(task).get(name) in values for name, values in wanted.items())
            and (self.failed is None or task.id in self.failed.tasks)
        ]
        if not chosen:
            if self.failed is not None and not self.failed.tasks:
                msg = f"every attempt of {self.failed.name} that counts has passed"
                raise InputError(msg, remedy=f"repeat invalid attempts with `ab retry {self.failed.name}`")
            raise InputError(f"no task of {where} matches {self}", remedy=f"available: {_listed(ids)}")
        return tuple(chosen[: self.limit])

    def _wanted_strata(self, tasks: Sequence[LoadedTask], where: str, problems: Problems) -> dict[str, set[str]]:
        """Group the values by name. A name that does not exist, or a value that no task has, is added to `problems`."""
        wanted: dict[str, set[str]] = {}
        for name, value in self.strata:
            if name not in Strata.model_fields:
                msg = f"--stratum {printable(name)}: unknown stratum{did_you_mean(name, Strata.model_fields)}"
                problems.add(InputError(msg, remedy=f"strata: {', '.join(Strata.model_fields)}"))
                continue
            values = sorted({strata_of(task)[name] for task in tasks if name in strata_of(task)})
            if value not in values:
                msg = f"--stratum {name}={printable(value)} matches no task of {where}{did_you_mean(value, values)}"
                problems.add(InputError(msg, remedy=f"values of {name}: {_listed(values) or 'none'}"))
            wanted.setdefault(name, set()).add(value)
        return wanted

    def as_json(self, selected: int, available: int) -> dict[str, object] | None:
        """Return what `run.json` keeps of the selection, or None if every task was selected by default."""
        if self.everything:
            return None
        failed = self.failed
        return {
            "options": str(self),
            "failed_of": None if failed is None else {"run_id": failed.run_id, "name": failed.name},
            "selected": selected,
            "available": available,
        }

    def __str__(self) -> str:
        parts = [f"--task {pattern}" for pattern in self.patterns]
        parts += [f"--stratum {name}={value}" for name, value in self.strata]
        parts += [f"--failed-of {self.failed.name}"] if self.failed else []
        parts += [f"--limit {self.limit}"] if self.limit else []
        return printable(" ".join(parts))


def strata_of(task: LoadedTask) -> dict[str, str]:
    """Return the strata that a task states."""
    values: dict[str, str] = task.task.strata.model_dump(mode="json", exclude_none=True)
    return values


def _listed(names: Iterable[str]) -> str:
    shown = [printable(name) for name in names]
    return ", ".join(shown[:MAX_SHOWN]) + (f" and {len(shown) - MAX_SHOWN} more" if len(shown) > MAX_SHOWN else "")
