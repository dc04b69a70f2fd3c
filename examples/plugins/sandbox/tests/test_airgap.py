from contextlib import closing
from pathlib import Path

from agentbench_airgap import airgap


def test_backend_has_a_name_of_its_own(tmp_path: Path) -> None:
    with closing(airgap(tmp_path)) as backend:
        assert backend.name == "airgap"
