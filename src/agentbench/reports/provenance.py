"""Provenance of a run's tasks: source, environment, caps and strata, from one manifest and task file per task.

All attempts at a task share them, so only the first is read. A missing or unreadable file leaves the fields empty; it
never stops a report.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property
from pathlib import Path, PurePosixPath

from agentbench.contract.yaml_document import parse_document
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import ContractError
from agentbench.record.attempt_folder import MANIFEST, TASK_FILE
from agentbench.reports.record_rows import Row
from agentbench.trace.json_safe import to_json

MAX_BYTES = 2_000_000


@dataclass(frozen=True, slots=True)
class Origin:
    """Source, environment and caps of one task; empty where unknown."""

    repository: str = ""
    image: str = ""
    backend: str = ""
    python: str = ""
    lockfiles: Mapping[str, str] = field(default_factory=dict)
    enforcement: Mapping[str, str] = field(default_factory=dict)
    caps: Mapping[str, str] = field(default_factory=dict)
    """Enforced caps with their origin."""
    configuration: Mapping[str, str] = field(default_factory=dict)
    deviations: tuple[str, ...] = ()
    locked: bool | None = None
    replayable: bool | None = None
    strata: Mapping[str, str] = field(default_factory=dict)
    weights: Mapping[str, float] | None = None
    """Weights of the score if they differ from the published ones."""
    review_hour: float = 0.0
    """Price of an hour of review."""


@dataclass(frozen=True)
class Provenance:
    origins: Mapping[str, Origin]
    """By task; tasks without evidence are missing."""

    @cached_property
    def repositories(self) -> Mapping[str, str]:
        return {task: origin.repository for task, origin in self.origins.items() if origin.repository}

    @cached_property
    def dimensions(self) -> Sequence[str]:
        return sorted({name for origin in self.origins.values() for name in origin.strata})


def evidence(folder: Path, relative: str) -> Path | None:
    """Resolve a path from a record inside the run directory; None if it would lead outside."""
    place = PurePosixPath(relative)
    if not relative or place.is_absolute() or ".." in place.parts or "\0" in relative:
        return None
    path = folder
    try:
        for part in place.parts:
            path /= part
            if path.is_symlink() and not path.resolve().is_relative_to(folder.resolve()):
                return None
    except (OSError, RuntimeError):
        return None
    return path


def read_text(path: Path | None, max_bytes: int = MAX_BYTES) -> str | None:
    """Read a text file, or return None if it is missing, unreadable or larger than `max_bytes`."""
    try:
        if path is None or not path.is_file() or path.stat().st_size > max_bytes:
            return None
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def read_provenance(folder: Path, rows: Sequence[Row]) -> Provenance:
    """Read the origin of each task from its first attempt."""
    task_dirs: dict[str, str] = {}
    for row in rows:
        task_dirs.setdefault(row.task, row.task_dir)
    if not (folder / "tasks").is_dir():
        return Provenance({})
    origins = {}
    for task, task_dir in task_dirs.items():
        place = evidence(folder, task_dir)
        if place is not None and place.is_dir():
            manifest = read_text(evidence(folder, f"{task_dir}/{MANIFEST}"))
            origins[task] = origin_of(manifest, read_text(evidence(folder, f"{task_dir}/{TASK_FILE}")))
    return Provenance(origins)


def origin_of(manifest: str | None, task: str | None = None) -> Origin:
    """Return what the texts of a manifest and a task file state."""
    document = _mapping(_loaded(manifest))
    protocol = _mapping(document.get("protocol_manifest"))
    planned, observed = _mapping(protocol.get("planned")), _mapping(protocol.get("observed"))
    source, limits = _mapping(planned.get("repository")), _mapping(planned.get("limits"))
    grading, configuration = _mapping(planned.get("grading")), _mapping(planned.get("configuration"))
    caps = {name: _with_origin(value) for name, value in limits.items()}
    caps |= {name: _text(grading[name]) for name in ("cap_tokens", "cap_usd") if grading.get(name) is not None}
    locked, replayable = _mapping(planned.get("task")).get("locked"), document.get("replayable")
    deviations = protocol.get("deviations")
    return Origin(
        repository=_text(
            source.get("url") or source.get("archive") or source.get("content") or observed.get("snapshot")
        ),
        image=_text(observed.get("image_digest")),
        backend=_text(observed.get("backend")),
        python=_text(observed.get("python")),
        lockfiles={name: _text(value) for name, value in _mapping(observed.get("lockfiles")).items()},
        enforcement={name: _text(value) for name, value in _mapping(observed.get("enforcement")).items()},
        caps=caps,
        configuration={
            name: _with_origin(value)
            for name, value in configuration.items()
            if _mapping(value).get("value") is not None
        },
        deviations=tuple(map(_text, deviations)) if isinstance(deviations, list) else (),
        locked=locked if isinstance(locked, bool) else None,
        replayable=replayable if isinstance(replayable, bool) else None,
        strata=_strata(task),
        weights=_weights(grading.get("weights")),
        review_hour=_number(_mapping(planned.get("rates")).get("review_hour_micro")) / 1_000_000,
    )


def task_document(text: str) -> Mapping[str, object]:
    """Return the members of a task file of a run, which may be edited: empty if it is not valid, or too large."""
    try:
        return parse_document(text.encode(), TASK_FILE).value
    except ContractError:
        return {}


def _weights(value: object) -> Mapping[str, float] | None:
    weights = {name: _number(weight) for name, weight in _mapping(value).items()}
    return weights or None


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else 0.0


def _strata(task: str | None) -> Mapping[str, str]:
    if task is None or "strata" not in task:
        return {}
    strata = _mapping(task_document(task).get("strata"))
    return {str(name): _text(value) for name, value in strata.items() if isinstance(value, str | int | float)}


def _loaded(text: str | None) -> object:
    try:
        return to_json(json.loads(text)) if text else None
    except (ValueError, RecursionError):
        return None


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _with_origin(value: object) -> str:
    """Format a resolved configuration value as `value (origin)`."""
    resolved = _mapping(value)
    if "value" not in resolved:
        return _text(value)
    text = _text(resolved["value"])
    return f"{text} ({_text(resolved['origin'])})" if resolved.get("origin") else text
