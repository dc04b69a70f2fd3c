"""An agent that ends its own sandbox has failed; that is not a harness error."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentbench.sandbox.docker.engine import find_engine
from tests.execution.conftest import Ab
from tests.execution.tasks import make_task
from tests.sandbox.conftest import remove_images, require_docker

pytestmark = pytest.mark.end_to_end


@pytest.mark.req("R-06")
def test_agent_that_wrote_more_than_its_disk_limit_has_failed(ab: Ab, tmp_path: Path) -> None:
    require_docker()
    state = tmp_path / "state"
    env = {"AB_STATE": str(state), "DOCKER_HOST": os.environ.get("DOCKER_HOST", "")}
    line = "for i in 1 2 3 4 5 6 7 8; do head -c 20M /dev/zero > f$i; done; sleep 15; rm f*; echo 42 > answer.txt"
    try:
        done = ab(
            *("run-task", "--task", make_task(tmp_path / "t"), "--sandbox", "docker", "--json"),
            *("--agent", "command", "--agent-command", line),
            env=env,
        )
        assert (done.record["run_status"], done.record["result"]["failure_reason"]) == ("failure", "PATCH_INVALID")
        assert "disk limit of 64 MB" in done.record["gates"]["G1"]["why"]
        assert ab("verify", done.json["run_dir"], env=env).code == 0
    finally:
        remove_images(find_engine(), state)
