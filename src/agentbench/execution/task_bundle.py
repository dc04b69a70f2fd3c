"""The task packed with its attempt, so that a run directory can be replayed without the task's folder.

    task.json task.yaml ids.json origin.json lock.json?   the task as it was run, and where its folder was
    files/…                                               hidden files, drivers, the Dockerfile
    repository/…                                          the base repository if it is small

The archive has hidden tests, so only its owner can read it. It never has the reference. A base repository with secrets is not
packed, and other files have placeholders for its secrets; `redacted.json` has the digests of these files as they were. When it is unpacked it is untrusted:
every name is checked, and links are created last, so that none is followed.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import stat
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath

from pydantic import ValidationError

from agentbench.contract.load import LoadedTask
from agentbench.contract.lock import Identities, Lock
from agentbench.contract.schema import FrozenScenario, Repo, Task
from agentbench.core.atomic_file import write_atomic
from agentbench.core.canonical import sha256_hex
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import RecordError
from agentbench.trace.redaction import Redactor
from agentbench.workspace.secrets.scan import RepositorySecrets

CONTRACT = "meta/contract.tar.gz"
MAX_REPOSITORY = 4 * 1024 * 1024
"""Largest base repository, in bytes, that is packed: every attempt has its own copy."""
MAX_UNPACKED = 256 * 1024 * 1024
_PRIVATE = 0o600
_REDACTED = "redacted.json"


@dataclass(frozen=True, slots=True)
class Bundle:
    """An unpacked task. `repository` is the base repository if it was packed, `origin` the task's original folder."""

    task: LoadedTask
    ids: Identities
    origin: Path
    repository: Path | None
    redacted: bool = False
    """Files still have placeholders for secrets of the base repository."""

    def with_repository(self) -> LoadedTask:
        """Return the task with the packed base repository as its source. Its digest identifies the content, not the source."""
        if self.repository is None or not isinstance(self.task.task.repo, Repo):
            return self.task
        return replace(self.task, task=self.task.task.model_copy(update={"repo": Repo(path=str(self.repository))}))


def pack(loaded: LoadedTask, ids: Identities, repository: bytes, secrets: RepositorySecrets | None = None) -> bytes:
    """Pack a task with its packed base repository into an archive.

    `secrets`: those of the base repository, which the archive must not have.
    """
    redact = secrets_redactor(secrets)
    exact: dict[str, str] = {}
    buffer = io.BytesIO()
    with _compressing(buffer) as stream:
        # Not closed: closing it would write the end of the archive, which comes after the base repository.
        tar = tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT)  # noqa: SIM115
        for name, data, executable in _documents_and_files(loaded, ids):
            redacted = redact.named(data)
            if redacted != data:
                exact[name] = sha256_hex(data)
            _add(tar, name, redacted, executable=executable)
        if exact:
            _add(tar, _REDACTED, json.dumps(exact, sort_keys=True).encode())
    return buffer.getvalue() + (_pack_paths((), Path()) if secrets and secrets.secrets else repository)


def pack_repository(repository: Path, file: Path) -> bytes:
    """Pack a base repository if it is small enough, as the end of an archive. `file` keeps the result for later attempts.

    Raises:
        RecordError: it cannot be read or kept.
    """
    try:
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            paths = _tree(repository)
            small = sum(path.lstat().st_size for path in paths) <= MAX_REPOSITORY
            write_atomic(file, _pack_paths(paths if small else (), repository))
        return file.read_bytes()
    except OSError as error:
        raise RecordError(f"cannot pack {repository}: {error.strerror or error}") from error


def _pack_paths(paths: Iterable[Path], folder: Path) -> bytes:
    """Pack paths below a folder, and the end of the archive."""
    buffer = io.BytesIO()
    with (
        _compressing(buffer) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in paths:
            _add_path(tar, f"repository/{path.relative_to(folder).as_posix()}", path)
    return buffer.getvalue()


def _compressing(buffer: io.BytesIO) -> gzip.GzipFile:
    """Open one part of an archive. Without timestamps, equal tasks give equal bytes."""
    return gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=1, mtime=0)


def secrets_redactor(secrets: RepositorySecrets | None) -> Redactor:
    """Return a redactor for the secrets of a base repository alone, so that everything it redacts can be restored."""
    redact = Redactor({}, shapes=False)
    redact.add_repository_secrets(() if secrets is None else secrets.values)
    return redact


def write_private(folder: Path, name: str, data: bytes) -> None:
    """Write a file of the attempt's folder that only its owner can read.

    Raises:
        RecordError: it cannot be written.
    """
    target = folder / name
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, _PRIVATE)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
    except OSError as error:
        raise RecordError(f"cannot write {target}: {error.strerror or error}") from error


