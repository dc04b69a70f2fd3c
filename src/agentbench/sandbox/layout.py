"""Paths, ids and variables that are the same inside every sandbox, whichever backend started it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from agentbench.core.errors import SandboxUnavailable

HOME = "/home/agent"
ENV_DIR = "/opt/env"
"""The Python environment that setup installs into."""
DOWNLOADS = "/var/cache/pip"
INNER_ID = 1000
"""The user and group id of every command."""
COMMAND_ENV = {
    "HOME": HOME,
    "USER": "agent",
    "LOGNAME": "agent",
    "SHELL": "/bin/sh",
    "TERM": "dumb",
    "TMPDIR": "/tmp",
    "VIRTUAL_ENV": ENV_DIR,
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}
"""Variables of every command."""


def refuse_system_path(workdir: str, trees: Sequence[str], folders: Sequence[str], backend: str) -> None:
    """
    Raises:
        SandboxUnavailable: `workdir` is in one of the `trees`, or is one of the `folders`.
    """
    clean = os.path.normpath(workdir)
    tree = next((top for top in trees if clean == top or clean.startswith(f"{top}/")), None)
    if tree is not None or clean in folders:
        msg = f"the {backend} sandbox cannot place the workspace at {workdir}: {tree or clean} is a system path"
        raise SandboxUnavailable(msg, remedy="set environment.workdir to /workspace or another path outside the system")
