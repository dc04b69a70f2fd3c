"""Prepared environments as committed images: setup runs once, everything later starts copy-on-write from its result."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from agentbench.core.canonical import Json, digest
from agentbench.core.command import Command
from agentbench.core.errors import SandboxError, SetupFailed
from agentbench.core.ids import new_ulid, now_iso
from agentbench.sandbox.docker import labels
from agentbench.sandbox.docker.api import ImageGone
from agentbench.sandbox.docker.containers import Containers
from agentbench.sandbox.docker.engine import NoSuchImage
from agentbench.sandbox.docker.images import Base, Images
from agentbench.sandbox.docker.options import Birth, environment
from agentbench.sandbox.docker.sandbox import DockerBox
from agentbench.sandbox.docker.setup_result import Frozen, frozen, keep_workspace
from agentbench.sandbox.docker.tarball import streamed, workspace
from agentbench.sandbox.docker.unused_images import remove_orphans
from agentbench.sandbox.environments import inventory
from agentbench.sandbox.environments import prepared_metadata as preserved
from agentbench.sandbox.environments.failed_setups import Failures, subject
from agentbench.sandbox.environments.layers import Layer, LayerStore
from agentbench.sandbox.environments.package_settings import PackageSettings, host_settings
from agentbench.sandbox.environments.setup import SetupRun
from agentbench.sandbox.layout import ENV_DIR, HOME
from agentbench.sandbox.protocol import Phase, Prepared, SandboxSpec, SetupPlan, SetupStep
from agentbench.tree.entry import Entry

SCHEMA = 1
_KIND = "prepared"
_CACHE_BYTES = 20 << 30
_COPY_SEC = 900.0
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
_LOOPBACK = ("://localhost", "://127.", "://[::1]")
_FIND_SECRETS = """
import json, os, sys
secrets = {name: value.encode() for name, value in json.load(sys.stdin).items() if value}
longest = max(map(len, secrets.values()), default=0)
for top in sys.argv[1:]:
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            try:
                if os.path.islink(path) or not os.path.isfile(path): continue
                with open(path, "rb") as file:
                    tail = b""
                    while True:
                        chunk = file.read(1 << 22)
                        if not chunk: break
                        for key, value in secrets.items():
                            if value in tail + chunk:
                                sys.stdout.write(key + " " + path + "\\n"); sys.exit(7)
                        tail = chunk[-longest:]
            except OSError: continue
