"""Remembering on disk what was found out about untouched R, across attempts and processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from agentbench.core.atomic_file import write_atomic
from agentbench.core.canonical import Json, digest
from agentbench.core.errors import WorkspaceError
from agentbench.core.file_lock import file_lock

FORMAT = 2
"""Raised when what is remembered, or how it is found out, changes meaning."""

M = TypeVar("M", bound=BaseModel)


def key_of(*parts: Json) -> str:
    return digest([FORMAT, *parts]).removeprefix("sha256:")


def remembered(folder: Path, key: str, kind: type[M], make: Callable[[], M]) -> tuple[M, bool]:
    """What is known under `key`, made now if nothing is; and whether it was known. One maker at a time.

    Raises:
        WorkspaceError: the folder cannot be used.
    """
    path = folder / f"{kind.__name__.lower()}-{key}.json"
    known = _read(path, kind)
    if known is not None:
        return known, True
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with file_lock(path.with_suffix(".lock")):
            known = _read(path, kind)
            if known is not None:
                return known, True
            made = make()
            write_atomic(path, made.model_dump_json().encode("utf-8", "surrogatepass"))
            return made, False
    except OSError as error:
        raise WorkspaceError(f"the cache {folder} cannot be used: {error.strerror or error}") from error


def _read(path: Path, kind: type[M]) -> M | None:
    """None for anything that is not whole: it is made again."""
    try:
        return kind.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
