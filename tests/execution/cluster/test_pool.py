"""Placement of attempts on nodes, and which nodes are given up."""

from __future__ import annotations

import threading

import pytest

from agentbench.core.errors import HarnessError, Interrupted
from agentbench.execution.cluster.node_blame import NodeBlame
from agentbench.execution.cluster.pool import ClusterGone, Demand, Lease, NodePool, PoolNode

pytestmark = [pytest.mark.component, pytest.mark.req("R-14a")]

ANY = Demand("any", "task", 1.0, 100)
IMAGE = Demand("image", "imaged", 1.0, 100)


def node(name: str, cpus: float = 2.0, **problems: str) -> PoolNode:
    return PoolNode(name, cpus, 1000, {"any": "", "image": "", **problems})


def acquire(pool: NodePool, demand: Demand = ANY, *, avoid: tuple[PoolNode, ...] = (), seconds: float = 60) -> Lease:
    return pool.acquire(demand, avoid=avoid, cancelled=lambda: False, max_wait_sec=seconds)


def pool_of(*nodes: PoolNode) -> NodePool:
    pool = NodePool()
    for each in nodes:
        pool.add(each)
    return pool


def in_background(pool: NodePool, demand: Demand, places: list[str]) -> threading.Thread:
    thread = threading.Thread(target=lambda: places.append(acquire(pool, demand).node.name), daemon=True)
    before = pool.waiting()
    thread.start()
    while pool.waiting() == before and thread.is_alive():
        thread.join(0.01)
    return thread


def test_attempts_spread_over_nodes() -> None:
    pool = pool_of(node("a", 8), node("b", 8), node("c", 8))
    names = [acquire(pool).node.name for _ in range(9)]
    assert {name: names.count(name) for name in "abc"} == {"a": 3, "b": 3, "c": 3}


def test_node_that_prepared_the_task_is_preferred() -> None:
    pool = pool_of(node("a", 8), node("b", 8))
    first = acquire(pool)
    pool.release(first)
    assert acquire(pool).node is first.node


def test_failed_nodes_are_used_only_if_there_is_no_other() -> None:
    a, b = node("a"), node("b")
    pool = pool_of(a, b)
    assert acquire(pool, avoid=(a,)).node is b
    pool.remove(b)
    assert acquire(pool, avoid=(a,)).node is a


def test_node_with_an_error_comes_last_and_retries_wait_for_another() -> None:
    good, failed, suspect = node("good", 1), node("failed", 1), node("suspect", 8)
    suspect.suspect = True
    pool, places = pool_of(good, failed, suspect), list[str]()
    lease = acquire(pool)
    assert {lease.node.name, acquire(pool).node.name} == {"good", "failed"}
    assert acquire(pool).node is suspect
    retry = threading.Thread(target=lambda: places.append(acquire(pool, avoid=(failed,)).node.name), daemon=True)
    retry.start()
    while not pool.waiting():
        retry.join(0.01)
    pool.release(lease if lease.node is good else Lease(pool, good, ANY))
    retry.join(60)
    assert places == ["good"]


def test_attempts_get_places_in_their_order() -> None:
    pool = pool_of(node("a", 1))
    lease, places = acquire(pool), list[str]()
    threads = [in_background(pool, ANY, places) for _ in range(2)]
    assert pool.waiting() == 2
    pool.release(lease)
    threads[0].join(60)
    assert places == ["a"]
    assert threads[1].is_alive()
    pool.add(node("b", 1))
    threads[1].join(60)
    assert places == ["a", "b"]


def test_attempt_that_no_node_accepts_lets_others_pass() -> None:
    pool, places = pool_of(node("a", image="no docker")), list[str]()
    imaged = in_background(pool, IMAGE, places)
    assert acquire(pool).node.name == "a"
    pool.add(node("b"))
    imaged.join(60)
    assert places == ["b"]


def test_paused_attempt_gives_its_place_away() -> None:
    pool = pool_of(node("a", 1))
    lease = acquire(pool)
    with lease.paused():
        pool.release(acquire(pool))
    assert lease.node.used_cpus == 1


@pytest.mark.parametrize(
    "nodes, error, text",
    [
        ([], ClusterGone, "no usable node"),
        ([node("a", any="no bwrap")], HarnessError, "a: no bwrap"),
        ([node("a", 0.5)], HarnessError, "a: it offers 0.5 CPUs, 1 are needed"),
    ],
)
def test_wait_without_an_accepting_node_ends(nodes: list[PoolNode], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        acquire(pool_of(*nodes), seconds=0)


def test_interrupt_ends_the_wait() -> None:
    with pytest.raises(Interrupted):
        pool_of().acquire(ANY, avoid=(), cancelled=lambda: True, max_wait_sec=60)


def failures(blame: NodeBlame, node: str, *tasks: str) -> list[bool]:
    return [blame.failed(node, task) for task in tasks]


def test_node_that_fails_alone_is_given_up() -> None:
    assert failures(NodeBlame(), "broken", "one", "two", "three") == [False, False, True]


def test_node_that_fails_a_task_that_works_elsewhere_is_given_up() -> None:
    blame = NodeBlame()
    blame.succeeded("sound", "one")
    assert failures(blame, "broken", "one", "one", "one") == [False, False, True]


def test_success_in_between_clears_a_node() -> None:
    blame = NodeBlame()
    assert failures(blame, "shaky", "one", "two") == [False, False]
    blame.succeeded("shaky", "three")
    assert failures(blame, "shaky", "one", "two") == [False, False]


def test_task_that_fails_everywhere_costs_no_node() -> None:
    blame = NodeBlame()
    assert not any(blame.failed(name, "broken-task") for name in ("a", "b", "c") * 5)
