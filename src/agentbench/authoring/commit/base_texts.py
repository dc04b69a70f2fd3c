"""Read the text files of a base repository, to know what a solver can read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from agentbench.contract.task_files import TaskFileError, walk
from agentbench.core.errors import ContractError

_SUFFIXES = frozenset({".py", ".pyi", ".rst", ".md", ".txt", ".toml", ".cfg", ".json", ".yaml", ".yml"})
MAX_FILES = 2000
MAX_BYTES = 1024 * 1024
"""Larger files are data."""


def read_texts(folder: Path) -> Mapping[str, str]:
    """Return up to MAX_FILES text files by path, without `.git` and without following symlinks.

    Raises:
        ContractError: the folder cannot be read.
    """
    texts: dict[str, str] = {}
    try:
        for name, info in walk(folder):
            path = Path(name)
            relative = PurePosixPath(path.relative_to(folder).as_posix())
            if relative.parts[0] == ".git" or relative.suffix.lower() not in _SUFFIXES or info.st_size > MAX_BYTES:
                continue
            if not path.is_symlink() and path.is_file():
                texts[str(relative)] = path.read_bytes().decode("utf-8", "replace")
            if len(texts) == MAX_FILES:
                break
    except (TaskFileError, OSError) as error:
        raise ContractError(f"{folder}: {error}") from None
    return texts
