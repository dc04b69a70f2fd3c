"""Install a program once, with network, in its own sandbox, and keep it as a layer that is mounted read-only.

    <state>/agents/<key>/tree/…       the installed files
    <state>/agents/<key>/layer.json   digest, label and size

The program is installed at the path where it will be mounted, in an environment like the task's, so that the paths it contains
(its interpreter, its folder) are right. The task's prepared environment never contains it.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from agentbench.agents.cli.profiles import TARGET, Profile, Source
from agentbench.core.canonical import digest, sha256_hex
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import SandboxError, SandboxUnavailable, SetupFailed, WorkspaceError
from agentbench.core.file_lock import file_lock
from agentbench.sandbox.protocol import Backend, Limits, Mount, Phase, Prepared, SandboxSpec, SetupPlan, SetupStep
from agentbench.tree.entry import Entry, Kind, tree_digest

SCHEMA = 2
INSTALL_SEC = 1200.0
_LIMITS = Limits(cpus=2, memory_mb=4096, pids=512, disk_mb=6144, inodes=400_000)
_MAX_FILE = 1 << 30


@dataclass(frozen=True, slots=True)
class ProgramLayer:
    """An installed program. `digest` covers all its files."""

    profile: Profile
    digest: str
    folder: Path

    @property
    def mount(self) -> Mount:
        return Mount(self.folder, TARGET)

    def described(self) -> dict[str, str]:
        """Describe the program for the manifest."""
        return {
            "profile": self.profile.name,
            "package": self.profile.package,
            "version": self.profile.version,
            "source": str(self.profile.source),
            "digest": self.digest,
        }


def install(
    profile: Profile, backend: Backend, like: SandboxSpec, state: Path, *, on_step: Callable[[SetupStep], None]
) -> ProgramLayer:
    """Return the program's layer for sandboxes like `like`, installing it if it is not cached.

    Raises:
        SandboxUnavailable: it cannot be installed here; has the installer's message.
        SandboxError, WorkspaceError: harness errors.
    """
    root = state / "agents"
    private = state / "agents-installing"
    with _install_lock(private, profile.name):
        prepared = _prepare(profile, backend, like, private, on_step)
        key = digest([SCHEMA, profile.name, prepared.key, prepared.digest]).removeprefix("sha256:")[:32]
        folder = root / key
        layer_digest = _read_digest(folder)
        if layer_digest is None:
            root.mkdir(exist_ok=True)
            layer_digest = _copy_layer(profile, prepared, root, folder)
        os.utime(folder)  # `ab cache` removes layers by their last use
        return ProgramLayer(profile, layer_digest, folder / "tree")


def _prepare(
    profile: Profile, backend: Backend, like: SandboxSpec, private: Path, on_step: Callable[[SetupStep], None]
) -> Prepared:
    spec = SandboxSpec(
        phase=Phase.SETUP,
        limits=_LIMITS,
        workdir=TARGET,
        network=True,
        env=_npm_settings() if profile.source is Source.NPM else {},
        # Only Python programs depend on the interpreter.
        python=like.python if profile.source is Source.PYPI else None,
        image=like.image,
        dockerfile=like.dockerfile,
        labels={"agent": profile.name},
    )
    lock = {name: sha256_hex(content) for name, content in profile.lock.items()}
    key = digest([SCHEMA, profile.name, list(profile.install), lock, spec.python or "", spec.image or ""])
    source = private / f"{profile.name}-{key[-16:]}"
    source.mkdir(exist_ok=True)
    for name, content in profile.lock.items():
        (source / name).write_bytes(content)
    plan = SetupPlan(key=key, source=source, commands=profile.install, capture=(), timeout_sec=INSTALL_SEC)
    try:
        return backend.prepare(plan, spec, on_step=on_step)
    except SetupFailed as error:
        # Not a fault of the task, which was not used yet.
        msg = f"cannot install agent program {profile.label}: {error.message}"
        hint = "installing needs network once; see docs/how-to/bring-your-agent.md"
        raise SandboxUnavailable(msg, remedy=f"{error.remedy}; {hint}" if error.remedy else hint) from error


def _npm_settings() -> dict[str, str]:
    """Return the host's npm registry. Every setup sandbox gets pip's settings already."""
    settings = {name.lower(): value for name, value in os.environ.items() if name.lower() == "npm_config_registry"}
    return {name: value for name, value in settings.items() if value}


def _read_digest(folder: Path) -> str | None:
    try:
        value = json.loads((folder / "layer.json").read_text())["digest"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return value if isinstance(value, str) else None


def _copy_layer(profile: Profile, prepared: Prepared, root: Path, folder: Path) -> str:
    """Copy the installed files to the folder they are mounted from, completely or not at all. Return their digest."""
    try:
        with tempfile.TemporaryDirectory(prefix=".making-", dir=root) as name:
            temporary = Path(name)
            temporary.chmod(0o755)
            tree = temporary / "tree"
            tree.mkdir()
            entries = [entry for entry in prepared.base_tree.entries() if entry.kind is not Kind.SPECIAL]
            for entry in entries:
                _copy(prepared, entry, tree)
            layer_digest = tree_digest(entries)
            description = {
                "digest": layer_digest,
                "label": profile.label,
                "files": len(entries),
                "bytes": sum(entry.size for entry in entries),
            }
            (temporary / "layer.json").write_text(json.dumps(description))
            shutil.rmtree(folder, ignore_errors=True)
            temporary.rename(folder)
            temporary.mkdir()  # TemporaryDirectory removes it
    except OSError as error:
        raise WorkspaceError(f"cannot store the agent program in {root}: {error}") from error
    return layer_digest


def _copy(prepared: Prepared, entry: Entry, tree: Path) -> None:
    path = tree / os.fsdecode(entry.path)
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    content = prepared.base_tree.read(entry.path, max_bytes=_MAX_FILE)
    if entry.kind is Kind.SYMLINK:
        path.symlink_to(os.fsdecode(content))
        return
    # No link is followed: parent folders were created here, and each path occurs once.
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o755 if entry.executable else 0o644)
    with os.fdopen(fd, "wb") as file:
        file.write(content)


@contextmanager
def _install_lock(folder: Path, name: str) -> Iterator[None]:
    """Let one process at a time install a program."""
    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(file_lock(folder / f"{name}.lock", 0o600))
        except OSError as error:
            msg = f"cannot write the state folder {folder}: {error.strerror}"
            raise SandboxError(msg, remedy="set AB_STATE to a writable folder") from error
        yield
