"""Write task folders for tests, from Python values or raw text."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentbench.contract.load import load_task
from agentbench.core.errors import ContractError

MINIMAL: dict[str, Any] = {
    "id": "toy",
    "suite": "mine",
    "repo": {"url": "https://example.org/toy.git", "commit": "0123456789abcdef0123456789abcdef01234567"},
    "validation": {"failing_command": "pytest -q", "passing_command": "pytest -q"},
}


def task_with(**changes: Any) -> dict[str, Any]:
    """Return the minimal task with sections replaced, or removed by None."""
    value = copy.deepcopy(MINIMAL) | changes
    return {key: item for key, item in value.items() if item is not None}


def check_with(**changes: Any) -> dict[str, Any]:
    """Return a task with one check in `oracle.checks`."""
    check = {"id": "unit", "command": "make test"} | changes
    return task_with(
        validation=None, oracle={"checks": [{key: item for key, item in check.items() if item is not None}]}
    )


def write_task(
    folder: Path, value: Mapping[str, Any] | str | bytes, files: Mapping[str, str | bytes] | None = None
) -> Path:
    """Write a task folder; `value` is the task as a mapping, or the text of `task.yaml`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (files or {}).items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
    if isinstance(value, Mapping):
        value = yaml.safe_dump(dict(value), sort_keys=False)
    (folder / "task.yaml").write_bytes(value.encode() if isinstance(value, str) else value)
    return folder


def problems_of(folder: Path) -> list[str]:
    """Load an invalid task and return its problems, without the folder name in front."""
    with pytest.raises(ContractError) as caught:
        load_task(folder)
    assert caught.value.exit_code == 2
    assert caught.value.problems
    return [problem.replace(f"{folder}/", "") for problem in caught.value.problems]
