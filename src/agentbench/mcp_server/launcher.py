"""Start runs for clients, one at a time and within limits that the owner of the server set.

The main thread makes the runs, because only there an interrupt ends running attempts and saves their records; the server runs on
another thread.
"""

from __future__ import annotations

import _thread
import queue
import re
import signal
import threading
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path
from typing import Literal

import agentbench as ab
from agentbench.agents.registry import require_agent
from agentbench.contract.schema import SLUG
from agentbench.core.dataclass import dataclass
from agentbench.core.text import printable
from agentbench.execution.request import VARIANTS
from agentbench.execution.variant_file import load_variant
from agentbench.mcp_server.answer import Answer, answer
from agentbench.record.headline import headline
from agentbench.record.run_state import RunState
from agentbench.reports.sources import ended_state

NEEDS_FILES = frozenset({"command", "scripted"})
"""Agents that take a command or files, which clients may not give."""
SHOWN_VERDICTS = 50
State = RunState | Literal["failed"]


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Limits on the attempts that clients may start, in total over the life of the server."""

    max_attempts: int
    max_usd: float
    models: tuple[str, ...] = ()
    """Models that clients may choose from."""
    workers: int = 1
    sandbox: str = "auto"
    prices: Path | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """A run that a client asked for, checked."""

    number: int
    tasks: tuple[ab.LoadedTask, ...]
    agent: str | None
    variant: str | None
    model: str | None
    repeats: int

    @property
    def attempts(self) -> int:
        return len(self.tasks) * self.repeats


@dataclass(slots=True)
class Job:
    """A started run and its progress."""

    order: Order
    state: State = "running"
    verdicts: list[str] = field(default_factory=list)
    spent: float = 0.0
    runs: tuple[str, ...] = ()
    error: str = ""
    stop_asked: bool = False
    ended: threading.Event = field(default_factory=threading.Event)

    def on_event(self, event: ab.ProgressEvent) -> None:
        if isinstance(event, ab.AttemptFinished):
            attempt = event.attempt
            self.verdicts.append(f"{attempt.task_id}: {headline(attempt)}"[:300])
            self.spent += attempt.cost.total


class Launcher:
    """Checks orders against the limits, and makes the runs in the order in which they came."""

    def __init__(self, limits: RunLimits, tasks_dir: Path, out: Path) -> None:
        self._limits = limits
        self._tasks_dir = tasks_dir
        self._out = out
        self._lock = threading.Lock()
        self._jobs: list[Job] = []
        self._orders: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._active: Job | None = None
        self._interrupted = False
        """Whether an interrupt that `stop` or `close` sent is on its way."""

    # --- tools: called on threads of the server ------------------------------------------------------------------------

    def start(
        self, suite: str, tasks: Sequence[str], agent: str | None, variant: str | None, model: str | None, repeats: int
    ) -> Answer:
        """Start a run and return at once.

        Raises:
            InputError: something does not exist, is not allowed, or exceeds the limits.
        """
        chosen = _select(ab.load_suite(suite, self._tasks_dir), tasks)
        self._check(agent, variant, model)
        with self._lock:
            running = next((job for job in self._jobs if not job.ended.is_set()), None)
            if running is not None:
                raise ab.InputError(f"run {running.order.number} is still running", remedy="wait for it, or stop it")
            order = Order(len(self._jobs) + 1, chosen, agent, variant, model, repeats)
            left = self._limits.max_attempts - sum(job.order.attempts for job in self._jobs)
            if order.attempts > left:
                msg = f"{order.attempts} attempts asked for, {left} of {self._limits.max_attempts} left"
                raise ab.InputError(
                    msg, remedy="give fewer tasks or repeats, or start the server with a higher --max-attempts"
                )
            if self._budget_left() <= 0:
                raise ab.InputError(f"the budget of {self._limits.max_usd:g} usd is spent")
            job = Job(order)
            self._jobs.append(job)
        self._orders.put(job)
        return self.progress(order.number, 0)

    def progress(self, number: int, wait_sec: float) -> Answer:
        """Return the progress of a run, after it ended or `wait_sec` have passed."""
        job = self._job(number)
        job.ended.wait(wait_sec)
        return answer(
            {
                "number": number,
                "state": job.state,
                "attempts": job.order.attempts,
                "finished": len(job.verdicts),
                "verdicts": job.verdicts[-SHOWN_VERDICTS:],
                "spent": round(job.spent, 6),
                "runs": job.runs,
                "error": job.error,
            }
        )

    def stop(self, number: int) -> Answer:
        """Interrupt a run: running attempts end and their records are saved."""
        job = self._job(number)
        self._interrupt(job)
        return self.progress(number, 30)

    def close(self) -> None:
        """End the main loop, interrupting a run that is being made."""
        self._orders.put(None)
        self._interrupt(self._active)

    def _interrupt(self, job: Job | None) -> None:
        with self._lock:
            if job is None or job.stop_asked:
                return  # a second interrupt would end the saving of records
            job.stop_asked = True
            if self._active is job:
                self._interrupted = True
                _thread.interrupt_main(signal.SIGTERM)  # `ab` maps it to an interrupt; SIGINT may be ignored

    # --- the main thread -----------------------------------------------------------------------------------------------

    def make_runs(self) -> None:
        """Make the runs that are asked for, until the server ends.

        Raises:
            KeyboardInterrupt: a signal ended the server; a run that was being made is recorded as interrupted.
        """
        while True:
            try:
                if not self._make_next():
                    return
            except KeyboardInterrupt:
                if not self._interrupted:
                    raise
                self._interrupted = False

    def _make_next(self) -> bool:
        """Make the next run. Return False if the server has ended."""
        job = self._next()
        if job is None:
            return False
        try:
            with self._lock:
                self._active = None if job.stop_asked else job
            if self._active is job:
                self._make(job)
            else:
                job.state, job.error = "interrupted", "stopped before its first attempt"
        except KeyboardInterrupt:
            job.state, job.error = "interrupted", "interrupted; `ab run --resume` continues the run"
            raise
        finally:
            with self._lock:
                self._active = None
            job.ended.set()
        return True

    def _next(self) -> Job | None:
        while True:
            try:
                return self._orders.get(timeout=1.0)  # wakes up, so that a signal is handled meanwhile
            except queue.Empty:
                continue

    def _make(self, job: Job) -> None:
        order = job.order
        try:
            result = ab.run(
                order.tasks,
                agent=order.agent,
                variants=[order.variant] if order.variant else [],
                model=order.model,
                repeats=order.repeats,
                workers=self._limits.workers,
                sandbox=self._limits.sandbox,
                prices=self._limits.prices,
                total_usd=self._budget_left(),
                out=self._out,
                on_event=job.on_event,
            )
        except ab.AgentBenchError as error:
            job.state, job.error = "failed", f"{error.message}. {error.remedy}".rstrip(". ")
        else:
            job.state, job.runs = ended_state(result.paths), tuple(path.name for path in result.paths)

    # --- checks --------------------------------------------------------------------------------------------------------

    def _check(self, agent: str | None, variant: str | None, model: str | None) -> None:
        """
        Raises:
            InputError: the agent, variant or model is not one that a client may choose.
        """
        if (agent is None) == (variant is None):
            raise ab.InputError("give either agent or variant")
        if agent in NEEDS_FILES:
            raise ab.InputError(f"agent '{agent}' needs files or a command", remedy="give it a variant, and name that")
        if variant is not None and (not re.fullmatch(SLUG, variant) or variant.endswith((".yaml", ".yml"))):
            raise ab.InputError(f"'{printable(variant)}' is not the name of a variant")
        if model is not None and model not in self._limits.models:
            allowed = ", ".join(self._limits.models) or "none"
            raise ab.InputError(f"model '{printable(model)}' is not allowed", remedy=f"allowed models: {allowed}")
        if variant is not None:
            load_variant(variant, VARIANTS)
        if agent is not None:
            require_agent(agent, has_model=model is not None)

    def _budget_left(self) -> float:
        return self._limits.max_usd - sum(job.spent for job in self._jobs)

    def _job(self, number: int) -> Job:
        with self._lock:
            if not 1 <= number <= len(self._jobs):
                raise ab.InputError(f"no run {number}; {len(self._jobs)} were started")
            return self._jobs[number - 1]


def _select(suite: ab.Suite, ids: Sequence[str]) -> tuple[ab.LoadedTask, ...]:
    """
    Raises:
        InputError: a task is not in the suite.
    """
    by_id = {task.id: task for task in suite.tasks}
    unknown = [task for task in ids if task not in by_id]
    if unknown:
        raise ab.InputError(f"no task '{printable(unknown[0])}' in suite {suite.name}")
    return tuple(by_id[task] for task in dict.fromkeys(ids)) or suite.tasks
