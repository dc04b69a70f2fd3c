"""Patches made elsewhere as rows of a plan: a file, or predictions in bulk."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentbench.contract.load import LoadedTask
from agentbench.core.errors import InputError
from agentbench.run.config import PROTOCOL_SEED, Configuration, Setting
from agentbench.run.plan import PlanRow

MAX_PREDICTIONS_BYTES = 4 * 1024 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Prediction:
    """One patch for one task, by somebody."""

    task_id: str
    patch: bytes
    method: str = "patch"


def read_predictions(path: Path) -> list[Prediction]:
    """JSONL of `{instance_id, model_patch, model_name_or_path?}`, or one JSON list or object keyed by id.

    Raises:
        InputError: unreadable, or an entry that is no prediction (with its place).
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"predictions {path} cannot be read: {error}"
        raise InputError(msg) from None
    return [_prediction(value, f"{path}:{place}", key) for place, key, value in _items(path, text)]


def _items(path: Path, text: str) -> list[tuple[str, str | None, object]]:
    """Every entry with its place and, when the file is keyed by id, its key."""
    try:
        whole = json.loads(text)
    except ValueError:
        items: list[tuple[str, str | None, object]] = []
        for number, line in enumerate(text.splitlines(), start=1):
            if not line.strip():
                continue
            try:
                items.append((str(number), None, json.loads(line)))
            except ValueError as error:
                msg = f"{path}:{number}: not JSON: {error}"
                raise InputError(msg) from None
        return items
    if isinstance(whole, list):
        return [(f"[{index}]", None, value) for index, value in enumerate(whole)]
    if isinstance(whole, dict) and "instance_id" not in whole:
        return [(key, key, value) for key, value in whole.items()]
    return [("1", None, whole)]


def _prediction(value: object, place: str, key: str | None) -> Prediction:
    if isinstance(value, str) and key is not None:
        return Prediction(key, value.encode("utf-8", "surrogatepass"))
    if not isinstance(value, dict):
        msg = f"{place}: expected an object with instance_id and model_patch"
        raise InputError(msg)
    task_id = value.get("instance_id", key)
    patch = value.get("model_patch", "")
    if not isinstance(task_id, str) or not task_id:
        msg = f"{place}: instance_id: expected the id of a task"
        raise InputError(msg)
    if patch is not None and not isinstance(patch, str):
        msg = f"{place}: model_patch: expected a patch as text"
        raise InputError(msg)
    method = value.get("model_name_or_path") or "patch"
    # An empty patch is a result like any other: it changes nothing.
    return Prediction(task_id, (patch or "").encode("utf-8", "surrogatepass"), str(method))


def prediction_rows(tasks: Sequence[LoadedTask], predictions: Sequence[Prediction]) -> list[PlanRow]:
    """A row for each; the second prediction of a method for a task is its second repeat, and so on.

    Raises:
        InputError: a prediction for a task that is not there.
    """
    known: Mapping[str, LoadedTask] = {task.id: task for task in tasks}
    unknown = sorted({one.task_id for one in predictions} - known.keys())
    if unknown:
        msg = f"predictions for tasks that were not given: {', '.join(unknown[:10])}" + (" …" if unknown[10:] else "")
        raise InputError(
            msg, remedy=f"--task takes a task or a folder of tasks; there are: {', '.join(sorted(known)[:20])}"
        )
    judged = sorted(one for one in {one.task_id for one in predictions} if known[one].task.repo == "none")
    if judged:
        msg = f"tasks without a workspace have nothing to put a patch on: {', '.join(judged[:10])}"
        raise InputError(msg, remedy="run them with an agent and --judge-model")
    seen: Counter[tuple[str, str]] = Counter()
    rows: list[PlanRow] = []
    for one in predictions:
        seen[one.task_id, one.method] += 1
        rows.append(
            PlanRow(
                known[one.task_id],
                patch_configuration(one.patch, one.method),
                seen[one.task_id, one.method],
                PROTOCOL_SEED,
            )
        )
    return rows


def patch_configuration(patch: bytes, method: str = "patch") -> Configuration:
    nothing = Setting(None, "default")
    names = ("model", "temperature", "top_p", "max_tokens")
    return Configuration(
        variant=method,
        agent="patch",
        max_steps=0,
        settings={"agent": Setting("patch", "cli"), **dict.fromkeys(names, nothing)},
        patch=patch,
    )
