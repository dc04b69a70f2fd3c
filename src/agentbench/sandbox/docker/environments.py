"""Environments of the docker backend: containers that are committed as images after setup."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from agentbench.core.canonical import Json, digest
from agentbench.core.command import Command
from agentbench.core.errors import SandboxError, SetupFailed
from agentbench.core.ids import new_ulid
from agentbench.core.package_settings import PackageSettings
from agentbench.sandbox.docker import labels
from agentbench.sandbox.docker.container_config import ContainerParams, environment
from agentbench.sandbox.docker.containers import Containers
from agentbench.sandbox.docker.engine import NoSuchImage
from agentbench.sandbox.docker.images import BaseImage, Images
from agentbench.sandbox.docker.sandbox import DockerSandbox
from agentbench.sandbox.docker.tree import ChannelTree
from agentbench.sandbox.docker.unused_images import remove_orphans
from agentbench.sandbox.environments.inventory import entries_hash
from agentbench.sandbox.environments.layers import Layer, LayerStore
from agentbench.sandbox.environments.prepare import Build, SetupResult, changed_paths
from agentbench.sandbox.environments.setup import leaked_secret, pip_conf
from agentbench.sandbox.layout import ENV_DIR, HOME
from agentbench.sandbox.protocol import Phase, SandboxSpec
from agentbench.tree.entry import Entry, Kind
from agentbench.tree.folder import FolderTree

_COMMIT_SEC = 900.0
_MAX_FILE_BYTES = 1 << 33
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


class DockerEnvironments:
    """Implements `prepare.EnvironmentBuilder`."""

    def __init__(self, containers: Containers, images: Images, layers: LayerStore) -> None:
        self._containers = containers
        self._engine = containers.engine
        self._images = images
        self._layers = layers

    def identity(self, spec: SandboxSpec, *, fresh: bool) -> Mapping[str, Json]:
        base = self._images.base(spec, fresh=fresh)
        other_python = {} if spec.python in {None, base.short_version} else {"python": spec.python}
        return {"engine": self._engine.facts.id, "image": base.key, **other_python}

    def build(self, build: Build) -> SetupResult:
        spec, plan = build.spec, build.plan
        base = self._images.base(spec)
        with self._setup_binds(build.settings) as binds:
            params = ContainerParams(
                image=base.image,
                python=base.python,
                server=base.server,
                binds=binds if spec.network or plan.commands else [],
                network=self._network(build.settings) if spec.network else "none",
                labels=self._containers.labels("setup", spec),
                create_workdir=True,
                source=plan.source,
                keep=True,
            )
            sandbox = self._containers.start(replace(spec, phase=Phase.SETUP), params)
            try:
                sandbox.set_environment({**environment(base.env, spec.env), **_setup_environment(build.settings)})
                _check_python(sandbox, spec, base)
                build.run.run(sandbox)
                sandbox.kill_processes()
                _check_secrets(sandbox, plan.secrets, [spec.workdir, ENV_DIR, HOME])
                tree = sandbox.tree_at(spec.workdir)
                entries = tuple(tree.entries())
                files_digest, packages = _inspect(sandbox, spec.workdir, entries)
                before = _copy_workspace(tree, entries, plan.source, build.tree / "workspace")
                sandbox.close()
                tag = f"{labels.PREPARED}:{build.key}-{new_ulid().lower()[-8:]}"
                # The image inherits the container's other labels.
                image = self._engine.commit(sandbox.id, tag, {labels.KIND: "prepared"}, _COMMIT_SEC)
            finally:
                sandbox.close()
                self._containers.remove(sandbox.id)
        return SetupResult(
            entries=entries,
            changed=changed_paths(before, entries),
            digest=digest({"image": base.original_digest, "python": base.version, "files": files_digest}),
            packages=packages,
            # Only what setup added: other environments share the base image.
            bytes=max(0, self._size(image) - self._size(base.image)),
            files=len(entries),
            details=self._details(base, image, build),
            metadata={"image": image},
        )

    def is_usable(self, layer: Layer) -> bool:
        """Return whether the engine still has the environment's image."""
        try:
            self._engine.inspect_image(str(layer.metadata["image"]))
        except (NoSuchImage, KeyError):
            return False
        return True

    def remove_unused(self) -> None:
        remove_orphans(self._engine, self._containers.state, [self._layers])

    def _details(self, base: BaseImage, image: str, build: Build) -> dict[str, Json]:
        registries = build.settings.addresses() if build.run.steps else []
        return {
            "image": base.original,
            "image_digest": base.original_digest,
            "prepared_image": image,
            "engine": self._engine.facts.version,
            "python": "absent" if base.bundled else base.version,
            "interpreter": base.python[-1],
            "pip": base.pip,
            "server": base.server,
            **{f"os.{name}": value for name, value in base.os.items()},
            **{f"registry.{index}": value for index, value in enumerate(registries)},
        }

    def _size(self, image: str) -> int:
        return int(self._engine.inspect_image(image).get("Size", 0))

    def _network(self, settings: PackageSettings) -> str:
        """Return the bridge network if there is one, unless the package index is on this machine."""
        addresses = [*settings.addresses(), *settings.env.values()]
        if any(prefix in address for address in addresses for prefix in _LOOPBACK):
            return "host"
        return "bridge" if self._engine.has_bridge() else "host"

    @contextlib.contextmanager
    def _setup_binds(self, settings: PackageSettings) -> Iterator[list[tuple[Path, str]]]:
        """Package settings, certificates and local package folders, mounted so that they are not committed."""
        with pip_conf(settings, self._containers.folder) as config:
            binds = [(config, "/etc/pip.conf")]
            if _CERTIFICATES.is_file():
                binds.append((_CERTIFICATES.resolve(), str(_CERTIFICATES)))
            binds += [(path, str(path)) for path in settings.folders()]
            yield binds


