"""The estimate of `--dry-run` from earlier runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentbench.cli.dry_run import Estimate, estimate
from agentbench.execution.config import CliChoices
from agentbench.execution.request import RunRequest
from agentbench.record.schema import Cost
from tests.reports.runs import record, run_dir

pytestmark = pytest.mark.component

TASKS = tuple(f"t{number}" for number in range(5))


def row(task: str, variant: str) -> Any:
    loaded = SimpleNamespace(id=task, task=SimpleNamespace(budget=SimpleNamespace(usd=5.0)))
    return SimpleNamespace(
        task=loaded, configuration=SimpleNamespace(variant=variant), repeat=1, key=(task, variant, 1)
    )


def estimated(out: Path) -> Estimate:
    request = RunRequest(suite="demo", tasks_dir="", task_paths=(), variants=(), choices=CliChoices(), out=out)
    return estimate([row(task, variant) for task in TASKS for variant in ("a", "b")], request)


def write_run(out: Path, name: str, kind: str, *, seconds: float = 2.0, cost: float = 0.5, unit: str = "usd") -> Path:
    price = Cost(total=cost, unit=unit)
    records = [
        record(task, kind, variant=name, attempt_id=f"01-{name}-{task}", duration_sec=seconds, cost=price)
        for task in TASKS
    ]
    return run_dir(out / name, records)


def test_each_attempt_that_counts_is_used_once(tmp_path: Path) -> None:
    write_run(tmp_path, "a", "pass")
    first = write_run(tmp_path, "b", "safety")
    write_run(tmp_path, "c", "harness", seconds=900)
    before = estimated(tmp_path)
    assert (before.earlier, before.seconds) == (10, 20.0)
    assert "100% discordant tasks from earlier runs" in before.assumptions
    # A copy of a run, and `ab retry --failed`, in which b passed everything.
    shutil.copytree(first, tmp_path / "copy")
    retry = run_dir(tmp_path / "retry", [record(task, variant="b", attempt_id=f"01-again-{task}") for task in TASKS])
    meta = {**json.loads((retry / "run.json").read_text()), "retry_of": {"name": "b"}}
    (retry / "run.json").write_text(json.dumps(meta))
    assert estimated(tmp_path) == before


def test_costs_in_other_units_are_not_mixed(tmp_path: Path) -> None:
    write_run(tmp_path, "a", "pass", cost=9.0)
    other = estimated(tmp_path)
    assert (other.cost, other.unit, other.seconds) == (None, "abstract", 20.0)
    assert "unknown (earlier attempts have no costs in abstract)" in other.as_text()
    write_run(tmp_path, "b", "fail", cost=0.25, unit="abstract")
    assert estimated(tmp_path).cost == 10 * 0.25
