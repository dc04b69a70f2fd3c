"""The materials of an attempt: everything that it needs on a node, without any file system that both machines see.

The driver packs a task with its hidden tests and its reference, the configuration, and the addresses of larger parts: the base
repository, the files of an agent, an installed program. A node keeps the packed task in memory (`MemoryFolder`) and the larger
parts in its caches, where `ab cache` finds them. A prepared environment is built on the node from the task's setup, once.
"""

from __future__ import annotations

import io
import os
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import BinaryIO

from agentbench.agents.cli.agent import profile_of
from agentbench.agents.cli.layer import ProgramLayer
from agentbench.agents.scripted import DEFAULT_SCRIPT
from agentbench.contract.identity import identify
from agentbench.contract.load import LoadedTask
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import SourceError, WorkspaceError
from agentbench.execution.cluster.content import Address, ContentStore
from agentbench.execution.cluster.node_lab import NodeLab
from agentbench.execution.cluster.packed_tree import pack_folder, unpack_folder
from agentbench.execution.config import Configuration
from agentbench.execution.lab import Lab
from agentbench.execution.plan import PlanRow
from agentbench.execution.task_bundle import own_files
from agentbench.workspace.source.snapshot import Snapshot

Fetch = Callable[[Address, BinaryIO], None]
"""Fetches content by its address into a file."""

_HEADER = "materials.pickle"
_FILES = "files"
_SCRIPT = "script"


@dataclass(frozen=True, slots=True)
class SentSnapshot:
    digest: str
    source: dict[str, str]
    content: Address | None
    """None if the task has no base repository, or it is not available."""
    problem: tuple[str, str] | None = None
    """Why the base repository is not available: message and remedy. The task is at fault, so the attempt says so."""


@dataclass(frozen=True, slots=True)
class SentProgram:
    """The installed program of a CLI agent."""

    agent: str
    key: str
    digest: str
    content: Address


@dataclass(frozen=True, slots=True)
class Materials:
    task: LoadedTask
    configuration: Configuration
    snapshot: SentSnapshot
    agent_files: Address | None
    program: SentProgram | None
    script: str | None
    """Name of the script of a scripted agent among the packed files."""


# --- on the driver ------------------------------------------------------------------------------------------------------


def pack_materials(row: PlanRow, lab: Lab, store: ContentStore) -> Address:
    """Pack what the attempts of a variant at a task need, once.

    Raises:
        SourceError: the base repository is not available.
        WorkspaceError, HarnessError: it cannot be packed.
    """
    key = ("materials", str(row.task.folder), row.task.id, row.configuration.variant)
    return store.once(key, partial(_write_materials, row, lab, store))


def pack_requirements(task: LoadedTask, store: ContentStore) -> Address:
    """Pack what a node needs to say whether it can run a task: the contract and the Dockerfile, if it has one."""
    name = task.task.environment.dockerfile
    known = replace(task, identities=identify(task))
    return store.add(pickle.dumps((known, None if name is None else (task.folder / name).read_bytes())))


def _write_materials(row: PlanRow, lab: Lab, store: ContentStore, target: BinaryIO) -> None:
    configuration = row.configuration
    script = _script(row)
    materials = Materials(
        task=replace(row.task, identities=identify(row.task)),
        configuration=replace(configuration, agent_files=None, script=None),
        snapshot=_sent_snapshot(row.task, lab, store),
        agent_files=None if configuration.agent_files is None else _sent_folder(configuration.agent_files, store),
        program=_sent_program(lab.program(configuration.agent, row.task), configuration.agent, store),
        script=None if script is None else script.name,
    )
    with tempfile.TemporaryDirectory(prefix="agentbench-") as name:
        folder = Path(name)
        (folder / _HEADER).write_bytes(pickle.dumps(materials))
        for inner, data, executable in _task_files(row.task):
            _write(folder / _FILES / inner, data, executable=executable)
        if script is not None:
            _write(folder / _SCRIPT / script.name, script.read_bytes())
        pack_folder(folder, target)


def _task_files(task: LoadedTask) -> Iterator[tuple[str, bytes, bool]]:
    yield from own_files(task)
    default_script = task.folder / DEFAULT_SCRIPT
    if default_script.is_file():
        yield DEFAULT_SCRIPT, default_script.read_bytes(), False
    if task.reference_file is not None:
        yield str(task.task.reference), task.reference_file.read_bytes(), False


def _script(row: PlanRow) -> Path | None:
    script = row.configuration.script
    return script / f"{row.task.id}.yaml" if script is not None and script.is_dir() else script


def _sent_snapshot(task: LoadedTask, lab: Lab, store: ContentStore) -> SentSnapshot:
    try:
        snapshot = lab.snapshots.materialize(task)
    except SourceError as error:
        return SentSnapshot("", {}, None, (error.message, error.remedy))
    content = None
    if snapshot.source.get("kind") != "none":
        content = store.once(("snapshot", snapshot.digest), partial(pack_folder, snapshot.folder.parent))
    return SentSnapshot(snapshot.digest, dict(snapshot.source), content)


