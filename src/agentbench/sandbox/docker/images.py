"""Which image a sandbox starts from: resolved to what it is, and made ready once."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import IO, Any

from agentbench.core.canonical import Json, digest, sha256_hex
from agentbench.core.errors import SandboxError, SandboxUnavailable, SetupFailed
from agentbench.core.ids import new_ulid
from agentbench.sandbox import seccomp
from agentbench.sandbox.docker import bundled_python as carried
from agentbench.sandbox.docker import labels
from agentbench.sandbox.docker.engine import Engine, NoSuchImage
from agentbench.sandbox.docker.engine_store import store_for
from agentbench.sandbox.docker.options import CARRIED, SEEDS, SERVER_DIR, seeded_places
from agentbench.sandbox.docker.tarball import packed, streamed
from agentbench.sandbox.environments.failed_setups import Failures, Subject
from agentbench.sandbox.layout import ENV_DIR, HOME, INNER_ID
from agentbench.sandbox.protocol import SandboxSpec, SetupStep
from agentbench.sandbox.server_bundle import server_source, walker_source, writer_source

RUNNER = "agentbench/py-runner"
_SCHEMA = 1
_BUILD_SEC = 1800.0
_NO_PYTHON = 42
_CANNOT_RUN = 127
_SHOWN = 800
_FIND_PYTHON = (
    "for p in /usr/bin/python3 /usr/local/bin/python3 python3 python; do "
    'if "$p" -I -c "import sys; sys.exit(sys.version_info < (3, 8))" 2>/dev/null; then '
    f'exec "$p" -I {SERVER_DIR}/prepare_image.py "$1"; fi; done; exit {_NO_PYTHON}'
)


@dataclass(frozen=True, slots=True)
class Base:
    """An image made ready to hold sandboxes."""

    key: str
    """Of the image and of what we put into it: equal key, equal content, whenever it was made."""
    image: str
    """The id of the image made ready."""
    named: str
    """What the contract or we called the image it was made from."""
    image_digest: str
    """What that image is: the registry's digest of it, or its id where no registry knows it."""
    python: tuple[str, ...]
    """How the interpreter of the server is started."""
    carried: bool
    """It was brought along: the image has none."""
    version: str
    pip: str
    os: dict[str, str]
    env: tuple[str, ...]

    @property
    def server(self) -> str:
        """What runs commands in it."""
        whose = (
            "brought along: the image has none that fits" if self.carried else f"the image's own ({self.python[-1]})"
        )
        return f"python {self.version}, {whose}"


@dataclass(frozen=True, slots=True)
class _Source:
    """An image that is to be made ready."""

    said: dict[str, Any]
    """What the engine knows of it."""
    start: str
    """The image with its files: itself, unless it declares volumes."""


