"""The order in which attempts were launched, proved by their ids.

The id of an attempt is a ULID. Its time is later than that of every attempt launched before, also if the clock was set back, so
sorting ids gives the order of launches. Its other bits are a digest of the registration, the line of the plan and how often the
line was launched, so an id belongs to one line only. Ids are chosen one after the other, before a worker gets the attempt:
neither load nor the number of workers can change their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from pathlib import Path

from agentbench.core.canonical import canonical, sha256_hex
from agentbench.core.dataclass import dataclass
from agentbench.core.ids import make_ulid, now_ms, split_ulid
from agentbench.pilot.decisions.observations import observe
from agentbench.pilot.design.plan import PlanLine
from agentbench.record.run_directory import RunDirectory

_TAIL_DIGITS = 20
Key = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class Launch:
    """An attempt that began."""

    attempt_id: str
    key: Key
    """Task, method and repeat."""
    complete: bool
    """Whether it has a result; otherwise the next session launches the line again."""


def read_launches(folder: Path, runs: Iterable[str]) -> list[Launch]:
    """Read every attempt that began in some run directories, also those without a record, in the order of their ids.

    Raises:
        RecordError: a run directory cannot be read.
    """
    launches: list[Launch] = []
    for name in runs:
        run = RunDirectory.open(folder / name)
        records = list(run.records())
        launches += [Launch(record.attempt_id, record.key, observe(record).complete) for record in records]
        recorded, method = {record.attempt_id for record in records}, str(run.meta["variant"])
        launches += [
            Launch(begun.attempt_id, (begun.task_id, method, begun.repeat), complete=False)
            for begun in run.unfinished()
            if begun.attempt_id not in recorded
        ]
    return sorted(launches, key=lambda launch: launch.attempt_id)


def lines_to_launch(lines: Sequence[PlanLine], earlier: Iterable[Launch]) -> list[PlanLine]:
    """Return the lines that have no result yet, in the order of the plan."""
    complete = {launch.key: launch.complete for launch in earlier}
    return [line for line in lines if not complete.get(line.key, False)]


def id_tail(registration_id: str, line: PlanLine, number: int) -> bytes:
    """Return the part of an id that the plan decides, for the launch `number` of a line."""
    return bytes.fromhex(sha256_hex(canonical([registration_id, line.order, *line.key, number]))[:_TAIL_DIGITS])


@dataclass(slots=True)
class LaunchIds:
    """Chooses the id of each attempt of a session. Must not be used by two threads at once."""

    registration_id: str
    lines: dict[Key, PlanLine]
    after_ms: int
    """All ids of this session have a later time."""
    numbers: dict[Key, int] = field(default_factory=dict)
    """How often each line was launched."""

    @classmethod
    def after(
        cls, registration_id: str, lines: Iterable[PlanLine], launches: Sequence[Launch], frozen_ms: int
    ) -> LaunchIds:
        last = split_ulid(launches[-1].attempt_id)[0] if launches else 0
        ids = cls(registration_id, {line.key: line for line in lines}, max(last, frozen_ms))
        for launch in launches:
            ids.numbers[launch.key] = ids.numbers.get(launch.key, 0) + 1
        return ids

    def choose(self, key: Key) -> str:
        self.after_ms = max(now_ms(), self.after_ms + 1)
        self.numbers[key] = self.numbers.get(key, 0) + 1
        return make_ulid(self.after_ms, id_tail(self.registration_id, self.lines[key], self.numbers[key]))

    @property
    def launched(self) -> int:
        """Number of attempts launched so far, those of earlier sessions included."""
        return sum(self.numbers.values())


def id_problems(
    registration_id: str, lines: Sequence[PlanLine], earlier: Sequence[Launch], session: Sequence[Launch]
) -> Iterator[tuple[Launch, str]]:
    """Compare the launches of a session with the lines that it had to launch: the same lines in the same order.

    Yields at most one difference of the order, because everything after it differs too.
    """
    numbers: dict[Key, int] = {}
    for launch in earlier:
        numbers[launch.key] = numbers.get(launch.key, 0) + 1
    waiting = lines_to_launch(lines, earlier)
    for position, launch in enumerate(session):
        line = waiting[position] if position < len(waiting) else None
        if line is None or line.key != launch.key:
            wanted = "no further attempt" if line is None else _shown(line.key)
            yield launch, f"{_shown(launch.key)} was launched where the plan has {wanted}"
            return
        if split_ulid(launch.attempt_id)[1] != id_tail(registration_id, line, numbers.get(line.key, 0) + 1):
            yield launch, f"{_shown(launch.key)}: its id does not follow from the registration and the plan"
            return


def _shown(key: Key) -> str:
    task_id, method, repeat = key
    return f"{method} at {task_id}, repeat {repeat}"
