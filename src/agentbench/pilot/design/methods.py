"""Resolve the methods of a pilot to configurations of attempts, and identify them by digest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from agentbench.contract.load import LoadedTask
from agentbench.contract.task_files import folder_digest
from agentbench.core.canonical import Json, digest, sha256_hex
from agentbench.core.errors import InputError
from agentbench.core.problems import Problems
from agentbench.execution.config import CliChoices, Configuration, resolve
from agentbench.execution.predictions import Prediction, prediction_rows, read_patch
from agentbench.execution.request import VARIANTS
from agentbench.execution.variant_file import VariantFile, is_path, load_variant
from agentbench.pilot.design.pilot_file import MethodEntry, PilotFile

OWN_VARIANTS = "variants"
"""Folder of variants beside pilot.yaml."""


def load_entry_variant(entry: MethodEntry, folder: Path) -> VariantFile | None:
    """Read the variant of a method: from the pilot's folder, `configs/variants`, or the bundled ones.

    Raises:
        InputError: it does not exist or is invalid.
    """
    if entry.variant is None:
        return None
    if is_path(entry.variant):
        return load_variant(str(folder / entry.variant), VARIANTS)
    own = folder / OWN_VARIANTS
    return load_variant(entry.variant, own if (own / f"{entry.variant}.yaml").is_file() else VARIANTS)


def configurations(pilot: PilotFile, folder: Path, tasks: Sequence[LoadedTask]) -> dict[tuple[str, str], Configuration]:
    """Resolve every method on every task, by (task, method).

    Raises:
        InputError: with every method that cannot attempt a task: the design would be unbalanced.
    """
    problems = Problems()
    resolved: dict[tuple[str, str], Configuration] = {}
    for entry in pilot.entries:
        problems.collect(lambda entry=entry: resolved.update(_configurations(entry, folder, tasks)))  # type: ignore[misc]
    problems.raise_all()
    return resolved


def _configurations(
    entry: MethodEntry, folder: Path, tasks: Sequence[LoadedTask]
) -> Iterator[tuple[tuple[str, str], Configuration]]:
    if entry.patches is not None:
        for row in prediction_rows(tasks, list(_patches(entry, folder / entry.patches, tasks))):
            yield (row.task.id, entry.label), row.configuration
        return
    variant = load_entry_variant(entry, folder)
    script = None if entry.script is None else (folder / entry.script).absolute()
    choices = CliChoices(name=entry.label, agent=entry.agent, model=entry.model, script=script)
    for task in tasks:
        yield (task.id, entry.label), replace(resolve(task, variant, choices), variant=entry.label)


def _patches(entry: MethodEntry, folder: Path, tasks: Sequence[LoadedTask]) -> Iterator[Prediction]:
    missing = [task.id for task in tasks if not (folder / f"{task.id}.patch").is_file()]
    if missing:
        msg = f"unbalanced: method {entry.label} has no patch for {', '.join(missing[:10])}"
        raise InputError(
            msg, remedy=f"add {folder / missing[0]}.patch, or leave the task out with `tasks` of the suite"
        )
    for task in tasks:
        with (folder / f"{task.id}.patch").open("rb") as stream:
            yield replace(read_patch(task.id, stream), method=entry.label)


def method_digest(entry: MethodEntry, folder: Path) -> str:
    """Identify a method: its entry, its variant, and the files that it uses.

    Raises:
        InputError: a file is missing.
    """
    variant = load_entry_variant(entry, folder)
    value: dict[str, Json] = {"entry": entry.model_dump(mode="json", exclude_none=True)}
    if variant is not None:
        files = variant.files
        value["variant"] = variant.model_copy(update={"files": None}).model_dump(mode="json", exclude_none=True)
        value["files"] = folder_digest(Path(files)) if files else None
    for name in (entry.script, entry.patches):
        if name is not None:
            value["content"] = _content_digest(folder / name)
    return digest(value)


def _content_digest(path: Path) -> str:
    if path.is_dir():
        return folder_digest(path)
    try:
        return "sha256:" + sha256_hex(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