class Images:
    def __init__(self, engine: Engine, state: Path, owner: str = "") -> None:
        """`owner`: who is to be found alive when a container of ours is found (see `Containers.remove_strays`)."""
        self._engine = engine
        self._state = state
        self._owner = owner
        self._store = store_for(engine, state)
        self._failures = Failures(self._store, "prepared")
        self._lock = threading.Lock()
        self._bases: dict[str, Base] = {}

    def forget(self) -> None:
        """Look again which images there are."""
        with self._lock:
            self._bases.clear()

    def base(self, spec: SandboxSpec, *, fresh: bool = False) -> Base:
        """`fresh`: build also what is known to fail.

        Raises:
            SandboxUnavailable: there is no such image, or none that can hold a sandbox.
            SetupFailed: the contract's Dockerfile does not build.
        """
        wanted = f"file {sha256_hex(spec.dockerfile.read_bytes())}" if spec.dockerfile else spec.image or ""
        with self._lock:
            if wanted not in self._bases:
                self._bases[wanted] = self._furnished(*self._resolve(spec, fresh=fresh))
            return self._bases[wanted]

    def seeded(self, image: str, workdir: str) -> tuple[str, int]:
        """An image in which what can be written lies aside as seeds, and their size in MB.

        Raises:
            SandboxError: it cannot be made.
        """
        places = seeded_places(workdir)
        tag = f"{labels.SEEDED}:{digest([_SCHEMA, image, list(places)]).removeprefix('sha256:')[:24]}"
        with self._lock, self._making(tag):
            try:
                found = self._engine.image(tag)
            except NoSuchImage:
                self._seed(tag, image, places)
                found = self._engine.image(tag)
        return found["Id"], int(found["Config"]["Labels"][labels.SEEDS])

    def _seed(self, tag: str, image: str, places: Sequence[str]) -> None:
        name = f"agentbench-{new_ulid().lower()}"
        copies = [f'mkdir -p "{SEEDS}{place}" && cp -a "{place}/." "{SEEDS}{place}/"' for place in places]
        line = " && ".join([*copies, f'du -sm "{SEEDS}" | cut -f1'])
        options = ["--name", name, "--user", "0:0", "--network", "none", "--pull", "never"]
        options += [*self._marks("seeded"), "--log-driver", "json-file", "--entrypoint", "/bin/sh", image, "-c", line]
        self._engine.must("create", *options)
        try:
            self._engine.must("start", name)
            code = self._engine.must("wait", name, timeout_sec=600)
            told = self._engine.call("logs", name)
            if code != "0":
                said = told.stderr.kept.decode("utf-8", "replace").strip()[-800:]
                raise SandboxError(f"an image with seeds cannot be made: {said}")
            size = int(told.stdout.kept.split()[-1])
            self._commit(name, tag, {labels.SEEDS: str(size), labels.SEEDS_OF: image})
        finally:
            self._engine.call("rm", "--force", "--volumes", name)

    def check(self, spec: SandboxSpec) -> None:
        """
        Raises:
            SandboxUnavailable: the image is not here, said before anything runs.
        """
        if spec.dockerfile is None:
            self._resolve(spec)

    def _resolve(self, spec: SandboxSpec, *, fresh: bool = False) -> tuple[str, dict[str, Any]]:
        if spec.dockerfile is not None:
            return self._built_once(spec.dockerfile, fresh=fresh)
        if spec.image is None:
            return self._runner()
        try:
            return spec.image, self._engine.image(spec.image)
        except NoSuchImage as error:
            raise SandboxUnavailable(
                f"the image {spec.image} is not on this machine", remedy=f"docker pull {spec.image}"
            ) from error

    def _runner(self) -> tuple[str, dict[str, Any]]:
        """The newest runner image there is."""
        listed = self._engine.must("image", "ls", "--format", "{{.Repository}}:{{.Tag}}", RUNNER).split()
        if not listed:
            raise SandboxUnavailable(
                "the task names no image, and the runner image is not on this machine",
                remedy="in a checkout: scripts/runner-image; or name one in environment.docker_image",
            )
        # The engine lists the newest first.
        return listed[0], self._engine.image(listed[0])

    def _built_once(self, dockerfile: Path, *, fresh: bool) -> tuple[str, dict[str, Any]]:
        """Built once, or known to fail."""
        content = dockerfile.read_bytes()
        tag = f"{labels.BUILT}:{sha256_hex(content)[:24]}"
        what = Subject(f"dockerfile-{sha256_hex(content)[:24]}", dockerfile.name, "")
        with self._store.building("prepared", what.key):
            with contextlib.suppress(NoSuchImage):
                return tag, self._engine.image(tag)
            self._failures.repeat_own(what.key, _nothing)
            if not fresh:
                self._failures.repeat_older(what, _nothing)
            try:
                self._build(tag, dockerfile.name, content)
            except SetupFailed as error:
                self._failures.note(what, [], error)
                raise
            self._failures.forget(what.key)
            return tag, self._engine.image(tag)

    def _build(self, tag: str, name: str, content: bytes) -> None:
        """The file alone is the context: what lies beside it (hidden tests, the reference) must not get in."""
        network = [] if self._engine.has_bridge() else ["--network", "host"]
        marks = [*network, *self._marks("dockerfile")]
        done = self._engine.call_while_alive(
            "build", *marks, "--tag", tag, "--force-rm", "-", stdin=content, timeout_sec=_BUILD_SEC
        )
        if not done.ok:
            trouble = self._engine.trouble(done, f"docker build of {name}")
            if isinstance(trouble, SandboxUnavailable):
                raise trouble
            said = (done.stdout.kept + done.stderr.kept).decode("utf-8", "replace").strip()
            # The reason comes last, after steps and notices, and where room is short only a beginning is shown.
            raise SetupFailed(f"{name} does not build: {said.rpartition(chr(10))[2]}\n{said[-1500:]}")

    def _furnished(self, named: str, image: dict[str, Any]) -> Base:
        server = {"server.py": server_source(), "writer.py": writer_source(), "walker.py": walker_source()}
        texts = {**server, "prepare_image.py": _furnish_source()}
        files = {name: text.encode() for name, text in texts.items()} | {"filter": seccomp.assemble()}
        contents: list[Json] = [[name, sha256_hex(content)] for name, content in sorted(files.items())]
        volumes: list[Json] = ["flat"] if image["Config"].get("Volumes") else []
        key = digest([_SCHEMA, image["Id"], contents, *volumes]).removeprefix("sha256:")[:24]
        tag = f"{labels.BASE_NAME}:{key}"
        with self._making(tag):
            try:
                ready = self._engine.image(tag)
            except NoSuchImage:
                with self._flat(tag, image) if volumes else contextlib.nullcontext(image["Id"]) as start:
                    self._furnish(tag, named, _Source(image, start), files)
                ready = self._engine.image(tag)
        found = json.loads(base64.b64decode(ready["Config"]["Labels"][labels.BASE]))
        return Base(
            key=key,
            image=ready["Id"],
            named=named,
            image_digest=_digest_of(image),
            python=tuple(found["launch"]),
            carried=found["carried"],
            version=found["version"],
            pip=found["pip"],
            os=found["os"],
            env=tuple(image["Config"].get("Env") or ()),
        )

    @contextlib.contextmanager
    def _flat(self, tag: str, image: dict[str, Any]) -> Iterator[str]:
        """An image's files without its volumes.

        What is written to a volume is in no layer: setup's work below one would not be committed, and no disk limit would see
        what an agent writes there. No option turns an image's volumes off, so the files go into an image that has none.
        """
        name = f"agentbench-{new_ulid().lower()}"
        archive = self._state / "live" / self._owner / f"{name}.tar"
        marks = {labels.STATE: labels.state_mark(self._state), labels.HOST: labels.host_mark()}
        marks |= {labels.KIND: "base", labels.BASE_OF: image["Id"]}
        changes = [part for key, value in marks.items() for part in ("--change", f"LABEL {key}={value}")]
        options = ["--name", name, "--network", "none", "--pull", "never", *self._marks("base")]
        # It is never started; some images name no program, and one has to be named.
        self._engine.must("create", *options, "--entrypoint", "/bin/sh", image["Id"])
        try:
            self._engine.must("export", "--output", str(archive), name, timeout_sec=_BUILD_SEC)
            yield self._engine.must("import", *changes, str(archive), f"{tag}-flat", timeout_sec=_BUILD_SEC)
        finally:
            archive.unlink(missing_ok=True)
            self._engine.call("rm", "--force", "--volumes", name)
            # What was made from it keeps it; without a name it goes with that.
            self._engine.call("image", "rm", f"{tag}-flat")

    def _furnish(self, tag: str, named: str, image: _Source, files: dict[str, bytes]) -> None:
        wanted = {"uid": INNER_ID, "home": HOME, "env": ENV_DIR, "here": SERVER_DIR, "workdir": "/workspace"}
        try:
            self._furnish_by(tag, image, files, ["/bin/sh", "-c", _FIND_PYTHON, "sh", json.dumps(wanted)])
        except _NoPython:
            launch = carried.launch(CARRIED)
            argv = [*launch, "-I", f"{SERVER_DIR}/prepare_image.py", json.dumps({**wanted, "launch": launch})]
            try:
                self._furnish_by(tag, image, files, argv)
            except _NoPython as error:
                raise SandboxUnavailable(
                    f"the image {named} has no python3 (3.8 or newer), and ours does not run in it: {error}",
                    remedy=f"add it: a Dockerfile with `FROM {named}` that installs python3",
                ) from error
        except (ValueError, IndexError, KeyError) as error:
            raise SandboxError(f"the image {named} could not be made ready: {error}") from error

    def _furnish_by(self, tag: str, image: _Source, files: dict[str, bytes], argv: list[str]) -> None:
        name = f"agentbench-{new_ulid().lower()}"
        options = ["--name", name, "--user", "0:0", "--network", "none", "--pull", "never"]
        options += ["--security-opt", "no-new-privileges", *self._marks("base")]
        options += ["--log-driver", "json-file", "--ulimit", "nofile=1024:4096"]
        options += [part for item in image.said["Config"].get("Env") or () for part in ("--env", item)]
        options += ["--entrypoint", argv[0], image.start]
        self._engine.must("create", *options, *argv[1:])
        try:
            tree = {f"{SERVER_DIR[1:]}/{path}": content for path, content in files.items()}
            self._copy(name, lambda pipe: packed(pipe, tree))
            if argv[0] != "/bin/sh":
                self._copy(name, lambda pipe: carried.packed(pipe, CARRIED))
            found = self._ran(name)
            label = base64.b64encode(json.dumps(found).encode()).decode()
            self._commit(name, tag, {labels.BASE: label, labels.BASE_OF: image.said["Id"]})
        finally:
            self._engine.call("rm", "--force", "--volumes", name)

    def _marks(self, kind: str) -> list[str]:
        marks = {**labels.of_state(self._state), labels.OWNER: self._owner, labels.KIND: kind}
        return [part for key, value in marks.items() for part in ("--label", f"{key}={value}")]

    def _commit(self, name: str, tag: str, more: dict[str, str]) -> None:
        changes = [*(f"LABEL {key}={value}" for key, value in more.items()), "ENTRYPOINT []", "CMD []"]
        made = self._engine.must("commit", *(part for change in changes for part in ("--change", change)), name, tag)
        # Somebody with another state folder made the same at the same time: theirs has the name now.
        if self._engine.image(tag)["Id"] != made:
            self._engine.call("image", "rm", made)

    @contextlib.contextmanager
    def _making(self, tag: str) -> Iterator[None]:
        """One at a time on this state folder."""
        with self._store.building("image", tag.rpartition(":")[2]):
            yield

    def _copy(self, name: str, write: Callable[[IO[bytes]], None]) -> None:
        with streamed(write) as stdin:
            self._engine.must("cp", "-", f"{name}:/", stdin=stdin)

    def _ran(self, name: str) -> dict[str, Any]:
        """What the furnishing container told at its end."""
        started = self._engine.call("start", name)
        if not started.ok:
            said = started.stderr.kept.decode("utf-8", "replace").strip()[-_SHOWN:]
            if "no such file or directory" in said:
                raise _NoPython(said)
            raise self._engine.trouble(started, "docker start")
        code = int(self._engine.must("wait", name, timeout_sec=600))
        told = self._engine.call("logs", name)
        if code:
            said = (told.stderr.kept or told.stdout.kept).decode("utf-8", "replace").strip()[-_SHOWN:]
            if code in {_NO_PYTHON, _CANNOT_RUN}:
                raise _NoPython(said)
            raise SandboxError(f"an image could not be made ready: {said or f'exit code {code}'}")
        found: dict[str, Any] = json.loads(told.stdout.kept.splitlines()[-1])
        return found


def _nothing(_: SetupStep) -> None:
    """A Dockerfile has no steps of ours."""


class _NoPython(Exception):
    """The image has no interpreter that fits."""


def _digest_of(image: dict[str, Any]) -> str:
    known = [str(item).partition("@")[2] for item in image.get("RepoDigests") or []]
    return next((item for item in known if item), str(image["Id"]))


def _furnish_source() -> str:
    return (resources.files("agentbench.sandbox.server") / "prepare_image.py").read_text(encoding="utf-8")
