"""A run while it is made: progress, the current step of each worker, and a log, as updates for server-sent events.

A watch reads what was appended to the chain of the run and to the logs of its running attempts. It keeps no history: a client that
connects again gets the whole state first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from pathlib import Path

from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.execution.operator import pending_questions
from agentbench.record.attempt_folder import EVENTS
from agentbench.reports.html.bounded import bounded
from agentbench.reports.html.detail import Trace, event_json
from agentbench.reports.provenance import evidence
from agentbench.trace.chain import BadLine, Line, read_line
from agentbench.trace.events import AttemptBegun, AttemptSealed, LlmResponse, ResourceSample, TaskStarted
from agentbench.view.index import Entry, RunIndex
from agentbench.view.progress import RunProgress
from agentbench.view.tail import Tail

MAX_LOG = 60
"""Log lines of one update."""
FIRST_BYTES = 400_000
"""A log that has grown before anyone watches is read from here before its end."""
STEP_TEXT = 240
MAX_WORKERS = 2_000


@dataclass
class Worker:
    """An attempt that is being made."""

    attempt_id: str
    task: str
    repeat: int
    task_dir: str
    tail: Tail
    variant: str = ""
    began: int = 0
    """Microseconds since the epoch."""
    step: Json = None
    """The last event."""
    tokens: int = 0
    cost_micro: int = 0
    events: int = 0

    def read(self) -> list[dict[str, Json]]:
        """Read new events and return them, bounded, for the log."""
        steps = []
        for _, raw in self.tail.lines():
            try:
                line = read_line(raw)
                value = line.value()
            except BadLine:
                continue
            self.events = line.seq
            self._take(line)
            if line.type == ResourceSample.type:
                continue
            step: dict[str, Json] = {
                "attempt": self.attempt_id,
                "task": self.task,
                "repeat": self.repeat,
                "seq": line.seq,
                "t": line.t,
                "type": line.type,
                "actor": line.actor,
                "payload": bounded(value, text=STEP_TEXT),
            }
            self.step = step
            steps.append(step)
        return steps

    def _take(self, line: Line) -> None:
        if line.type == TaskStarted.type:
            self.variant = str(line.value().get("variant", ""))
        elif line.type == LlmResponse.type:
            value = line.value()
            self.tokens += _whole(value.get("prompt_tokens")) + _whole(value.get("completion_tokens"))
            self.cost_micro += _whole(value.get("cost_micro_usd"))

    def as_json(self) -> dict[str, Json]:
        return {
            "attempt": self.attempt_id,
            "task": bounded(self.task, text=300),
            "repeat": self.repeat,
            "variant": bounded(self.variant, text=120),
            "began": self.began,
            "step": self.step,
            "tokens": self.tokens,
            "cost": self.cost_micro / 1e6,
            "events": self.events,
        }


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


@dataclass
class RunWatch:
    """The state of one run for one client."""

    index: RunIndex
    key: str
    workers: dict[str, Worker] = field(default_factory=dict)
    _chain: RunProgress | None = None
    _last: Json = None

    def snapshot(self) -> dict[str, Json]:
        """Read everything and return the whole state."""
        entry = self.index.entry(self.key)
        self._read_chain(entry)
        steps = self._read_workers()
        self._last = progress = self._progress(entry)
        workers: list[Json] = [worker.as_json() for worker in self.workers.values()]
        return {"progress": progress, "workers": workers, "log": list(steps[-MAX_LOG:])}

    def update(self) -> dict[str, Json] | None:
        """Return what has changed since the last call, or None."""
        entry = self.index.recheck(self.key)
        gone = self._read_chain(entry)
        steps = self._read_workers()
        changed = {str(step["attempt"]) for step in steps}
        progress = self._progress(entry)
        if not gone and not changed and progress == self._last:
            return None
        self._last = progress
        return {
            "progress": progress,
            "workers": [worker.as_json() for name, worker in self.workers.items() if name in changed],
            "gone": list(gone),
            "log": list(steps[-MAX_LOG:]),
        }

    @property
    def ended(self) -> bool:
        """Return whether the run is closed or no process writes it."""
        return (self._chain is not None and self._chain.closed) or self.index.recheck(self.key).state != "running"

    def _read_chain(self, entry: Entry) -> list[str]:
        """Read new events of the run; return the attempts that have ended."""
        self._chain = chain = self._chain or RunProgress(entry.path)
        chain.read()
        gone = [attempt_id for attempt_id in self.workers if attempt_id not in chain.running]
        for attempt_id in gone:
            del self.workers[attempt_id]
        for attempt_id, line in chain.running.items():
            if attempt_id not in self.workers and len(self.workers) < MAX_WORKERS:
                self._begin(entry.path, line.t, AttemptBegun.model_validate(line.value()))
        return gone

    def _begin(self, run: Path, t: int, begun: AttemptBegun) -> None:
        path = evidence(run, f"{begun.task_dir}/{EVENTS}")
        if path is not None:
            self.workers[begun.attempt_id] = Worker(
                begun.attempt_id, begun.task_id, begun.repeat, begun.task_dir, Tail(path), began=t
            )

    def _read_workers(self) -> list[dict[str, Json]]:
        steps = []
        for worker in self.workers.values():
            if worker.step is None:
                worker.tail.skip_to_last(FIRST_BYTES)
            steps += worker.read()
        return sorted(steps, key=lambda step: _whole(step["t"]))

    def _progress(self, entry: Entry) -> dict[str, Json]:
        chain = self._chain or RunProgress(entry.path)
        return {
            **entry.as_json(),
            **chain.as_json(entry.planned, entry.counts.attempts if entry.counts else 0),
            "study_spent": self.index.spent_by_study().get(entry.study, 0.0),
            "spending": sum(worker.cost_micro for worker in self.workers.values()) / 1e6,
            "questions": len(pending_questions(entry.path)) if chain.running else 0,
        }


@dataclass
class AttemptFollow:
    """New events of one attempt, from a byte offset of its log on."""

    index: RunIndex
    key: str
    attempt_id: str
    offset: int = 0
    _tail: Tail | None = None

    def events(self) -> tuple[int, str] | None:
        """Return new events as a JSON array with the offset behind them, or None if there are none."""
        if self._tail is None and not self._open():
            return None
        tail = self._tail
        lines = tail.lines(max_bytes=1_000_000) if tail is not None else []
        if not lines:
            return None
        return lines[-1][0], "[" + ",".join(event_json(raw, Trace()) for _, raw in lines) + "]"

    def ended(self) -> bool:
        """Return whether the attempt is sealed or no process writes it any more."""
        entry = self.index.recheck(self.key)
        if any(attempt_id == self.attempt_id for attempt_id in _sealed(entry.path)):
            return True
        return entry.state != "running"

    def _open(self) -> bool:
        entry = self.index.entry(self.key)
        for begun in _begun(entry.path):
            if begun.attempt_id == self.attempt_id:
                path = evidence(entry.path, f"{begun.task_dir}/{EVENTS}")
                self._tail = Tail(path, self.offset) if path is not None else None
        return self._tail is not None


def _begun(run: Path) -> Iterator[AttemptBegun]:
    for line in _chain(run, AttemptBegun.type):
        yield AttemptBegun.model_validate(line.value())


def _sealed(run: Path) -> Iterator[str]:
    for line in _chain(run, AttemptSealed.type):
        yield str(line.value().get("attempt_id"))


def _chain(run: Path, event_type: str) -> Iterator[Line]:
    for raw in Tail(run / EVENTS).all_lines():
        try:
            line = read_line(raw)
        except BadLine:
            continue
        if line.type == event_type:
            yield line
