"""Prepared environments: setup runs once, its whole result is frozen, everything later starts copy-on-write from it."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from agentbench.core.canonical import Json, digest
from agentbench.core.errors import SandboxError, SetupFailed
from agentbench.core.ids import new_ulid, now_iso
from agentbench.sandbox.bwrap.etc_folder import SETUP_FOLDERS
from agentbench.sandbox.bwrap.launch_params import LaunchParams
from agentbench.sandbox.bwrap.sandbox import BwrapSandbox
from agentbench.sandbox.bwrap.spawn.main import remove_tree
from agentbench.sandbox.environments import inventory
from agentbench.sandbox.environments import prepared_metadata as preserved
from agentbench.sandbox.environments import python_layer as pythons
from agentbench.sandbox.environments.cache import DEFAULT_BYTES
from agentbench.sandbox.environments.failed_setups import Failures, subject
from agentbench.sandbox.environments.freeze import Freezer, folder
from agentbench.sandbox.environments.interpreter import Interpreter, served_by
from agentbench.sandbox.environments.layers import Layer, LayerStore, measure
from agentbench.sandbox.environments.package_settings import PackageSettings, host_settings, setup_environment
from agentbench.sandbox.environments.setup import SetupRun, secret_guard
from agentbench.sandbox.protocol import Limits, Phase, Prepared, SandboxSpec, SetupPlan, SetupStep
from agentbench.tree.entry import Entry
from agentbench.tree.folder import FolderTree

SCHEMA = 1
"""Part of every key: raise it when frozen layers of an older shape must not be found."""
_FOLDERS = ("workspace", "home", "env")
_BASE_LIMITS = Limits(cpus=4, memory_mb=2048, pids=256, disk_mb=1024)
_RESOLV = Path("/etc/resolv.conf")


class Starter(Protocol):
    """What preparing needs of its backend."""

    state: Path
    uid: int | None
    layers: LayerStore

    @property
    def copies(self) -> bool: ...

    def interpreter(self, wanted: str | None) -> Interpreter: ...

    def private_folder(self) -> Path: ...

    def start(self, spec: SandboxSpec, params: LaunchParams) -> BwrapSandbox: ...


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What setup did to a build."""

    steps: tuple[SetupStep, ...] = ()
    before: Mapping[bytes, Entry] = field(default_factory=dict)
    """The workspace as it was."""
    registries: tuple[str, ...] = ()


