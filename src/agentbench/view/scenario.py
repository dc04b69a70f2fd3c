"""The scenario editor: shows the scorers of a suite as rows, validates an edit, and writes `scenario.yaml`.

Only the key `scorers` is replaced; the rest of the file, with its comments, stays as it is. An edit is validated by loading the
edited file with the function that `ab task check` uses.
"""

from __future__ import annotations

import difflib
import hashlib
import shutil
import tempfile
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args, get_origin

import yaml

from agentbench.contract.load import SCENARIO_NAME, load_scenario
from agentbench.contract.scorers import SPECS
from agentbench.contract.suite import DEMO
from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import ContractError, InputError
from agentbench.record.durable import write_atomic
from agentbench.reports.html.bounded import bounded

MAX_BYTES = 512 * 1024
MAX_SCORERS = 200
_COMMON = ("name", "type", "required")


@dataclass(frozen=True, slots=True)
class Edit:
    """An edited scenario that is not written yet."""

    path: Path
    before: str
    after: str
    problems: tuple[str, ...]

    @property
    def diff(self) -> str:
        lines = difflib.unified_diff(
            self.before.splitlines(keepends=True),
            self.after.splitlines(keepends=True),
            f"a/{SCENARIO_NAME}",
            f"b/{SCENARIO_NAME}",
        )
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)

    def as_json(self) -> dict[str, Json]:
        return {"diff": self.diff, "problems": bounded(list(self.problems), text=1000), "digest": digest(self.before)}


def scenario_json(name: str, folder: Path) -> dict[str, Json]:
    """Return the scorers of a suite, and the types of scorers with their fields."""
    problems: tuple[str, ...] = ()
    scorers: list[Json] = []
    try:
        scenario = load_scenario(folder)
        scorers = [scorer.model_dump(mode="json", by_alias=True, exclude_none=True) for scorer in scenario.scorers]
    except ContractError as error:
        problems = error.problems or (error.message,)
    return {
        "suite": name,
        "path": str(folder / SCENARIO_NAME),
        "editable": name != DEMO,
        "scorers": bounded(scorers),
        "problems": bounded(list(problems), text=1000),
        "digest": digest(_read(folder / SCENARIO_NAME)),
        "types": {kind: _fields(kind) for kind in SPECS},
    }


def edit_scenario(name: str, folder: Path, scorers: object) -> Edit:
    """Return the scenario with other scorers, and what is wrong with it.

    Raises:
        InputError: the suite is bundled, or the scorers are not a list of objects.
    """
    if name == DEMO:
        raise InputError("the bundled suite cannot be edited", remedy="create a suite with `ab init`")
    if (
        not isinstance(scorers, list)
        or len(scorers) > MAX_SCORERS
        or not all(isinstance(scorer, dict) for scorer in scorers)
    ):
        raise InputError(f"scorers: expected a list of at most {MAX_SCORERS} objects")
    path = folder / SCENARIO_NAME
    before = _read(path)
    after = replace_scorers(before, scorers)
    return Edit(path, before, after, _problems(after))


def save_scenario(edit: Edit, expected: str) -> None:
    """Write an edit.

    Raises:
        InputError: it has problems, or the file has changed since it was read.
        RecordError: the file cannot be written.
    """
    if edit.problems:
        raise ContractError("the scenario is invalid", problems=edit.problems)
    if digest(edit.before) != expected:
        raise InputError(f"{edit.path} has changed since you opened it", remedy="reload the page and edit it again")
    if edit.path.is_symlink():
        raise InputError(f"{edit.path} is a symbolic link")
    write_atomic(edit.path, edit.after.encode())


def replace_scorers(text: str, scorers: Sequence[Mapping[str, object]]) -> str:
    """Return the text of a scenario with another list under `scorers`; other lines stay as they are."""
    block = yaml.safe_dump({"scorers": list(scorers)}, sort_keys=False, allow_unicode=True, width=118)
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        root = None
    lines = text.splitlines(keepends=True)
    if isinstance(root, yaml.MappingNode) and not root.flow_style:
        for key, value in root.value:
            if key.value == "scorers":
                end = value.end_mark.line + (1 if value.end_mark.column else 0)
                # Comments and blank lines after the list belong to what follows.
                while end > key.start_mark.line + 1 and lines[end - 1].strip()[:1] in {"", "#"}:
                    end -= 1
                return "".join(lines[: key.start_mark.line]) + block + "".join(lines[end:])
    return text.rstrip("\n") + "\n" + block if text.strip() else block


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _problems(text: str) -> tuple[str, ...]:
    """Validate the text of a scenario in a folder of its own."""
    folder = Path(tempfile.mkdtemp(prefix="ab-view-"))
    try:
        (folder / SCENARIO_NAME).write_text(text, encoding="utf-8")
        load_scenario(folder)
    except ContractError as error:
        problems = error.problems or (error.message,)
        return tuple(problem.replace(f"{folder}/", "") for problem in problems)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return ()


def _read(path: Path) -> str:
    try:
        if not path.is_file():
            return ""
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"{path} is larger than {MAX_BYTES} bytes")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}") from None


def _fields(kind: str) -> dict[str, Json]:
    """Describe the fields of a scorer type for the form: text, number or list."""
    spec = SPECS[kind]
    fields: list[Json] = [
        {"name": name, "kind": _kind(field.annotation), "required": field.is_required()}
        for name, field in spec.model_fields.items()
        if name not in _COMMON
    ]
    doc = (spec.__doc__ or "").strip().splitlines()
    return {"fields": fields, "required": spec.required_by_default, "about": doc[0] if doc else ""}


def _kind(annotation: object) -> str:
    if annotation is int:
        return "number"
    if get_origin(annotation) is tuple:
        return "list"
    if get_origin(annotation) is types.UnionType or get_args(annotation):
        kinds = {_kind(part) for part in get_args(annotation)}
        return "list" if "list" in kinds else "number" if "number" in kinds else "text"
    return "text"
