"""Read patches made elsewhere and plan their grading: one patch file, or a file of predictions.

Reads nothing that is too large to be graded.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from agentbench.contract.load import LoadedTask
from agentbench.contract.problem import did_you_mean, nearest
from agentbench.core.command import MIB
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError
from agentbench.core.problems import Problems
from agentbench.core.protocol import PROTOCOL_SEED
from agentbench.core.unique_keys import DuplicateKeyError, key_lines, unique_members
from agentbench.execution.config import Configuration, Setting
from agentbench.execution.plan import PlanRow
from agentbench.trace.originals import EvidenceText
from agentbench.workspace.diff.file_patch import PatchLimits

MAX_PREDICTIONS_BYTES = 4 * 1024 * MIB
"""Limit of a JSONL file, which is read line by line."""
MAX_DOCUMENT_BYTES = 256 * MIB
"""Limit of one line, and of a file that is one JSON value: both must fit into memory."""
INSTANCES = "instances"
"""Key in `run.json` of the tasks for which predictions could have been submitted."""
_BOM = b"\xef\xbb\xbf"

_Item = tuple[str, str | None, object]
"""The place of an entry in its file, its key if the file is keyed by id, and its value, or the error of its line."""


class _DuplicateKey(InputError):
    """A JSON object with a key twice; the file is not tried in another format."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """One patch for one task, by one method."""

    task_id: str
    patch: bytes
    method: str = "patch"
    problem: str = ""
    """Why the patch was not read: it is too large to be graded."""
    place: str = field(default="", compare=False)
    """Where it was read: file, and line or position in a list."""


def read_patch(task_id: str, stream: BinaryIO) -> Prediction:
    """Read a patch from a file or a pipe, up to the largest size that can be graded.

    Raises:
        OSError: it cannot be read.
    """
    return _sized(task_id, stream.read(PatchLimits().patch_bytes + 1), "patch")


def read_predictions(path: Path) -> list[Prediction]:
    """Read JSONL of `{instance_id, model_patch, model_name_or_path?}`, or one JSON list or object keyed by id.

    Raises:
        InputError: the file cannot be read, or an entry is not a prediction (names its place).
    """
    try:
        with path.open("rb") as stream:
            size = path.stat().st_size
            if size > MAX_PREDICTIONS_BYTES:
                msg = f"predictions {path}: {size} bytes, the limit is {MAX_PREDICTIONS_BYTES}"
                raise InputError(msg, remedy="split the predictions into several files")
            problems = Problems()
            read = [
                problems.collect(partial(_prediction, value, f"{path}:{place}", key))
                for place, key, value in _items(path, stream)
            ]
            problems.raise_all()
            return [prediction for prediction in read if prediction is not None]
    except OSError as error:
        raise InputError(f"cannot read predictions {path}: {error.strerror or error}") from None


def _items(path: Path, stream: BinaryIO) -> Iterator[_Item]:
    """Read one JSON value per line. If the first line is not JSON or the only line, the file is one JSON value."""
    lines = _lines(path, stream)
    first = next(lines, None)
    if first is None:
        return
    number, line = first
    try:
        value = _json(path, number, line)
    except _DuplicateKey:
        raise
    except InputError as not_a_line:
        rest = stream.read(MAX_DOCUMENT_BYTES + 1)
        if not rest.strip():
            raise
        try:
            document = _json(path, number, line + rest)
        except InputError as not_a_document:
            # In JSONL the first line has the error to report. If it only opens a value, the error is elsewhere in that value.
            raise (not_a_document if line.strip() in {b"{", b"["} else not_a_line) from None
        _refuse_two_ids(path, number, line + rest, document)
        yield from _entries(document)
        return
    second = next(lines, None)
    if second is None:
        _refuse_two_ids(path, number, line, value)
        yield from _entries(value)
        return
    yield str(number), None, value
    for number, line in chain((second,), lines):
        try:
            yield str(number), None, _json(path, number, line)
        except InputError as error:
            yield str(number), None, error


def _lines(path: Path, stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Read lines that are not blank. JSON lines end only at a newline: U+2028 can be part of a string."""
    number = total = 0
    while line := stream.readline(MAX_DOCUMENT_BYTES + 1):
        number += 1
        total += len(line)
        if len(line) > MAX_DOCUMENT_BYTES:
            msg = f"{path}:{number}: line is larger than {MAX_DOCUMENT_BYTES} bytes"
            raise InputError(msg, remedy="remove it: a patch of this size cannot be graded")
        if total > MAX_PREDICTIONS_BYTES:  # the size of a pipe is not known in advance
            msg = f"predictions {path}: more than {MAX_PREDICTIONS_BYTES} bytes"
            raise InputError(msg, remedy="split the predictions into several files")
        if number == 1:
            line = line.removeprefix(_BOM)
        if line.strip():
            yield number, line


