"""Where the workspace may be placed."""

from __future__ import annotations

import pytest

from agentbench.core.errors import SandboxUnavailable
from agentbench.sandbox.bwrap.launch_params import check_workdir


@pytest.mark.parametrize("workdir", ["/", "/usr/src/app", "/etc/x", "/tmp", "/opt/env/x", "/proc/x", "/var/x"])
def test_system_path_is_refused(workdir: str) -> None:
    with pytest.raises(SandboxUnavailable, match="cannot place the workspace"):
        check_workdir(workdir)


@pytest.mark.parametrize("workdir", ["/workspace", "/home/agent/x", "/srv/app", "/tmp/x", "/app", "/testbed"])
def test_other_path_is_accepted(workdir: str) -> None:
    check_workdir(workdir)