class Preparer:
    def __init__(self, backend: Starter) -> None:
        self._backend = backend
        self._lock = threading.Lock()
        self._key_locks: dict[str, threading.Lock] = {}
        self._ready: dict[str, tuple[Prepared, Layer, Mapping[bytes, Entry]]] = {}
        self._failures = Failures(backend.layers, "prepared")
        self._bases: dict[str, Layer] = {}

    def prepare(self, plan: SetupPlan, spec: SandboxSpec, on_step: Callable[[SetupStep], None]) -> Prepared:
        try:
            return self._prepare(plan, spec, on_step)
        except OSError as error:
            raise SandboxError(f"an environment could not be prepared: {error}") from error

    def _prepare(self, plan: SetupPlan, spec: SandboxSpec, on_step: Callable[[SetupStep], None]) -> Prepared:
        key = self._key(plan, spec)
        with self._locked(key):
            # `fresh` means "not from before this backend": what this one built or tried itself is not repeated.
            self._failures.repeat_own(key, on_step)
            if key in self._ready:
                return replace(self._ready[key][0], cached=True)
            base = self._base(self._backend.interpreter(spec.python))
            with self._backend.layers.building("prepared", key):
                layer = None if plan.fresh else self._backend.layers.find("prepared", key, needs=preserved.KEYS)
                cached = layer is not None
                if layer is None:
                    if not plan.fresh:
                        self._failures.repeat_older(subject(key, plan, spec, host_settings().addresses()), on_step)
                    layer = self._build(key, plan, spec, base, on_step)
                    self._failures.forget(key)
            prepared, known = preserved.load(layer, key=plan.key, cached=cached)
            self._ready[key] = (prepared, layer, known)
            return prepared

    def launch_params(self, spec: SandboxSpec, prepared: Prepared | None) -> LaunchParams:
        """What a sandbox of a later phase starts from.

        Raises:
            SandboxError: the environment is not one of this backend's.
        """
        if prepared is None:
            try:
                return LaunchParams(layers=(self._base(self._backend.interpreter(spec.python)).tree,))
            except OSError as error:
                raise SandboxError(f"the layer of an interpreter could not be made: {error}") from error
        ready = self._ready.get(prepared.details.get("layer", ""))
        if ready is None:
            raise SandboxError(f"the environment {prepared.key} was not prepared by this backend")
        return LaunchParams(layers=(ready[1].tree,), known=ready[2])

    # --- building -----------------------------------------------------------------------------------------------

    def _build(
        self, key: str, plan: SetupPlan, spec: SandboxSpec, base: Layer, on_step: Callable[[SetupStep], None]
    ) -> Layer:
        building = self._backend.layers.new_build("prepared", key)
        self._lay_out(building / "tree", plan.source, base)
        outcome = _Outcome()
        if plan.commands or plan.capture:
            settings = host_settings()
            run = SetupRun(plan, settings.secrets(), on_step)
            try:
                before = _entries(building / "tree/workspace")
                self._run_setup(run, plan, spec, settings, building / "tree")
            except SetupFailed as error:
                self._failures.note(subject(key, plan, spec, settings.addresses()), run.steps, error)
                raise
            outcome = _Outcome(tuple(run.steps), before, tuple(settings.addresses()))
        layer = self._freeze(key, plan, spec, building, outcome)
        self._backend.layers.prune(max_bytes=DEFAULT_BYTES)
        return layer

    def _lay_out(self, tree: Path, source: Path, base: Layer) -> None:
        """R and the interpreter's environment, as the sandbox's user's own files."""
        freezer = Freezer(self._backend.uid)
        for name in _FOLDERS:
            (tree / name).mkdir()
            freezer.own(tree / name)
        with folder(source) as original, folder(tree / "workspace") as copy:
            freezer.copy(original, copy)
        with folder(base.tree / "env") as original, folder(tree / "env") as copy:
            freezer.link(original, copy)

    def _run_setup(
        self, run: SetupRun, plan: SetupPlan, spec: SandboxSpec, settings: PackageSettings, tree: Path
    ) -> None:
        """Run the commands and lay what they wrote over the build."""
        downloads = self._downloads(plan)
        with self._setup_files(settings, network=spec.network) as binds:
            params = LaunchParams(
                layers=(tree, downloads),
                folders=(*_FOLDERS, "downloads"),
                binds=binds,
                env=setup_environment(settings),
            )
            box = self._backend.start(replace(spec, phase=Phase.SETUP), params)
            try:
                run.run(box)
                box.kill_processes()
                freezer = Freezer(self._backend.uid, look=secret_guard(plan.secrets))
                self._take_over(box, tree, freezer)
                self._keep_downloads(box.trees[1], downloads)
            finally:
                box.close()

    def _take_over(self, box: BwrapSandbox, tree: Path, freezer: Freezer) -> None:
        """Make the build what setup left."""
        merged, upper = box.trees
        for name in _FOLDERS:
            if self._backend.copies:
                remove_tree(str(tree / name))
                (tree / name).mkdir()
                with folder(name, below=merged) as left, folder(tree / name) as target:
                    freezer.copy(left, target)
            else:
                with folder(name, below=upper) as left, folder(tree / name) as target:
                    freezer.apply(left, target)

    def _freeze(self, key: str, plan: SetupPlan, spec: SandboxSpec, building: Path, outcome: _Outcome) -> Layer:
        tree = building / "tree"
        python = self._backend.interpreter(spec.python)
        after = _entries(tree / "workspace")
        entries = list(after.values())
        changed = sorted(path for path, entry in outcome.before.items() if after.get(path) != entry)
        total, files = measure(tree)
        meta: dict[str, Json] = {
            "label": plan.key,
            "created": now_iso(),
            "bytes": total,
            "files": files,
            "digest": inventory.environment_digest(entries, tree, python.full),
            "steps": preserved.dump_steps(outcome.steps),
            "entries": preserved.dump_entries(entries),
            "changed": preserved.dump_paths(changed),
            "lockfiles": inventory.lockfiles(entries),
            "details": {
                "layer": key,
                "python": python.full,
                "interpreter": python.executable,
                "server": served_by(python),
                "packages": "\n".join(inventory.packages(tree / "env")),
                "registries": "\n".join(outcome.registries),
            },
        }
        return self._backend.layers.commit("prepared", key, building, meta)

    # --- what setup sees ----------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _setup_files(self, settings: PackageSettings, *, network: bool) -> Iterator[list[tuple[Path, str]]]:
        """Index configuration, certificates, name lookup; gone when setup is."""
        private = self._backend.private_folder() / f"setup-{new_ulid().lower()}"
        private.mkdir(mode=0o700)
        config = private / "pip.conf"
        try:
            config.write_text(settings.pip_conf())
            config.chmod(0o644)  # nobody gets through the folder; the sandbox's user gets the file itself, bound
            binds = [(config, "/etc/pip.conf")]
            binds += [(place, str(place)) for name in SETUP_FOLDERS if (place := Path("/etc") / name).is_dir()]
            binds += [(path, str(path)) for path in settings.folders()]
            if network and _RESOLV.exists():
                binds.append((_RESOLV.resolve(), "/etc/resolv.conf"))
            yield binds
        finally:
            config.unlink(missing_ok=True)
            private.rmdir()

    def _downloads(self, plan: SetupPlan) -> Path:
        """Where pip's downloads of this contract are kept. Not shared between contracts: a setup could leave there what
        another one would then install.
        """
        uid = self._backend.uid
        name = digest([os.geteuid() if uid is None else uid, plan.key]).removeprefix("sha256:")[:32]
        root = self._backend.state / "downloads" / name
        (root / "downloads").mkdir(parents=True, exist_ok=True)
        Freezer(uid).own(root / "downloads")
        return root

    def _keep_downloads(self, upper: int, root: Path) -> None:
        """Take over what pip downloaded for later setups. Never wheels that it built: those are code a setup made."""
        with folder("downloads", below=upper) as found:
            for name in sorted({"http-v2", "http"}.intersection(os.listdir(found))):
                (root / "downloads" / name).mkdir(exist_ok=True)
                with folder(name, below=found) as new, folder(root / "downloads" / name) as kept:
                    Freezer(self._backend.uid).add_missing(new, kept)
                Freezer(self._backend.uid).own(root / "downloads" / name)

    # --- the interpreter's own layer ----------------------------------------------------------------------------

    def _base(self, python: Interpreter) -> Layer:
        key = digest([SCHEMA, python.identity]).removeprefix("sha256:")[:32]
        with self._locked(f"python {key}"):
            if key not in self._bases:
                with self._backend.layers.building("python", key):
                    layer = self._backend.layers.find("python", key)
                    self._bases[key] = layer if layer is not None else self._build_base(key, python)
            return self._bases[key]

    def _build_base(self, key: str, python: Interpreter) -> Layer:
        building = self._backend.layers.new_build("python", key)
        freezer = Freezer(self._backend.uid)
        for name in _FOLDERS:
            (building / "tree" / name).mkdir()
            freezer.own(building / "tree" / name)
        visible = pythons.binds(python)
        spec = SandboxSpec(Phase.SETUP, _BASE_LIMITS)
        box = self._backend.start(spec, LaunchParams(layers=(), binds=visible, python=python))
        try:
            pip = pythons.build(box, python, visible)
            box.kill_processes()
            with folder("env", below=box.trees[1]) as upper, folder(building / "tree/env") as target:
                freezer.copy(upper, target)
        finally:
            box.close()
        total, files = measure(building / "tree")
        meta: dict[str, Json] = {"label": f"python {python.full}", "pip": pip, "bytes": total, "files": files}
        return self._backend.layers.commit("python", key, building, meta)

    # --- identity and locks -------------------------------------------------------------------------------------

    def _key(self, plan: SetupPlan, spec: SandboxSpec) -> str:
        """The contract's key, and what of this machine the result depends on."""
        parts: dict[str, Json] = {
            "schema": SCHEMA,
            "plan": plan.key,
            "python": self._backend.interpreter(spec.python).identity,
            "workdir": spec.workdir,
            "env": dict(spec.env),
            "network": spec.network,
            "commands": list(plan.commands),
            "capture": list(plan.capture),
        }
        return digest(parts).removeprefix("sha256:")[:32]

    @contextlib.contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        with self._lock:
            lock = self._key_locks.setdefault(name, threading.Lock())
        with lock:
            yield


def _entries(workspace: Path) -> dict[bytes, Entry]:
    with FolderTree.at(workspace) as tree:
        return {entry.path: entry for entry in tree.entries()}
