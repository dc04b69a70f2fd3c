"""The interface of every sandbox backend. The conformance suite in tests/sandbox checks all of them against it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from enum import StrEnum
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from agentbench.core.command import Command, Completed
from agentbench.core.command import ProcessCounts as ProcessCounts  # noqa: PLC0414 - part of this interface
from agentbench.core.dataclass import dataclass
from agentbench.tree.entry import FileWrite, Tree

Strength = Literal["hard", "monitored", "absent"]


class Phase(StrEnum):
    SETUP = "setup"
    AGENT = "agent"
    GRADING = "oracle"


@dataclass(frozen=True, slots=True)
class Limits:
    cpus: float = 2.0
    memory_mb: int = 4096
    pids: int = 256
    disk_mb: int = 2048
    inodes: int = 200_000


@dataclass(frozen=True, slots=True)
class LimitReport:
    """The strictness with which this backend enforces each limit on this machine, for this user."""

    cpu: Strength
    memory: Strength
    pids: Strength
    disk: Strength
    notes: tuple[str, ...] = ()
    on_request: tuple[str, ...] = ()
    """Limits that become hard, at a cost, if a contract requires it (`SandboxSpec.hard_disk`)."""

    def strengths(self) -> dict[str, Strength]:
        """Return the strength of each limit by its name."""
        return {"cpu": self.cpu, "memory": self.memory, "pids": self.pids, "disk": self.disk}


@dataclass(frozen=True, slots=True)
class Mount:
    """A host folder or file mounted read-only at `target`."""

    source: Path
    target: str


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """The description of one sandbox. `workdir` is the workspace's path inside."""

    phase: Phase
    limits: Limits
    workdir: str = "/workspace"
    env: Mapping[str, str] = field(default_factory=dict)
    network: bool = False
    python: str | None = None
    image: str | None = None
    dockerfile: Path | None = None
    """Used instead of an image: built once, with no other file in its build context."""
    mounts: tuple[Mount, ...] = ()
    hard_disk: bool = False
    """The contract requires a disk limit that the kernel enforces, even if the sandbox then starts more slowly."""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Usage:
    """Resources that a sandbox has used so far. None means that this backend cannot measure it."""

    cpu_sec: float | None
    memory_peak_mb: float | None
    memory_mb: float | None
    disk_mb: float | None
    processes: int | None
    oom_kills: int | None
    disk_limit_mb: float | None = None
    """The limit that `disk_mb` is compared with; None if the disk is not limited."""


@dataclass(frozen=True, slots=True)
class ProcessStart:
    """A program that an observed command started. Its arguments are advisory: see docs/explanation/observing-programs.md."""

    number: int
    """Counts from 1 within one observed command."""
    elapsed_us: int
    """Since the observed command started."""
    pid: int
    parent: int
    program: str
    """The path that was executed."""
    argv: tuple[str, ...]
    cwd: str
    truncated: bool = False
    """`argv` was longer than is kept."""


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """The end of a process. `number` is that of the last program it executed."""

    number: int
    elapsed_us: int
    exit_code: int | None
    """None if a signal ended it, or if the kernel does not tell (before Linux 6.15)."""
    signal: int | None


ProcessObserver = Callable[[ProcessStart | ProcessEnd], None]


class RunningCommand(Protocol):
    """A command that was started and may still run."""

    def write(self, data: bytes) -> None:
        """Write to its stdin. Data is dropped once the command closed its stdin or ended."""
        ...

    def close_stdin(self) -> None: ...

    def kill(self) -> None: ...

    def wait(self) -> Completed:
        """
        Raises:
            SandboxError: the channel or the sandbox died, and the command did not cause it.
        """
        ...


