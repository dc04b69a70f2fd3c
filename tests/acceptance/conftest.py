from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentbench.execution.lab import Lab
from tests.acceptance.toy import TaskFactory
from tests.session_state import shared_state


@pytest.fixture(scope="session")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TaskFactory]:
    """One lab per process, on one state folder for all processes, so that environments are prepared once."""
    with Lab(sandbox="bwrap", state=shared_state(tmp_path_factory, "oracle-state")) as lab:
        yield TaskFactory(lab)
