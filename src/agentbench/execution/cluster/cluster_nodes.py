"""The nodes of a run: starts an actor on each, asks what it accepts, and watches over it until the run ends.

Nodes that join later, or whose processors become free, are used too. A node that dies, hangs or is cut off is given up: it may send
nothing any more, its attempts end as harness errors, and its sandboxes end with it. If its machine lives, it is started again, a
limited number of times.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import HarnessError
from agentbench.execution.cluster.attempt_service import AttemptService
from agentbench.execution.cluster.channel_keys import new_channel_key
from agentbench.execution.cluster.channel_server import BadMessage, ChannelServer
from agentbench.execution.cluster.content import Address, ContentStore
from agentbench.execution.cluster.node import SentAttempt
from agentbench.execution.cluster.node_blame import MAX_ERRORS, NodeBlame
from agentbench.execution.cluster.node_lab import LabSettings
from agentbench.execution.cluster.pool import ClusterGone, NodePool, PoolNode
from agentbench.execution.cluster.probe import NodeReport
from agentbench.execution.cluster.ray_cluster import RayActor, RayCluster, RayNode
from agentbench.execution.cluster.wire import JsonDict
from agentbench.execution.job import ClusterStatus

LOST_SEC = 30.0
"""A node is given up, and gives the driver up, after so long without a heartbeat."""
LIST_SEC = 2.0
"""How often new nodes are looked for."""
GONE_SEC = 20.0
"""The cluster is gone if it does not answer for so long."""
MAX_STARTS = 5
"""How often a node is started in one run, if it is lost again and again."""
RESTART_SEC = 10.0
SLOW_START_SEC = 15.0
"""Nodes that take longer to start join a run that has begun."""
_WATCH_SEC = 0.25


@dataclass(eq=False, slots=True)
class ClusterNode:
    """A node that makes attempts of this run."""

    ray_id: str
    place: PoolNode
    actor: RayActor
    fingerprint: str
    report: NodeReport
    heard: float = field(default_factory=time.monotonic)
    attempts: dict[str, AttemptService] = field(default_factory=dict)
    seen: dict[str, float] = field(default_factory=dict)
    """When the node last said that it makes an attempt, or got it."""

    @property
    def name(self) -> str:
        return self.place.name


@dataclass(frozen=True, slots=True)
class NodeTerms:
    """The requirements of a run for its nodes."""

    settings: LabSettings
    requirements: Mapping[str, Address]
    """Tasks by the key of their requirements."""
    cpus: float
    """Most processors that the run can use at a time."""
    memory_mb: int
    lost_sec: float = LOST_SEC


class NodeUnusable(HarnessError):
    """The node says itself why it cannot be used. It is not asked again."""


@dataclass(slots=True)
class _Start:
    """The remaining starts of a node, and when the next one is due."""

    running: bool = False
    left: int = MAX_STARTS
    not_before: float = 0.0

    def is_due(self, now: float) -> bool:
        return not self.running and self.left > 0 and now >= self.not_before


class ClusterNodes:
    """Starts, watches and ends the nodes of one run."""

    def __init__(self, cluster: RayCluster, store: ContentStore, terms: NodeTerms, warn: Callable[[str], None]) -> None:
        self.pool = NodePool()
        self.refused: dict[str, str] = {}
        """Nodes that cannot be used, and why."""
        self.on_phase: Callable[[str, str, str], None] = lambda _attempt, _phase, _node: None
        self.on_status: Callable[[ClusterStatus], None] = lambda _status: None
        self.cancel = threading.Event()
        self._cluster = cluster
        self._store = store
        self._terms = terms
        self._warn = warn
        self._lock = threading.Lock()
        self._known: dict[str, _Start] = {}
        self._blame = NodeBlame()
        self._nodes: dict[str, ClusterNode] = {}
        self._closed = threading.Event()
        self.channel = ChannelServer(cluster.driver_address, new_channel_key("driver"), store, self)
        self._listed = time.monotonic()
        self._watcher = threading.Thread(target=self._watch, name="cluster", daemon=True)

    def start(self, enough: Callable[[], bool]) -> None:
        """Start every node that the cluster has now, and begin to watch.

        Waits for all of them, but not long for the last ones if the others are enough.
        """
        began = time.monotonic()
        threads = self._start_new(self._cluster.nodes())
        while any(thread.is_alive() for thread in threads):
            if time.monotonic() - began > SLOW_START_SEC and enough():
                break
            time.sleep(_WATCH_SEC / 5)
        self._watcher.start()

    def status(self) -> ClusterStatus:
        return ClusterStatus(
            {node.name: node.attempts for node in self.pool.nodes()},
            self.pool.waiting(),
            self._store.sent_bytes,
            self.channel.received_bytes,
        )

    def node_of(self, place: PoolNode) -> ClusterNode | None:
        with self._lock:
            return next((node for node in self._nodes.values() if node.place is place), None)

    def begin(self, node: ClusterNode, attempt_id: str, service: AttemptService) -> None:
        node.seen[attempt_id] = time.monotonic()
        node.attempts[attempt_id] = service
        self.channel.open_attempt(attempt_id, service)

    def send(self, node: ClusterNode, sent: SentAttempt) -> None:
        self._cluster.send(node.actor, "start", sent)

    def end(self, node: ClusterNode, attempt_id: str) -> None:
        self.channel.close_attempt(attempt_id)
        node.attempts.pop(attempt_id, None)
        node.seen.pop(attempt_id, None)

    def judge(self, node: ClusterNode, task_id: str, *, at_fault: bool) -> None:
        """Give a node up on which attempts keep ending in harness errors, unless it is the only one."""
        if node.place not in self.pool.nodes():
            return  # it is lost, which says nothing about the task
        node.place.suspect = at_fault
        if not at_fault:
            self._blame.succeeded(node, task_id)
        elif self._blame.failed(node, task_id) and len(self.pool.nodes()) > 1:
            self._known[node.ray_id].left = 0
            self.lose(node, f"{MAX_ERRORS} attempts in a row ended there in harness errors")

    def lose(self, node: ClusterNode, why: str) -> None:
        """Give a node up. Nothing that it sends counts any more."""
        if not self.pool.remove(node.place):
            return
        self.channel.forget(node.fingerprint)
        with self._lock:
            self._nodes.pop(node.fingerprint, None)
            self._known[node.ray_id].running = False
            self._known[node.ray_id].not_before = time.monotonic() + RESTART_SEC
        if not self._closed.is_set() and not self.cancel.is_set():
            self._warn(f"node {node.name} is lost: {why}")
        self.refused[node.name] = f"lost: {why}"
        for service in list(node.attempts.values()):
            service.lose(HarnessError(f"node {node.name} is lost: {why}"))
        threading.Thread(target=self._kill, args=(node,), daemon=True).start()

    def heartbeat(self, node: str, value: JsonDict) -> JsonDict:
        with self._lock:
            known = self._nodes.get(node)
        if known is not None:
            known.heard = now = time.monotonic()
            phases = value.get("phases")
            if not isinstance(phases, dict):
                raise BadMessage("a heartbeat without phases")
            for attempt_id, phase in phases.items():
                if attempt_id in known.attempts:
                    known.seen[attempt_id] = now
                self.on_phase(str(attempt_id), str(phase)[:40], known.name)
        return {"cancel": self.cancel.is_set()}

    def close(self) -> None:
        """End every node and its sandboxes."""
        self._closed.set()
        if self._watcher.is_alive():
            self._watcher.join(GONE_SEC)
        with self._lock:
            nodes = list(self._nodes.values())
        with ThreadPoolExecutor(max(1, len(nodes)), "close-node") as threads:
            list(threads.map(self._close_node, nodes))
        self.channel.close()

    # --- starting -----------------------------------------------------------------------------------------------------------

    def _start_new(self, nodes: list[RayNode]) -> list[threading.Thread]:
        """Start every node that has a processor free and is not running."""
        now = time.monotonic()
        with self._lock:
            due = [node for node in nodes if node.cpus >= 1 and self._known.setdefault(node.id, _Start()).is_due(now)]
            for node in due:
                self._known[node.id].running = True
                self._known[node.id].left -= 1
        for node in nodes:
            if node.cpus < 1 and not self._known.get(node.id, _Start()).running:
                self.refused[node.address] = "all its processors are in use"
        # Daemons: a node that does not answer must not keep the driver from ending.
        threads = [threading.Thread(target=self._start_or_refuse, args=(node,), daemon=True) for node in due]
        for thread in threads:
            thread.start()
        return threads

    def _start_or_refuse(self, node: RayNode) -> None:
        try:
            self._start_node(node)
        except HarnessError as error:
            with self._lock:
                start = self._known[node.id]
                start.running, start.not_before = False, time.monotonic() + RESTART_SEC
                if isinstance(error, NodeUnusable):
                    start.left = 0
            self.refused[node.address] = error.message
            if not self._closed.is_set():
                self._warn(f"node {node.address} is not used: {error.message}")

    def _start_node(self, node: RayNode) -> None:
        cpus = float(int(min(node.cpus, self._terms.cpus)))
        memory_mb = min(node.memory_mb, self._terms.memory_mb)
        actor = self._cluster.start_node(node, cpus, memory_mb)
        fingerprint = ""
        try:
            fingerprint = self.channel.trust(str(self._cluster.call(actor, "introduce")))
            report = self._probe(actor)
            place = PoolNode(node.address, cpus, memory_mb)
            self._cluster.call(actor, "open", self._terms.settings)
            place.problems.update(self._cluster.call(actor, "require", dict(self._terms.requirements)))
            self._register(ClusterNode(node.id, place, actor, fingerprint, report))
        except BaseException:
            self.channel.forget(fingerprint)
            self._cluster.kill(actor)
            raise
        self.refused.pop(node.address, None)
        self.pool.add(place)

    def _register(self, node: ClusterNode) -> None:
        with self._lock:
            if self._closed.is_set():  # `close` has ended all nodes that it knew
                raise HarnessError("the run has ended")
            self._nodes[node.fingerprint] = node

    def _probe(self, actor: RayActor) -> NodeReport:
        """Let a node connect, without which it ends, and ask what it has."""
        where = (self.channel.url, self.channel.certificate, self._terms.lost_sec)
        if problem := str(self._cluster.call(actor, "connect", *where)):
            raise HarnessError(problem)
        report = NodeReport.from_json(str(self._cluster.call(actor, "probe")))
        if problem := report.problem():
            raise NodeUnusable(problem)
        return report

    # --- watching -----------------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        while not self._closed.wait(_WATCH_SEC):
            try:
                self._check_nodes()
                if time.monotonic() - self._listed > LIST_SEC:
                    self._look_for_nodes()
            except Exception as error:  # noqa: BLE001 - a failing watcher must not go unnoticed
                self._give_up(f"{type(error).__name__}: {error}")
                return

    def _check_nodes(self) -> None:
        with self._lock:
            nodes = list(self._nodes.values())
        actors = {id(node.actor): node for node in nodes}
        for actor, why in self._cluster.dead([node.actor for node in nodes]):
            self.lose(actors[id(actor)], why)
        now = time.monotonic()
        for node in nodes:
            if now - node.heard > self._terms.lost_sec:
                self.lose(node, f"no heartbeat for {self._terms.lost_sec:.0f} s")
                continue
            for attempt_id, service in list(node.attempts.items()):
                if now - node.seen.get(attempt_id, now) > self._terms.lost_sec:
                    service.lose(HarnessError(f"node {node.name} does not make the attempt any more"))

    def _look_for_nodes(self) -> None:
        self._listed = time.monotonic()
        listed: list[list[RayNode]] = []

        # The call does not return while the cluster is gone, and Ray ends this process after a minute.
        def look() -> None:
            with contextlib.suppress(HarnessError):  # the run has ended
                listed.append(self._cluster.nodes())

        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        thread.join(GONE_SEC)
        if not listed:
            self._give_up(f"no answer for {GONE_SEC:.0f} s")
        else:
            self._start_new(listed[0])
        self.on_status(self.status())

    def _give_up(self, why: str) -> None:
        remedy = "start the cluster again, then continue with `ab run --resume`"
        self.pool.fail(ClusterGone(f"the Ray cluster at {self._cluster.address} is gone: {why}", remedy=remedy))
        with self._lock:
            nodes = list(self._nodes.values())
        for node in nodes:
            self.lose(node, "the cluster is gone")
        self._closed.set()

    # --- ending -----------------------------------------------------------------------------------------------------------------

    def _close_node(self, node: ClusterNode) -> None:
        self._cluster.send(node.actor, "close")
        deadline = time.monotonic() + 5.0
        while time.monotonic() < deadline and not self._cluster.dead([node.actor]):
            time.sleep(0.05)
        self._kill(node)

    def _kill(self, node: ClusterNode) -> None:
        self._cluster.kill(node.actor)
