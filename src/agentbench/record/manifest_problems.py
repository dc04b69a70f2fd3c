"""Decide whether a manifest identifies an attempt well enough to score it.

`REQUIRED` and `COMPARED` list every field that can make an attempt invalid: the first must not be empty, the second must be
observed as planned. A planned value of None plans nothing, so manifests of versions that did not plan a field stay valid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentbench.contract.lock import submodule_revisions
from agentbench.core.dataclass import dataclass
from agentbench.record.manifest import Manifest, Observed, Planned


@dataclass(frozen=True, slots=True)
class ManifestProblem:
    field: str
    message: str
    task_at_fault: bool = False
    """The task or its lock pins the value, so running the attempt again gives the same result."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A planned value that must be observed; None or `auto` plans nothing."""

    planned: Callable[[Planned], Any]
    observed: Callable[[Observed], Any]
    pinned: bool = False
    """The task or its lock pins the planned value."""


REQUIRED: dict[str, Callable[[Manifest, Observed], object]] = {
    "harness_version": lambda manifest, _: manifest.harness_version,
    "planned.task.contract_id": lambda manifest, _: manifest.protocol_manifest.planned.task.contract_id,
    "planned.task.task_digest": lambda manifest, _: manifest.protocol_manifest.planned.task.task_digest,
    "planned.task.acceptance_id": lambda manifest, _: manifest.protocol_manifest.planned.task.acceptance_id,
    "planned.config_class": lambda manifest, _: manifest.protocol_manifest.planned.config_class,
    "observed.snapshot": lambda _, observed: observed.snapshot,
    "observed.base_tree": lambda _, observed: observed.base_tree,
    "observed.env_digest": lambda _, observed: observed.env_digest,
    "observed.backend": lambda _, observed: observed.backend,
    "observed.image_digest": lambda _, observed: observed.backend != "docker" or observed.image_digest,
    "observed.enforcement": lambda _, observed: observed.enforcement,
    "observed.os": lambda _, observed: observed.os,
    "observed.package_managers": lambda _, observed: observed.package_managers,
    "observed.started_at": lambda _, observed: observed.started_at,
}
COMPARED: dict[str, Compared] = {
    "seed": Compared(lambda planned: planned.seed, lambda observed: observed.seed),
    "repository.commit": Compared(
        lambda planned: planned.repository.commit, lambda observed: observed.source.get("commit"), pinned=True
    ),
    "repository.submodules": Compared(
        lambda planned: planned.repository.submodules or None,
        lambda observed: submodule_revisions(observed.source),
        pinned=True,
    ),
    "repository.sha256": Compared(
        lambda planned: planned.repository.sha256, lambda observed: observed.source.get("sha256"), pinned=True
    ),
    "repository.content": Compared(
        lambda planned: planned.repository.content, lambda observed: observed.snapshot, pinned=True
    ),
    "sandbox.backend": Compared(lambda planned: planned.sandbox.backend, lambda observed: observed.backend),
    "sandbox.image_digest": Compared(
        lambda planned: planned.sandbox.image_digest, lambda observed: observed.image_digest, pinned=True
    ),
    "sandbox.env_digest": Compared(
        lambda planned: planned.sandbox.env_digest, lambda observed: observed.env_digest, pinned=True
    ),
    "entrypoints.install": Compared(
        lambda planned: planned.entrypoints.install,
        lambda observed: tuple(command.command for command in observed.commands if command.phase == "setup"),
    ),
    "environment": Compared(lambda planned: planned.environment, lambda observed: observed.environment),
}


def manifest_problems(manifest: Manifest) -> tuple[ManifestProblem, ...]:
    """Return why the attempt cannot be scored: missing required fields, values that differ from the plan."""
    planned, observed = manifest.protocol_manifest.planned, manifest.protocol_manifest.observed
    if observed is None:
        return (ManifestProblem("observed", "observed is missing: setup did not finish"),)
    missing = [
        ManifestProblem(name, f"{name} is missing") for name, get in REQUIRED.items() if not get(manifest, observed)
    ]
    if planned.repository.kind != "none" and not any(check.mandatory for check in planned.acceptance):
        message = "planned.acceptance has no mandatory check"
        missing.append(ManifestProblem("planned.acceptance", message, task_at_fault=True))
    return (*missing, *_mismatches(planned, observed))


def _mismatches(planned: Planned, observed: Observed) -> list[ManifestProblem]:
    problems = []
    for name, compared in COMPARED.items():
        wanted, actual = compared.planned(planned), compared.observed(observed)
        if wanted is not None and wanted != "auto" and _bare(wanted) != _bare(actual):
            message = f"{name}: planned {_shown(wanted)}, observed {_shown(actual)}"
            problems.append(ManifestProblem(name, message, task_at_fault=compared.pinned))
    return problems


def _bare(value: object) -> object:
    return value.removeprefix("sha256:") if isinstance(value, str) else value


def _shown(value: object) -> object:
    if isinstance(value, dict):
        return ", ".join(f"{name}={text}" for name, text in sorted(value.items())) or "none"
    if isinstance(value, tuple):
        return "; ".join(value) or "none"
    return value
