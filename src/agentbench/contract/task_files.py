"""Read and digest the files beside a `task.yaml`."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import ContractError

MAX_HIDDEN_FILES = 10_000
MAX_HIDDEN_BYTES = 64 * 1024 * 1024
MAX_TEXT_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class HiddenFile:
    """A file that is added to the tree in the grading replica only."""

    content: bytes
    executable: bool


def is_python_cache(path: str) -> bool:
    """Return whether a file is a cache of Python or pytest.

    Such files belong to neither the base repository nor the hidden files: running a test by hand must not change a
    task's identity.
    """
    parts = Path(path).parts
    return path.endswith(".pyc") or "__pycache__" in parts or ".pytest_cache" in parts


class TaskFileError(ValueError):
    """A file beside the task cannot be used; the text gives the reason."""


def inside(folder: Path, name: str) -> Path:
    """Return the path of a file that must be inside the task folder, also after following symlinks.

    Raises:
        TaskFileError: the file does not exist or is outside.
    """
    if name.startswith("/"):
        raise TaskFileError(f"{name} is an absolute path; expected a path relative to task.yaml")
    path = folder / name
    try:
        real = path.resolve(strict=True)
    except FileNotFoundError:
        if ".." in Path(name).parts:
            raise TaskFileError(f"{name} is outside the task folder") from None
        raise TaskFileError(f"{name} does not exist (relative to task.yaml)") from None
    except (OSError, RuntimeError, ValueError) as error:
        raise TaskFileError(f"cannot read {name}: {error}") from None
    if not real.is_relative_to(folder.resolve()):
        raise TaskFileError(f"{name} is outside the task folder")
    return path


def regular(path: Path, name: str) -> Path:
    """Return `path` if it is a regular file.

    Raises:
        TaskFileError: it is something else or cannot be read.
    """
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        raise TaskFileError(f"cannot read {name}: {getattr(error, 'strerror', error)}") from None
    if not stat.S_ISREG(mode):
        raise TaskFileError(f"{name} is not a regular file")
    return path


def is_file(root: Path, path: str) -> bool:
    """Return whether a folder has a file or a symlink at this path."""
    try:
        file = root / path
        return file.is_symlink() or file.is_file()
    except (OSError, ValueError):
        return False


def read_bytes(path: Path, limit: int = MAX_HIDDEN_BYTES) -> bytes:
    """Read a regular file of the task.

    Raises:
        ContractError: it vanished, cannot be read or is larger than `limit`.
    """
    try:
        with regular(path, str(path)).open("rb") as stream:
            data = stream.read(limit + 1)
    except (TaskFileError, OSError) as error:
        raise ContractError(f"{path}: cannot read: {error}") from None
    if len(data) > limit:
        raise ContractError(f"{path}: larger than {limit // 1024**2} MiB")
    return data


def hidden_paths(folder: Path) -> Iterator[tuple[bytes, Path, bool]]:
    """Return (path in the tree, file, executable) of every hidden file, sorted.

    Raises:
        TaskFileError: the folder contains a symlink, a special file or `.git`, or exceeds the limits.
    """
    total = count = 0
    for path, info in sorted(walk(folder), key=lambda entry: os.fsencode(entry[0])):
        relative = os.path.relpath(path, folder)
        if is_python_cache(relative):
            continue
        if any(part.lower() == ".git" for part in Path(relative).parts):
            raise TaskFileError(f"{relative}: hidden files must not be inside .git")
        if not stat.S_ISREG(info.st_mode):
            raise TaskFileError(f"{relative}: hidden files must be regular files, not symlinks or devices")
        count, total = count + 1, total + info.st_size
        if count > MAX_HIDDEN_FILES or total > MAX_HIDDEN_BYTES:
            raise TaskFileError(f"more than {MAX_HIDDEN_FILES:,} files or {MAX_HIDDEN_BYTES // 1024**2} MiB")
        yield os.fsencode(relative), Path(path), bool(info.st_mode & 0o100)


def walk(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield everything below a folder except folders, without following symlinks.

    Raises:
        TaskFileError: a folder cannot be read.
    """
    pending = [str(folder)]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    info = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(info.st_mode):
                        pending.append(entry.path)
                    else:
                        yield entry.path, info
        except OSError as error:
            raise TaskFileError(f"cannot read: {error.strerror}") from None


def read_hidden(folder: Path) -> Mapping[bytes, HiddenFile]:
    """Read all hidden files.

    Raises:
        ContractError: the folder changed after the task was loaded and is no longer valid.
    """
    try:
        return {name: HiddenFile(read_bytes(path), executable) for name, path, executable in hidden_paths(folder)}
    except TaskFileError as error:
        raise ContractError(f"{folder}: {error}") from None


def folder_digest(folder: Path) -> str:
    """Digest a folder: paths, executable bits, bytes and link targets, without `.git` and Python caches.

    Raises:
        ContractError: it cannot be read.
    """
    total = hashlib.sha256(b"agentbench.folder/1\0")
    try:
        for path, info in sorted(walk(folder), key=lambda entry: os.fsencode(entry[0])):
            relative = os.path.relpath(path, folder)
            if Path(relative).parts[0] == ".git" or is_python_cache(relative):
                continue
            kind, content = _content(path, info)
            for part in (os.fsencode(relative), kind, content):
                total.update(len(part).to_bytes(8, "big") + part)
    except (TaskFileError, OSError) as error:
        raise ContractError(f"{folder}: {error}") from None
    return "sha256:" + total.hexdigest()


def _content(path: str, info: os.stat_result) -> tuple[bytes, bytes]:
    if stat.S_ISLNK(info.st_mode):
        return b"link", os.fsencode(Path(path).readlink())
    if not stat.S_ISREG(info.st_mode):
        return b"special", b""
    with Path(path).open("rb") as stream:
        return b"x" if info.st_mode & 0o100 else b"-", hashlib.file_digest(stream, "sha256").digest()
