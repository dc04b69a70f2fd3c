"""The lab: resources that all attempts of one process share.

Owns sandbox backends, snapshots, prepared tasks, installed agent programs and models.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from agentbench.acceptance.grading_context import GradingContext
from agentbench.agents.cli.names import is_third_party
from agentbench.contract.identity import identify
from agentbench.contract.load import LoadedTask
from agentbench.contract.lock import Identities
from agentbench.core.canonical import Json, digest
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError, Interrupted, SandboxUnavailable, WorkspaceError
from agentbench.core.problems import Problems
from agentbench.execution.environment_facts import EnvironmentFacts, read_environment_facts
from agentbench.execution.known_packages import cached_packages
from agentbench.execution.models import Models
from agentbench.execution.task_bundle import pack_repository
from agentbench.record.attempt_folder import AttemptFolder
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
from agentbench.tree.entry import tree_digest
from agentbench.workspace.secrets.scan import RepositorySecrets, repository_secrets
from agentbench.workspace.source.snapshot import Snapshot, Snapshots

if TYPE_CHECKING:
    from agentbench.agents.cli.layer import ProgramLayer
    from agentbench.execution.attempt.judge import JudgeChoice
    from agentbench.execution.operator import PendingQuestion
    from agentbench.tools.operator import Operator

LOGGING_SCHEMA = 1
_STRENGTHS: tuple[Strength, ...] = ("absent", "monitored", "hard")


@dataclass(frozen=True, slots=True)
class PreparedTask:
    """A task after setup: its base repository, its prepared environment, and the backend that opens sandboxes on it."""

    task: LoadedTask
    ids: Identities
    snapshot: Snapshot
    environment: Prepared
    backend: Backend
    limits: LimitReport
    base_digest: str
    """Digest of the workspace after setup, which patches are extracted against."""
    facts: EnvironmentFacts
    known_packages: tuple[str, ...] | None = None
    """Python packages that the task knows; None if they cannot be known."""

    def spec(self, phase: Phase, *, mounts: tuple[Mount, ...] = ()) -> SandboxSpec:
        return sandbox_spec(self.task, phase, mounts=mounts)


class Lab:
    """Shared by worker threads. Each task is prepared once; other attempts at it wait meanwhile."""

    def __init__(
        self,
        *,
        sandbox: str = "auto",
        state: Path | None = None,
        fresh_setup: bool = False,
        models: Models | None = None,
        operator: bool = False,
        judge: JudgeChoice | None = None,
    ) -> None:
        self.state = state or default_state()
        self.cancelled = threading.Event()
        self.operator = operator
        """Whether a person answers questions of this study (`ab operator`)."""
        self.on_question: Callable[[Path, PendingQuestion], None] = lambda _run, _question: None
        """Called when an attempt waits for a person."""
        self.yield_worker: Callable[[], AbstractContextManager[None]] = nullcontext
        """Entered by an attempt that waits for a person, so that another can run meanwhile."""
        self.open_operator: Callable[[AttemptFolder], Operator] | None = None
        """Opens the way to a person who is not at this machine; None if questions are files in the run directory."""
        self.judge = judge
        """The model that judges finished attempts, if any."""
        self.scorers: tuple[str, ...] = ()
        """Scorers of plug-ins that the run adds to those of its tasks."""
        self.monitors: tuple[str, ...] = ()
        """Monitors of plug-ins that read the log of each agent."""
        self.executor = "local"
        """Name of the executor, for the manifest."""
        self.models = models or Models()
        self.sandbox = sandbox
        self.fresh_setup = fresh_setup
        self._lock = threading.Lock()
        self._backends: dict[str, Backend] = {}
        self._task_locks: dict[str, threading.Lock] = {}
        self._prepared: dict[str, PreparedTask] = {}
        self._programs: dict[tuple[str, str], ProgramLayer] = {}
        self._program_lock = threading.Lock()
        self.snapshots = Snapshots(self.state / "snapshots", stop=self.cancelled)
        self._open = ExitStack()

    @cached_property
    def grading_cache(self) -> Path:
        """Cache folder for baselines, surveys of base repositories, and facts about environments."""
        folder = self.state / "oracle"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WorkspaceError(f"cannot write the state folder {folder}: {error.strerror}") from error
        return folder

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close every sandbox that this lab opened."""
        self._open.close()
        self.models.close()

    def cancel(self) -> None:
        """Stop everything now: running attempts end as interrupted."""
        with self._lock:  # a backend that is being opened is closed as well
            self.cancelled.set()
        self.close()

    def backend(self, task: LoadedTask) -> Backend:
        """Return the backend that the task needs, opening it at its first use.

        Raises:
            SandboxUnavailable: there is none on this machine.
            Interrupted: this lab was cancelled.
        """
        environment = task.task.environment
        needs_image = bool(environment.docker_image or environment.dockerfile)
        key = self.sandbox if self.sandbox != "auto" else "docker" if needs_image else "bwrap"
        with self._lock:
            if self.cancelled.is_set():
                raise Interrupted("interrupted")
            if key not in self._backends:
                backend = open_backend(self.sandbox, state=self.state, needs_image=needs_image)
                self._backends[key] = backend
                self._open.callback(backend.close)
            return self._backends[key]

    def require_all(self, tasks: Sequence[LoadedTask]) -> None:
        """Reject tasks that cannot run on this machine, with every reason.

        Raises:
            InputError, SandboxUnavailable: as `require`.
        """
        problems = Problems()
        for task in {task.id: task for task in tasks}.values():
            problems.collect(partial(self.require, task))
        problems.raise_all()

    def require(self, task: LoadedTask) -> None:
        """Reject a task that cannot run here, before anything runs.

        Raises:
            SandboxUnavailable: no backend, or one that lacks the task's Python or cannot enforce a limit that it requires.
            InputError: an unusable network policy, a secret that is not set, or a frozen scorer that cannot run.
        """
        if task.scorers:
            from agentbench.contract.scorers import scorer_spec  # noqa: PLC0415 - few tasks have scorers

            for scorer in task.scorers:
                scorer_spec(scorer)
        backend = self.backend(task)
        try:
            backend.check(sandbox_spec(task, Phase.AGENT))
        except SandboxUnavailable as error:
            raise SandboxUnavailable(f"task {task.id}: {error.message}", remedy=error.remedy) from error
        declared_secrets(task)
        enforced = backend.limits()
        for name, have in enforced.strengths().items():
            need = getattr(task.task.policy.require_limits, name)
            if _STRENGTHS.index(have) < _STRENGTHS.index(need) and name not in enforced.on_request:
                msg = f"task {task.id} requires a {need} {name} limit; backend {backend.name} offers: {have}"
                raise SandboxUnavailable(msg, remedy="run `ab doctor` to see which limits this machine can enforce")
        environment = task.task.environment
        if task.task.policy.dependencies.registries and environment.dockerfile:
            msg = f"task {task.id}: policy.dependencies.registries cannot be enforced while a Dockerfile is built"
            raise InputError(msg, remedy="use docker_image and install in setup.commands, or remove the registries")
        if environment.network_policy == "always":
            from agentbench.execution.proxy.allow_list import AllowList  # noqa: PLC0415 - few tasks have network

            AllowList.of(environment.network_allow, place=f"task {task.id}: environment.network_allow")
            if not environment.network_allow:
                msg = f"task {task.id}: network_policy 'always' needs a non-empty network_allow"
                raise InputError(msg, remedy="list the hosts that the agent needs, or use network_policy: setup_only")

    def repository_secrets(self, task: LoadedTask) -> RepositorySecrets:
        """Return the secrets in the files of the task's base repository. It is searched once.

        Raises:
            SourceError: the task is at fault.
            WorkspaceError: the harness failed.
        """
        return self.snapshot_secrets(self.snapshots.materialize(task))

    def snapshot_secrets(self, snapshot: Snapshot) -> RepositorySecrets:
        """Return the secrets in the files of a base repository.

        Raises:
            WorkspaceError: the harness failed.
        """
        with self._lock:
            search_lock = self._task_locks.setdefault(f"secrets of {snapshot.digest}", threading.Lock())
        with search_lock:
            return repository_secrets(snapshot, self.state / "snapshots" / "secrets")

    def packed_repository(self, snapshot: Snapshot) -> bytes:
        """Return a base repository as it is packed with every attempt. It is packed once.

        Raises:
            RecordError: it cannot be packed.
        """
        name = snapshot.digest.removeprefix("sha256:")
        return pack_repository(snapshot.folder, self.state / "snapshots" / "packed" / f"{name}.tar.gz")

    def prepare(self, task: LoadedTask, on_step: Callable[[SetupStep], None] = lambda _step: None) -> PreparedTask:
        """Prepare a task, or return it from memory or from the cache.

        Raises:
            SourceError, SetupFailed: the task is at fault.
            SandboxError, WorkspaceError: harness errors.
        """
        ids = identify(task)
        return self._prepare_once(task, ids, lambda: self.snapshots.materialize(task), on_step)

    def set_up(self, task: LoadedTask, on_step: Callable[[SetupStep], None] = lambda _step: None) -> Prepared:
        """Run a task's setup, or find its result in the cache. The environment is not ready for attempts: see `prepare`.

        Raises:
            SourceError, SetupFailed: the task is at fault.
            SandboxError, WorkspaceError: harness errors.
        """
        return self._set_up(task, identify(task), self.snapshots.materialize(task), on_step)

    def prepare_snapshot(self, task: LoadedTask, ids: Identities, snapshot: Snapshot) -> PreparedTask:
        """Prepare a task on an existing snapshot, with identities that are known already (for a replay).

        Raises:
            SetupFailed: the task is at fault.
            SandboxError, WorkspaceError: harness errors.
        """
        return self._prepare_once(task, ids, lambda: snapshot, lambda _step: None)

    def _prepare_once(
        self,
        task: LoadedTask,
        ids: Identities,
        snapshot: Callable[[], Snapshot],
        on_step: Callable[[SetupStep], None],
    ) -> PreparedTask:
        with self._lock:
            task_lock = self._task_locks.setdefault(ids.task_digest, threading.Lock())
        with task_lock:
            if ids.task_digest not in self._prepared:
                self._prepared[ids.task_digest] = self._prepare(task, ids, snapshot(), on_step)
            # Tasks with the same digest can differ in id, reference and folder.
            return replace(self._prepared[ids.task_digest], task=task)

    def grading_context(self, prepared: PreparedTask) -> GradingContext:
        """Return the context in which patches are graded on a prepared task, without a log."""
        return GradingContext(
            backend=prepared.backend,
            spec=prepared.spec(Phase.GRADING),
            prepared=prepared.environment,
            loaded=prepared.task,
            cache=self.grading_cache,
            known_packages=prepared.known_packages,
            cancelled=self.cancelled,
        )

    def program(
        self, agent: str, task: LoadedTask, on_step: Callable[[SetupStep], None] = lambda _step: None
    ) -> ProgramLayer | None:
        """Install the agent's program for the sandboxes of a task. Return None if the agent is not a program.

        Raises:
            SandboxUnavailable: it cannot be installed here.
        """
        if not is_third_party(agent):
            return None
        from agentbench.agents.cli.agent import profile_of  # noqa: PLC0415 - few runs run such programs
        from agentbench.agents.cli.layer import install  # noqa: PLC0415

        profile = profile_of(agent)
        if profile is None:
            return None
        environment = task.task.environment
        environment_key = digest(
            [environment.python, environment.docker_image, environment.dockerfile, str(task.folder)]
        )
        with self._program_lock:
            if (agent, environment_key) not in self._programs:
                like = sandbox_spec(task, Phase.SETUP)
                layer = install(profile, self.backend(task), like, self.state, on_step=on_step)
                self._programs[agent, environment_key] = layer
            return self._programs[agent, environment_key]

    def _set_up(
        self, task: LoadedTask, ids: Identities, snapshot: Snapshot, on_step: Callable[[SetupStep], None]
    ) -> Prepared:
        backend = self.backend(task)
        setup = task.task.setup
        registries = task.task.policy.dependencies.registries
        key: dict[str, Json] = {"setup": ids.setup_key, "snapshot": snapshot.digest}
        if registries:
            key["registries"] = list(registries)
        plan = SetupPlan(
            key=digest(key),
            source=snapshot.folder,
            commands=setup.commands,
            capture=setup.capture,
            timeout_sec=setup.timeout_sec,
            secrets=declared_secrets(task),
            fresh=self.fresh_setup,
            repository=snapshot.digest,
        )
        spec = sandbox_spec(task, Phase.SETUP)
        if registries and spec.network and setup.commands:
            from agentbench.execution.setup_network import SetupNetwork  # noqa: PLC0415 - few tasks restrict their registries

            with SetupNetwork(self.state, registries, setup.timeout_sec) as network:
                return backend.prepare(replace(plan, network=network), network.restrict(spec), on_step=on_step)
        return backend.prepare(plan, spec, on_step=on_step)

    def _prepare(
        self, task: LoadedTask, ids: Identities, snapshot: Snapshot, on_step: Callable[[SetupStep], None]
    ) -> PreparedTask:
        backend, environment = self.backend(task), self._set_up(task, ids, snapshot, on_step)
        facts = read_environment_facts(backend, sandbox_spec(task, Phase.AGENT), environment, self.grading_cache)
        base_digest = tree_digest(environment.base_tree.entries())
        return PreparedTask(
            task=task,
            ids=ids,
            snapshot=snapshot,
            environment=environment,
            backend=backend,
            limits=enforced_limits(backend, task),
            base_digest=base_digest,
            facts=facts,
            known_packages=cached_packages(task, environment, facts, base_digest, self.grading_cache),
        )


def sandbox_spec(task: LoadedTask, phase: Phase, *, mounts: tuple[Mount, ...] = ()) -> SandboxSpec:
    """Describe the task's sandbox in one phase. Only setup can have network, and only if the task asks for it."""
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
    """Read the secrets that a task declares for its setup from the host's environment.

    Raises:
        InputError: a variable is not set.
    """
    values = {}
    for name in task.task.environment.secrets:
        if name not in os.environ:
            msg = f"task {task.id} needs the secret {name}, but the environment variable {name} is not set"
            raise InputError(msg, remedy=f"set it: export {name}=…")
        values[name] = os.environ[name]
    return values


def enforced_limits(backend: Backend, task: LoadedTask) -> LimitReport:
    """Report how strongly limits are enforced for this task, which can ask for more than the backend's default."""
    report = backend.limits()
    if task.task.policy.require_limits.disk == "hard" and "disk" in report.on_request:
        return replace(report, disk="hard")
    return report


def config_class(task: LoadedTask, backend: Backend) -> str:
    """Digest everything that attempts must share to be comparable: sandbox limits, time limits, logging schema."""
    environment, limits = task.task.environment, enforced_limits(backend, task)
    return digest(
        {
            "backend": backend.name,
            "enforced": limits.strengths(),
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
