"""The registration: everything that is decided before the first attempt, frozen by digest in `registration.json`.

A registration never changes. An amendment is a new registration that names the one it replaces and the reason; a copy of the
files of each registration stays in `registrations/`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from agentbench.core.canonical import CanonicalError, Json, digest, parse_strict, sha256_hex
from agentbench.core.errors import ContractError, InputError
from agentbench.core.ids import now_iso
from agentbench.core.protocol import PROTOCOL_SEED
from agentbench.pilot.config import PilotFile
from agentbench.pilot.folder import FROZEN, REGISTRATION, REGISTRATIONS, json_text, read_text, write_text
from agentbench.pilot.methods import method_digest
from agentbench.pilot.planning import Planning, prices_file
from agentbench.pilot.sample import task_identities
from agentbench.policy.thresholds import published_thresholds
from agentbench.run.models import read_prices
from agentbench.run.version import harness_version
from agentbench.verdict.terms import published_rubric, rubric_id

SCHEMA_VERSION = 1


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Amendment(_Part):
    """The link to the registration that this one replaces."""

    registration_id: str
    reason: str


class TaskIdentity(_Part):
    task_id: str
    suite: str
    stratum: str
    contract_id: str
    task_digest: str
    acceptance_id: str
    weights: dict[str, JsonValue] | None = None


class Method(_Part):
    name: str
    role: str
    """`method` or `baseline`."""
    digest: str


class Registration(_Part):
    """The content of `registration.json`."""

    schema_version: int = SCHEMA_VERSION
    registration_id: str
    """Digest of all other values."""
    number: int
    frozen_at: str
    amends: Amendment | None
    question: str
    endpoint: str
    seed: int
    harness_version: str
    files: dict[str, str]
    """SHA-256 of the frozen files."""
    tasks: tuple[TaskIdentity, ...]
    methods: tuple[Method, ...]
    rubric: str
    """Digest of the published rubric and its weights; weights of suites are with the tasks."""
    thresholds: str
    """Digest of the thresholds of breakers and monitors."""
    prices: str
    """The way in which costs are computed, by the digest of the price table."""

    def computed_id(self) -> str:
        return _identify(self.model_dump(mode="json"))


@dataclass(frozen=True, slots=True)
class Frozen:
    """The current values of everything that a registration freezes."""

    question: str
    endpoint: str
    seed: int
    harness_version: str
    files: Mapping[str, str]
    tasks: tuple[TaskIdentity, ...]
    methods: tuple[Method, ...]
    rubric: str
    thresholds: str
    prices: str


def current_state(planning: Planning) -> Frozen:
    """Compute what would be frozen now.

    Raises:
        InputError: a file is missing.
    """
    pilot, folder = planning.pilot, planning.folder
    return Frozen(
        question=pilot.question,
        endpoint=pilot.endpoint,
        seed=pilot.seed,
        harness_version=harness_version(),
        files={name: sha256_hex(read_text(folder / name).encode()) for name in FROZEN},
        tasks=tuple(TaskIdentity.model_validate(task) for task in task_identities(planning.sample)),
        methods=tuple(_methods(pilot, folder)),
        rubric=rubric_id(published_rubric()),
        thresholds=digest(asdict(published_thresholds())),
        prices=read_prices(prices_file(pilot, folder)).method_id,
    )


def _methods(pilot: PilotFile, folder: Path) -> Iterator[Method]:
    for role, entries in (("method", pilot.methods), ("baseline", pilot.baselines)):
        for entry in entries:
            yield Method(name=entry.label, role=role, digest=method_digest(entry, folder))


def register(planning: Planning, amends: Registration | None = None, reason: str = "") -> Registration:
    """Freeze the current state. Writes `registration.json` last, so that a pilot is frozen completely or not at all.

    Raises:
        RecordError: a file cannot be written.
    """
    frozen = current_state(planning)
    value: dict[str, Json] = {
        "schema_version": SCHEMA_VERSION,
        "number": amends.number + 1 if amends else 1,
        "frozen_at": now_iso(),
        "amends": {"registration_id": amends.registration_id, "reason": reason} if amends else None,
        **_plain(frozen),
    }
    registration = Registration.model_validate({**value, "registration_id": _identify(value)})
    text = json_text(registration.model_dump(mode="json"))
    copy = planning.folder / REGISTRATIONS / str(registration.number)
    copy.mkdir(parents=True, exist_ok=True)
    for name in FROZEN:
        write_text(copy / name, read_text(planning.folder / name))
    write_text(copy / REGISTRATION, text)
    write_text(planning.folder / REGISTRATION, text)
    return registration


def _plain(frozen: Frozen) -> dict[str, Json]:
    parts = {name: getattr(frozen, name) for name in Frozen.__dataclass_fields__}
    for name in ("tasks", "methods"):
        parts[name] = [part.model_dump(mode="json") for part in parts[name]]
    return parts


def _identify(value: Mapping[str, Json]) -> str:
    return digest({name: part for name, part in value.items() if name != "registration_id"})


def read_registration(folder: Path) -> Registration:
    """Read the current registration.

    Raises:
        InputError: there is none, or it was edited.
    """
    return _parse(folder / REGISTRATION)


def read_registrations(folder: Path) -> tuple[Registration, ...]:
    """Read every registration from its copy, oldest first.

    Raises:
        InputError: one is missing or was edited, or they are not linked.
    """
    current = read_registration(folder)
    chain = [_parse(folder / REGISTRATIONS / str(number) / REGISTRATION) for number in range(1, current.number + 1)]
    if chain[-1] != current:
        raise InputError(f"{folder / REGISTRATION} differs from its copy in {REGISTRATIONS}/{current.number}")
    for before, after in itertools.pairwise(chain):
        if after.amends is None or after.amends.registration_id != before.registration_id:
            raise InputError(f"registration {after.number} of {folder} does not amend registration {before.number}")
    return tuple(chain)


def _parse(path: Path) -> Registration:
    try:
        registration = Registration.model_validate(parse_strict(read_text(path).encode()))
    except CanonicalError as error:
        raise InputError(f"{path}: {error}", remedy=_RESTORE) from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "registration"
        raise InputError(f"{path}: {place}: {first['msg']}", remedy=_RESTORE) from None
    if registration.computed_id() != registration.registration_id:
        msg = f"{path} was edited: its content has the digest {registration.computed_id()}, not its registration_id"
        raise InputError(msg, remedy=_RESTORE)
    return registration


def changed_files(registration: Registration, folder: Path) -> tuple[str, ...]:
    """Return the frozen files that are missing in a folder, or that differ from the registration."""
    return tuple(name for name, sha256 in registration.files.items() if _digest(folder / name) != sha256)


def _digest(path: Path) -> str | None:
    try:
        return sha256_hex(read_text(path).encode())
    except InputError:
        return None


_RESTORE = f"restore it from {REGISTRATIONS}/, which has a copy"


def frozen_differences(registration: Registration, now: Frozen) -> Iterator[str]:
    """Describe everything frozen that is different now."""
    for name in ("question", "endpoint", "seed", "harness_version", "rubric", "thresholds", "prices"):
        before, after = getattr(registration, name), getattr(now, name)
        if before != after:
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


def require_unchanged(registration: Registration, planning: Planning) -> None:
    """
    Raises:
        ContractError: something frozen has changed; lists the differences.
    """
    differences = tuple(frozen_differences(registration, current_state(planning)))
    if differences:
        raise ContractError(
            f"{planning.folder} differs from its registration",
            problems=differences,
            remedy="restore it, or register the change with `ab pilot freeze --amend --reason …`",
        )


def deviations(registrations: Sequence[Registration]) -> tuple[str, ...]:
    """Return the protocol deviations that registrations state: another seed, and amendments."""
    texts = []
    if registrations and registrations[-1].seed != PROTOCOL_SEED:
        texts.append(f"randomisation seed {registrations[-1].seed} instead of {PROTOCOL_SEED}")
    texts += [
        f"registration {registration.number} amended the plan on {registration.frozen_at}: {registration.amends.reason}"
        for registration in registrations
        if registration.amends is not None
    ]
    return tuple(texts)
