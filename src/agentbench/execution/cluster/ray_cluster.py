"""The only module that imports Ray: connects to a cluster, lists its nodes, and runs one actor on each."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import AgentBenchError, HarnessError, InputError
from agentbench.execution.cluster.node import Node

READY_SEC = 120.0
_CONNECT_SEC = 10.0
_WAIT_SEC = 1.0
"""How long a call waits at a time, so that `close` does not wait long for it."""
_MB = 1 << 20
_CAUSES = {
    "ActorDiedError": "its process died",
    "ActorUnavailableError": "Ray cannot reach its process",
    "GetTimeoutError": "it did not answer in time",
}


@dataclass(frozen=True, slots=True)
class RayNode:
    """A node as Ray lists it, with the resources that nothing uses now."""

    id: str
    address: str
    cpus: float
    memory_mb: int


@dataclass(frozen=True, slots=True)
class RayActor:
    """The actor on a node. `watch` becomes ready when it dies."""

    handle: Any
    watch: Any


def require_ray() -> None:
    """
    Raises:
        InputError: Ray is not installed.
    """
    if importlib.util.find_spec("ray") is None:
        remedy = "install it here and on every node: pip install 'agentbench-harness[ray]'"
        raise InputError("--executor ray needs Ray, which is not installed", remedy=remedy)


class Closable:
    """Keeps a connection open while threads use it. Ray ends the process, with status 1, if a thread uses it afterwards."""

    def __init__(self) -> None:
        self._unused = threading.Condition()
        self._users = 0
        self.closed = False

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """
        Raises:
            HarnessError: the connection is closed.
        """
        with self._unused:
            if self.closed:
                raise HarnessError("the connection to the cluster is closed")
            self._users += 1
        try:
            yield
        finally:
            with self._unused:
                self._users -= 1
                self._unused.notify_all()

    def close(self, wait_sec: float) -> None:
        """Refuse new users, and wait at most this long for those that use it."""
        with self._unused:
            self.closed = True
            self._unused.wait_for(lambda: self._users == 0, wait_sec)


class RayCluster:
    """A connection of this process to a cluster. Several threads use it, some of them still while it is closed."""

    def __init__(self, address: str) -> None:
        """
        Raises:
            InputError: the address is malformed.
            HarnessError: no cluster answers there.
        """
        _require_listener(address)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        # Otherwise a thread that still asks for nodes after `close` starts a new cluster on this machine.
        os.environ["RAY_ENABLE_AUTO_CONNECT"] = "0"
        import ray  # noqa: PLC0415 - takes a second

        self.address = address
        self._connection = Closable()
        # Its annotations are incomplete.
        self._ray: Any = ray
        # No option of Ray keeps it from printing that a node died to stdout, which may be JSON. `ab` reports lost nodes itself.
        self._ray._private.worker._worker_logs_enabled = False  # noqa: SLF001
        handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            self._ray.init(
                address=address,
                log_to_driver=False,
                logging_level=logging.ERROR,
                namespace="agentbench",
                **_own_address(address),
            )
        except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            why = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            kind = InputError if isinstance(error, ValueError) else HarnessError
            raise _no_cluster(address, why, kind) from error
        finally:
            # Ray replaces handlers of signals, which `ab` needs to end running attempts in order.
            if threading.current_thread() is threading.main_thread():
                for number, handler in handlers.items():
                    signal.signal(number, handler)

    @property
    def driver_address(self) -> str:
        """The address of this machine, as other nodes reach it."""
        return str(self._ray.util.get_node_ip_address())

    def nodes(self) -> list[RayNode]:
        """List the nodes that live.

        Raises:
            HarnessError: the connection is closed.
        """
        with self._connection.in_use():
            available, listed = self._available(), self._ray.nodes()
        nodes = []
        for node in listed:
            if node["Alive"]:
                free = available.get(node["NodeID"], node["Resources"])
                memory_mb = int(free.get("memory", 0)) // _MB
                nodes.append(RayNode(node["NodeID"], node["NodeManagerAddress"], free.get("CPU", 0.0), memory_mb))
        return nodes

    def start_node(self, node: RayNode, cpus: float, memory_mb: int) -> RayActor:
        """Start the actor of a node and reserve its share of the node. Does not wait for it.

        Raises:
            HarnessError: the connection is closed.
        """
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: PLC0415

        options: dict[str, Any] = {
            "num_cpus": cpus,
            "memory": memory_mb * _MB,
            "max_concurrency": 8,
            "max_restarts": 0,
            "scheduling_strategy": NodeAffinitySchedulingStrategy(node.id, soft=False),
        }
        with self._connection.in_use():
            handle = self._ray.remote(Node).options(**options).remote(node.address)
            return RayActor(handle, handle.watch.remote())

    def call(self, actor: RayActor, method: str, *arguments: object, timeout: float = READY_SEC) -> Any:  # noqa: ANN401 - any result
        """Call a method of the node and return its result.

        Raises:
            HarnessError: the node failed, died or did not answer in time, or the connection is closed.
        """
        with self._connection.in_use():
            result = getattr(actor.handle, method).remote(*arguments)
        deadline = time.monotonic() + timeout
        while True:
            left = deadline - time.monotonic()
            try:
                with self._connection.in_use():
                    return self._ray.get(result, timeout=max(0.0, min(left, _WAIT_SEC)))
            except self._ray.exceptions.GetTimeoutError as error:
                if left <= _WAIT_SEC:
                    raise HarnessError(_cause(error)) from error
            except self._ray.exceptions.RayError as error:
                raise HarnessError(_cause(error)) from error

    def send(self, actor: RayActor, method: str, *arguments: object) -> None:
        """Call a method without waiting for it.

        Raises:
            HarnessError: the connection is closed.
        """
        with self._connection.in_use():
            getattr(actor.handle, method).remote(*arguments)

    def dead(self, actors: Sequence[RayActor]) -> list[tuple[RayActor, str]]:
        """Return the actors that died, and why.

        Raises:
            HarnessError: the connection is closed.
        """
        if not actors:
            return []
        watches = {actor.watch: actor for actor in actors}
        with self._connection.in_use():
            ready, _ = self._ray.wait(list(watches), num_returns=len(watches), timeout=0)
            return [(watches[watch], self._end_of(watch)) for watch in ready]

    def kill(self, actor: RayActor) -> None:
        # If the connection is closed, the actor ends anyway.
        with contextlib.suppress(self._ray.exceptions.RayError, HarnessError), self._connection.in_use():
            self._ray.kill(actor.handle)

    def close(self) -> None:
        self._connection.close(3 * _WAIT_SEC)  # a call about a cluster that is gone may take longer
        self._ray.shutdown()

    def _end_of(self, watch: object) -> str:
        try:
            self._ray.get(watch, timeout=1)
        except self._ray.exceptions.RayError as error:
            return _cause(error)
        return "it ended"

    def _available(self) -> dict[str, dict[str, float]]:
        try:
            from ray._private.state import available_resources_per_node  # noqa: PLC0415
        except ImportError:  # not part of the public interface
            return {}
        return dict(available_resources_per_node())  # type: ignore[no-untyped-call]


def _require_listener(address: str) -> None:
    """Reject an address where nothing listens: Ray itself tries for minutes.

    Raises:
        HarnessError: nothing listens there.
    """
    host, _, port = address.rpartition(":")
    if not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SEC).close()
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, str(error)) from error


def _no_cluster(address: str, why: str, kind: type[AgentBenchError] = HarnessError) -> AgentBenchError:
    remedy = "start one with `ray start --head`, run this command on one of its nodes, correct --ray-address, or set RAY_AUTH_MODE as its nodes do"
    return kind(f"cannot connect to a Ray cluster at '{address}': {why}", remedy=remedy)


def _own_address(address: str) -> dict[str, str]:
    """Return the address of this machine if the cluster is on a loopback address, which Ray would replace otherwise."""
    host = address.rpartition(":")[0]
    return {"_node_ip_address": host} if host.startswith("127.") else {}


def _cause(error: BaseException) -> str:
    """Return what happened, without the ids and traces of a Ray error."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, BaseException):
        return f"{type(cause).__name__}: {cause}"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    if "creation task" in lines[0]:  # a trace follows, and its last line is the error
        return lines[-1].rpartition("agentbench.core.errors.")[2][:500]
    return _CAUSES.get(type(error).__name__, f"{type(error).__name__}: {lines[0]}"[:500])
