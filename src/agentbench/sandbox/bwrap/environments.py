"""Environments of the bubblewrap backend: folders that are frozen as layers, on top of an interpreter's own layer."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agentbench.core.canonical import Json, digest
from agentbench.core.errors import SandboxError
from agentbench.core.package_settings import PackageSettings
from agentbench.sandbox.bwrap.etc_folder import SETUP_FOLDERS
from agentbench.sandbox.bwrap.launch_params import LaunchParams
from agentbench.sandbox.bwrap.sandbox import BwrapSandbox
from agentbench.sandbox.bwrap.spawn.main import remove_tree
from agentbench.sandbox.environments import inventory, python_layer
from agentbench.sandbox.environments.freeze import Freezer, open_folder
from agentbench.sandbox.environments.interpreter import Interpreter, describe
from agentbench.sandbox.environments.layers import Layer, measure
from agentbench.sandbox.environments.prepare import SCHEMA, Build, KeyedLocks, SetupResult, changed_paths
from agentbench.sandbox.environments.setup import pip_conf, secret_scanner
from agentbench.sandbox.layout import DOWNLOADS
from agentbench.sandbox.protocol import Limits, Phase, SandboxSpec, SetupPlan
from agentbench.tree.entry import Entry
from agentbench.tree.folder import FolderTree

if TYPE_CHECKING:
    from agentbench.sandbox.bwrap.backend import BwrapBackend

_FOLDERS = ("workspace", "home", "env")
_BASE_LIMITS = Limits(cpus=4, memory_mb=2048, pids=256, disk_mb=1024)
_RESOLV = Path("/etc/resolv.conf")


class BwrapEnvironments:
    """Implements `prepare.EnvironmentBuilder`."""

    def __init__(self, backend: BwrapBackend) -> None:
        self._backend = backend
        self._locks = KeyedLocks()
        self._bases: dict[str, Layer] = {}

    def identity(self, spec: SandboxSpec, *, fresh: bool) -> Mapping[str, Json]:
        del fresh  # an interpreter's layer is built again after every failure
        return {"python": self._backend.interpreter(spec.python).identity}

    def build(self, build: Build) -> SetupResult:
        python = self._backend.interpreter(build.spec.python)
        self._fill(build.tree, build.plan.source, self._base(python))
        before: Mapping[bytes, Entry] = {}
        if build.plan.commands or build.plan.capture:
            before = _entries(build.tree / "workspace")
            self._run_setup(build)
        entries = list(_entries(build.tree / "workspace").values())
        size, files = measure(build.tree)
        return SetupResult(
            entries=entries,
            changed=changed_paths(before, entries),
            digest=inventory.environment_digest(entries, build.tree, python.full),
            packages=inventory.packages(build.tree / "env"),
            bytes=size,
            files=files,
            details={"python": python.full, "interpreter": python.executable, "server": describe(python)},
        )

    def is_usable(self, layer: Layer) -> bool:
        del layer  # the store has already compared it with its recorded size
        return True

    def remove_unused(self) -> None:
        """Do nothing: this backend keeps nothing outside the layer store."""

    def without_setup(self, spec: SandboxSpec) -> LaunchParams:
        """Return how to start a sandbox with an empty workspace.

        Raises:
            SandboxError: the interpreter's layer cannot be built.
        """
        try:
            return LaunchParams(layers=(self._base(self._backend.interpreter(spec.python)).tree,))
        except OSError as error:
            raise SandboxError(f"cannot build the interpreter's layer: {error}") from error

    # --- setup --------------------------------------------------------------------------------------------------

    def _fill(self, tree: Path, source: Path, base: Layer) -> None:
        """Copy the base repository and the interpreter's environment, owned by the sandbox's user."""
        freezer = Freezer(self._backend.uid)
        for name in _FOLDERS:
            (tree / name).mkdir()
            freezer.own(tree / name)
        with open_folder(source) as original, open_folder(tree / "workspace") as copy:
            freezer.copy(original, copy)
        with open_folder(base.tree / "env") as original, open_folder(tree / "env") as copy:
            freezer.link(original, copy)

    def _run_setup(self, build: Build) -> None:
        """Run the commands and apply what they wrote to the tree."""
        downloads = self._downloads(build.plan)
        with self._setup_binds(build.settings, network=build.spec.network) as binds:
            params = LaunchParams(
                layers=(build.tree, downloads),
                folders=(*_FOLDERS, "downloads"),
                binds=binds,
                env=_setup_environment(build.settings),
            )
            with contextlib.closing(self._backend.start(replace(build.spec, phase=Phase.SETUP), params)) as sandbox:
                build.run.run(sandbox)
                sandbox.kill_processes()
                self._freeze(sandbox, build.tree, Freezer(self._backend.uid, scan=secret_scanner(build.plan.secrets)))
                self._keep_downloads(sandbox.trees[1], downloads)

    def _freeze(self, sandbox: BwrapSandbox, tree: Path, freezer: Freezer) -> None:
        merged, upper = sandbox.trees
        for name in _FOLDERS:
            if self._backend.copies:
                remove_tree(str(tree / name))
                (tree / name).mkdir()
                with open_folder(name, below=merged) as source, open_folder(tree / name) as target:
                    freezer.copy(source, target)
            else:
                with open_folder(name, below=upper) as source, open_folder(tree / name) as target:
                    freezer.apply(source, target)

    @contextlib.contextmanager
    def _setup_binds(self, settings: PackageSettings, *, network: bool) -> Iterator[list[tuple[Path, str]]]:
        """Package settings, certificates, local package folders and name lookup."""
        with pip_conf(settings, self._backend.private_folder()) as config:
            binds = [(config, "/etc/pip.conf")]
            binds += [(folder, str(folder)) for name in SETUP_FOLDERS if (folder := Path("/etc") / name).is_dir()]
            binds += [(path, str(path)) for path in settings.folders()]
            if network and _RESOLV.exists():
                binds.append((_RESOLV.resolve(), "/etc/resolv.conf"))
            yield binds

    def _downloads(self, plan: SetupPlan) -> Path:
        """Return the download cache of a base repository.

        Repositories do not share one: a setup could plant a package there that another one would then install.
        """
        uid = self._backend.uid
        name = digest([os.geteuid() if uid is None else uid, plan.repository or plan.key]).removeprefix("sha256:")[:32]
        root = self._backend.state / "downloads" / name
        (root / "downloads").mkdir(parents=True, exist_ok=True)
        Freezer(uid).own(root / "downloads")
        return root

    def _keep_downloads(self, upper: int, root: Path) -> None:
        """Keep what pip downloaded for later setups, but no wheels that it built: setup's own code made those."""
        freezer = Freezer(self._backend.uid)
        with open_folder("downloads", below=upper) as downloads:
            for name in sorted({"http-v2", "http"}.intersection(os.listdir(downloads))):
                (root / "downloads" / name).mkdir(exist_ok=True)
                with open_folder(name, below=downloads) as new, open_folder(root / "downloads" / name) as kept:
                    freezer.add_missing(new, kept)
                freezer.own(root / "downloads" / name)

    # --- the interpreter's own layer ----------------------------------------------------------------------------

    def _base(self, python: Interpreter) -> Layer:
        key = digest([SCHEMA, python.identity]).removeprefix("sha256:")[:32]
        with self._locks.get(key):
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
        binds = python_layer.binds(python)
        spec = SandboxSpec(Phase.SETUP, _BASE_LIMITS)
        params = LaunchParams(layers=(), binds=binds, python=python)
        with contextlib.closing(self._backend.start(spec, params)) as sandbox:
            pip = python_layer.build(sandbox, python, binds)
            sandbox.kill_processes()
            with open_folder("env", below=sandbox.trees[1]) as upper, open_folder(building / "tree/env") as target:
                freezer.copy(upper, target)
        size, files = measure(building / "tree")
        metadata: dict[str, Json] = {"label": f"python {python.full}", "pip": pip, "bytes": size, "files": files}
        return self._backend.layers.commit("python", key, building, metadata)


def _setup_environment(settings: PackageSettings) -> dict[str, str]:
    return {**settings.env, "PIP_CACHE_DIR": DOWNLOADS, "PIP_NO_INPUT": "1", "UV_CACHE_DIR": f"{DOWNLOADS}/uv"}


def _entries(workspace: Path) -> dict[bytes, Entry]:
    with FolderTree.at(workspace) as tree:
        return {entry.path: entry for entry in tree.entries()}
