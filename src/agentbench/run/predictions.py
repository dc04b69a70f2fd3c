"""Patches made elsewhere as rows of a plan: a file, or predictions in bulk. Nothing is read beyond what could be graded."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from agentbench.contract.load import LoadedTask
from agentbench.contract.problem import nearest
from agentbench.core.command import MIB
from agentbench.core.errors import InputError
from agentbench.run.config import PROTOCOL_SEED, Configuration, Setting
from agentbench.run.plan import PlanRow
from agentbench.workspace.diff.file_patch import PatchLimits

MAX_PREDICTIONS_BYTES = 4 * 1024 * MIB
"""Of a file with a prediction on each line, which is read line by line."""
MAX_DOCUMENT_BYTES = 256 * MIB
"""Of one line, and of a file that is one JSON value: both have to be held whole."""
_BOM = b"\xef\xbb\xbf"

_Item = tuple[str, str | None, object]
"""An entry with its place and, when the file is keyed by id, its key."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """One patch for one task, by somebody."""

    task_id: str
    patch: bytes
    method: str = "patch"
    problem: str = ""
    """Why the patch is not even kept: it is larger than any that could be graded."""


def read_patch(task_id: str, stream: BinaryIO) -> Prediction:
    """A patch from a file or a pipe, read no further than a patch may be long.

    Raises:
        OSError: it cannot be read.
    """
    most = PatchLimits().patch_bytes
    data = stream.read(most + 1)
    if len(data) <= most:
        return Prediction(task_id, data)
    return Prediction(task_id, b"", problem=_too_large(most))


def _too_large(most: int) -> str:
    return f"the patch has more than {most} bytes"


def read_predictions(path: Path) -> list[Prediction]:
    """JSONL of `{instance_id, model_patch, model_name_or_path?}`, or one JSON list or object keyed by id.

    Raises:
        InputError: unreadable, or an entry that is no prediction (with its place).
    """
    try:
        with path.open("rb") as stream:
            size = path.stat().st_size
            if size > MAX_PREDICTIONS_BYTES:
                msg = f"predictions {path} have {size} bytes, more than {MAX_PREDICTIONS_BYTES}"
                raise InputError(msg, remedy="grade them in several files")
            return [_prediction(value, f"{path}:{place}", key) for place, key, value in _items(path, stream)]
    except OSError as error:
        msg = f"predictions {path} cannot be read: {error.strerror or error}"
        raise InputError(msg) from None


def _items(path: Path, stream: BinaryIO) -> Iterator[_Item]:
    """Lines that are JSON each, unless the first is none or the only one: then the file is one value."""
    lines = _lines(path, stream)
    first = next(lines, None)
    if first is None:
        return
    number, line = first
    try:
        value = _json(path, number, line)
    except InputError as not_a_line:
        rest = stream.read(MAX_DOCUMENT_BYTES + 1)
        if not rest.strip():
            raise
        try:
            yield from _entries(_json(path, number, line + rest))
        except InputError as not_a_document:
            # Of a value over several lines the first line alone says nothing; of lines it is the one to mend.
            raise (not_a_document if line.strip() in {b"{", b"["} else not_a_line) from None
        return
    second = next(lines, None)
    if second is None:
        yield from _entries(value)
        return
    yield str(number), None, value
    yield str(second[0]), None, _json(path, *second)
    yield from ((str(number), None, _json(path, number, line)) for number, line in lines)


def _lines(path: Path, stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Every line that is not blank. A line of JSON ends at a newline and nowhere else: U+2028 may stand within a string."""
    number = total = 0
    while line := stream.readline(MAX_DOCUMENT_BYTES + 1):
        number += 1
        total += len(line)
        if len(line) > MAX_DOCUMENT_BYTES:
            msg = f"{path}:{number}: the line has more than {MAX_DOCUMENT_BYTES} bytes"
            raise InputError(msg, remedy="no such patch can be graded; leave it out")
        if total > MAX_PREDICTIONS_BYTES:  # a pipe has no size that could be asked for before
            msg = f"predictions {path} have more than {MAX_PREDICTIONS_BYTES} bytes"
            raise InputError(msg, remedy="grade them in several files")
        if number == 1:
            line = line.removeprefix(_BOM)
        if line.strip():
            yield number, line


def _json(path: Path, number: int, data: bytes) -> object:
    if len(data) > MAX_DOCUMENT_BYTES:
        msg = f"{path} is one JSON value of more than {MAX_DOCUMENT_BYTES} bytes"
        raise InputError(msg, remedy="write one prediction on each line (JSONL)")
    try:
        return json.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        msg = f"{path}:{number}: not UTF-8: {error.reason} at byte {error.start}"
    except json.JSONDecodeError as error:
        msg = f"{path}:{number + error.lineno - 1}: not JSON: {error.msg} (column {error.colno})"
    except ValueError as error:  # a number of too many digits
        msg = f"{path}:{number}: not JSON: {error}"
    except RecursionError:
        msg = f"{path}:{number}: nested too deeply to be a prediction"
    raise InputError(msg)


def _entries(whole: object) -> Iterator[_Item]:
    """The entries of a file that is one value."""
    if isinstance(whole, list):
        yield from ((f"[{index}]", None, value) for index, value in enumerate(whole))
    elif isinstance(whole, dict) and "instance_id" not in whole:
        yield from ((key, key, value) for key, value in whole.items())
    else:
        yield "1", None, whole


def _prediction(value: object, place: str, key: str | None) -> Prediction:
    if isinstance(value, str) and key is not None:
        return _sized(key, value, "patch")
    if not isinstance(value, dict):
        msg = f"{place}: expected an object with instance_id and model_patch"
        raise InputError(msg)
    task_id = value.get("instance_id", key)
    if not isinstance(task_id, str) or not task_id:
        msg = f"{place}: instance_id: expected the id of a task"
        raise InputError(msg)
    if "model_patch" not in value:
        # Taken for an empty patch, a misspelt key would be a failure of whoever made the patch.
        close = nearest("model_patch", list(value))
        msg = f"{place}: model_patch: expected a patch as text; there is none" + (f", only `{close}`" if close else "")
        raise InputError(msg, remedy="write null where somebody gave no patch")
    patch = value["model_patch"]
    if patch is not None and not isinstance(patch, str):
        msg = f"{place}: model_patch: expected a patch as text"
        raise InputError(msg)
    # An empty patch is a result like any other: it changes nothing.
    return _sized(task_id, patch or "", str(value.get("model_name_or_path") or "patch"))


def _sized(task_id: str, patch: str, method: str) -> Prediction:
    most = PatchLimits().patch_bytes
    data = patch.encode("utf-8", "surrogatepass")
    if len(data) > most:
        return Prediction(task_id, b"", method, _too_large(most))
    return Prediction(task_id, data, method)


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
                patch_configuration(one),
                seen[one.task_id, one.method],
                PROTOCOL_SEED,
            )
        )
    return rows


def patch_configuration(one: Prediction) -> Configuration:
    nothing = Setting(None, "default")
    names = ("model", "temperature", "top_p", "max_tokens")
    return Configuration(
        variant=one.method,
        agent="patch",
        max_steps=0,
        settings={"agent": Setting("patch", "cli"), **dict.fromkeys(names, nothing)},
        patch=one.patch,
        patch_problem=one.problem,
    )
