"""The embedded backend: bubblewrap, no daemon, as root or as an ordinary user."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Literal

from agentbench.core.command import MIB
from agentbench.core.errors import SandboxError, SandboxUnavailable
from agentbench.core.ids import new_ulid
from agentbench.sandbox import seccomp
from agentbench.sandbox.bwrap.arguments import Layout, bwrap_argv, check_workdir, environment
from agentbench.sandbox.bwrap.etc_folder import etc_folder
from agentbench.sandbox.bwrap.host_features import bwrap_version, tmpfs_has_user_attributes
from agentbench.sandbox.bwrap.host_user import in_initial_namespace, sandbox_uid
from agentbench.sandbox.bwrap.launch_params import Birth
from agentbench.sandbox.bwrap.sandbox import Box, Started
from agentbench.sandbox.bwrap.spawn.launch import Request
from agentbench.sandbox.bwrap.supervisor import Nursery
from agentbench.sandbox.cgroups import Cgroups
from agentbench.sandbox.environments import interpreter as interpreters
from agentbench.sandbox.environments.interpreter import Interpreter
from agentbench.sandbox.environments.layers import LayerStore, tree_bytes
from agentbench.sandbox.environments.prepare import Preparer
from agentbench.sandbox.memory_limit import MEMORY_NOTE, MemoryWatch
from agentbench.sandbox.protocol import LimitReport, Limits, Prepared, Sandbox, SandboxSpec, SetupPlan, SetupStep
from agentbench.sandbox.remedies import INSTALL_BWRAP, for_failed_start

NAME = "bwrap"
_OPEN_FILES = 16384
_DISABLES_USERNS = (0, 8)
_OWN_PROCESSES = 2
_COPIED_INODES = 200_000

WritableLayer = Literal["memory", "disk", "copies"]
"""Where sandboxes write: into a tmpfs or a folder of the host as the upper layer of an overlay, or into a copy."""


class BwrapBackend:
    """Implements `protocol.Backend`. One per process is enough; safe to use from several threads."""

    name = NAME

    def __init__(self, state: Path, *, writable_layer: WritableLayer | None = None) -> None:
        """
        `writable_layer`: None finds out what this host can do.

        Raises:
            SandboxUnavailable: bubblewrap is not installed.
            SandboxError: the state folder or the spawner cannot be had.
        """
        program = shutil.which("bwrap")
        if program is None:
            msg = "bubblewrap (bwrap) is not installed"
            raise SandboxUnavailable(msg, remedy=INSTALL_BWRAP)
        self.state = state
        self.uid = sandbox_uid()
        self._program = program
        self._userxattr = self.uid is None or not in_initial_namespace()
        in_memory = not self._userxattr or tmpfs_has_user_attributes()
        self._layer: WritableLayer = writable_layer or ("memory" if in_memory else "disk")
        self._lock = threading.Lock()
        self._interpreters: dict[str | None, Interpreter] = {}
        self._etc: dict[str, Path] = {}
        self._nursery = Nursery(state)
        self._memory = MemoryWatch()
        self._closed = False
        self._filter = seccomp.assemble()
        self.layers = LayerStore(state / "layers" / f"u{os.geteuid() if self.uid is None else self.uid}")
        self._preparer = Preparer(self)

    # --- the protocol -------------------------------------------------------------------------------------------

    def limits(self) -> LimitReport:
        has = self._nursery.cgroups.controllers
        notes = []
        if "memory" in has:
            notes.append(MEMORY_NOTE.format("the writable layer lives"))
        else:
            notes.append("memory: no cgroup for us here; the command server looks every 0.1 s and kills the largest")
        if "pids" not in has:
            notes.append("pids: held by RLIMIT_NPROC inside the sandbox's user namespace")
        if "cpu" not in has:
            notes.append("cpu: no cgroup for us here")
        if self._layer == "copies":
            notes.append("overlays are refused here: each sandbox starts from a copy, which takes time")
        if self._layer == "disk":
            notes.append("disk: this kernel's tmpfs cannot be an ordinary user's writable layer (Linux 6.6 can)")
        if not self._filter:
            notes.append("no system call filter for this architecture")
        return LimitReport(
            cpu="hard" if "cpu" in has else "absent",
            memory="hard" if "memory" in has else "monitored",
            pids="hard",
            disk="absent" if self._layer == "disk" else "hard",
            notes=tuple(notes),
        )

    def check(self, spec: SandboxSpec) -> None:
        check_workdir(spec.workdir)

    def prepare(self, plan: SetupPlan, spec: SandboxSpec, *, on_step: Callable[[SetupStep], None]) -> Prepared:
        check_workdir(spec.workdir)
        return self._preparer.prepare(plan, spec, on_step)

    def open(self, spec: SandboxSpec, prepared: Prepared | None) -> AbstractContextManager[Sandbox]:
        check_workdir(spec.workdir)
        return self._opened(spec, self._preparer.birth(spec, prepared))

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._nursery.close()
        self.layers.close()

    @property
    def copies(self) -> bool:
        """Sandboxes have no layers: their whole tree is a copy."""
        return self._layer == "copies"

    # --- for the preparer ---------------------------------------------------------------------------------------

    def interpreter(self, wanted: str | None) -> Interpreter:
        """
        Raises:
            SandboxUnavailable: none fits.
        """
        with self._lock:
            if wanted not in self._interpreters:
                self._interpreters[wanted] = interpreters.find(wanted)
            return self._interpreters[wanted]

    def private_folder(self) -> Path:
        """A folder that goes with this backend."""
        return self._living_nursery().folder

    def _living_nursery(self) -> Nursery:
        """A spawner that was killed took its sandboxes with it; later ones come from a new one.

        Raises:
            SandboxError: this backend is closed, or no spawner can be started.
        """
        with self._lock:
            if self._closed:
                raise SandboxError("the sandbox backend is closed")
            if not self._nursery.alive():
                self._nursery.close()
                self._nursery = Nursery(self.state)
            return self._nursery

    @contextlib.contextmanager
    def _opened(self, spec: SandboxSpec, birth: Birth) -> Iterator[Sandbox]:
        box = self.start(spec, birth)
        try:
            yield box
        finally:
            box.close()

    def start(self, spec: SandboxSpec, birth: Birth) -> Box:
        """
        Raises:
            SandboxUnavailable: it did not come up.
        """
        try:
            return self._start(spec, birth)
        except SandboxError as error:
            if "mount overlay" not in error.message or self.copies:
                raise SandboxUnavailable(error.message, remedy=for_failed_start(error.message)) from error
        self._layer = "copies"
        return self.start(spec, birth)

    def _start(self, spec: SandboxSpec, birth: Birth) -> Box:
        name = new_ulid().lower()
        nursery = self._living_nursery()
        python = birth.python or self.interpreter(spec.python)
        layout = Layout(
            bwrap=self._program,
            workdir=spec.workdir,
            python=python.executable,
            network=spec.network,
            folders=birth.folders,
            etc=self._etc_for(python),
            binds=[*((Path(root), root) for root in python.roots), *birth.binds]
            + [(mount.source.absolute(), mount.target) for mount in spec.mounts],
            server_options=_server_options(spec.limits, nursery.cgroups),
            seccomp=bool(self._filter),
            can_disable_userns=bwrap_version(self._program) >= _DISABLES_USERNS,
        )
        # Bubblewrap and the command server are two processes of their own beside what was asked for.
        held = replace(spec.limits, pids=spec.limits.pids + _OWN_PROCESSES)
        size = spec.limits.disk_mb * MIB + (sum(map(tree_bytes, birth.layers)) if self.copies else 0)
        plan = nursery.cgroups.plan(name, held, spec.limits.memory_mb * MIB + size)
        request = Request(
            id=name,
            cgroups=[{"dir": folder, "settings": list(items)} for folder, items in plan.settings.items()],
            evidence=list(plan.files.values()),
            uid=self.uid,
            userxattr=self._userxattr,
            copies=self.copies,
            sources=layout.sources(),
            layers=[str(path) for path in birth.layers],
            folders=list(birth.folders),
            size=size,
            inodes=spec.limits.inodes + (_COPIED_INODES if self.copies else 0),
            upper=str(self._disk_folder(nursery, name)) if self._layer == "disk" else "",
            limits=_resource_limits(spec.limits, on_disk=self._layer == "disk"),
            argv=bwrap_argv(layout),
            seccomp=self._filter,
        )
        missing = [source for source in [*request["sources"], *request["layers"]] if not os.path.exists(source)]
        if missing:
            raise SandboxError(f"cannot be made visible in a sandbox, it does not exist: {', '.join(missing)}")
        started = Started(
            name=name,
            spawned=nursery.spawner.spawn(request),
            files=plan.files,
            memory_bytes=spec.limits.memory_mb * MIB,
            server=interpreters.served_by(python),
        )
        box = Box(started, environment({**birth.env, **spec.env}), None if self.copies else birth.known)
        self._memory.add(box)
        return box

    def _disk_folder(self, nursery: Nursery, name: str) -> Path:
        folder = nursery.folder / name
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
    held = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_NOFILE, _OPEN_FILES)]
    if on_disk:
        held.append((resource.RLIMIT_FSIZE, limits.disk_mb * MIB))  # not the whole, but no single file beyond it
    return held


def _server_options(limits: Limits, cgroups: Cgroups) -> dict[str, str]:
    """What the command server holds itself where no cgroup does."""
    options = {}
    if "pids" not in cgroups.controllers:
        options["nproc"] = str(limits.pids + 1)
    if "memory" not in cgroups.controllers:
        options["memory"] = str(limits.memory_mb * MIB)
    return options