def _json(path: Path, number: int, data: bytes) -> object:
    if len(data) > MAX_DOCUMENT_BYTES:
        msg = f"{path}: JSON value is larger than {MAX_DOCUMENT_BYTES} bytes"
        raise InputError(msg, remedy="write one prediction on each line (JSONL)")
    try:
        # Without the newline at its end: the decoder would report a value that is cut off on the line below.
        return json.loads(data.decode("utf-8").rstrip(" \t\r\n"), object_pairs_hook=unique_members)
    except DuplicateKeyError as error:
        *_, line = key_lines(data.decode("utf-8"), error.key, number) or [number]
        raise _DuplicateKey(
            f"{path}:{line}: {error}", remedy="remove one of them: readers disagree about which counts"
        ) from None
    except UnicodeDecodeError as error:
        msg = f"{path}:{number}: not UTF-8: {error.reason} at byte {error.start}"
    except json.JSONDecodeError as error:
        msg = f"{path}:{number + error.lineno - 1}: not JSON: {error.msg} (column {error.colno})"
    except ValueError as error:  # a number with too many digits
        msg = f"{path}:{number}: not JSON: {error}"
    except RecursionError:
        msg = f"{path}:{number}: nested too deeply"
    raise InputError(msg)


def _entries(document: object) -> Iterator[_Item]:
    """List the entries of a file that is one JSON value."""
    if isinstance(document, list):
        yield from ((f"[{index}]", None, value) for index, value in enumerate(document))
    elif isinstance(document, dict) and "instance_id" not in document:
        yield from ((key, key, value) for key, value in document.items())
    else:
        yield "1", None, document


def _refuse_two_ids(path: Path, number: int, data: bytes, document: object) -> None:
    """Refuse an entry whose key names another task than its `instance_id`: it would count for only one of them."""
    for _, key, value in _entries(document):
        other = value.get("instance_id", key) if isinstance(value, dict) else key
        if key is not None and other != key:
            line = next(iter(key_lines(data.decode("utf-8"), key, number)), number)
            msg = f"{path}:{line}: the key is '{key}', but its instance_id is '{other}'"
            raise InputError(msg, remedy="use the id of the task for both, or remove instance_id")


def _prediction(value: object, place: str, key: str | None) -> Prediction:
    if isinstance(value, InputError):
        raise value
    return replace(_entry(value, place, key), place=place)


def _entry(value: object, place: str, key: str | None) -> Prediction:
    if isinstance(value, str) and key is not None:
        return _sized(key, value.encode("utf-8", "surrogatepass"), "patch")
    if not isinstance(value, dict):
        raise InputError(f"{place}: expected an object with instance_id and model_patch")
    task_id = value.get("instance_id", key)
    if not isinstance(task_id, str) or not task_id:
        raise InputError(f"{place}: instance_id: expected a task id")
    if "model_patch" not in value:
        # A misspelt key must not be graded as an empty patch.
        close = nearest("model_patch", list(value))
        msg = f"{place}: missing key 'model_patch'" + (f"; found '{close}'" if close else "")
        raise InputError(msg, remedy="use null for a prediction without a patch")
    patch = value["model_patch"]
    if patch is not None and not isinstance(patch, str):
        raise InputError(f"{place}: model_patch: expected a string")
    # An empty patch is a valid prediction.
    method = str(value.get("model_name_or_path") or "patch")
    return _sized(task_id, (patch or "").encode("utf-8", "surrogatepass"), method)


