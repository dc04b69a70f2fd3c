"""The plan: all variants work on a task at about the same time, and each repeat has its own seed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.protocol import PROTOCOL_SEED
from agentbench.execution.plan import make_plan, seeds
from tests.execution.conftest import Ab
from tests.execution.tasks import make_suite

pytestmark = pytest.mark.end_to_end


@dataclass(frozen=True)
class NamedTask:
    id: str


@pytest.mark.component
@pytest.mark.req("R-14a")
@given(st.integers(1, 6), st.integers(1, 5), st.integers(1, 4))
def test_plan_starts_all_variants_equally_often(tasks: int, methods: int, repeats: int) -> None:
    names = [f"m{number}" for number in range(methods)]
    planned = [(NamedTask(f"t{number}"), names) for number in range(tasks)]
    rows = make_plan(cast("Any", planned), repeats=repeats)
    assert len(rows) == len({(row.task, row.configuration, row.repeat) for row in rows}) == tasks * methods * repeats
    for end in range(len(rows) + 1):
        started = [sum(str(row.configuration) == name for row in rows[:end]) for name in names]
        assert max(started) - min(started) <= 1
    went_first = [str(row.configuration) for row in rows[::methods]]
    counts = [went_first.count(name) for name in names]
    assert max(counts) - min(counts) <= 1
    for task in {row.task for row in rows}:
        for repeat in range(1, repeats + 1):
            # All variants of a repeat have the same seed.
            assert len({row.seed for row in rows if (row.task, row.repeat) == (task, repeat)}) == 1


@pytest.mark.component
@pytest.mark.req("R-11a")
@given(st.integers(0, 2**63), st.integers(1, 20))
def test_seeds_do_not_change_with_more_repeats(base: int, repeats: int) -> None:
    all_seeds = seeds(base, repeats)
    assert all_seeds[0] == base
    assert len(all_seeds) == repeats
    assert seeds(base, repeats + 3)[:repeats] == all_seeds
    assert seeds(PROTOCOL_SEED, 1) == (PROTOCOL_SEED,)


@pytest.mark.req("R-14a", "R-13")
def test_each_variant_has_its_own_run_directory(ab: Ab, tmp_path: Path) -> None:
    tasks = make_suite(tmp_path / "tasks", "good", "broken")
    file = tasks / "tiny" / "broken" / "task.yaml"
    file.write_text(f"{file.read_text()}setup: {{commands: ['exit 3']}}\n")
    variants = tmp_path / "configs" / "variants"
    variants.mkdir(parents=True)
    for name, agent in (("first", "reference"), ("second", "noop")):
        (variants / f"{name}.yaml").write_text(f"name: {name}\nagent: {agent}\n")
    ran = ab("run", "--suite", "tiny", "--variant", "first", "--variant", "second", "--workers", "2", "--json")
    assert ran.code == 0, ran.stderr
    results = {(record["task_id"], record["variant"]): record["result"] for record in ran.json["attempts"]}
    assert results["good", "first"]["passed"]
    assert results["good", "second"]["failure_reason"] not in {None, "SETUP_FAILED"}
    assert (
        results["broken", "first"]["failure_reason"] == results["broken", "second"]["failure_reason"] == "SETUP_FAILED"
    )
    assert len({record["study_id"] for record in ran.json["attempts"]}) == 1
    assert len({record["run_id"] for record in ran.json["attempts"]}) == 2


@pytest.mark.component
@pytest.mark.req("R-11b")
def test_each_seed_and_each_repeat_orders_tasks_differently() -> None:
    planned = cast("Any", [(NamedTask(f"t{number}"), ["a", "b"]) for number in range(8)])

    def order(seed: int, repeat: int) -> list[str]:
        rows = make_plan(planned, repeats=2, seed=seed)
        return [row.task.id for row in rows if row.repeat == repeat and str(row.configuration) == "a"]

    assert order(1, 1) == order(1, 1)
    assert len({tuple(order(seed, repeat)) for seed in (1, 2, 3) for repeat in (1, 2)}) == 6
    # More tasks do not reorder the others.
    assert [row.task.id for row in make_plan(planned[:4], seed=1)] == [
        row.task.id for row in make_plan(planned, seed=1) if row.task.id in {"t0", "t1", "t2", "t3"}
    ]


@pytest.mark.req("R-11b", "R-14a")
def test_attempts_start_in_the_order_that_the_seed_decides(ab: Ab, tmp_path: Path) -> None:
    tasks = make_suite(tmp_path / "tasks", *(f"t{number}" for number in range(5)))
    variants = tmp_path / "configs" / "variants"
    variants.mkdir(parents=True)
    for name in ("first", "second"):
        (variants / f"{name}.yaml").write_text(f"name: {name}\nagent: noop\n")
    orders = []
    for number, seed in enumerate(("7", "7", "8")):
        arguments = ("--suite", "tiny", "--tasks-dir", tasks, "--variant", "first", "--variant", "second")
        ran = ab("run", *arguments, "--seed", seed, "--out", tmp_path / f"out{number}", "--json")
        started = sorted(ran.json["attempts"], key=lambda record: record["timestamps"]["started_at"])
        order = [[record["task_id"], record["variant"], record["repeat"]] for record in started]
        for run in (tmp_path / f"out{number}").iterdir():
            assert json.loads((run / "run.json").read_text())["order"] == order
        orders.append(order)
    assert orders[0] == orders[1] != orders[2]
