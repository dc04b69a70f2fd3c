"""The layer of a program: installed once, with network, in a sandbox of its own; kept on the host; mounted read-only.

    <state>/agents/<key>/tree/…       the files
    <state>/agents/<key>/layer.json   what it is

The program is installed where it will be seen later, in an environment like the task's, so that what it names (its own
interpreter, its own folder) is right. A task's own environment never gets to see it.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from agentbench.agents.cli.profile import TARGET, Profile, Source
from agentbench.core.canonical import digest, sha256_hex
from agentbench.core.errors import SandboxError, SandboxUnavailable, SetupFailed, WorkspaceError
from agentbench.core.file_lock import file_lock
from agentbench.sandbox.protocol import Backend, Limits, Mount, Phase, Prepared, SandboxSpec, SetupPlan, SetupStep
from agentbench.tree.digest import tree_digest
from agentbench.tree.entry import Entry, Kind

SCHEMA = 2
INSTALL_SEC = 1200.0
_LIMITS = Limits(cpus=2, memory_mb=4096, pids=512, disk_mb=6144, inodes=400_000)
_MAX_FILE = 1 << 30


@dataclass(frozen=True, slots=True)
class ProgramLayer:
    """An installed program. `digest` is over all its files."""

    profile: Profile
    digest: str
    folder: Path

    @property
    def mount(self) -> Mount:
        return Mount(self.folder, TARGET)

    def described(self) -> dict[str, str]:
        """For the manifest."""
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
    """The program's layer for sandboxes like `like`: found, or made now.

    Raises:
        SandboxUnavailable: it cannot be installed here; says what its installer said.
        SandboxError, WorkspaceError: ours.
    """
    root = state / "agents"
    with _locked(state / "agents-installing", profile.name) as private:
        prepared = _prepare(profile, backend, like, private, on_step)
        key = digest([SCHEMA, profile.name, prepared.key, prepared.digest]).removeprefix("sha256:")[:32]
        folder = root / key
        found = _read(folder)
        if found is None:
            root.mkdir(exist_ok=True)
            found = _keep(profile, prepared, root, folder)
        os.utime(folder)  # when it was used last
        return ProgramLayer(profile, found, folder / "tree")


def _prepare(
    profile: Profile, backend: Backend, like: SandboxSpec, private: Path, on_step: Callable[[SetupStep], None]
) -> Prepared:
    spec = SandboxSpec(
        phase=Phase.SETUP,
        limits=_LIMITS,
        workdir=TARGET,
        network=True,
        env=_npm_settings() if profile.source is Source.NPM else {},
        # Only programs in Python have to fit the interpreter.
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
        # Not the task's trouble: the task has not been looked at.
        msg = f"the agent's program {profile.label} cannot be installed here: {error.message}"
        once = "it is installed once, with network; see docs/agents.md"
        raise SandboxUnavailable(msg, remedy=f"{error.remedy}; {once}" if error.remedy else once) from error


def _npm_settings() -> dict[str, str]:
    """The host's registry for npm; pip's settings a setup phase has anyway."""
    found = {name.lower(): value for name, value in os.environ.items() if name.lower() == "npm_config_registry"}
    return {name: value for name, value in found.items() if value}


def _read(folder: Path) -> str | None:
    try:
        said = json.loads((folder / "layer.json").read_text())["digest"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return said if isinstance(said, str) else None


def _keep(profile: Profile, prepared: Prepared, root: Path, folder: Path) -> str:
    """Copy the files to where they can be mounted from; whole or not at all."""
    try:
        with tempfile.TemporaryDirectory(prefix=".making-", dir=root) as name:
            making = Path(name)
            making.chmod(0o755)
            tree = making / "tree"
            tree.mkdir()
            entries = [entry for entry in prepared.base_tree.entries() if entry.kind is not Kind.SPECIAL]
            for entry in entries:
                _copy(prepared, entry, tree)
            found = tree_digest(entries)
            about = {
                "digest": found,
                "label": profile.label,
                "files": len(entries),
                "bytes": sum(entry.size for entry in entries),
            }
            (making / "layer.json").write_text(json.dumps(about))
            shutil.rmtree(folder, ignore_errors=True)
            making.rename(folder)
            making.mkdir()  # what the temporary folder's end removes
    except OSError as error:
        msg = f"the agent's program cannot be kept in {root}: {error}"
        raise WorkspaceError(msg) from error
    return found


def _copy(prepared: Prepared, entry: Entry, tree: Path) -> None:
    path = tree / os.fsdecode(entry.path)
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    content = prepared.base_tree.read(entry.path, max_bytes=_MAX_FILE)
    if entry.kind is Kind.SYMLINK:
        path.symlink_to(os.fsdecode(content))
        return
    # No link is followed: parents are folders made here, and each path comes once.
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o755 if entry.executable else 0o644)
    with os.fdopen(fd, "wb") as file:
        file.write(content)


@contextmanager
def _locked(folder: Path, name: str) -> Iterator[Path]:
    """Let one process at a time install a program."""
    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(file_lock(folder / f"{name}.lock", 0o600))
        except OSError as error:
            msg = f"cannot write the state folder {folder}: {error.strerror}"
            raise SandboxError(msg, remedy="set AB_STATE to a folder that can be written") from error
        yield folder
