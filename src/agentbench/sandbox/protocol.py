"""What every backend offers. One conformance suite holds all of them to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from agentbench.core.command import Command, Completed
from agentbench.tree.entry import FileWrite, Tree

Strength = Literal["hard", "monitored", "absent"]


class Phase(StrEnum):
    SETUP = "setup"
    AGENT = "agent"
    ORACLE = "oracle"


@dataclass(frozen=True, slots=True)
class Limits:
    cpus: float = 2.0
    memory_mb: int = 4096
    pids: int = 256
    disk_mb: int = 2048
    inodes: int = 200_000


@dataclass(frozen=True, slots=True)
class LimitReport:
    """How strongly this backend, on this machine, as this user, holds each limit."""

    cpu: Strength
    memory: Strength
    pids: Strength
    disk: Strength
    notes: tuple[str, ...] = ()
    on_request: tuple[str, ...] = ()
    """Limits that become hard for a contract that requires it, at a price (`SandboxSpec.hard_disk`)."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A host folder or file made visible read-only at `target`."""

    source: Path
    target: str


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """Everything that decides what a sandbox is.

    `base` is the identity of a prepared environment (None: bare). `workdir` is where the workspace is seen inside.
    """

    phase: Phase
    limits: Limits
    workdir: str = "/workspace"
    env: Mapping[str, str] = field(default_factory=dict)
    network: bool = False
    python: str | None = None
    image: str | None = None
    dockerfile: Path | None = None
    """Instead of an image: built once, with nothing but itself as its context."""
    mounts: tuple[Mount, ...] = ()
    hard_disk: bool = False
    """The contract requires a disk limit that the kernel holds, whatever that costs at the start."""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Usage:
    """What a sandbox has used so far, as far as it can be measured (None: cannot)."""

    cpu_sec: float | None
    memory_peak_mb: float | None
    memory_mb: float | None
    disk_mb: float | None
    processes: int | None
    oom_kills: int | None


@runtime_checkable
class Served(Protocol):
    """A sandbox that tells what runs its commands."""

    @property
    def server(self) -> str: ...


class RunningCommand(Protocol):
    """A command in flight."""

    def write(self, data: bytes) -> None:
        """Send to its stdin; silently dropped once it closed or ended."""
        ...

    def close_stdin(self) -> None: ...

    def kill(self) -> None: ...

    def wait(self) -> Completed:
        """
        Raises:
            SandboxError: the channel or the sandbox died, and not by the candidate's doing.
        """
        ...


class Sandbox(Protocol):
    """One live sandbox. Closing it leaves no process, mount or file."""

    @property
    def id(self) -> str: ...

    def run(self, command: Command) -> Completed:
        """Run to the end. A non-zero exit, a signal, a timeout, an OOM kill of the command are data.

        Everything the command left behind is dead when this returns.

        Raises:
            SandboxError: the sandbox itself failed.
        """
        ...

    def start(
        self,
        command: Command,
        *,
        on_stdout: Callable[[bytes], None] | None = None,
        on_stderr: Callable[[bytes], None] | None = None,
    ) -> RunningCommand:
        """Start with an open stdin. Callbacks get output as it comes, from the channel's reader thread, and must be quick."""
        ...

    def write_files(self, files: Sequence[FileWrite]) -> None:
        """Apply to the workspace, all or nothing: parents are made, no symlink is followed, `.git` is never touched.

        Raises:
            PatchInvalid: a path is absolute, has `..`, goes through a symlink or a file, or is `.git`.
            SandboxError: the write itself failed.
        """
        ...

    def kill_processes(self) -> int:
        """End everything but the channel; the count of what was alive. The tree can then be read at rest."""
        ...

    def tree(self) -> Tree:
        """The workspace, readable from the host also after `kill_processes`, until the sandbox is closed."""
        ...

    def usage(self) -> Usage: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class SetupStep:
    """One setup or capture command and what came of it."""

    command: str
    capture: bool
    exit_code: int | None
    duration_sec: float
    timed_out: bool
    stdout: bytes
    stderr: bytes


@dataclass(frozen=True, slots=True)
class Prepared:
    """A frozen environment: what setup produced, never written again.

    `digest` (sha256:…) covers what setup really produced; `base_tree` is the workspace as setup left it.
    """

    key: str
    digest: str
    steps: tuple[SetupStep, ...]
    base_tree: Tree
    setup_changed: tuple[bytes, ...]
    """Files of R that setup changed or removed: reported, since Δ is taken against the workspace as setup left it."""
    lockfiles: Mapping[str, str]
    cached: bool
    backend: str
    details: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SetupPlan:
    """What to prepare: the workspace source (a folder that is R), and the commands."""

    key: str
    """Identity of (R, environment, setup): equal key, equal environment."""
    source: Path
    commands: tuple[str, ...]
    capture: tuple[str, ...]
    timeout_sec: float
    secrets: Mapping[str, str] = field(default_factory=dict)
    fresh: bool = False


class Backend(Protocol):
    """A way to make sandboxes."""

    @property
    def name(self) -> str: ...

    def limits(self) -> LimitReport: ...

    def check(self, spec: SandboxSpec) -> None:
        """Refuse before anything runs what cannot be had here.

        Raises:
            SandboxUnavailable: an image that is not there, a workspace where none can be; with the remedy.
        """
        ...

    def prepare(self, plan: SetupPlan, spec: SandboxSpec, *, on_step: Callable[[SetupStep], None]) -> Prepared:
        """Run setup once per key and freeze the result; later calls find it.

        Raises:
            SetupFailed: a command failed (remembered: not repeated for every attempt, unless `fresh`).
            SandboxError: ours.
        """
        ...

    def open(self, spec: SandboxSpec, prepared: Prepared | None) -> AbstractContextManager[Sandbox]:
        """A live sandbox, copy-on-write on `prepared`; `None` gives an empty workspace."""
        ...

    def close(self) -> None:
        """End everything this backend started."""
        ...