def _sent_folder(folder: Path, store: ContentStore) -> Address:
    return store.once(("folder", str(folder.absolute())), partial(pack_folder, folder.resolve()))


def _sent_program(layer: ProgramLayer | None, agent: str, store: ContentStore) -> SentProgram | None:
    if layer is None:
        return None
    folder = layer.folder.parent
    content = store.once(("program", folder.name), partial(pack_folder, folder))
    return SentProgram(agent, folder.name, layer.digest, content)


def _write(path: Path, data: bytes, *, executable: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    # The user of a sandbox must be able to read a file that is mounted into it. Others do not get into the folder in memory.
    path.chmod(0o755 if executable else 0o644)


# --- on a node ------------------------------------------------------------------------------------------------------------


def unpack_materials(address: Address, fetch: Fetch, memory: Path, lab: NodeLab) -> tuple[LoadedTask, Configuration]:
    """Fetch materials into a folder in memory and the larger parts into the node's caches, where they are missing.

    Raises:
        WorkspaceError: they cannot be fetched or written.
    """
    folder = memory / address.sha256
    buffer = io.BytesIO()
    fetch(address, buffer)
    buffer.seek(0)
    folder.mkdir(mode=0o700)
    unpack_folder(buffer, folder)
    materials: Materials = pickle.loads((folder / _HEADER).read_bytes())  # noqa: S301 - from the driver
    (folder / _FILES).mkdir(exist_ok=True)
    task = replace(materials.task, folder=folder / _FILES, origin=materials.task.folder)
    if materials.snapshot.problem is None:
        lab.sent_snapshots.register(task.folder, _received_snapshot(materials.snapshot, fetch, lab))
    else:
        message, remedy = materials.snapshot.problem
        lab.sent_snapshots.register(task.folder, SourceError(message, remedy=remedy))
    if materials.program is not None:
        lab.sent_programs[materials.program.agent, task.folder] = _received_program(materials.program, fetch, lab)
    configuration = materials.configuration
    if materials.agent_files is not None:
        files = _cached_folder(lab.state, f"files-{materials.agent_files.sha256[:32]}", materials.agent_files, fetch)
        configuration = replace(configuration, agent_files=files)
    if materials.script is not None:
        configuration = replace(configuration, script=folder / _SCRIPT / materials.script)
    return task, configuration


def unpack_requirements(address: Address, fetch: Fetch, memory: Path) -> LoadedTask:
    """Fetch what `pack_requirements` packed."""
    buffer = io.BytesIO()
    fetch(address, buffer)
    task, dockerfile = pickle.loads(buffer.getvalue())  # noqa: S301 - from the driver
    folder = memory / f"requirements-{address.sha256}"
    folder.mkdir(exist_ok=True)
    if dockerfile is not None:
        _write(folder / task.task.environment.dockerfile, dockerfile)
    received: LoadedTask = replace(task, folder=folder, origin=task.folder)
    return received


def _received_snapshot(sent: SentSnapshot, fetch: Fetch, lab: NodeLab) -> Snapshot:
    if sent.content is None:
        return lab.sent_snapshots.empty()
    content = sent.content

    def fill(folder: Path) -> None:
        _fetch_folder(content, fetch, folder)

    return replace(lab.sent_snapshots.add(sent.digest, fill), source=sent.source)


def _received_program(sent: SentProgram, fetch: Fetch, lab: NodeLab) -> ProgramLayer:
    profile = profile_of(sent.agent)
    if profile is None:
        raise WorkspaceError(f"this node does not know the agent {sent.agent}")
    folder = _cached_folder(lab.state, sent.key, sent.content, fetch)
    return ProgramLayer(profile, sent.digest, folder / "tree")


def _cached_folder(state: Path, name: str, address: Address, fetch: Fetch) -> Path:
    """Return a folder of the cache of agents, fetching it if it is missing."""
    root = state / "agents"
    folder = root / name
    try:
        if not folder.is_dir():
            root.mkdir(parents=True, exist_ok=True)
            temporary = Path(tempfile.mkdtemp(prefix=".fetching-", dir=root))
            try:
                temporary.chmod(0o755)
                _fetch_folder(address, fetch, temporary)
                if not folder.is_dir():
                    temporary.rename(folder)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
        os.utime(folder)  # `ab cache` removes by last use
    except OSError as error:
        raise WorkspaceError(f"cannot write {folder}: {error.strerror or error}") from error
    return folder


def _fetch_folder(address: Address, fetch: Fetch, folder: Path) -> None:
    with tempfile.TemporaryFile(prefix="agentbench-") as file:
        fetch(address, file)
        file.seek(0)
        unpack_folder(file, folder)
