"""The fault campaign, short: kill -9 at random moments, then nothing is lost, repeated or left."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from tests.execution.conftest import Ab
from tests.execution.faults import Campaign
from tests.execution.tasks import make_suite

pytestmark = pytest.mark.end_to_end


@pytest.mark.req("R-13", "R-01")
@pytest.mark.slow
def test_repeatedly_killed_run_completes(tmp_path: Path, shared_state: Path) -> None:
    campaign = Campaign(tmp_path, shared_state, attempts=10, kills=6, seed=random.SystemRandom().randrange(10**6))
    campaign.run()
    assert campaign.problems == [], f"seed {campaign.seed}"
    assert campaign.killed >= 6


@pytest.mark.req("R-13")
def test_run_stopped_by_a_full_disk_can_be_resumed(ab: Ab, tmp_path: Path) -> None:
    tasks = make_suite(tmp_path / "tasks", "one", "two")
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=160k", "tmpfs", str(small)], check=False, capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("a small file system cannot be mounted here")
    try:
        options = ("--suite", "tiny", "--tasks-dir", tasks, "--agent", "reference", "--repeats", "4")
        full = ab("run", *options, "--out", small / "out")
        assert full.code == 3
        assert "free some disk space and resume the run" in full.stderr
        subprocess.run(["mount", "-o", "remount,size=30m", str(small)], check=True)
        (run,) = (small / "out").iterdir()
        ran = ab("run", "--resume", run, "--json")
        assert ran.code == 0, ran.stderr
        assert sorted((record["task_id"], record["repeat"]) for record in ran.json["attempts"]) == [
            (task, repeat) for task in ("one", "two") for repeat in (1, 2, 3, 4)
        ]
        assert all(record["result"]["passed"] for record in ran.json["attempts"])
        assert ab("verify", run).code == 0
    finally:
        subprocess.run(["umount", str(small)], check=True)
