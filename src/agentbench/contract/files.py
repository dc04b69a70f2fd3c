"""The files beside a `task.yaml`: where they may be, what they hold, what identifies them."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pathspec

from agentbench.core.errors import ContractError

MAX_HIDDEN_FILES = 10_000
MAX_HIDDEN_BYTES = 64 * 1024 * 1024
MAX_TEXT_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class HiddenFile:
    """A file that is laid over the tree in the grading replica only."""

    content: bytes
    executable: bool


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


def hidden_paths(folder: Path, generated: Sequence[str]) -> Iterator[tuple[bytes, Path, bool]]:
    """(path in the tree, file, executable) of every hidden file, sorted.

    What tools leave behind (`oracle.generated`) is not part of it: running the hidden tests once while writing them
    must not change the contract.

    Raises:
        FileTrouble: a symlink, special file or `.git` in it, or more than the limits.
    """
    skip = pathspec.PathSpec.from_lines("gitwildmatch", generated)
    total = count = 0
    for path, info in sorted(_walk(folder), key=lambda found: os.fsencode(found[0])):
        relative = os.path.relpath(path, folder)
        if skip.match_file(relative):
            continue
        if Path(relative).parts[0].lower() == ".git":
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


def _walk(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
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


def read_hidden(folder: Path, generated: Sequence[str]) -> Mapping[bytes, HiddenFile]:
    """The hidden files with their bytes.

    Raises:
        ContractError: the folder changed since the task was loaded and cannot be used any more.
    """
    try:
        return {
            name: HiddenFile(read_bytes(path), executable) for name, path, executable in hidden_paths(folder, generated)
        }
    except FileTrouble as trouble:
        raise ContractError(f"{folder}: {trouble}") from None


def folder_digest(folder: Path, generated: Sequence[str]) -> str:
    """A digest of a folder's content: paths, executable bits, bytes, link targets. `.git` and generated files apart.

    Raises:
        ContractError: it cannot be read.
    """
    skip = pathspec.PathSpec.from_lines("gitwildmatch", generated)
    total = hashlib.sha256(b"agentbench.folder/1\0")
    try:
        for path, info in sorted(_walk(folder), key=lambda found: os.fsencode(found[0])):
            relative = os.path.relpath(path, folder)
            if Path(relative).parts[0] == ".git" or skip.match_file(relative):
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