class Sandbox(Protocol):
    """One live sandbox. Closing it removes its processes, mounts and files."""

    @property
    def id(self) -> str: ...

    @property
    def observation_problem(self) -> str | None:
        """The reason why programs that a command starts cannot be observed here, in one phrase. None if they can."""
        ...

    def run(self, command: Command, *, observe: ProcessObserver | None = None) -> Completed:
        """Run a command to its end. A non-zero exit, a signal, a timeout or an OOM kill is data, not an exception.

        All processes that the command started are dead when this returns. `observe` receives the programs that it
        started, in order, on the channel's reader thread, and must return quickly. If they cannot be observed, the
        command runs unobserved and `Completed.processes` is None.

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
        observe: ProcessObserver | None = None,
    ) -> RunningCommand:
        """Start a command with an open stdin.

        Callbacks receive output as it arrives, on the channel's reader thread, and must return quickly.
        """
        ...

    def write_files(self, files: Sequence[FileWrite]) -> None:
        """Write all files into the workspace or none. Creates parents, follows no symlink, never touches `.git`.

        Raises:
            PatchInvalid: a path is absolute, contains `..`, leads through a symlink or a file, or is in `.git`.
            SandboxError: the write itself failed.
        """
        ...

    def kill_processes(self) -> int:
        """Kill every process but the command server, so that the tree stays as it is. Return how many were alive."""
        ...

    def tree(self) -> Tree:
        """Return the workspace. It is readable until the sandbox is closed, also after `kill_processes`."""
        ...

    def usage(self) -> Usage: ...

    def denied_calls(self) -> Mapping[str, int]:
        """Return how many system calls were denied so far, by class. Empty if they cannot be counted here."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class SetupStep:
    """One setup or capture command and its result."""

    command: str
    capture: bool
    exit_code: int | None
    duration_sec: float
    timed_out: bool
    stdout: bytes
    stderr: bytes
    cached: bool = False
    """Whether it ran earlier, and its result was reused."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prepared environment: the frozen result of setup, never written again.

    `digest` (sha256:…) covers everything that setup produced; `base_tree` is the workspace as setup left it.
    """

    key: str
    digest: str
    steps: tuple[SetupStep, ...]
    base_tree: Tree
    setup_changed: tuple[bytes, ...]
    """Files of the base repository that setup changed or removed; a patch does not show them, so reports do."""
    lockfiles: Mapping[str, str]
    cached: bool
    backend: str
    details: Mapping[str, str] = field(default_factory=dict)


class SetupNetwork(Protocol):
    """Restricted network of a setup, opened in its sandbox before the commands run."""

    def open(self, sandbox: Sandbox) -> None: ...

    def check(self) -> None:
        """
        Raises:
            SetupFailed: setup requested a host that is not allowed.
        """
        ...


@dataclass(frozen=True, slots=True)
class SetupPlan:
    """A request to prepare an environment: the folder of the base repository, and the setup commands."""

    key: str
    """Identity of base repository, environment and setup: equal keys mean equal prepared environments."""
    source: Path
    commands: tuple[str, ...]
    capture: tuple[str, ...]
    timeout_sec: float
    secrets: Mapping[str, str] = field(default_factory=dict)
    fresh: bool = False
    network: SetupNetwork | None = None
    repository: str = ""
    """Digest of the base repository. Setups of one base repository share what they download; the same code runs in all of them."""


class Backend(Protocol):
    """Creates sandboxes."""

    @property
    def name(self) -> str: ...

    def limits(self) -> LimitReport: ...

    def check(self, spec: SandboxSpec) -> None:
        """Refuse a spec that this backend cannot provide, before anything runs.

        Raises:
            SandboxUnavailable: with a remedy, for example if the image is missing or the workspace path is reserved.
        """
        ...

    def prepare(self, plan: SetupPlan, spec: SandboxSpec, *, on_step: Callable[[SetupStep], None]) -> Prepared:
        """Run setup once per key and freeze the result; later calls reuse it.

        Raises:
            SetupFailed: a command failed. The failure is cached, so attempts do not repeat it, unless `fresh`.
            SandboxError: the sandbox failed.
        """
        ...

    def open(self, spec: SandboxSpec, prepared: Prepared | None) -> AbstractContextManager[Sandbox]:
        """Open a sandbox, copy-on-write on `prepared`; `None` gives an empty workspace."""
        ...

    def close(self) -> None:
        """End everything that this backend started."""
        ...


SandboxBackend: TypeAlias = Backend
"""The public name of `Backend`."""
