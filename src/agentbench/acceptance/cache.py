"""Cache results about the base repository on disk, across attempts and processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from agentbench.core.atomic_file import write_atomic
from agentbench.core.canonical import Json, digest
from agentbench.core.errors import WorkspaceError
from agentbench.core.file_lock import file_lock

FORMAT = 3
"""Raised when the meaning of a cached result, or how it is computed, changes."""

M = TypeVar("M", bound=BaseModel)


def key_of(*parts: Json) -> str:
    return digest([FORMAT, *parts]).removeprefix("sha256:")


def load_or_make(folder: Path, key: str, kind: type[M], make: Callable[[], M]) -> tuple[M, bool]:
    """Return the result under `key`, made now if the cache has none, and whether the cache had it.

    Only one process at a time makes the result of a key.

    Raises:
        WorkspaceError: the cache folder cannot be used.
    """
    path = _path(folder, key, kind)
    cached = _read(path, kind)
    if cached is not None:
        return cached, True
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with file_lock(path.with_suffix(".lock")):
            cached = _read(path, kind)
            if cached is not None:
                return cached, True
            result = make()
            write_atomic(path, result.model_dump_json().encode("utf-8", "surrogatepass"))
            return result, False
    except OSError as error:
        raise WorkspaceError(f"the cache {folder} cannot be used: {error.strerror or error}") from error


def load(folder: Path, key: str, kind: type[M]) -> M | None:
    """Return the result under `key`, or None if the cache has none."""
    return _read(_path(folder, key, kind), kind)


def _path(folder: Path, key: str, kind: type[M]) -> Path:
    return folder / f"{kind.__name__.lower()}-{key}.json"


def _read(path: Path, kind: type[M]) -> M | None:
    """Return a cached result, or None if it is missing or damaged."""
    try:
        return kind.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
