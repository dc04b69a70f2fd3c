"""Freeze a design: write its registration, and compare a design with it later."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from pydantic import BaseModel

from agentbench.core.canonical import Json, digest, sha256_hex
from agentbench.core.errors import ContractError
from agentbench.core.ids import now_iso
from agentbench.execution.models import read_prices
from agentbench.execution.version import harness_version, sources_digest
from agentbench.pilot.design.methods import method_digest
from agentbench.pilot.design.pilot_design import PilotDesign, prices_file
from agentbench.pilot.design.pilot_file import PilotFile
from agentbench.pilot.design.sample import task_identities
from agentbench.pilot.folder import FROZEN, REGISTRATION, REGISTRATIONS, REMOVALS, json_text, read_text, write_text
from agentbench.pilot.registration.registration import (
    SCHEMA_VERSION,
    FrozenContent,
    RegisteredMethod,
    RegisteredTask,
    Registration,
    identify_registration,
)
from agentbench.pilot.registration.signature import sign_registration
from agentbench.policy.thresholds import published_thresholds
from agentbench.signing.keys import SigningKey
from agentbench.verdict.terms import published_rubric, rubric_id


def current_content(design: PilotDesign) -> FrozenContent:
    """Compute what would be frozen now.

    Raises:
        InputError: a file is missing.
    """
    pilot, folder = design.pilot, design.folder
    return FrozenContent(
        question=pilot.question,
        endpoint=pilot.endpoint.value,
        seed=pilot.seed,
        harness_version=harness_version(),
        harness_sources=sources_digest(),
        files={name: sha256_hex(read_text(folder / name).encode()) for name in FROZEN},
        tasks=tuple(RegisteredTask.model_validate(task) for task in task_identities(design.sample)),
        methods=tuple(_methods(pilot, folder)),
        rubric=rubric_id(published_rubric()),
        thresholds=digest(asdict(published_thresholds())),
        prices=read_prices(prices_file(pilot, folder)).method_id,
    )


def _methods(pilot: PilotFile, folder: Path) -> Iterator[RegisteredMethod]:
    for role, entries in (("method", pilot.methods), ("baseline", pilot.baselines)):
        for entry in entries:
            yield RegisteredMethod(name=entry.label, role=role, digest=method_digest(entry, folder))


def register(
    design: PilotDesign, amends: Registration | None = None, reason: str = "", key: SigningKey | None = None
) -> Registration:
    """Freeze the current state, and sign it if there is a key. Writes `registration.json` last, so that a pilot is frozen completely or not at all.

    Raises:
        RecordError: a file cannot be written.
    """
    content = current_content(design)
    value: dict[str, Json] = {
        "schema_version": SCHEMA_VERSION,
        "number": amends.number + 1 if amends else 1,
        "frozen_at": now_iso(),
        "amends": {"registration_id": amends.registration_id, "reason": reason} if amends else None,
        **content.model_dump(mode="json"),
    }
    registration = Registration.model_validate({**value, "registration_id": identify_registration(value)})
    text = json_text(registration.model_dump(mode="json"))
    copy = design.folder / REGISTRATIONS / str(registration.number)
    copy.mkdir(parents=True, exist_ok=True)
    for name in FROZEN:
        write_text(copy / name, read_text(design.folder / name))
    write_text(copy / REGISTRATION, text)
    if key is not None:
        sign_registration(copy, key)
    if not (design.folder / REMOVALS).exists():
        write_text(design.folder / REMOVALS, "")
    write_text(design.folder / REGISTRATION, text)
    return registration


def frozen_differences(registration: Registration, now: FrozenContent) -> Iterator[str]:
    """Describe everything frozen that is different now."""
    for name in FrozenContent.model_fields:
        before, after = getattr(registration, name), getattr(now, name)
        # Earlier versions did not register everything.
        if isinstance(before, str | int) and before != after:
            yield f"{name}: was {before}, is {after}"
    for file, sha256 in registration.files.items():
        if now.files.get(file) != sha256:
            yield f"{file}: changed since it was frozen"
    yield from _named_differences("task", registration.tasks, now.tasks, "task_id")
    yield from _named_differences("method", registration.methods, now.methods, "name")


def _named_differences(kind: str, before: Sequence[BaseModel], after: Sequence[BaseModel], key: str) -> Iterator[str]:
    old = {getattr(part, key): part for part in before}
    new = {getattr(part, key): part for part in after}
    for name in sorted(old.keys() | new.keys()):
        if name not in new:
            yield f"{kind} {name}: missing now"
        elif name not in old:
            yield f"{kind} {name}: not registered"
        elif old[name] != new[name]:
            fields = [
                field
                for field in type(old[name]).model_fields
                if getattr(old[name], field) != getattr(new[name], field)
            ]
            yield f"{kind} {name}: {', '.join(fields)} changed"


def require_unchanged(registration: Registration, design: PilotDesign) -> None:
    """
    Raises:
        ContractError: something frozen has changed; lists the differences.
    """
    differences = tuple(frozen_differences(registration, current_content(design)))
    if differences:
        raise ContractError(
            f"{design.folder} differs from its registration",
            problems=differences,
            remedy="restore it, or register the change with `ab pilot freeze --amend --reason …`",
        )
