"""The lab: what attempts of one process share. Snapshots, prepared environments, sandbox backends, baselines."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self

from agentbench.agents.cli.agent import profile_of
from agentbench.agents.cli.layer import ProgramLayer, install
from agentbench.contract.identity import Identities, identify
from agentbench.contract.load import LoadedTask
from agentbench.contract.scorers import scorer_spec
from agentbench.core.canonical import digest
from agentbench.core.errors import InputError, SandboxUnavailable, WorkspaceError
from agentbench.run.attempt.judge import JudgeChoice
from agentbench.run.environment_facts import Inside, look_inside
from agentbench.run.models import Models
from agentbench.run.proxy.allow_list import AllowList
from agentbench.sandbox.protocol import (
    Backend,
    LimitReport,
    Limits,
    Mount,
    Phase,
    Prepared,
    SandboxSpec,
    SetupPlan,
    SetupStep,
    Strength,
)
from agentbench.sandbox.registry import open_backend
from agentbench.sandbox.state import default_state
from agentbench.tree.digest import tree_digest
from agentbench.workspace.source.snapshot import Snapshot, Snapshots

LOGGING_SCHEMA = 1
_STRENGTHS: tuple[Strength, ...] = ("absent", "monitored", "hard")


@dataclass(frozen=True, slots=True)
class Ground:
    """A task made ready: R, what setup made of it, and the backend that opens sandboxes on it."""

    task: LoadedTask
    ids: Identities
    snapshot: Snapshot
    prepared: Prepared
    backend: Backend
    limits: LimitReport
    base_digest: str
    """Of the workspace as setup left it: what Δ is taken against."""
    inside: Inside

    def spec(self, phase: Phase, *, mounts: tuple[Mount, ...] = ()) -> SandboxSpec:
        return sandbox_spec(self.task, phase, mounts=mounts)


class Lab:
    """Shared by worker threads. Each task is made ready once; who comes second waits for the first."""

    def __init__(
        self,
        *,
        sandbox: str = "auto",
        state: Path | None = None,
        fresh_setup: bool = False,
        models: Models | None = None,
    ) -> None:
        self.state = state or default_state()
        self.cancelled = threading.Event()
        self.operator = False
        """Somebody answers questions of this study: `ab operator`."""
        self.yield_worker: Callable[[], AbstractContextManager[None]] = nullcontext
        """Entered by an attempt that waits for a person, so that another can run meanwhile."""
        self.judge: JudgeChoice | None = None
        """Who judges attempts after the fact; None: nobody, and records say so."""
        self.models = models or Models()
        self.sandbox = sandbox
        self.fresh_setup = fresh_setup
        self._lock = threading.Lock()
        self._backends: dict[str, Backend] = {}
        self._task_locks: dict[str, threading.Lock] = {}
        self._grounds: dict[str, Ground] = {}
        self._programs: dict[tuple[str, str], ProgramLayer] = {}
        self._program_lock = threading.Lock()
        self.snapshots = Snapshots(self.state / "snapshots")
        self._open = ExitStack()

    @cached_property
    def oracle_cache(self) -> Path:
        """Where grading keeps what it found out about untouched R, and environments say what they are."""
        folder = self.state / "oracle"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WorkspaceError(f"the state folder cannot be written: {folder}: {error.strerror}") from error
        return folder

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End every sandbox this lab started."""
        self._open.close()
        self.models.close()

    def cancel(self) -> None:
        """Stop everything now: attempts in flight end as interrupted."""
        self.cancelled.set()
        self.close()

    def backend(self, task: LoadedTask) -> Backend:
        """The backend a task needs here.

        Raises:
            SandboxUnavailable: none fits, with the remedy.
        """
        environment = task.task.environment
        needs_image = bool(environment.docker_image or environment.dockerfile)
        key = "docker" if self.sandbox == "docker" or (self.sandbox == "auto" and needs_image) else "bwrap"
        with self._lock:
            if key not in self._backends:
                backend = open_backend(self.sandbox, state=self.state, needs_image=needs_image)
                self._backends[key] = backend
                self._open.callback(backend.close)
            return self._backends[key]

    def require(self, task: LoadedTask) -> None:
        """Refuse what cannot be honoured before anything runs (a policy is never weakened).

        Raises:
            SandboxUnavailable: no backend, or one that cannot hold a limit the contract requires.
            InputError: a feature that is not there, a frozen scorer that cannot be run.
        """
        for scorer in task.scorers:
            scorer_spec(scorer)
        backend = self.backend(task)
        backend.check(sandbox_spec(task, Phase.AGENT))
        held = backend.limits()
        wanted = task.task.policy.require_limits
        for name in ("cpu", "memory", "pids", "disk"):
            need, have = getattr(wanted, name), getattr(held, name)
            if _STRENGTHS.index(have) < _STRENGTHS.index(need) and name not in held.on_request:
                msg = f"task {task.id} requires a {need} {name} limit; backend {backend.name} here has it {have}"
                raise SandboxUnavailable(
                    msg, remedy="`ab doctor` says what this machine can enforce and how to get more"
                )
        environment = task.task.environment
        if environment.network_policy == "always":
            AllowList.of(environment.network_allow, place=f"task {task.id}: environment.network_allow")
            if not environment.network_allow:
                msg = f"task {task.id}: network_policy 'always' without network_allow: the proxy would let nothing through"
                raise InputError(msg, remedy="list the hosts the agent needs, or use network_policy: setup_only")

    def ground(self, task: LoadedTask, on_step: Callable[[SetupStep], None] = lambda _step: None) -> Ground:
        """Make a task ready, or find it ready.

        Raises:
            SourceError, SetupFailed: the task's own trouble.
            SandboxError, WorkspaceError: ours.
        """
        ids = identify(task)
        with self._lock:
            lock = self._task_locks.setdefault(ids.task_digest, threading.Lock())
        with lock:
            if ids.task_digest not in self._grounds:
                self._grounds[ids.task_digest] = self._prepare(task, ids, self.snapshots.materialise(task), on_step)
            return self._of(task, ids)

    def ground_on(self, task: LoadedTask, ids: Identities, snapshot: Snapshot) -> Ground:
        """The same on an R that is already there, for a contract whose identities are known (a replay).

        Raises:
            SetupFailed: the task's own trouble.
            SandboxError, WorkspaceError: ours.
        """
        with self._lock:
            lock = self._task_locks.setdefault(ids.task_digest, threading.Lock())
        with lock:
            if ids.task_digest not in self._grounds:
                self._grounds[ids.task_digest] = self._prepare(task, ids, snapshot, lambda _step: None)
            return self._of(task, ids)

    def _of(self, task: LoadedTask, ids: Identities) -> Ground:
        """What was made ready, for this task: others with the same digest have an id, a reference and a folder of their own."""
        return replace(self._grounds[ids.task_digest], task=task)

    def program(
        self, agent: str, task: LoadedTask, on_step: Callable[[SetupStep], None] = lambda _step: None
    ) -> ProgramLayer | None:
        """The program that an agent is, installed for sandboxes of a task; None when the agent is no such program.

        Raises:
            SandboxUnavailable: it cannot be installed here.
        """
        profile = profile_of(agent)
        if profile is None:
            return None
        environment = task.task.environment
        fits = digest([environment.python, environment.docker_image, environment.dockerfile, str(task.folder)])
        with self._program_lock:
            if (agent, fits) not in self._programs:
                like = sandbox_spec(task, Phase.SETUP)
                layer = install(profile, self.backend(task), like, self.state, on_step=on_step)
                self._programs[agent, fits] = layer
            return self._programs[agent, fits]

    def _prepare(
        self, task: LoadedTask, ids: Identities, snapshot: Snapshot, on_step: Callable[[SetupStep], None]
    ) -> Ground:
        backend = self.backend(task)
        setup = task.task.setup
        plan = SetupPlan(
            key=digest({"setup": ids.setup_key, "snapshot": snapshot.digest}),
            source=snapshot.folder,
            commands=setup.commands,
            capture=setup.capture,
            timeout_sec=setup.timeout_sec,
            secrets=declared_secrets(task),
            fresh=self.fresh_setup,
        )
        prepared = backend.prepare(plan, sandbox_spec(task, Phase.SETUP), on_step=on_step)
        return Ground(
            task=task,
            ids=ids,
            snapshot=snapshot,
            prepared=prepared,
            backend=backend,
            limits=held_limits(backend, task),
            base_digest=tree_digest(prepared.base_tree.entries()),
            inside=look_inside(backend, sandbox_spec(task, Phase.ORACLE), prepared, self.oracle_cache),
        )


