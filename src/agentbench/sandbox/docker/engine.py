"""The docker engine: its command line for everything that happens once, its HTTP API for what every sandbox needs.

Creating and starting a container through the command line takes a tenth of a second of processor time and more; the two
requests behind it take almost none.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from agentbench.core.canonical import Json
from agentbench.core.command import Completed
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import HarnessError, SandboxError, SandboxUnavailable
from agentbench.core.text import printable
from agentbench.process import run_host

PROGRAM_VARIABLE = "AB_DOCKER"
"""Names another program with docker's command line, such as podman."""
_SHOWN_CHARS = 1500
_REQUEST_SEC = 120.0
_PING_SEC = 5.0
_START_REMEDY = 'start it (sudo systemctl start docker), or in a checkout: eval "$(scripts/docker-engine start)"'
_PERMISSION_REMEDY = "sudo usermod -aG docker $USER, and log in again; or use rootless docker, or --sandbox bwrap"


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """Facts that the engine reports about itself."""

    id: str
    version: str
    rootless: bool
    cgroup_version: str
    memory_limit: bool
    pids_limit: bool
    cpu_limit: bool
    plain_overlay: bool
    """Files are on an overlay that never redirects a folder: a file that was not copied up is unchanged."""
    address: str

    @property
    def local(self) -> bool:
        """True if the engine is on this machine, so that its containers can reach a Unix socket of the harness."""
        return self.address.startswith("unix://")


class NoSuchImage(Exception):
    """The engine does not have the image."""


class ImageGone(SandboxError):
    """A container's image was removed while it was needed."""


class EngineSlow(SandboxError):
    """The engine, or the server of a new container, did not answer in time. No code of a task has run in the container."""


