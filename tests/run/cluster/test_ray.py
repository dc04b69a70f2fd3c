"""Runs on a real Ray cluster of two nodes that share nothing: equal to local runs, and faults cost no result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.run.cluster.conftest import RayAb
from tests.run.cluster.ray_nodes import Cluster
from tests.run.tasks import make_suite

pytestmark = [pytest.mark.end_to_end, pytest.mark.req("R-14a"), pytest.mark.timeout(300)]

TIMES_AND_IDS = {
    *("attempt_id", "run_id", "study_id", "trace_head", "duration_sec", "started_at", "ended_at", "cost"),
    *("check_sec", "tool_sec", "wall_sec", "setup_sec", "exec_sec", "supersedes"),
    # Which attempt finds a cold cache depends on the order in which they end, and shifts the numbers of events.
    *("cached", "evidence"),
}


def comparable(value: Any) -> Any:
    """Return a record without times and ids."""
    if isinstance(value, dict):
        return {name: comparable(inner) for name, inner in value.items() if name not in TIMES_AND_IDS}
    return [comparable(inner) for inner in value] if isinstance(value, list) else value


def records(ran_dir: str | Path) -> list[dict[str, Any]]:
    lines = (Path(ran_dir) / "attempts.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if record["final"]]


def by_key(ran_dir: str | Path) -> dict[tuple[str, int], Any]:
    return {(record["task_id"], record["repeat"]): comparable(record) for record in records(ran_dir)}


def runs(ab: RayAb, out: str) -> list[Path]:
    return sorted((ab.cwd / out).iterdir())


def test_ray_gives_the_records_of_a_local_run(ab: RayAb, cluster: Cluster, tmp_path: Path) -> None:
    make_suite(tmp_path / "tasks", "one", "two")
    options = ("run", "--suite", "tiny", "--workers", "3", "--repeats", "2", "--agent", "reference")
    local = ab(*options, "--out", "local")
    assert local.code == 0, local.stderr
    ray = ab.on_ray(*options, "--out", "ray")
    assert ray.code == 0, ray.stderr
    (local_run,), (ray_run,) = runs(ab, "local"), runs(ab, "ray")
    assert by_key(ray_run) == by_key(local_run)
    assert len(records(ray_run)) == 4
    for run in (local_run, ray_run):
        verified = ab("verify", run)
        assert verified.code == 0, verified.stdout
    files = {path.relative_to(ray_run) for path in ray_run.rglob("*") if "blobs" not in path.parts}
    assert files == {path.relative_to(local_run) for path in local_run.rglob("*") if "blobs" not in path.parts}
    leftovers = [path for node in ("one", "two") for path in cluster.state(node).glob("live/*")]
    assert leftovers == []
