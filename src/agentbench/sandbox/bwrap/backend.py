"""The bubblewrap backend: `protocol.Backend` without a daemon, as root or as an ordinary user."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

from agentbench.core.command import MIB
from agentbench.core.errors import SandboxError, SandboxUnavailable
from agentbench.core.ids import new_ulid
from agentbench.sandbox import seccomp
from agentbench.sandbox.bwrap.environments import BwrapEnvironments
from agentbench.sandbox.bwrap.etc_folder import SERVER_DIR, etc_folder
from agentbench.sandbox.bwrap.host_features import (
    bwrap_version,
    in_initial_namespace,
    sandbox_uid,
    tmpfs_has_user_attributes,
)
from agentbench.sandbox.bwrap.launch_params import BwrapOptions, LaunchParams, bwrap_argv, check_workdir, environment
from agentbench.sandbox.bwrap.sandbox import BwrapSandbox
from agentbench.sandbox.bwrap.spawn.child import SpawnRequest
from agentbench.sandbox.bwrap.supervisor import Supervisor
from agentbench.sandbox.cgroups import Cgroups
from agentbench.sandbox.environments import interpreter as interpreters
from agentbench.sandbox.environments.interpreter import Interpreter
from agentbench.sandbox.environments.layers import LayerStore, tree_bytes
from agentbench.sandbox.environments.prepare import Preparer
from agentbench.sandbox.host_watch import HostWatch
from agentbench.sandbox.memory_limit import MEMORY_NOTE, MemoryMonitor
from agentbench.sandbox.observation import is_wanted, server_options
from agentbench.sandbox.protocol import LimitReport, Limits, Prepared, Sandbox, SandboxSpec, SetupPlan, SetupStep
from agentbench.sandbox.remedies import INSTALL_BWRAP, start_failure_remedy

NAME = "bwrap"
_OPEN_FILES = 16384
_DISABLES_USERNS = (0, 8)
_OWN_PROCESSES = 2
_COPIED_INODES = 200_000

WritableLayer = Literal["memory", "disk", "copies"]
"""The place that sandboxes write to: an overlay whose upper layer is a tmpfs or a host folder, or a copy of the layers."""


class BwrapBackend:
    """Implements `protocol.Backend`. One per process is enough; it is safe to use from several threads."""

    name = NAME

    def __init__(self, state: Path, *, writable_layer: WritableLayer | None = None) -> None:
        """
        `writable_layer`: None picks the best one that this host supports.

        Raises:
            SandboxUnavailable: bubblewrap is not installed.
            SandboxError: the state folder cannot be written or the spawner cannot be started.
        """
        program = shutil.which("bwrap")
        if program is None:
            raise SandboxUnavailable("bubblewrap (bwrap) is not installed", remedy=INSTALL_BWRAP)
        self.state = state
        self.uid = sandbox_uid()
        self._program = program
        self._userxattr = self.uid is None or not in_initial_namespace()
        in_memory = not self._userxattr or tmpfs_has_user_attributes()
        self._layer: WritableLayer = writable_layer or ("memory" if in_memory else "disk")
        self._lock = threading.Lock()
        self._interpreters: dict[str | None, Interpreter] = {}
        self._etc: dict[str, Path] = {}
        self._supervisor = Supervisor(state)
        self._memory = MemoryMonitor()
        self._closed = False
        self._filter = seccomp.assemble()
        self.layers = LayerStore(state / "layers" / f"u{os.geteuid() if self.uid is None else self.uid}")
        self._environments = BwrapEnvironments(self)
        self._preparer = Preparer(NAME, self.layers, self._environments)

    def limits(self) -> LimitReport:
        controllers = self._supervisor.cgroups.controllers
        notes = []
        if "memory" in controllers:
            notes.append(MEMORY_NOTE.format("the writable layer is"))
        else:
            notes.append(
                "memory: no usable memory cgroup; the command server checks every 0.1 s and kills the largest process"
            )
        if "pids" not in controllers:
            notes.append("pids: enforced with RLIMIT_NPROC in the sandbox's user namespace")
        if "cpu" not in controllers:
            notes.append("cpu: no usable cpu cgroup")
        if self._layer == "copies":
            notes.append("overlay mounts are refused on this host; every sandbox starts from a copy, which is slower")
        if self._layer == "disk":
            notes.append(
                "disk: tmpfs cannot hold an ordinary user's writable layer on this kernel (Linux 6.6 or newer can)"
            )
        if not self._filter:
            notes.append("no system call filter for this CPU architecture")
        return LimitReport(
            cpu="hard" if "cpu" in controllers else "absent",
            memory="hard" if "memory" in controllers else "monitored",
            pids="hard",
            disk="absent" if self._layer == "disk" else "hard",
            notes=tuple(notes),
        )

    def check(self, spec: SandboxSpec) -> None:
        check_workdir(spec.workdir)
        if spec.python is not None:
            self.interpreter(spec.python)

    def prepare(self, plan: SetupPlan, spec: SandboxSpec, *, on_step: Callable[[SetupStep], None]) -> Prepared:
        check_workdir(spec.workdir)
        return self._preparer.prepare(plan, spec, on_step)

    @contextlib.contextmanager
    def open(self, spec: SandboxSpec, prepared: Prepared | None) -> Iterator[Sandbox]:
        check_workdir(spec.workdir)
        if prepared is None:
            params = self._environments.without_setup(spec)
        else:
            ready = self._preparer.get(prepared)
            params = LaunchParams(layers=(ready.layer.tree,), known=ready.entries)
        with contextlib.closing(self.start(spec, params)) as sandbox:
            yield sandbox

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._supervisor.close()
        self.layers.close()

    @property
    def copies(self) -> bool:
        """Whether sandboxes start from a copy of their layers instead of an overlay."""
        return self._layer == "copies"

    def interpreter(self, wanted: str | None) -> Interpreter:
        """
        Raises:
            SandboxUnavailable: no installed interpreter matches.
        """
        with self._lock:
            if wanted not in self._interpreters:
                self._interpreters[wanted] = interpreters.find(wanted)
            return self._interpreters[wanted]

    def private_folder(self) -> Path:
        """Return a folder that is removed with this backend."""
        return self._live_supervisor().folder

    def _live_supervisor(self) -> Supervisor:
        """Return the supervisor, replaced if its spawner was killed (which ended its sandboxes too).

        Raises:
            SandboxError: this backend is closed, or the spawner cannot be started.
        """
        with self._lock:
            if self._closed:
                raise SandboxError("the sandbox backend is closed")
            if not self._supervisor.alive():
                self._supervisor.close()
                self._supervisor = Supervisor(self.state)
            return self._supervisor

    def start(self, spec: SandboxSpec, params: LaunchParams) -> BwrapSandbox:
        """
        Raises:
            SandboxUnavailable: the sandbox did not start.
        """
        try:
            return self._start(spec, params)
        except SandboxError as error:
            if "mount overlay" not in error.message or self.copies:
                raise SandboxUnavailable(error.message, remedy=start_failure_remedy(error.message)) from error
        self._layer = "copies"
        return self.start(spec, params)

    def _start(self, spec: SandboxSpec, params: LaunchParams) -> BwrapSandbox:
        name = new_ulid().lower()
        host = HostWatch(self.state)
        supervisor = self._live_supervisor()
        python = params.python or self.interpreter(spec.python)
        options = BwrapOptions(
            bwrap=self._program,
            workdir=spec.workdir,
            python=python.executable,
            network=spec.network,
            folders=params.folders,
            etc=self._etc_for(python),
            binds=[*((Path(root), root) for root in python.roots), *params.binds]
            + [(mount.source.absolute(), mount.target) for mount in spec.mounts],
            server_options=_server_options(spec, supervisor.cgroups),
            seccomp=bool(self._filter) and not is_wanted(spec.phase),
            can_disable_userns=bwrap_version(self._program) >= _DISABLES_USERNS,
        )
        # Bubblewrap and the command server are two processes on top of the limit.
        limits = replace(spec.limits, pids=spec.limits.pids + _OWN_PROCESSES)
        size = spec.limits.disk_mb * MIB + (sum(map(tree_bytes, params.layers)) if self.copies else 0)
        plan = supervisor.cgroups.plan(name, limits, spec.limits.memory_mb * MIB + size)
        request = SpawnRequest(
            id=name,
            cgroups=[{"dir": folder, "settings": list(items)} for folder, items in plan.settings.items()],
            evidence=list(plan.files.values()),
            uid=self.uid,
            userxattr=self._userxattr,
            copies=self.copies,
            sources=options.sources(),
            layers=[str(path) for path in params.layers],
            folders=list(params.folders),
            size=size,
            inodes=spec.limits.inodes + (_COPIED_INODES if self.copies else 0),
            upper=str(self._disk_folder(supervisor, name)) if self._layer == "disk" else "",
            limits=_resource_limits(spec.limits, on_disk=self._layer == "disk"),
            argv=bwrap_argv(options),
            seccomp=self._filter,
        )
        missing = [source for source in [*request["sources"], *request["layers"]] if not os.path.exists(source)]
        if missing:
            raise SandboxError(f"cannot mount into the sandbox, no such file or folder: {', '.join(missing)}")
        sandbox = BwrapSandbox(
            supervisor.spawner.spawn(request),
            plan.files,
            spec.limits.memory_mb * MIB,
            server=interpreters.describe(python),
            known=None if self.copies else params.known,
            host=host,
        )
        sandbox.set_environment(environment({**params.env, **spec.env}))
        self._memory.add(sandbox)
        return sandbox

    def _disk_folder(self, supervisor: Supervisor, name: str) -> Path:
        folder = supervisor.folder / name
        folder.mkdir(mode=0o755)
        if self.uid is not None:
            os.chown(folder, self.uid, self.uid)
        return folder

    def _etc_for(self, python: Interpreter) -> Path:
        with self._lock:
            if python.identity not in self._etc:
                self._etc[python.identity] = etc_folder(self.state, python)
            return self._etc[python.identity]


def _resource_limits(limits: Limits, *, on_disk: bool) -> list[tuple[int, int]]:
    own = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    # At most half of what the harness may open, see `supervisor._raise_open_files_limit`.
    open_files = _OPEN_FILES if own == resource.RLIM_INFINITY else min(_OPEN_FILES, own // 2)
    resource_limits = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_NOFILE, open_files)]
    if on_disk:
        resource_limits.append((resource.RLIMIT_FSIZE, limits.disk_mb * MIB))  # per file, not in total
    return resource_limits


def _server_options(spec: SandboxSpec, cgroups: Cgroups) -> dict[str, str]:
    """Return how the command server observes programs, and the limits that it enforces because no cgroup does."""
    options = server_options(spec.phase, SERVER_DIR)
    if "pids" not in cgroups.controllers:
        options["nproc"] = str(spec.limits.pids + 1)
    if "memory" not in cgroups.controllers:
        options["memory"] = str(spec.limits.memory_mb * MIB)
    return options
