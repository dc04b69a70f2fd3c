"""Images that sandboxes start from: resolved by name, built from a Dockerfile, and extended with the command server."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from agentbench.core.canonical import Json, digest, sha256_hex
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import SandboxError, SandboxUnavailable, SetupFailed
from agentbench.core.ids import new_ulid
from agentbench.sandbox.docker import bundled_python, labels
from agentbench.sandbox.docker.container_config import BUNDLED_PYTHON_DIR, SEEDS_DIR, SERVER_DIR, seeded_folders
from agentbench.sandbox.docker.engine import Engine, NoSuchImage
from agentbench.sandbox.docker.tarball import copy_into, write_files
from agentbench.sandbox.environments.failed_setups import FailedSetups, SetupIdentity
from agentbench.sandbox.environments.layers import LayerStore
from agentbench.sandbox.layout import ENV_DIR, HOME, INNER_ID
from agentbench.sandbox.observation import filter_files
from agentbench.sandbox.protocol import SandboxSpec, SetupStep
from agentbench.sandbox.server_bundle import module_source, server_source, walker_source

RUNNER = "agentbench/py-runner"
_SCHEMA = 1
_BUILD_SEC = 1800.0
_NO_PYTHON = 42
_CANNOT_RUN = 127
_SHOWN_CHARS = 800
_FIND_PYTHON = (
    "for p in /usr/bin/python3 /usr/local/bin/python3 python3 python; do "
    'if "$p" -I -c "import sys; sys.exit(sys.version_info < (3, 8))" 2>/dev/null; then '
    f'exec "$p" -I {SERVER_DIR}/prepare_image.py "$1"; fi; done; exit {_NO_PYTHON}'
)


@dataclass(frozen=True, slots=True)
class BaseImage:
    """An image with the command server, the sandbox's user and a Python environment."""

    key: str
    """Identifies the original image and what the harness added: equal keys mean equal content."""
    image: str
    """Its id."""
    original: str
    """The name of the original image."""
    original_digest: str
    """The registry's digest of the original image, or its id if it comes from no registry."""
    python: tuple[str, ...]
    """The command that starts the server's interpreter."""
    bundled: bool
    """The interpreter is a copy of the host's, because the image has none."""
    version: str
    pip: str
    os: dict[str, str]
    env: tuple[str, ...]

    @property
    def short_version(self) -> str:
        return ".".join(self.version.split(".")[:2])

    @property
    def server(self) -> str:
        """Describe the interpreter that runs the command server."""
        origin = (
            "copied into the image, which has none that fits"
            if self.bundled
            else f"the image's own ({self.python[-1]})"
        )
        return f"python {self.version}, {origin}"