def sandbox_spec(task: LoadedTask, phase: Phase, *, mounts: tuple[Mount, ...] = ()) -> SandboxSpec:
    """The sandbox a contract asks for, in one phase. Network exists in setup alone, and only where the contract says so."""
    environment = task.task.environment
    return SandboxSpec(
        phase=phase,
        limits=Limits(
            cpus=environment.cpu_limit,
            memory_mb=environment.mem_limit_mb,
            pids=environment.pids_limit,
            disk_mb=environment.disk_limit_mb,
        ),
        workdir=environment.workdir,
        env=environment.env,
        network=phase is Phase.SETUP and environment.network_policy != "none",
        python=environment.python,
        image=environment.docker_image,
        dockerfile=task.folder / environment.dockerfile if environment.dockerfile else None,
        mounts=mounts,
        hard_disk=task.task.policy.require_limits.disk == "hard",
        labels={"task": task.id},
    )


def declared_secrets(task: LoadedTask) -> dict[str, str]:
    """The host's values of the secrets that a contract names, for setup only.

    Raises:
        InputError: one is not set.
    """
    values = {}
    for name in task.task.environment.secrets:
        if name not in os.environ:
            msg = f"task {task.id} declares the secret {name}, and the environment variable {name} is not set"
            raise InputError(msg, remedy=f"set it: export {name}=…")
        values[name] = os.environ[name]
    return values


def held_limits(backend: Backend, task: LoadedTask) -> LimitReport:
    """How strongly limits are held for this task: a contract may have asked for more than a backend does unasked."""
    report = backend.limits()
    if task.task.policy.require_limits.disk == "hard" and "disk" in report.on_request:
        return replace(report, disk="hard")
    return report


def config_class(task: LoadedTask, backend: str, limits: LimitReport) -> str:
    """Runs are comparable only within a class: sandbox constraints, ceilings, how it is logged."""
    environment = task.task.environment
    return digest(
        {
            "backend": backend,
            "enforced": {"cpu": limits.cpu, "memory": limits.memory, "pids": limits.pids, "disk": limits.disk},
            "cpu_limit": environment.cpu_limit,
            "mem_limit_mb": environment.mem_limit_mb,
            "pids_limit": environment.pids_limit,
            "disk_limit_mb": environment.disk_limit_mb,
            "network": environment.network_policy,
            "timeout_sec": task.wall_sec,
            "tool_timeout_sec": environment.tool_timeout_sec,
            "checks": [{"id": check.id, "timeout_sec": check.timeout_sec} for check in task.checks],
            "logging_schema": LOGGING_SCHEMA,
        }
    )
