"""Prepare environments: run setup once per key, freeze its result, and find it again later.

Every backend uses this algorithm. An `EnvironmentBuilder` adds how a backend runs setup and freezes what it left.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Protocol

from agentbench.core.canonical import Json, digest
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import SandboxError, SetupFailed
from agentbench.core.ids import now_iso
from agentbench.core.package_settings import PackageSettings, host_settings
from agentbench.sandbox.environments import inventory, prepared_metadata
from agentbench.sandbox.environments.failed_setups import FailedSetups, setup_identity
from agentbench.sandbox.environments.layers import DEFAULT_BYTES, Layer, LayerStore
from agentbench.sandbox.environments.setup import SetupRun
from agentbench.sandbox.protocol import Prepared, SandboxSpec, SetupPlan, SetupStep
from agentbench.tree.entry import Entry

SCHEMA = 1
"""Part of every key. Raise it when environments frozen in an older format must not be reused."""
KIND = "prepared"


@dataclass(frozen=True, slots=True)
class Build:
    """One environment to build."""

    key: str
    plan: SetupPlan
    spec: SandboxSpec
    settings: PackageSettings
    run: SetupRun
    tree: Path
    """An empty folder. The builder leaves the workspace in `tree/workspace`."""


@dataclass(frozen=True, slots=True)
class SetupResult:
    """An environment after setup, as its builder froze it."""

    entries: Sequence[Entry]
    """Entries of the workspace."""
    changed: Sequence[bytes]
    """Files of the base repository that setup changed or removed."""
    digest: str
    packages: Sequence[str]
    bytes: int
    files: int
    details: Mapping[str, Json]
    metadata: Mapping[str, Json] = field(default_factory=dict)
    """Further metadata that the builder needs to start a sandbox from the environment."""


class EnvironmentBuilder(Protocol):
    """The backend's part of preparing an environment."""

    def identity(self, spec: SandboxSpec, *, fresh: bool) -> Mapping[str, Json]:
        """Return what the result depends on besides the plan: the interpreter, or the image and its engine.

        `fresh`: also build an image whose last build failed.
        """
        ...

    def build(self, build: Build) -> SetupResult:
        """Run setup in a sandbox and freeze what it left.

        Raises:
            SetupFailed: a command failed, or setup left something that must not be frozen.
        """
        ...

    def is_usable(self, layer: Layer) -> bool:
        """Return whether a sandbox can still start from a stored environment."""
        ...

    def remove_unused(self) -> None:
        """Remove what the backend keeps outside the layer store for environments that the store no longer has."""
        ...


@dataclass(frozen=True, slots=True)
class Environment:
    """A prepared environment with what a backend needs to start a sandbox from it."""

    prepared: Prepared
    layer: Layer
    entries: Mapping[bytes, Entry]
    """Entries of the workspace, by path."""


class KeyedLocks:
    """One lock per key, for the threads of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_key: dict[str, threading.Lock] = {}

    def get(self, key: str) -> threading.Lock:
        with self._lock:
            return self._by_key.setdefault(key, threading.Lock())


class Preparer:
    def __init__(self, backend: str, layers: LayerStore, builder: EnvironmentBuilder) -> None:
        self._backend = backend
        self._layers = layers
        self._builder = builder
        self._locks = KeyedLocks()
        self._environments: dict[str, Environment] = {}
        self._failures = FailedSetups(layers, KIND)

    def prepare(self, plan: SetupPlan, spec: SandboxSpec, on_step: Callable[[SetupStep], None]) -> Prepared:
        """Find the environment of a plan, or build it.

        `plan.fresh` ignores what earlier processes built or tried. What this backend built or tried itself is never repeated.

        Raises:
            SetupFailed: setup failed, now or earlier.
            SandboxError: the environment cannot be built or stored.
        """
        try:
            return self._prepare(plan, spec, on_step)
        except OSError as error:
            raise SandboxError(f"cannot prepare the environment: {error}") from error

    def get(self, prepared: Prepared) -> Environment:
        """
        Raises:
            SandboxError: another backend prepared the environment.
        """
        environment = self._environments.get(str(prepared.details.get("layer", "")))
        if environment is None:
            raise SandboxError(f"environment {prepared.key} was not prepared by this backend")
        return environment

    def _prepare(self, plan: SetupPlan, spec: SandboxSpec, on_step: Callable[[SetupStep], None]) -> Prepared:
        key = _key(plan, spec, self._builder.identity(spec, fresh=plan.fresh))
        with self._locks.get(key):
            self._failures.raise_own(key, on_step)
            if key in self._environments:
                return replace(self._environments[key].prepared, cached=True)
            with self._layers.building(KIND, key):
                layer = None if plan.fresh else self._find(key)
                cached = layer is not None
                if layer is None:
                    layer = self._build(key, plan, spec, on_step)
            if not cached:
                # After the key's lock is released, so that older builds of the same key can be removed too.
                self._layers.prune(max_bytes=DEFAULT_BYTES)
                self._builder.remove_unused()
            prepared, entries = prepared_metadata.load(layer, key=plan.key, backend=self._backend, cached=cached)
            self._environments[key] = Environment(prepared, layer, entries)
            return prepared

    def _find(self, key: str) -> Layer | None:
        layer = self._layers.find(KIND, key, needs=prepared_metadata.KEYS)
        return layer if layer is not None and self._builder.is_usable(layer) else None

    def _build(self, key: str, plan: SetupPlan, spec: SandboxSpec, on_step: Callable[[SetupStep], None]) -> Layer:
        settings = host_settings()
        if plan.network is not None:
            settings = settings.without_proxies()
        setup = setup_identity(key, plan, spec, settings.addresses())
        if not plan.fresh:
            self._failures.raise_recorded(setup, on_step)
        run = SetupRun(plan, settings.secrets(), on_step)
        folder = self._layers.new_build(KIND, key)
        try:
            result = self._builder.build(Build(key, plan, spec, settings, run, folder / "tree"))
        except SetupFailed as error:
            self._failures.record(setup, run.steps, error)
            raise
        registries = settings.addresses() if run.steps else []
        metadata: dict[str, Json] = {
            "label": plan.key,
            "created": now_iso(),
            "bytes": result.bytes,
            "files": result.files,
            "digest": result.digest,
            "steps": prepared_metadata.dump_steps(run.steps),
            "entries": prepared_metadata.dump_entries(result.entries),
            "changed": prepared_metadata.dump_paths(result.changed),
            "lockfiles": inventory.lockfiles(result.entries),
            "details": {
                "layer": key,
                "packages": "\n".join(result.packages),
                "registries": "\n".join(registries),
                **result.details,
            },
            **result.metadata,
        }
        layer = self._layers.commit(KIND, key, folder, metadata)
        self._failures.forget(key)
        return layer


def changed_paths(before: Mapping[bytes, Entry], after: Sequence[Entry]) -> tuple[bytes, ...]:
    """Return the paths of `before` that `after` has with other content, or not at all."""
    now = {entry.path: entry for entry in after}
    return tuple(sorted(path for path, entry in before.items() if now.get(path) != entry))


def _key(plan: SetupPlan, spec: SandboxSpec, identity: Mapping[str, Json]) -> str:
    """The plan's own key, and everything on this machine that the result depends on."""
    parts: dict[str, Json] = {
        "schema": SCHEMA,
        "plan": plan.key,
        "workdir": spec.workdir,
        "env": dict(spec.env),
        "network": spec.network,
        "commands": list(plan.commands),
        "capture": list(plan.capture),
        **identity,
    }
    return digest(parts).removeprefix("sha256:")[:32]
