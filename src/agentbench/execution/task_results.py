"""The last results of validating and auditing each task, kept in the state folder for the view.

A result belongs to the id and the content of a task: its contract, its acceptance and its reference. A changed task has no results.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

from agentbench.contract.identity import identify
from agentbench.contract.load import LoadedTask
from agentbench.contract.task_files import read_bytes
from agentbench.core.atomic_file import write_atomic
from agentbench.core.canonical import Json, digest, sha256_hex
from agentbench.core.ids import now_iso

FOLDER = "task-results"
MAX_BYTES = 4 * 1024 * 1024

Kind = Literal["validation", "audit"]


def keep_result(state: Path, task: LoadedTask, kind: Kind, result: Mapping[str, object]) -> None:
    """Keep a result. It is shown, never decided from, so a state folder that cannot be written is no error."""
    path = _path(state, task, kind)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps({"at": now_iso(), **result}).encode())


def kept_result(state: Path, task: LoadedTask, kind: Kind) -> dict[str, Json] | None:
    """Return the last result for the task as it is now, or None."""
    path = _path(state, task, kind)
    try:
        if not path.is_file() or path.stat().st_size > MAX_BYTES:
            return None
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def _path(state: Path, task: LoadedTask, kind: Kind) -> Path:
    """
    Raises:
        ContractError: a file of the task cannot be read.
    """
    identities = identify(task)
    reference = task.reference_file
    content = "" if reference is None else sha256_hex(read_bytes(reference))
    name = digest([task.id, identities.contract_id, identities.acceptance_id, content]).removeprefix("sha256:")
    return state / FOLDER / f"{name}-{kind}.json"
