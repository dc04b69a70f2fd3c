"""The nodes of a run: starts an actor on each, asks what it accepts, and watches over it until the run ends.

Nodes that join later are used too. A node that dies, hangs or is cut off is given up: it may send nothing any more, its attempts
end as harness errors, and its sandboxes end with it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from agentbench.core.errors import HarnessError
from agentbench.run.cluster.attempt_service import AttemptService
from agentbench.run.cluster.channel_keys import new_channel_key
from agentbench.run.cluster.channel_server import BadMessage, ChannelServer
from agentbench.run.cluster.content import Address, ContentStore
from agentbench.run.cluster.node import NodeConfig, SentAttempt
from agentbench.run.cluster.node_lab import LabSettings
from agentbench.run.cluster.pool import ClusterGone, NodePool, PoolNode
from agentbench.run.cluster.probe import NodeReport
from agentbench.run.cluster.ray_cluster import RayActor, RayCluster, RayNode
from agentbench.run.cluster.wire import JsonDict

LOST_SEC = 30.0
"""A node is given up, and gives the driver up, after so long without a heartbeat."""
LIST_SEC = 2.0
"""How often new nodes are looked for."""
GONE_SEC = 20.0
"""The cluster is gone if it does not answer for so long."""
_WATCH_SEC = 0.25
MAX_STRIKES = 3


@dataclass(eq=False, slots=True)
class ClusterNode:
    """A node that makes attempts of this run."""

    place: PoolNode
    actor: RayActor
    fingerprint: str
    report: NodeReport
    heard: float = field(default_factory=time.monotonic)
    attempts: dict[str, AttemptService] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.place.name


@dataclass(frozen=True, slots=True)
class NodeTerms:
    """What the run asks of nodes."""

    settings: LabSettings
    requirements: Mapping[str, Address]
    """Tasks by the key of their requirements."""
    cpus: float
    """Most processors that the run can use at a time."""
    memory_mb: int
    lost_sec: float = LOST_SEC


class ClusterNodes:
    """Starts, watches and ends the nodes of one run."""

    def __init__(self, cluster: RayCluster, store: ContentStore, terms: NodeTerms, warn: Callable[[str], None]) -> None:
        self.pool = NodePool()
        self.refused: dict[str, str] = {}
        """Nodes that cannot be used, and why."""
        self.on_phase: Callable[[str, str, str], None] = lambda _attempt, _phase, _node: None
        self.cancel = threading.Event()
        self._cluster = cluster
        self._terms = terms
        self._warn = warn
        self._lock = threading.Lock()
        self._known: set[str] = set()
        self._nodes: dict[str, ClusterNode] = {}
        self._closed = threading.Event()
        host = cluster.driver_address
        self.channel = ChannelServer(host, new_channel_key("driver"), store, self)
        url_host = f"[{host}]" if ":" in host else host
        self._config = NodeConfig(
            f"https://{url_host}:{self.channel.port}", self.channel.certificate, terms.settings, terms.lost_sec
        )
        self._listed = time.monotonic()
        self._watcher = threading.Thread(target=self._watch, name="cluster", daemon=True)

    def start(self) -> None:
        """Start every node that the cluster has now, and begin to watch."""
        self._start_new(self._cluster.nodes())
        self._watcher.start()

    def node_of(self, place: PoolNode) -> ClusterNode | None:
        with self._lock:
            return next((node for node in self._nodes.values() if node.place is place), None)

    def begin(self, node: ClusterNode, attempt_id: str, service: AttemptService) -> None:
        node.attempts[attempt_id] = service
        self.channel.open_attempt(attempt_id, service)

    def send(self, node: ClusterNode, sent: SentAttempt) -> None:
        self._cluster.send(node.actor, "start", sent)

    def end(self, node: ClusterNode, attempt_id: str) -> None:
        self.channel.close_attempt(attempt_id)
        node.attempts.pop(attempt_id, None)

    def strike(self, node: ClusterNode, *, at_fault: bool) -> None:
        """Count harness errors in a row, and give up a node that has too many."""
        node.place.strikes = node.place.strikes + 1 if at_fault else 0
        if node.place.strikes >= MAX_STRIKES:
            self.lose(node, f"{MAX_STRIKES} attempts in a row ended there in harness errors")

    def lose(self, node: ClusterNode, why: str) -> None:
        """Give a node up. Nothing that it sends counts any more."""
        if not self.pool.remove(node.place):
            return
        self.channel.forget(node.fingerprint)
        with self._lock:
            self._nodes.pop(node.fingerprint, None)
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
            known.heard = time.monotonic()
            phases = value.get("phases")
            if not isinstance(phases, dict):
                raise BadMessage("a heartbeat without phases")
            for attempt_id, phase in phases.items():
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

    def _start_new(self, nodes: list[RayNode]) -> None:
        new = [node for node in nodes if node.id not in self._known and node.cpus >= 1]
        self._known |= {node.id for node in nodes}
        if new:
            with ThreadPoolExecutor(len(new), "start-node") as threads:
                list(threads.map(self._start_or_refuse, new))

    def _start_or_refuse(self, node: RayNode) -> None:
        try:
            self._start_node(node)
        except HarnessError as error:
            self.refused[node.address] = error.message
            self._warn(f"node {node.address} is not used: {error.message}")

    def _start_node(self, node: RayNode) -> None:
        cpus = float(int(min(node.cpus, self._terms.cpus)))
        memory_mb = min(node.memory_mb, self._terms.memory_mb)
        actor = self._cluster.start_node(node, cpus, memory_mb)
        try:
            certificate, report = self._cluster.call(actor, "introduce")
            _require_usable(report)
            fingerprint = self.channel.trust(certificate)
            place = PoolNode(node.address, cpus, memory_mb)
            started = ClusterNode(place, actor, fingerprint, report)
            with self._lock:
                self._nodes[fingerprint] = started
            self._cluster.call(actor, "open", self._config)
            place.problems.update(self._cluster.call(actor, "require", dict(self._terms.requirements)))
        except BaseException:
            self._cluster.kill(actor)
            raise
        started.heard = time.monotonic()
        self.pool.add(place)

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

    def _look_for_nodes(self) -> None:
        self._listed = time.monotonic()
        listed: list[list[RayNode]] = []
        # The call does not return while the cluster is gone, and Ray ends this process after a minute.
        thread = threading.Thread(target=lambda: listed.append(self._cluster.nodes()), daemon=True)
        thread.start()
        thread.join(GONE_SEC)
        if not listed:
            self._give_up(f"no answer for {GONE_SEC:.0f} s")
        elif {node.id for node in listed[0]} - self._known:
            threading.Thread(target=self._start_new, args=(listed[0],), daemon=True).start()

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


def _require_usable(report: NodeReport) -> None:
    if problem := report.problem():
        raise HarnessError(problem)
