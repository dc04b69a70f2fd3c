"""The files beside a `task.yaml`: where they may be, what they hold, what identifies them."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from agentbench.core.errors import ContractError

MAX_HIDDEN_FILES = 10_000
MAX_HIDDEN_BYTES = 64 * 1024 * 1024
MAX_TEXT_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class HiddenFile:
    """A file that is laid over the tree in the grading replica only."""

    content: bytes
    executable: bool


def is_debris(path: str) -> bool:
    """Whether a file is what running Python beside a task leaves behind.

    It is no part of R or of the hidden files: trying a test once by hand must not change the contract.
    """
    parts = Path(path).parts
    return path.endswith(".pyc") or "__pycache__" in parts or ".pytest_cache" in parts


class FileTrouble(ValueError):
    """A file beside the task that cannot be used; the text says why."""


def inside(folder: Path, name: str) -> Path:
    """The path of a file that must stay within the task's folder, also through symlinks.

    Raises:
        FileTrouble: it does not exist or leads out.
    """
    if name.startswith("/"):
        msg = f"{name} is an absolute path; expected a path beside task.yaml"
        raise FileTrouble(msg)
    path = folder / name
    try:
        real = path.resolve(strict=True)
    except FileNotFoundError:
        if ".." in Path(name).parts:
            msg = f"{name} leads out of the task's folder"
            raise FileTrouble(msg) from None
        msg = f"{name} does not exist beside task.yaml"
        raise FileTrouble(msg) from None
    except (OSError, RuntimeError, ValueError) as error:
        msg = f"{name} cannot be read: {error}"
        raise FileTrouble(msg) from None
    if not real.is_relative_to(folder.resolve()):
        msg = f"{name} leads out of the task's folder"
        raise FileTrouble(msg)
    return path


def regular(path: Path, name: str) -> Path:
    """`path`, when it is a regular file.

    Raises:
        FileTrouble: it is something else.
    """
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        msg = f"{name} cannot be read: {getattr(error, 'strerror', error)}"
        raise FileTrouble(msg) from None
    if not stat.S_ISREG(mode):
        msg = f"{name} is not a file"
        raise FileTrouble(msg)
    return path


def read_bytes(path: Path, limit: int = MAX_HIDDEN_BYTES) -> bytes:
    """All bytes of a regular file of the task.

    Raises:
        ContractError: it vanished, cannot be read or is larger than `limit`.
    """
    try:
        with regular(path, str(path)).open("rb") as stream:
            data = stream.read(limit + 1)
    except (FileTrouble, OSError) as error:
        raise ContractError(f"{path}: cannot be read: {error}") from None
    if len(data) > limit:
        raise ContractError(f"{path}: is larger than {limit} bytes")
    return data


def hidden_paths(folder: Path) -> Iterator[tuple[bytes, Path, bool]]:
    """(path in the tree, file, executable) of every hidden file, sorted.

    Raises:
        FileTrouble: a symlink, special file or `.git` in it, or more than the limits.
    """
    total = count = 0
    for path, info in sorted(walk(folder), key=lambda found: os.fsencode(found[0])):
        relative = os.path.relpath(path, folder)
        if is_debris(relative):
            continue
        if any(part.lower() == ".git" for part in Path(relative).parts):
            msg = f"{relative}: hidden files may not reach into .git"
            raise FileTrouble(msg)
        if not stat.S_ISREG(info.st_mode):
            msg = f"{relative}: hidden files are regular files, no symlinks or devices"
            raise FileTrouble(msg)
        count, total = count + 1, total + info.st_size
        if count > MAX_HIDDEN_FILES or total > MAX_HIDDEN_BYTES:
            msg = f"holds more than {MAX_HIDDEN_FILES} files or {MAX_HIDDEN_BYTES} bytes"
            raise FileTrouble(msg)
        yield os.fsencode(relative), Path(path), bool(info.st_mode & 0o100)


def walk(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Everything below a folder that is not a folder itself; symlinks are not followed.

    Raises:
        FileTrouble: a folder cannot be read.
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
            msg = f"cannot be read: {error.strerror}"
            raise FileTrouble(msg) from None


def read_hidden(folder: Path) -> Mapping[bytes, HiddenFile]:
    """The hidden files with their bytes.

    Raises:
        ContractError: the folder changed since the task was loaded and cannot be used any more.
    """
    try:
        return {name: HiddenFile(read_bytes(path), executable) for name, path, executable in hidden_paths(folder)}
    except FileTrouble as trouble:
        raise ContractError(f"{folder}: {trouble}") from None


def folder_digest(folder: Path) -> str:
    """A digest of a folder's content: paths, executable bits, bytes, link targets. `.git` and debris apart.

    Raises:
        ContractError: it cannot be read.
    """
    total = hashlib.sha256(b"agentbench.folder/1\0")
    try:
        for path, info in sorted(walk(folder), key=lambda found: os.fsencode(found[0])):
            relative = os.path.relpath(path, folder)
            if Path(relative).parts[0] == ".git" or is_debris(relative):
                continue
            kind, content = _content(path, info)
            for part in (os.fsencode(relative), kind, content):
                total.update(len(part).to_bytes(8, "big") + part)
    except (FileTrouble, OSError) as error:
        raise ContractError(f"{folder}: {error}") from None
    return "sha256:" + total.hexdigest()


def _content(path: str, info: os.stat_result) -> tuple[bytes, bytes]:
    if stat.S_ISLNK(info.st_mode):
        return b"link", os.fsencode(Path(path).readlink())
    if not stat.S_ISREG(info.st_mode):
        return b"special", b""
    with Path(path).open("rb") as stream:
        return b"x" if info.st_mode & 0o100 else b"-", hashlib.file_digest(stream, "sha256").digest()