class Engine:
    def __init__(self, program: str) -> None:
        """
        Raises:
            SandboxUnavailable: no engine is running, or this user may not use it.
            SandboxError: `docker info` failed otherwise.
        """
        self.program = program
        self.facts = self._query()

    def run(
        self,
        *args: str,
        stdin: bytes | int = b"",
        timeout_sec: float = 120.0,
        die_with_parent: bool = False,
        stop: threading.Event | None = None,
    ) -> Completed:
        """Run one docker command to its end.

        `die_with_parent`: end it with this process, even after `kill -9`. The engine then cancels what it does for the command.

        Raises:
            Interrupted: `stop` was set.
        """
        setpriv = shutil.which("setpriv") if die_with_parent else None
        prefix = [setpriv, "--pdeathsig", "KILL"] if setpriv else []
        return run_host([*prefix, self.program, *args], stdin=stdin, timeout_sec=timeout_sec, stop=stop)

    def output(
        self,
        *args: str,
        stdin: bytes | int = b"",
        timeout_sec: float = 120.0,
        stop: threading.Event | None = None,
    ) -> str:
        """Run one docker command that must succeed, and return what it printed.

        Raises:
            SandboxUnavailable: no engine is running, or this user may not use it.
            SandboxError: the command failed.
            Interrupted: `stop` was set.
        """
        done = self.run(*args, stdin=stdin, timeout_sec=timeout_sec, stop=stop)
        if not done.ok:
            raise self.error(done, f"docker {args[0]}")
        return done.stdout.text.strip()

    def error(self, done: Completed, command: str) -> SandboxError:
        """Return the error for a docker command that failed."""
        stderr = printable(done.stderr.text.strip()[-_SHOWN_CHARS:], keep="\n")
        lower = stderr.lower()
        if "permission denied" in lower and ("socket" in lower or "connect" in lower):
            return SandboxUnavailable("no permission to use the docker engine", remedy=_PERMISSION_REMEDY)
        if "cannot connect to the docker daemon" in lower or "is the docker daemon running" in lower:
            return SandboxUnavailable("no docker engine is running", remedy=_START_REMEDY)
        if done.timed_out:
            return SandboxError(f"{command} timed out after {done.duration_sec:.0f} s")
        return SandboxError(f"{command} failed: {stderr or f'exit code {done.exit_code}'}")

    def inspect_image(self, reference: str) -> dict[str, Any]:
        """
        Raises:
            NoSuchImage: the engine does not have it.
            SandboxError: the engine does not answer.
        """
        done = self.run("image", "inspect", "--", reference)
        if not done.ok:
            if b"no such image" in done.stderr.kept.lower():
                raise NoSuchImage(reference)
            raise self.error(done, f"docker image inspect {reference}")
        image: dict[str, Any] = json.loads(done.stdout.kept)[0]
        return image

    def commit(self, container: str, tag: str, labels: Mapping[str, str], timeout_sec: float = 120.0) -> str:
        """Commit a container as an image without a command, and return the image's id.

        Raises:
            SandboxError: the engine refused.
        """
        changes = [*(f"LABEL {key}={value}" for key, value in labels.items()), "ENTRYPOINT []", "CMD []"]
        options = [part for change in changes for part in ("--change", change)]
        return self.output("commit", *options, container, tag, timeout_sec=timeout_sec)

    def gone(self) -> bool:
        """Return whether nothing accepts connections at the engine's address. A slow engine is not gone."""
        connection = _UnixConnection(self.facts.address.removeprefix("unix://"), _PING_SEC)
        try:
            connection.request("GET", "/_ping")
            connection.getresponse().read(64)
        except (TimeoutError, BlockingIOError):  # no answer in time, or too many wait to be accepted
            return False
        except (OSError, http.client.HTTPException):
            return True
        finally:
            connection.close()
        return False

    def has_bridge(self) -> bool:
        return self.run("network", "inspect", "bridge").ok

    def create_container(self, name: str, config: dict[str, Json]) -> None:
        """
        Raises:
            SandboxUnavailable: no engine is running.
            ImageGone: the image was removed.
            EngineSlow: the engine does not answer in time.
            SandboxError: the engine refused, with the engine's message.
        """
        self._post(f"/containers/create?name={quote(name)}", config)

    def start_container(self, name: str) -> None:
        """
        Raises:
            SandboxUnavailable, SandboxError: as for `create_container`.
        """
        self._post(f"/containers/{quote(name)}/start", None)

    def _post(self, path: str, body: dict[str, Json] | None) -> None:
        # Without a version in the path the engine uses its own.
        connection = _UnixConnection(self.facts.address.removeprefix("unix://"), _REQUEST_SEC)
        headers = {"Content-Type": "application/json"}
        try:
            connection.request("POST", path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            content = response.read(1 << 20)
        except (FileNotFoundError, ConnectionRefusedError) as error:
            remedy = "start it again, then continue with `ab run --resume`"
            raise SandboxUnavailable("no docker engine is running", remedy=remedy) from error
        except TimeoutError as error:
            raise EngineSlow(f"the docker engine does not answer within {_REQUEST_SEC:.0f} s") from error
        except (OSError, http.client.HTTPException) as error:
            raise SandboxError(f"the docker engine does not answer: {error}") from error
        finally:
            connection.close()
        if response.status == http.client.NOT_FOUND and b"no such image" in content.lower():
            remedy = "run again (`ab run --resume`) to prepare it anew"
            raise ImageGone(f"an image was removed while it was needed: {_message(content)}", remedy=remedy)
        if response.status >= http.client.MULTIPLE_CHOICES:
            raise SandboxError(f"the docker engine refused a container: {_message(content)}")

    def _query(self) -> EngineFacts:
        done = self.run("info", "--format", "{{json .}}", timeout_sec=30)
        info = _object(done.stdout.kept)
        if not done.ok or not info.get("ServerVersion"):
            if errors := "\n".join(info.get("ServerErrors") or ()):
                stderr = type(done.stderr)(head=errors.encode(), total_bytes=len(errors))
                done = replace(done, exit_code=done.exit_code or 1, stderr=stderr)
            raise self.error(done, "docker info")
        status = dict(item for item in info.get("DriverStatus") or [] if len(item) == 2)
        return EngineFacts(
            id=str(info.get("ID", "")),
            version=str(info["ServerVersion"]),
            rootless=any("rootless" in option for option in info.get("SecurityOptions") or []),
            cgroup_version=str(info.get("CgroupVersion", "")),
            memory_limit=bool(info.get("MemoryLimit", False)),
            pids_limit=bool(info.get("PidsLimit", False)),
            cpu_limit=bool(info.get("CpuCfsQuota", False)),
            plain_overlay=info.get("Driver") == "overlay2" and status.get("Native Overlay Diff") == "true",
            address=_address(self.program),
        )


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout_sec: float) -> None:
        super().__init__("docker", timeout=timeout_sec)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def find_engine() -> Engine:
    """
    Raises:
        SandboxUnavailable: docker is not installed, no engine is running, or this user may not use it.
    """
    name = os.environ.get(PROGRAM_VARIABLE) or "docker"
    program = shutil.which(name)
    if program is None:
        raise SandboxUnavailable(f"{name} is not installed", remedy="apt-get install docker.io, or use --sandbox bwrap")
    try:
        return Engine(program)
    except SandboxUnavailable:
        raise
    except HarnessError as error:
        raise SandboxUnavailable(f"docker is not usable: {error}", remedy=_START_REMEDY) from error


def _object(text: bytes) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _message(content: bytes) -> str:
    try:
        text = str(json.loads(content)["message"])
    except (ValueError, KeyError, TypeError):
        text = content.decode("utf-8", "replace")
    return printable(text[:_SHOWN_CHARS], keep="\n")


def _address(program: str) -> str:
    """Return the address that the command line uses."""
    address = os.environ.get("DOCKER_HOST", "")
    if not address:
        done = run_host([program, "context", "inspect", "--format", "{{.Endpoints.docker.Host}}"], timeout_sec=30)
        address = done.stdout.text.strip() if done.ok else ""
    return address or "unix:///var/run/docker.sock"
