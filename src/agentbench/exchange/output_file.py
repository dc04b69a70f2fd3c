"""Write an export: completely or not at all, and never over something that is not a file."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from agentbench.core.errors import InputError


@contextmanager
def output_file(out: str | Path) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces `out` when everything was written.

    Raises:
        InputError: it cannot be written.
    """
    path = Path(out)
    if path.is_dir():
        raise InputError(f"--out {path} is a folder", remedy="give a file")
    if not path.absolute().parent.is_dir():
        raise InputError(f"--out {path}: folder {path.parent} does not exist", remedy=f"mkdir -p {path.parent}")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("xb") as file:
            yield file
        temporary.rename(path)
    except OSError as error:
        raise InputError(f"cannot write --out {path}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def output_folder(out: str | Path) -> Path:
    """Create a folder for an export of several files.

    Raises:
        InputError: it has files already, or cannot be created.
    """
    path = Path(out)
    try:
        path.mkdir(parents=True, exist_ok=True)
        used = any(path.iterdir())
    except OSError as error:
        raise InputError(f"cannot create the folder --out {path}: {error.strerror or error}") from error
    if used:
        raise InputError(f"--out {path} is not empty", remedy="give a new folder")
    return path


def json_bytes(value: object) -> bytes:
    """Encode JSON as ASCII, so that no text can be taken for a line end or be invalid."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode()
