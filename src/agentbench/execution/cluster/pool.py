"""The pool of nodes: places each attempt on a node that accepts its task and has enough processors and memory free.

Attempts get their places in the order in which they ask, so methods stay interleaved as planned; an attempt that no node accepts
now lets the others pass. Among nodes that fit, the one with the least load is preferred; one that has prepared the task before may
have somewhat more. A node whose last attempt ended in a harness error comes last, and retries avoid it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import field

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import HarnessError, Interrupted

_WAKE_SEC = 0.5
UNPREPARED_LOAD = 0.25
"""How much more load a node may have that has prepared the task before than one that has not."""


class ClusterGone(HarnessError):
    """The cluster does not answer, or has no node left. Its attempts count as interrupted, so that resuming repeats them."""


@dataclass(frozen=True, slots=True)
class Demand:
    """The requirements of an attempt. `key` names the requirements that the node was asked about."""

    key: str
    task_id: str
    cpus: float
    memory_mb: int


@dataclass(eq=False, slots=True)
class PoolNode:
    """A node in the pool, with the part of it that this run may use."""

    name: str
    cpus: float
    memory_mb: int
    problems: dict[str, str] = field(default_factory=dict)
    """For each key of requirements, why the node does not accept it; empty text if it does."""
    attempts: int = 0
    used_cpus: float = 0.0
    used_memory_mb: int = 0
    prepared: set[str] = field(default_factory=set)
    suspect: bool = False
    """Whether the last attempt there ended in a harness error. Such a node fails fast and would attract all others."""

    def refusal(self, demand: Demand) -> str:
        """Return why the demand can never be met here; empty if it can."""
        if demand.cpus > self.cpus:
            return f"it offers {self.cpus:g} CPUs, {demand.cpus:g} are needed"
        if demand.memory_mb > self.memory_mb:
            return f"it offers {self.memory_mb} MB memory, {demand.memory_mb} MB are needed"
        return self.problems.get(demand.key, "it was not asked")

    def load(self) -> float:
        """Return the share of the node that is in use."""
        return max(self.used_cpus / self.cpus, self.used_memory_mb / self.memory_mb)

    def fits(self, demand: Demand) -> bool:
        free = self.cpus - self.used_cpus >= demand.cpus and self.memory_mb - self.used_memory_mb >= demand.memory_mb
        return free and not self.refusal(demand)


@dataclass(eq=False, slots=True)
class Lease:
    """The place of one attempt on a node."""

    pool: NodePool
    node: PoolNode
    demand: Demand

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Give the place away while the attempt waits for a person. It continues at once, even on a full node."""
        self.pool.give_back(self)
        try:
            yield
        finally:
            self.pool.take_again(self)


@dataclass(eq=False, frozen=True, slots=True)
class _Ticket:
    """The place of one attempt in the queue."""

    demand: Demand


class NodePool:
    """All nodes that are usable now."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._nodes: list[PoolNode] = []
        self._queue: list[_Ticket] = []
        self.failure: ClusterGone | None = None

    def add(self, node: PoolNode) -> None:
        with self._changed:
            self._nodes.append(node)
            self._changed.notify_all()

    def remove(self, node: PoolNode) -> bool:
        """Remove a node; its attempts are the caller's concern. Return whether it was in the pool."""
        with self._changed:
            if node not in self._nodes:
                return False
            self._nodes.remove(node)
            self._changed.notify_all()
            return True

    def fail(self, error: ClusterGone) -> None:
        """End every wait for a place with an error."""
        with self._changed:
            self.failure = self.failure or error
            self._changed.notify_all()

    def nodes(self) -> list[PoolNode]:
        with self._changed:
            return list(self._nodes)

    def waiting(self) -> int:
        with self._changed:
            return len(self._queue)

    def refusals(self, demand: Demand) -> dict[str, str] | None:
        """Return why each node refuses a demand; None if a node accepts it."""
        refusals = {node.name: node.refusal(demand) for node in self.nodes()}
        return None if "" in refusals.values() else refusals

    def acquire(
        self, demand: Demand, *, avoid: Collection[PoolNode], cancelled: Callable[[], bool], max_wait_sec: float
    ) -> Lease:
        """Wait for a place. Nodes in `avoid` are used only if no other node accepts the demand.

        Raises:
            Interrupted: the run is being stopped.
            ClusterGone: there was no node for `max_wait_sec`, or the cluster does not answer.
            HarnessError: no node accepted the demand for `max_wait_sec`.
        """
        ticket = _Ticket(demand)
        deadline = time.monotonic() + max_wait_sec
        with self._changed:
            self._queue.append(ticket)
            try:
                while True:
                    if self.failure is not None:
                        raise self.failure
                    if cancelled():
                        raise Interrupted("interrupted while waiting for a node")
                    accepting = [node for node in self._nodes if not node.refusal(demand)]
                    if accepting:
                        deadline = time.monotonic() + max_wait_sec
                        if self._first() is ticket and (node := _best(accepting, demand, avoid)) is not None:
                            return self._take(node, demand)
                    elif time.monotonic() > deadline:
                        raise self._no_place(demand, max_wait_sec)
                    self._changed.wait(_WAKE_SEC)
            finally:
                self._queue.remove(ticket)
                self._changed.notify_all()

    def release(self, lease: Lease) -> None:
        self.give_back(lease)

    def give_back(self, lease: Lease) -> None:
        with self._changed:
            lease.node.attempts -= 1
            lease.node.used_cpus -= lease.demand.cpus
            lease.node.used_memory_mb -= lease.demand.memory_mb
            self._changed.notify_all()

    def take_again(self, lease: Lease) -> None:
        with self._changed:
            self._take(lease.node, lease.demand)

    def _first(self) -> _Ticket | None:
        """Return the first in the queue that a node accepts, free or not."""
        accepted = (ticket for ticket in self._queue if any(not node.refusal(ticket.demand) for node in self._nodes))
        return next(accepted, None)

    def _take(self, node: PoolNode, demand: Demand) -> Lease:
        node.attempts += 1
        node.used_cpus += demand.cpus
        node.used_memory_mb += demand.memory_mb
        node.prepared.add(demand.task_id)
        return Lease(self, node, demand)

    def _no_place(self, demand: Demand, seconds: float) -> HarnessError:
        if not self._nodes:
            msg = f"the Ray cluster has had no usable node for {seconds:.0f} s"
            return ClusterGone(msg, remedy="start nodes, then continue with `ab run --resume`")
        refusals = "; ".join(f"{node.name}: {node.refusal(demand)}" for node in self._nodes)
        return HarnessError(f"no node accepted task {demand.task_id} for {seconds:.0f} s: {refusals}")


def _best(accepting: list[PoolNode], demand: Demand, avoid: Collection[PoolNode]) -> PoolNode | None:
    preferred = [node for node in accepting if node not in avoid] or accepting
    if avoid:  # a retry waits for a node that works, if there is one
        preferred = [node for node in preferred if not node.suspect] or preferred
    fitting = [node for node in preferred if node.fits(demand)]
    return min(
        fitting, key=lambda node: (node.suspect, node.load() + _setup_cost(node, demand), node.attempts), default=None
    )


def _setup_cost(node: PoolNode, demand: Demand) -> float:
    return 0.0 if demand.task_id in node.prepared else UNPREPARED_LOAD