"""


class DockerPreparer:
    def __init__(self, containers: Containers, images: Images, layers: LayerStore) -> None:
        self._containers = containers
        self._engine = containers.engine
        self._images = images
        self._layers = layers
        self._lock = threading.Lock()
        self._key_locks: dict[str, threading.Lock] = {}
        self._ready: dict[str, tuple[Prepared, Mapping[bytes, Entry], str]] = {}
        self._failures = Failures(layers, _KIND)

    def prepare(self, plan: SetupPlan, spec: SandboxSpec, on_step: Callable[[SetupStep], None]) -> Prepared:
        try:
            with contextlib.suppress(ImageGone):
                return self._prepare(plan, spec, on_step)
            # What an image was made ready as may go at any time: somebody pruned. It is made again.
            self._images.forget()
            return self._prepare(plan, spec, on_step)
        except OSError as error:
            raise SandboxError(f"an environment could not be prepared: {error}") from error

    def _prepare(self, plan: SetupPlan, spec: SandboxSpec, on_step: Callable[[SetupStep], None]) -> Prepared:
        base = self._images.base(spec, fresh=plan.fresh)
        key = self._key(plan, spec, base)
        with self._locked(key):
            # `fresh` means "not from before this backend": what this one built or tried itself is not repeated.
            self._failures.repeat_own(key, on_step)
            if key in self._ready:
                return replace(self._ready[key][0], cached=True)
            with self._layers.building(_KIND, key):
                layer = None if plan.fresh else self._find(key)
                cached = layer is not None
                if layer is None:
                    if not plan.fresh:
                        self._failures.repeat_older(subject(key, plan, spec, host_settings().addresses()), on_step)
                    layer = self._build(key, plan, spec, base, on_step)
                    self._failures.forget(key)
            if not cached:
                # Outside the lock of the key, so that what an older build of it left can go, too.
                self._layers.prune(max_bytes=_CACHE_BYTES)
                remove_orphans(self._engine, self._containers.state, [self._layers])
            prepared, known = preserved.load(layer, key=plan.key, cached=cached)
            prepared = replace(prepared, backend="docker")
            self._ready[key] = (prepared, known, str(layer.meta["image"]))
            return prepared

    def birth(self, spec: SandboxSpec, prepared: Prepared | None) -> tuple[Birth, Mapping[bytes, Entry] | None]:
        """What a sandbox of a later phase starts from.

        Raises:
            SandboxError: the environment is not one of this backend's.
        """
        base = self._images.base(spec)
        birth = Birth(base.image, base.python, base.server, labels=self._containers.labels(spec.phase.value, spec))
        known: Mapping[bytes, Entry] | None = None
        if prepared is not None:
            known, birth.image = self._of(prepared)
        if spec.hard_disk:
            birth.image, birth.seeds_mb = self._images.seeded(birth.image, spec.workdir)
            known = None
        return birth, known

    def _of(self, prepared: Prepared) -> tuple[Mapping[bytes, Entry], str]:
        ready = self._ready.get(prepared.details.get("layer", ""))
        if ready is None:
            raise SandboxError(f"the environment {prepared.key} was not prepared by this backend")
        return ready[1], ready[2]

    def environment(self, spec: SandboxSpec) -> dict[str, str]:
        return environment(self._images.base(spec).env, spec.env.items())

    def _find(self, key: str) -> Layer | None:
        """What was prepared before, if the engine still has its image."""
        layer = self._layers.find(_KIND, key, needs=preserved.KEYS)
        if layer is None:
            return None
        try:
            self._engine.image(str(layer.meta["image"]))
        except (NoSuchImage, KeyError):
            return None
        return layer

    # --- building -----------------------------------------------------------------------------------------------

    def _build(
        self, key: str, plan: SetupPlan, spec: SandboxSpec, base: Base, on_step: Callable[[SetupStep], None]
    ) -> Layer:
        building = self._layers.new_build(_KIND, key)
        settings = host_settings()
        run = SetupRun(plan, settings.secrets(), on_step)
        with self._setup_binds(settings) as binds:
            network = self._network(settings) if spec.network else "none"
            birth = Birth(
                image=base.image,
                python=base.python,
                server=base.server,
                binds=binds if spec.network or plan.commands else [],
                network=network,
                labels=self._containers.labels("setup", spec),
                keep=True,
            )
            box = self._containers.start(
                replace(spec, phase=Phase.SETUP), birth, fill=lambda name: self._fill(name, plan.source, spec.workdir)
            )
            try:
                env = {**environment(base.env, spec.env.items()), **_setup_environment(settings)}
                box.set_environment(env)
                try:
                    run.run(box)
                    box.kill_processes()
                    _refuse_secrets(box, plan.secrets, [spec.workdir, ENV_DIR, HOME])
                except SetupFailed as error:
                    self._failures.note(subject(key, plan, spec, settings.addresses()), run.steps, error)
                    raise
                result = frozen(box, spec.workdir)
                changed = keep_workspace(result, plan.source, building / "tree" / "workspace")
                box.close()
                image = self._commit(key, box.id)
            finally:
                box.close()
                self._containers.remove(box.id)
        return self._store(key, plan, base, building, _Outcome(result, changed, image, run, settings))

    def _fill(self, name: str, source: Path, workdir: str) -> None:
        with streamed(lambda pipe: workspace(pipe, source, workdir)) as stdin:
            self._engine.must("cp", "-", f"{name}:/", stdin=stdin, timeout_sec=_COPY_SEC)

    def _commit(self, key: str, name: str) -> str:
        tag = f"{labels.PREPARED}:{key}-{new_ulid().lower()[-8:]}"
        # The container's own labels say the rest.
        changes = [f"LABEL {labels.KIND}=prepared", "ENTRYPOINT []", "CMD []"]
        options = [part for change in changes for part in ("--change", change)]
        return self._engine.must("commit", *options, name, tag, timeout_sec=_COPY_SEC)

    def _size(self, image: str) -> int:
        return int(self._engine.image(image).get("Size", 0))

    def _store(self, key: str, plan: SetupPlan, base: Base, building: Path, outcome: _Outcome) -> Layer:
        result = outcome.frozen
        # What it adds to the image it stands on, which others share.
        size = max(0, self._size(outcome.image) - self._size(base.image))
        registries = outcome.settings.addresses() if outcome.run.steps else []
        details: dict[str, Json] = {
            "layer": key,
            "image": base.named,
            "image_digest": base.image_digest,
            "prepared_image": outcome.image,
            "engine": self._engine.facts.version,
            "python": "absent" if base.carried else base.version,
            "interpreter": base.python[-1],
            "pip": base.pip,
            "server": base.server,
            "packages": "\n".join(result.packages),
            "registries": "\n".join(registries),
            **{f"os.{name}": value for name, value in base.os.items()},
            **{f"registry.{index}": value for index, value in enumerate(registries)},
        }
        meta: dict[str, Json] = {
            "label": plan.key,
            "created": now_iso(),
            "image": outcome.image,
            "bytes": size,
            "files": len(result.entries),
            "digest": digest({"image": base.image_digest, "python": base.version, "files": result.digest}),
            "steps": preserved.dump_steps(outcome.run.steps),
            "entries": preserved.dump_entries(result.entries),
            "changed": preserved.dump_paths(outcome.changed),
            "lockfiles": inventory.lockfiles(result.entries),
            "details": details,
        }
        return self._layers.commit(_KIND, key, building, meta)

    # --- what setup sees ----------------------------------------------------------------------------------------

    def _network(self, settings: PackageSettings) -> str:
        """A bridge where there is one, unless the package index is on this very machine."""
        addresses = [*settings.addresses(), *settings.env.values()]
        if any(mark in address for address in addresses for mark in _LOOPBACK):
            return "host"
        return "bridge" if self._engine.has_bridge() else "host"

    @contextlib.contextmanager
    def _setup_binds(self, settings: PackageSettings) -> Iterator[list[tuple[Path, str]]]:
        """Index configuration, certificates and local package folders; mounted, so that none of it is committed."""
        config = self._containers.folder / f"pip-{new_ulid().lower()}.conf"
        config.write_text(settings.pip_conf())
        config.chmod(0o644)
        binds = [(config, "/etc/pip.conf")]
        if _CERTIFICATES.is_file():
            binds.append((_CERTIFICATES.resolve(), str(_CERTIFICATES)))
        binds += [(path, str(path)) for path in settings.folders()]
        try:
            yield binds
        finally:
            config.unlink(missing_ok=True)

    def _key(self, plan: SetupPlan, spec: SandboxSpec, base: Base) -> str:
        """The contract's key, and what of this machine the result depends on."""
        parts: dict[str, Json] = {
            "schema": SCHEMA,
            "plan": plan.key,
            "engine": self._engine.facts.id,
            "image": base.key,
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


@dataclass(frozen=True, slots=True)
class _Outcome:
    frozen: Frozen
    changed: tuple[bytes, ...]
    image: str
    run: SetupRun
    settings: PackageSettings


def _setup_environment(settings: PackageSettings) -> dict[str, str]:
    # Downloads go to memory and with the container: a cache that setups share would be a way from one to another.
    return {**settings.env, "PIP_NO_INPUT": "1", "PIP_NO_CACHE_DIR": "1", "UV_NO_CACHE": "1"}


def _refuse_secrets(box: DockerBox, secrets: Mapping[str, str], tops: list[str]) -> None:
    """A secret of the setup phase must not go on to an agent."""
    values = {name: value for name, value in secrets.items() if value}
    if not values:
        return
    command = Command(
        argv=(f"{ENV_DIR}/bin/python", "-I", "-c", _FIND_SECRETS, *tops),
        stdin=json.dumps(values).encode(),
        cwd="/",
        timeout_sec=600,
    )
    done = box.run(command)
    if done.ok:
        return
    name, _, path = done.stdout.kept.decode("utf-8", "backslashreplace").strip().partition(" ")
    if not path:
        raise SetupFailed(f"setup's files cannot be searched for secrets: {done.stderr.kept[-500:]!r}")
    raise SetupFailed(
        f"setup left the value of secret {name} in {path}, where the agent would find it",
        remedy="let setup remove it, or pass it to the one command that needs it",
    )
