"""Whether setup installs the same on every day."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbench.contract.advice import why_not_pinned
from agentbench.contract.load import load_task
from tests.contract.task_folders import task_with, write_task

pytestmark = [pytest.mark.req("C-17"), pytest.mark.component]

LOCK = "cat > lock <<'LOCK'\na==1 --hash=sha256:0\nLOCK\npython -m pip install --no-deps --require-hashes -r lock"


def reason(tmp_path: Path, commands: list[str], **environment: object) -> str:
    environment = {"network_policy": "setup_only", **environment}
    folder = write_task(tmp_path / "dev/a", task_with(environment=environment, setup={"commands": commands}))
    return why_not_pinned(load_task(folder))


def test_installs_by_digest_are_pinned(tmp_path: Path) -> None:
    assert reason(tmp_path, [LOCK, "python -m pip install --no-deps -e .", "make"]) == ""
    assert reason(tmp_path, ["python -m pip install --no-index --find-links wheels a"]) == ""


def test_install_from_an_index_is_named(tmp_path: Path) -> None:
    assert reason(tmp_path, [LOCK, "pip install b==1"]) == "setup installs without digests: pip install b==1"
    assert reason(tmp_path, ["apt-get install -y gcc"]).endswith("apt-get install -y gcc")


def test_setup_without_network_is_pinned(tmp_path: Path) -> None:
    assert reason(tmp_path, ["pip install b"], network_policy="none") == ""


def test_image_needs_a_digest(tmp_path: Path) -> None:
    assert reason(tmp_path, [], docker_image="python:3") == "the image python:3 has no digest"
    assert reason(tmp_path, [], docker_image=f"python@sha256:{'0' * 64}") == ""