def _check_python(sandbox: DockerSandbox, spec: SandboxSpec, base: BaseImage) -> None:
    """
    Raises:
        SetupFailed: the image does not have the Python version that the task declares.
    """
    if (
        spec.python in {None, base.short_version}
        or sandbox.run(Command(line=f"command -v python{spec.python}", cwd="/")).ok
    ):
        return
    image = f"the image of {spec.dockerfile.name}" if spec.dockerfile else f"image {base.original}"
    available = "no Python" if base.bundled else f"Python {base.version}"
    raise SetupFailed(
        f"task.yaml: environment.python is {spec.python}, but {image} has {available}",
        remedy=f'set environment.docker_image to an image with Python {spec.python}, or environment.python to "{base.short_version}"',
    )


def _setup_environment(settings: PackageSettings) -> dict[str, str]:
    # Without a download cache, because a setup could use a shared one to affect others.
    return {**settings.env, "PIP_NO_INPUT": "1", "PIP_NO_CACHE_DIR": "1", "UV_NO_CACHE": "1"}


def _check_secrets(sandbox: DockerSandbox, secrets: Mapping[str, str], folders: Sequence[str]) -> None:
    """
    Raises:
        SetupFailed: setup left a secret in a file, where the agent would find it.
    """
    values = {name: value for name, value in secrets.items() if value}
    if not values:
        return
    command = Command(
        argv=(f"{ENV_DIR}/bin/python", "-I", "-c", _FIND_SECRETS, *folders),
        stdin=json.dumps(values).encode(),
        cwd="/",
        timeout_sec=600,
    )
    done = sandbox.run(command)
    if done.ok:
        return
    name, _, path = done.stdout.kept.decode("utf-8", "backslashreplace").strip().partition(" ")
    if not path:
        raise SetupFailed(f"cannot search setup's files for secrets: {done.stderr.kept[-500:]!r}")
    raise leaked_secret(name, path)


def _inspect(sandbox: DockerSandbox, workdir: str, workspace: Iterable[Entry]) -> tuple[str, tuple[str, ...]]:
    """Return a digest of everything that the sandbox's user can write to, and the installed packages.

    Timestamps, byte code and caches do not count.
    """
    env = tuple(sandbox.tree_at(ENV_DIR).entries())
    trees = [workspace, env]
    if not workdir.startswith(f"{HOME}/"):
        trees.append(sandbox.tree_at(HOME).entries())
    state = hashlib.sha256()
    for entries in trees:
        state.update(entries_hash(entry for entry in entries if not _is_cache(entry.path)))
    return state.hexdigest(), _packages(env)


def _is_cache(path: bytes) -> bool:
    return path.endswith((b".pyc", b".pyo")) or b"/.cache/" in b"/" + path


def _packages(env: Iterable[Entry]) -> tuple[str, ...]:
    """Return the installed distributions as `name==version`."""
    packages = set()
    for entry in env:
        folder, _, name = entry.path.rpartition(b"/")
        if name == b"METADATA" and folder.endswith(b".dist-info"):
            package, _, version = folder.rpartition(b"/")[2].removesuffix(b".dist-info").partition(b"-")
            packages.add(f"{package.decode(errors='replace')}=={version.decode(errors='replace')}")
    return tuple(sorted(packages))


def _copy_workspace(tree: ChannelTree, entries: Iterable[Entry], source: Path, target: Path) -> Mapping[bytes, Entry]:
    """Copy the workspace to `target` as setup left it, and return the entries of the base repository (`source`).

    Files that setup did not change are copied from `source`, so only the rest goes through the channel.
    """
    with FolderTree.at(source) as original:
        before = {entry.path: entry for entry in original.entries()}
    top = os.fsencode(target)
    os.makedirs(top)
    for entry in entries:
        path = os.path.join(top, entry.path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if entry.kind is Kind.SYMLINK:
            os.symlink(tree.read(entry.path, max_bytes=_MAX_FILE_BYTES), path)
        elif entry.kind is Kind.FILE:
            if before.get(entry.path) == entry:
                shutil.copyfile(os.path.join(os.fsencode(source), entry.path), path, follow_symlinks=False)
            else:
                _copy_from_sandbox(tree, entry, path)
            os.chmod(path, 0o755 if entry.executable else 0o644)
    return before


def _copy_from_sandbox(tree: ChannelTree, entry: Entry, path: bytes) -> None:
    content = tree.read(entry.path, max_bytes=_MAX_FILE_BYTES)
    if hashlib.sha256(content).hexdigest() != entry.sha256:
        raise SandboxError(f"file {entry.path!r} changed although no process was running")
    with open(path, "wb") as file:
        file.write(content)
