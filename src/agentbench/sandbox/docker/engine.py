"""The docker command line and the engine behind it."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from typing import Any

from agentbench.core.command import Completed
from agentbench.core.errors import HarnessError, SandboxError, SandboxUnavailable
from agentbench.core.text import printable
from agentbench.process import run_host
from agentbench.sandbox.docker.api import Api

PROGRAM_VARIABLE = "AB_DOCKER"
"""Another program with docker's command line (podman), for those who want it."""
_SHOWN = 1500
_START_REMEDY = 'start it (sudo systemctl start docker), or in a checkout: eval "$(scripts/docker-engine start)"'
_PERMISSION_REMEDY = "sudo usermod -aG docker $USER, and log in again; or use rootless docker, or --sandbox bwrap"


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What the engine says of itself."""

    id: str
    version: str
    rootless: bool
    cgroup_version: str
    memory_limit: bool
    pids_limit: bool
    cpu_limit: bool
    plain_overlay: bool
    """Files live on an overlay that never redirects a folder: what was not copied up is where and what it was."""
    address: str

    @property
    def local(self) -> bool:
        """On this machine: its containers can reach a socket of ours."""
        return self.address.startswith("unix://")


class NoSuchImage(Exception):
    """The engine does not have it."""


class Engine:
    def __init__(self, program: str) -> None:
        self._program = program
        self.facts = self._ask()
        self.api = Api(self.facts.address.removeprefix("unix://"))

    @property
    def program(self) -> str:
        return self._program

    def call(self, *args: str, stdin: bytes | int = b"", timeout_sec: float = 120.0) -> Completed:
        """Run one docker command to its end, whatever comes of it."""
        return run_host([self._program, *args], stdin=stdin, timeout_sec=timeout_sec)

    def call_while_alive(self, *args: str, stdin: bytes = b"", timeout_sec: float = 120.0) -> Completed:
        """The same for what takes long: it is ended with us, even by `kill -9`, and what the engine does for it ends too."""
        ends_with_us = [found, "--pdeathsig", "KILL"] if (found := shutil.which("setpriv")) else []
        return run_host([*ends_with_us, self._program, *args], stdin=stdin, timeout_sec=timeout_sec)

    def must(self, *args: str, stdin: bytes | int = b"", timeout_sec: float = 120.0) -> str:
        """Run one docker command that has to succeed; what it printed.

        Raises:
            SandboxUnavailable: the engine is not there, or not for us.
            SandboxError: it failed.
        """
        done = self.call(*args, stdin=stdin, timeout_sec=timeout_sec)
        if not done.ok:
            raise self.trouble(done, f"docker {args[0]}")
        return done.stdout.kept.decode("utf-8", "replace").strip()

    def trouble(self, done: Completed, what: str) -> SandboxError:
        """What a failed docker command means."""
        said = printable(done.stderr.kept.decode("utf-8", "replace").strip()[-_SHOWN:], keep="\n")
        low = said.lower()
        if "permission denied" in low and ("socket" in low or "connect" in low):
            return SandboxUnavailable("no permission to use the docker engine", remedy=_PERMISSION_REMEDY)
        if "cannot connect to the docker daemon" in low or "is the docker daemon running" in low:
            return SandboxUnavailable("no docker engine answers", remedy=_START_REMEDY)
        if done.timed_out:
            return SandboxError(f"{what} was not done after {done.duration_sec:.0f} s")
        return SandboxError(f"{what} failed: {said or f'exit code {done.exit_code}'}")

    def image(self, reference: str) -> dict[str, Any]:
        """What the engine knows of an image.

        Raises:
            NoSuchImage: nothing by that name.
            SandboxError: it cannot be asked.
        """
        done = self.call("image", "inspect", "--", reference)
        if not done.ok:
            if b"no such image" in done.stderr.kept.lower():
                raise NoSuchImage(reference)
            raise self.trouble(done, f"docker image inspect {reference}")
        found: dict[str, Any] = json.loads(done.stdout.kept)[0]
        return found

    def has_bridge(self) -> bool:
        return self.call("network", "inspect", "bridge").ok

    def _ask(self) -> EngineFacts:
        done = self.call("info", "--format", "{{json .}}", timeout_sec=30)
        said = _object(done.stdout.kept)
        if not done.ok or not said.get("ServerVersion"):
            if said.get("ServerErrors"):
                done = _with_stderr(done, "\n".join(said["ServerErrors"]))
            raise self.trouble(done, "docker info")
        status = dict(item for item in said.get("DriverStatus") or [] if len(item) == 2)
        return EngineFacts(
            id=str(said.get("ID", "")),
            version=str(said["ServerVersion"]),
            rootless=any("rootless" in option for option in said.get("SecurityOptions") or []),
            cgroup_version=str(said.get("CgroupVersion", "")),
            memory_limit=bool(said.get("MemoryLimit", False)),
            pids_limit=bool(said.get("PidsLimit", False)),
            cpu_limit=bool(said.get("CpuCfsQuota", False)),
            plain_overlay=said.get("Driver") == "overlay2" and status.get("Native Overlay Diff") == "true",
            address=_address(self._program),
        )


def find_engine() -> Engine:
    """
    Raises:
        SandboxUnavailable: no docker, no engine, or no right to use it; with the remedy.
    """
    wanted = os.environ.get(PROGRAM_VARIABLE) or "docker"
    program = shutil.which(wanted)
    if program is None:
        msg = f"{wanted} is not installed"
        raise SandboxUnavailable(msg, remedy="apt-get install docker.io, or use --sandbox bwrap")
    try:
        return Engine(program)
    except SandboxUnavailable:
        raise
    except HarnessError as error:
        raise SandboxUnavailable(f"docker cannot be used: {error}", remedy=_START_REMEDY) from error


def _object(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _with_stderr(done: Completed, text: str) -> Completed:
    return Completed(
        done.exit_code or 1, done.stdout, type(done.stderr)(head=text.encode(), total_bytes=len(text)), 0.0
    )


def _address(program: str) -> str:
    """Where the command line finds its engine."""
    address = os.environ.get("DOCKER_HOST", "")
    if not address:
        done = run_host([program, "context", "inspect", "--format", "{{.Endpoints.docker.Host}}"], timeout_sec=30)
        address = done.stdout.kept.decode("utf-8", "replace").strip() if done.ok else ""
    return address or "unix:///var/run/docker.sock"
