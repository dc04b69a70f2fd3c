"""Probes every node of a cluster for `ab doctor`: what it has, and whether attempts can be made there."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import HarnessError
from agentbench.execution.cluster.channel_keys import new_channel_key
from agentbench.execution.cluster.channel_server import ChannelServer
from agentbench.execution.cluster.cluster_nodes import LOST_SEC
from agentbench.execution.cluster.content import ContentStore
from agentbench.execution.cluster.probe import NodeReport
from agentbench.execution.cluster.ray_cluster import RayCluster, RayNode, require_ray
from agentbench.execution.cluster.wire import JsonDict

PROBE_SEC = 60.0


@dataclass(frozen=True, slots=True)
class ProbedNode:
    """A node of the cluster. `report` is None if it did not answer."""

    address: str
    free_cpus: float
    free_memory_mb: int
    report: NodeReport | None
    problem: str
    """Why it cannot be used; empty if it can."""


class _Listener:
    def heartbeat(self, node: str, value: JsonDict) -> JsonDict:
        return {}


def probe_cluster(address: str) -> list[ProbedNode]:
    """Probe all nodes at the same time.

    Raises:
        InputError: Ray is not installed, or the address is malformed.
        HarnessError: no cluster answers there.
    """
    require_ray()
    cluster, store = RayCluster(address), ContentStore()
    channel = ChannelServer(cluster.driver_address, new_channel_key("driver"), store, _Listener())
    try:
        nodes = cluster.nodes()
        with ThreadPoolExecutor(max(1, len(nodes)), "probe") as threads:
            return list(threads.map(partial(_probe, cluster, channel), nodes))
    finally:
        channel.close()
        cluster.close()
        store.close()


def _probe(cluster: RayCluster, channel: ChannelServer, node: RayNode) -> ProbedNode:
    report: NodeReport | None = None
    # Uses none of the node's resources: a node that is busy can be probed too.
    actor = cluster.start_node(node, 0, 0)
    try:
        channel.trust(str(cluster.call(actor, "introduce", timeout=PROBE_SEC)))
        where = (channel.url, channel.certificate, LOST_SEC)
        problem = str(cluster.call(actor, "connect", *where, timeout=PROBE_SEC))
        if not problem:
            report = NodeReport.from_json(str(cluster.call(actor, "probe", timeout=PROBE_SEC)))
            problem = report.problem()
    except HarnessError as error:
        problem = error.message
    finally:
        cluster.kill(actor)
    return ProbedNode(node.address, node.cpus, node.memory_mb, report, problem)
