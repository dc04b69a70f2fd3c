"""Where a run's tasks come from and what they ran under: one manifest and one frozen task file per task.

Attempts at one task of one run share both, so one of each is read, whatever the number of repeats. A file that is missing or
cannot be read makes its task unknown; it never stops a report.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

import yaml

from agentbench.reports.record_rows import Row
from agentbench.trace.json_safe import to_json

MANIFEST = "manifest.json"
TASK_FILE = "task.yaml"
LARGEST = 2_000_000
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Origin:
    """One task: its source, its environment, its caps. Empty where nothing is known."""

    repository: str = ""
    image: str = ""
    backend: str = ""
    python: str = ""
    lockfiles: Mapping[str, str] = field(default_factory=dict)
    enforcement: Mapping[str, str] = field(default_factory=dict)
    caps: Mapping[str, str] = field(default_factory=dict)
    """Each cap as it was enforced, with where it was set."""
    configuration: Mapping[str, str] = field(default_factory=dict)
    deviations: tuple[str, ...] = ()
    locked: bool | None = None
    replayable: bool | None = None
    strata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Provenance:
    origins: Mapping[str, Origin]
    """By task; tasks of which nothing is known are left out."""

    @cached_property
    def repositories(self) -> Mapping[str, str]:
        return {task: one.repository for task, one in self.origins.items() if one.repository}

    @cached_property
    def dimensions(self) -> Sequence[str]:
        return sorted({name for one in self.origins.values() for name in one.strata})


def evidence(folder: Path, relative: str) -> Path | None:
    """A file of a run directory named by a record; None when the name would lead out of it."""
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


def read_text(path: Path | None, most: int = LARGEST) -> str | None:
    """A text file that is there and not larger than `most` bytes."""
    try:
        if path is None or not path.is_file() or path.stat().st_size > most:
            return None
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def read_provenance(folder: Path, rows: Sequence[Row]) -> Provenance:
    """What the evidence of each task says about it."""
    first: dict[str, str] = {}
    for row in rows:
        first.setdefault(row.task, row.task_dir)
    if not (folder / "tasks").is_dir():
        return Provenance({})
    origins = {}
    for task, task_dir in first.items():
        place = evidence(folder, task_dir)
        if place is not None and place.is_dir():
            manifest = read_text(evidence(folder, f"{task_dir}/{MANIFEST}"))
            origins[task] = _origin(manifest, read_text(evidence(folder, f"{task_dir}/{TASK_FILE}")))
    return Provenance(origins)


def _origin(manifest: str | None, task: str | None) -> Origin:
    document = _mapping(_loaded(manifest))
    protocol = _mapping(document.get("protocol_manifest"))
    planned, observed = _mapping(protocol.get("planned")), _mapping(protocol.get("observed"))
    source, limits = _mapping(planned.get("repository")), _mapping(planned.get("limits"))
    grading, asked = _mapping(planned.get("grading")), _mapping(planned.get("configuration"))
    caps = {name: _with_origin(value) for name, value in limits.items()}
    caps |= {name: _shown(grading[name]) for name in ("cap_tokens", "cap_usd") if grading.get(name) is not None}
    locked, replayable = _mapping(planned.get("task")).get("locked"), document.get("replayable")
    deviations = protocol.get("deviations")
    return Origin(
        repository=_shown(
            source.get("url") or source.get("archive") or source.get("content") or observed.get("snapshot")
        ),
        image=_shown(observed.get("image_digest")),
        backend=_shown(observed.get("backend")),
        python=_shown(observed.get("python")),
        lockfiles={name: _shown(value) for name, value in _mapping(observed.get("lockfiles")).items()},
        enforcement={name: _shown(value) for name, value in _mapping(observed.get("enforcement")).items()},
        caps=caps,
        configuration={
            name: _with_origin(value) for name, value in asked.items() if _mapping(value).get("value") is not None
        },
        deviations=tuple(map(_shown, deviations)) if isinstance(deviations, list) else (),
        locked=locked if isinstance(locked, bool) else None,
        replayable=replayable if isinstance(replayable, bool) else None,
        strata=_strata(task),
    )


def _strata(task: str | None) -> Mapping[str, str]:
    if task is None or "strata" not in task:
        return {}
    try:
        found = yaml.load(task, Loader=_Loader)  # noqa: S506 - the safe loader, in C where there is one
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    strata = _mapping(_mapping(found).get("strata"))
    return {str(name): _shown(value) for name, value in strata.items() if isinstance(value, str | int | float)}


def _loaded(text: str | None) -> object:
    try:
        return to_json(json.loads(text)) if text else None
    except (ValueError, RecursionError):
        return None


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _shown(value: object) -> str:
    return "" if value is None else str(value)


def _with_origin(value: object) -> str:
    """A resolved value as it is recorded: what, and who said so."""
    found = _mapping(value)
    if "value" not in found:
        return _shown(value)
    return f"{_shown(found['value'])} ({_shown(found['origin'])})" if found.get("origin") else _shown(found["value"])