class Images:
    def __init__(self, engine: Engine, state: Path, owner: str = "", stop: threading.Event | None = None) -> None:
        """`owner`: the backend's live folder. Containers of an owner that is dead are removed.

        When `stop` is set, builds are cancelled.
        """
        self._stop = stop
        self._engine = engine
        self._state = state
        self._owner = owner
        self._store = layer_store(engine, state)
        self._failures = FailedSetups(self._store, "prepared")
        self._lock = threading.Lock()
        self._bases: dict[str, BaseImage] = {}

    def check(self, spec: SandboxSpec) -> None:
        """
        Raises:
            SandboxUnavailable: the image is not on this machine.
        """
        if spec.dockerfile is None:
            self._resolve(spec)

    def base(self, spec: SandboxSpec, *, fresh: bool = False) -> BaseImage:
        """Return the base image for a spec, building it if necessary.

        `fresh`: also build a Dockerfile whose last build failed.

        Raises:
            SandboxUnavailable: the image is missing, or cannot run the command server.
            SetupFailed: the contract's Dockerfile does not build.
        """
        requested = f"file {sha256_hex(spec.dockerfile.read_bytes())}" if spec.dockerfile else spec.image or ""
        with self._lock:
            if requested not in self._bases:
                self._bases[requested] = self._base(*self._resolve(spec, fresh=fresh))
            return self._bases[requested]

    def forget(self) -> None:
        """Check again which images exist."""
        with self._lock:
            self._bases.clear()

    def seeded(self, image: str, workdir: str) -> tuple[str, int]:
        """Return an image for a hard disk limit, and the size of its seeds in MB.

        Every folder that the user can write to becomes a tmpfs, which hides the image's files there. The seeded image keeps
        a copy of those files (the seeds), which is copied into the tmpfs when a sandbox starts.

        Raises:
            SandboxError: it cannot be built.
        """
        folders = seeded_folders(workdir)
        tag = f"{labels.SEEDED}:{digest([_SCHEMA, image, list(folders)]).removeprefix('sha256:')[:24]}"
        with self._lock, self._building(tag):
            try:
                seeded = self._engine.inspect_image(tag)
            except NoSuchImage:
                self._build_seeded(tag, image, folders)
                seeded = self._engine.inspect_image(tag)
        return seeded["Id"], int(seeded["Config"]["Labels"][labels.SEEDS])

    def _build_seeded(self, tag: str, image: str, folders: Sequence[str]) -> None:
        copies = [f'mkdir -p "{SEEDS_DIR}{path}" && cp -a "{path}/." "{SEEDS_DIR}{path}/"' for path in folders]
        line = " && ".join([*copies, f'du -sm "{SEEDS_DIR}" | cut -f1'])
        with self._container("seeded", image, ["/bin/sh", "-c", line]) as name:
            self._engine.output("start", name)
            code, stdout, stderr = self._wait(name)
            if code:
                raise SandboxError(f"cannot build an image for a hard disk limit: {stderr}")
            self._commit(name, tag, {labels.SEEDS: stdout.split()[-1], labels.SEEDS_OF: image})

    # --- finding and building the original image ----------------------------------------------------------------

    def _resolve(self, spec: SandboxSpec, *, fresh: bool = False) -> tuple[str, dict[str, Any]]:
        """Return the name of the original image, and what the engine knows about it."""
        if spec.dockerfile is not None:
            return self._dockerfile_image(spec.dockerfile, fresh=fresh)
        if spec.image is None:
            return self._runner_image()
        try:
            return spec.image, self._engine.inspect_image(spec.image)
        except NoSuchImage as error:
            msg = f"image {spec.image} is not on this machine"
            raise SandboxUnavailable(msg, remedy=f"docker pull {spec.image}") from error

    def _runner_image(self) -> tuple[str, dict[str, Any]]:
        """Return the newest runner image."""
        names = self._engine.output("image", "ls", "--format", "{{.Repository}}:{{.Tag}}", RUNNER).split()
        if not names:
            raise SandboxUnavailable(
                "the task names no image, and the runner image is not on this machine",
                remedy="in a checkout: scripts/runner-image; or set environment.docker_image",
            )
        # The engine lists the newest first.
        return names[0], self._engine.inspect_image(names[0])

    def _dockerfile_image(self, dockerfile: Path, *, fresh: bool) -> tuple[str, dict[str, Any]]:
        content = dockerfile.read_bytes()
        tag = f"{labels.BUILT}:{sha256_hex(content)[:24]}"
        setup = SetupIdentity(f"dockerfile-{sha256_hex(content)[:24]}", dockerfile.name, "")
        with self._store.building("prepared", setup.key):
            with contextlib.suppress(NoSuchImage):
                return tag, self._engine.inspect_image(tag)
            self._failures.raise_own(setup.key, _ignore_step)
            if not fresh:
                self._failures.raise_recorded(setup, _ignore_step)
            try:
                self._build_dockerfile(tag, dockerfile.name, content)
            except SetupFailed as error:
                self._failures.record(setup, [], error)
                raise
            self._failures.forget(setup.key)
            return tag, self._engine.inspect_image(tag)

    def _build_dockerfile(self, tag: str, name: str, content: bytes) -> None:
        """Build with an empty context: files beside the Dockerfile (hidden tests, the reference) must not get in."""
        network = [] if self._engine.has_bridge() else ["--network", "host"]
        options = [*network, *self._label_options("dockerfile"), "--tag", tag, "--force-rm", "-"]
        done = self._engine.run(
            "build", *options, stdin=content, timeout_sec=_BUILD_SEC, die_with_parent=True, stop=self._stop
        )
        if not done.ok:
            error = self._engine.error(done, f"docker build of {name}")
            if isinstance(error, SandboxUnavailable):
                raise error
            output = (done.stdout.kept + done.stderr.kept).decode("utf-8", "replace").strip()
            # The reason is in the last line, after steps and notices. It comes first, since long messages are truncated.
            raise SetupFailed(f"{name} does not build: {output.rpartition(chr(10))[2]}\n{output[-1500:]}")

    # --- building the base image --------------------------------------------------------------------------------

    def _base(self, original: str, image: dict[str, Any]) -> BaseImage:
        sources = {
            "server.py": server_source(),
            "writer.py": module_source("writer"),
            "walker.py": walker_source(),
            "prepare_image.py": module_source("prepare_image"),
        }
        files = {name: text.encode() for name, text in sources.items()} | filter_files()
        contents: list[Json] = [[name, sha256_hex(content)] for name, content in sorted(files.items())]
        volumes: list[Json] = ["flat"] if image["Config"].get("Volumes") else []
        key = digest([_SCHEMA, image["Id"], contents, *volumes]).removeprefix("sha256:")[:24]
        tag = f"{labels.BASE}:{key}"
        with self._building(tag):
            try:
                base = self._engine.inspect_image(tag)
            except NoSuchImage:
                with self._without_volumes(tag, image) if volumes else contextlib.nullcontext(image["Id"]) as start:
                    self._build_base(tag, original, image, start, files)
                base = self._engine.inspect_image(tag)
        facts = json.loads(base64.b64decode(base["Config"]["Labels"][labels.BASE_FACTS]))
        return BaseImage(
            key=key,
            image=base["Id"],
            original=original,
            original_digest=_digest_of(image),
            python=tuple(facts["launch"]),
            bundled=facts["bundled"],
            version=facts["version"],
            pip=facts["pip"],
            os=facts["os"],
            env=tuple(image["Config"].get("Env") or ()),
        )

    @contextlib.contextmanager
    def _without_volumes(self, tag: str, image: dict[str, Any]) -> Iterator[str]:
        """Yield an image with the same files and no volumes.

        Files written to a volume are in no layer: setup's work there would not be committed, and the disk limit would not
        see what an agent writes there. No option turns an image's volumes off, so its files are imported into a new image.
        """
        values = {labels.STATE: labels.state_hash(self._state), labels.HOST: labels.host_hash()}
        values |= {labels.KIND: "base", labels.BASE_OF: image["Id"]}
        changes = [part for key, value in values.items() for part in ("--change", f"LABEL {key}={value}")]
        # The container is never started, but an image without a command needs one to create it.
        with self._container("base", image["Id"], ["/bin/sh"]) as name:
            archive = self._state / "live" / self._owner / f"{name}.tar"
            try:
                self._engine.output("export", "--output", str(archive), name, timeout_sec=_BUILD_SEC, stop=self._stop)
                yield self._engine.output(
                    "import", *changes, str(archive), f"{tag}-flat", timeout_sec=_BUILD_SEC, stop=self._stop
                )
            finally:
                archive.unlink(missing_ok=True)
                # The base image keeps its layers. Without a name it is removed together with the base image.
                self._engine.run("image", "rm", f"{tag}-flat")

    def _build_base(self, tag: str, original: str, image: dict[str, Any], start: str, files: dict[str, bytes]) -> None:
        """Build with the image's own Python, or with a copy of the host's. `start` has the image's files."""
        options = {"uid": INNER_ID, "home": HOME, "env": ENV_DIR, "server_dir": SERVER_DIR, "workdir": "/workspace"}
        try:
            argv = ["/bin/sh", "-c", _FIND_PYTHON, "sh", json.dumps(options)]
            self._build_base_with(tag, image, start, files, argv)
        except _NoPython:
            command = bundled_python.command(BUNDLED_PYTHON_DIR)
            argv = [*command, "-I", f"{SERVER_DIR}/prepare_image.py", json.dumps({**options, "launch": command})]
            try:
                self._build_base_with(tag, image, start, files, argv)
            except _NoPython as error:
                raise SandboxUnavailable(
                    f"image {original} has no python3 (3.8 or newer), and the host's does not run in it: {error}",
                    remedy=f"write a Dockerfile with `FROM {original}` that installs python3",
                ) from error
        except (ValueError, IndexError, KeyError) as error:
            raise SandboxError(f"cannot add the command server to image {original}: {error}") from error

    def _build_base_with(
        self, tag: str, image: dict[str, Any], start: str, files: dict[str, bytes], argv: list[str]
    ) -> None:
        env = [part for item in image["Config"].get("Env") or () for part in ("--env", item)]
        options = ["--security-opt", "no-new-privileges", "--ulimit", "nofile=1024:4096", *env]
        with self._container("base", start, argv, *options) as name:
            tree = {f"{SERVER_DIR[1:]}/{path}": content for path, content in files.items()}
            copy_into(self._engine, name, lambda pipe: write_files(pipe, tree))
            if argv[0] != "/bin/sh":
                copy_into(self._engine, name, lambda pipe: bundled_python.write_tar(pipe, BUNDLED_PYTHON_DIR))
            facts = base64.b64encode(json.dumps(self._prepare_image(name)).encode()).decode()
            self._commit(name, tag, {labels.BASE_FACTS: facts, labels.BASE_OF: image["Id"]})

    def _prepare_image(self, name: str) -> dict[str, Any]:
        """Run prepare_image.py in its container, and return what it reported."""
        started = self._engine.run("start", name)
        if not started.ok:
            stderr = started.stderr.text.strip()[-_SHOWN_CHARS:]
            if "no such file or directory" in stderr:
                raise _NoPython(stderr)
            raise self._engine.error(started, "docker start")
        code, stdout, stderr = self._wait(name)
        if code in {_NO_PYTHON, _CANNOT_RUN}:
            raise _NoPython(stderr or stdout[-_SHOWN_CHARS:])
        if code:
            reason = stderr or stdout[-_SHOWN_CHARS:] or f"exit code {code}"
            raise SandboxError(f"cannot add the command server to an image: {reason}")
        facts: dict[str, Any] = json.loads(stdout.splitlines()[-1])
        return facts

    # --- containers that build images ---------------------------------------------------------------------------

    @contextlib.contextmanager
    def _container(self, kind: str, image: str, argv: Sequence[str], *options: str) -> Iterator[str]:
        """Create a container that will run `argv` as root without network; remove it in the end."""
        name = f"agentbench-{new_ulid().lower()}"
        common = ["--name", name, "--user", "0:0", "--network", "none", "--pull", "never", "--log-driver", "json-file"]
        common += [*self._label_options(kind), "--entrypoint", argv[0]]
        self._engine.output("create", *common, *options, image, *argv[1:])
        try:
            yield name
        finally:
            self._engine.run("rm", "--force", "--volumes", name)

    def _wait(self, name: str) -> tuple[int, str, str]:
        """Wait for the end of a container; return its exit code, its stdout, and the end of its stderr."""
        code = int(self._engine.output("wait", name, timeout_sec=600, stop=self._stop))
        logs = self._engine.run("logs", name)
        stderr = logs.stderr.text.strip()[-_SHOWN_CHARS:]
        return code, logs.stdout.text.strip(), stderr

    def _label_options(self, kind: str) -> list[str]:
        values = {**labels.state_labels(self._state), labels.OWNER: self._owner, labels.KIND: kind}
        return [part for key, value in values.items() for part in ("--label", f"{key}={value}")]

    def _commit(self, name: str, tag: str, image_labels: dict[str, str]) -> None:
        image = self._engine.commit(name, tag, image_labels)
        # A harness with another state folder may have built the same image meanwhile and taken the name.
        if self._engine.inspect_image(tag)["Id"] != image:
            self._engine.run("image", "rm", image)

    def _building(self, tag: str) -> AbstractContextManager[None]:
        """Let one process at a time build an image for this state folder."""
        return self._store.building("image", tag.rpartition(":")[2])


def layer_store(engine: Engine, state: Path) -> LayerStore:
    """Return the layer store of an engine. Engines do not share one, because they do not share images."""
    name = hashlib.sha256(engine.facts.id.encode()).hexdigest()[:12]
    return LayerStore(state / "layers" / f"docker-{name}")


class _NoPython(Exception):
    """The image has no interpreter that fits."""


def _ignore_step(_: SetupStep) -> None:
    """A Dockerfile has no setup steps."""


def _digest_of(image: dict[str, Any]) -> str:
    digests = [str(name).partition("@")[2] for name in image.get("RepoDigests") or []]
    return next((value for value in digests if value), str(image["Id"]))