def _sized(task_id: str, patch: bytes, method: str) -> Prediction:
    limit = PatchLimits().patch_bytes
    if len(patch) > limit:
        return Prediction(task_id, b"", method, f"the patch is larger than {limit} bytes")
    return Prediction(task_id, patch, method)


def refuse_repeats(predictions: Sequence[Prediction]) -> None:
    """Refuse two predictions of one method for one task.

    Raises:
        InputError: there are some (names both places).
    """
    first: dict[tuple[str, str], Prediction] = {}
    for prediction in predictions:
        earlier = first.setdefault((prediction.task_id, prediction.method), prediction)
        if earlier is not prediction:
            msg = f"{prediction.place}: second prediction for '{prediction.task_id}'; the first is at {earlier.place}"
            raise InputError(msg, remedy="remove one, or use --repeats-allowed to grade all of them as repeats")


def refuse_several_methods(predictions: Sequence[Prediction]) -> None:
    """Refuse predictions of several methods, because a SWE-bench report does not tell them apart.

    Raises:
        InputError: there are several methods.
    """
    other = next((prediction for prediction in predictions if prediction.method != predictions[0].method), None)
    if other is not None:
        msg = f"{other.place}: model_name_or_path is '{other.method}', but '{predictions[0].method}' at {predictions[0].place}"
        raise InputError(msg, remedy="--report is about one method: grade the methods from separate files")


def prediction_rows(
    tasks: Sequence[LoadedTask], predictions: Sequence[Prediction], evidence: EvidenceText = "redacted"
) -> list[PlanRow]:
    """Plan one attempt per prediction. The second prediction of a method for a task is its second repeat, and so on.

    Raises:
        InputError: a prediction for an unknown task, or for one without a repository.
    """
    tasks_by_id: Mapping[str, LoadedTask] = {task.id: task for task in tasks}
    places = {prediction.task_id: prediction.place for prediction in reversed(predictions)}
    predicted = places.keys()
    unknown = sorted(predicted - tasks_by_id.keys())
    if unknown:
        at = {task_id: f" at {places[task_id]}" if places[task_id] else "" for task_id in unknown[:10]}
        listed = ", ".join(f"{task_id}{place}{did_you_mean(task_id, tasks_by_id)}" for task_id, place in at.items())
        msg = f"predictions for unknown tasks: {listed}" + (" …" if unknown[10:] else "")
        raise InputError(
            msg, remedy=f"give their tasks with --task; given tasks: {', '.join(sorted(tasks_by_id)[:20])}"
        )
    without_repository = sorted(task_id for task_id in predicted if tasks_by_id[task_id].task.repo == "none")
    if without_repository:
        msg = f"cannot grade a patch on tasks without a repository: {', '.join(without_repository[:10])}"
        raise InputError(msg, remedy="run them with an agent and --judge-model")
    repeats: Counter[tuple[str, str]] = Counter()
    rows: list[PlanRow] = []
    for prediction in predictions:
        key = (prediction.task_id, prediction.method)
        repeats[key] += 1
        rows.append(
            PlanRow(tasks_by_id[prediction.task_id], _configuration(prediction, evidence), repeats[key], PROTOCOL_SEED)
        )
    return rows


def _configuration(prediction: Prediction, evidence: EvidenceText) -> Configuration:
    names = ("model", "temperature", "top_p", "max_tokens")
    return Configuration(
        variant=prediction.method,
        agent="patch",
        max_steps=0,
        settings={"agent": Setting("patch", "cli"), **dict.fromkeys(names, Setting(None, "default"))},
        patch=prediction.patch,
        patch_problem=prediction.problem,
        evidence=evidence,
    )
