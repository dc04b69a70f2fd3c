from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from agentbench.run.lab import Lab
from tests.acceptance.toy import TaskFactory


@pytest.fixture(scope="session")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TaskFactory]:
    """One lab per process, on one state folder for all processes, so that environments are prepared once."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with Lab(sandbox="bwrap", state=shared / "oracle-state") as lab:
        yield TaskFactory(lab)
