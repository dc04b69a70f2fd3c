"""The probe of a node: what it has, and whether it can run attempts at all."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import AgentBenchError, HarnessError
from agentbench.execution.version import harness_version
from agentbench.sandbox.memory_folder import ROOT
from agentbench.sandbox.protocol import Limits, Phase, SandboxSpec
from agentbench.sandbox.registry import open_backend

BACKENDS = ("bwrap", "docker")
MIN_DISK_MB = 512
MIN_MEMORY_FOLDER_MB = 64


@dataclass(frozen=True, slots=True)
class NodeReport:
    host: str
    pid: int
    harness_version: str
    cpus: int
    memory_mb: int
    state: str
    disk_free_mb: int
    memory_folder_mb: int
    """Free space of the file system in memory."""
    backends: Mapping[str, str]
    """Backends by name: empty text if it works, else why not."""

    def as_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> NodeReport:
        """Read a report, possibly of another version.

        Raises:
            HarnessError: it is not a report.
        """
        try:
            value = json.loads(text)
            return cls(
                host=str(value["host"]),
                pid=int(value["pid"]),
                harness_version=str(value["harness_version"]),
                cpus=int(value["cpus"]),
                memory_mb=int(value["memory_mb"]),
                state=str(value["state"]),
                disk_free_mb=int(value["disk_free_mb"]),
                memory_folder_mb=int(value["memory_folder_mb"]),
                backends={str(name): str(why) for name, why in value["backends"].items()},
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            msg = "it did not say what it has; its version of the harness is probably another"
            raise HarnessError(msg, remedy=f"install version {harness_version()} on it") from error

    def problem(self) -> str:
        """Return why the node must not be used; empty if it can be."""
        if self.harness_version != harness_version():
            return (
                f"it has harness {self.harness_version}, the driver has {harness_version()}; install the same version"
            )
        if all(self.backends.values()):
            return "; ".join(f"{name}: {why}" for name, why in self.backends.items())
        if self.disk_free_mb < MIN_DISK_MB:
            return f"only {self.disk_free_mb} MB are free in {self.state}; run `ab cache prune` on it"
        if self.memory_folder_mb < MIN_MEMORY_FOLDER_MB:
            return f"only {self.memory_folder_mb} MB are free in {ROOT}"
        return ""


def probe_node(state: Path) -> NodeReport:
    return NodeReport(
        host=socket.gethostname(),
        pid=os.getpid(),
        harness_version=harness_version(),
        cpus=os.cpu_count() or 1,
        memory_mb=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        state=str(state),
        disk_free_mb=_free_mb(state),
        memory_folder_mb=_free_mb(ROOT),
        backends={name: _backend_problem(name, state) for name in BACKENDS},
    )


def _backend_problem(name: str, state: Path) -> str:
    """Return why a backend does not work here; empty if it does. A sandbox is started: a program can exist and be broken."""
    try:
        with closing(open_backend(name, state=state, needs_image=False)) as backend:
            if name == "bwrap":  # the engine of the other one has answered, and a container needs an image
                with backend.open(SandboxSpec(Phase.AGENT, Limits()), None):
                    pass
    except AgentBenchError as error:
        return error.message
    return ""


def _free_mb(folder: Path) -> int:
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free >> 20