def unpack(data: bytes, into: Path, restore: Redactor | None = None) -> Bundle:
    """Unpack an archive into an empty folder. `restore` puts the secrets of the base repository back.

    Raises:
        RecordError: it is not a task bundle, or has entries that a task bundle never has.
    """
    try:
        _extract(data, into)
        redacted = _restore_files(into, restore)
        task = Task.model_validate_json((into / "task.json").read_bytes())
        ids = Identities.model_validate_json((into / "ids.json").read_bytes())
        origin = json.loads((into / "origin.json").read_text(encoding="utf-8"))
        lock_file = into / "lock.json"
        lock = Lock.model_validate_json(lock_file.read_bytes()) if lock_file.exists() else None
        loaded = LoadedTask(
            task=task,
            folder=into / "files",
            file=into / "task.yaml",
            text=(into / "task.yaml").read_text(encoding="utf-8"),
            statement=str(origin["statement"]),
            scenario=lock.scenario if lock else task.scenario or FrozenScenario(),
            lock=lock,
        )
    except (OSError, EOFError, ValueError, KeyError, TypeError, tarfile.TarError, ValidationError) as error:
        cause = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise RecordError(f"cannot read the packed task: {cause}") from error
    repository = into / "repository"
    return Bundle(loaded, ids, Path(str(origin["folder"])), repository if repository.is_dir() else None, redacted)


# --- packing ----------------------------------------------------------------------------------------------------------


def _documents_and_files(loaded: LoadedTask, ids: Identities) -> Iterator[tuple[str, bytes, bool]]:
    for name, data in _documents(loaded, ids):
        yield name, data, False
    for name, data, executable in own_files(loaded):
        yield f"files/{name}", data, executable


def _documents(loaded: LoadedTask, ids: Identities) -> Iterator[tuple[str, bytes]]:
    yield "task.json", loaded.task.model_dump_json(by_alias=True).encode()
    yield "task.yaml", loaded.text.encode("utf-8", "backslashreplace")
    yield "ids.json", json.dumps(ids.model_dump(), sort_keys=True).encode()
    yield (
        "origin.json",
        json.dumps({"folder": str(loaded.origin or loaded.folder), "statement": loaded.statement}).encode(),
    )
    if loaded.lock is not None:
        yield "lock.json", loaded.lock.model_dump_json(by_alias=True).encode()


def own_files(loaded: LoadedTask) -> Iterator[tuple[str, bytes, bool]]:
    """List the files of the task that grading reads. The reference is not among them."""
    oracle, environment = loaded.task.oracle, loaded.task.environment
    if oracle.hidden is not None:
        for path, file in loaded.hidden_files().items():
            yield f"{oracle.hidden.strip('/')}/{os.fsdecode(path)}", file.content, file.executable
    names = {check.driver for check in loaded.checks if check.driver is not None}
    if environment.dockerfile is not None:
        names.add(environment.dockerfile)
    for name in sorted(names):
        file_path = loaded.folder / name
        yield name, file_path.read_bytes(), bool(file_path.stat().st_mode & stat.S_IXUSR)


def _tree(folder: Path) -> list[Path]:
    """List every file and link of a repository outside `.git`."""
    paths = []
    for base, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != ".git")
        links = [name for name in folders if (Path(base) / name).is_symlink()]
        paths += [Path(base) / name for name in sorted([*files, *links])]
    return paths


def _add(tar: tarfile.TarFile, name: str, data: bytes, *, executable: bool = False) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    info.mode = 0o755 if executable else 0o644
    tar.addfile(info, io.BytesIO(data))


def _add_path(tar: tarfile.TarFile, name: str, path: Path) -> None:
    if path.is_symlink():
        info = tarfile.TarInfo(name)
        info.type, info.linkname = tarfile.SYMTYPE, str(path.readlink())
        tar.addfile(info)
    else:
        _add(tar, name, path.read_bytes(), executable=bool(path.stat().st_mode & stat.S_IXUSR))


# --- unpacking --------------------------------------------------------------------------------------------------------


def _extract(data: bytes, into: Path) -> None:
    links: list[tuple[Path, str]] = []
    total = 0
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
        for member in tar:
            target = into / _checked(member.name)
            total += member.size
            if total > MAX_UNPACKED:
                raise ValueError(f"unpacked size exceeds {MAX_UNPACKED} bytes")
            if member.issym():
                links.append((target, member.linkname))
                continue
            content = tar.extractfile(member) if member.isreg() else None
            if content is None:
                raise ValueError(f"{member.name} is neither a file nor a link")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.read())
            target.chmod(0o755 if member.mode & stat.S_IXUSR else 0o644)
    for target, destination in links:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(destination)


def _restore_files(into: Path, restore: Redactor | None) -> bool:
    """Put secrets back and check the result. Return whether placeholders are left."""
    listed = into / _REDACTED
    if not listed.is_file() or listed.is_symlink():
        return False
    if restore is None:
        return True
    for name, sha256 in json.loads(listed.read_bytes()).items():
        target = into / _checked(name)
        content = restore.restore(target.read_bytes())
        if sha256_hex(content) != sha256:
            raise ValueError(f"the secrets in {name} cannot be restored from the base repository")
        target.write_bytes(content)
    return False


def _checked(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name:
        raise ValueError(f"{name!r} points outside the archive")
    return path
