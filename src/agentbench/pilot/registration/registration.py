"""The registration: everything that is decided before the first attempt, frozen by digest in `registration.json`.

A registration never changes. An amendment is a new registration that names the one it replaces and the reason; a copy of the
files of each registration stays in `registrations/`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import cast

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from agentbench.core.canonical import CanonicalError, Json, digest, parse_strict, sha256_hex
from agentbench.core.errors import InputError
from agentbench.core.protocol import PROTOCOL_SEED
from agentbench.pilot.folder import REGISTRATION, REGISTRATIONS, read_text

SCHEMA_VERSION = 2
"""Since version 2 the plan decides the ids of attempts, which proves the order in which they were launched."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Amendment(_Part):
    """The link to the registration that this one replaces."""

    registration_id: str
    reason: str


class RegisteredTask(_Part):
    task_id: str
    suite: str
    stratum: str
    contract_id: str
    task_digest: str
    acceptance_id: str
    weights: dict[str, JsonValue] | None = None


class RegisteredMethod(_Part):
    name: str
    role: str
    """`method` or `baseline`."""
    digest: str


class FrozenContent(_Part):
    """The frozen content of a registration."""

    question: str
    endpoint: str
    seed: int
    harness_version: str
    harness_sources: str | None = None
    """Digest of the code of the harness: a checkout can be edited without a commit. Null in earlier registrations."""
    files: dict[str, str]
    """SHA-256 of the frozen files."""
    tasks: tuple[RegisteredTask, ...]
    methods: tuple[RegisteredMethod, ...]
    rubric: str
    """Digest of the published rubric and its weights; weights of suites are with the tasks."""
    thresholds: str
    """Digest of the thresholds of breakers and monitors."""
    prices: str
    """The way in which costs are computed, by the digest of the price table."""


class Registration(FrozenContent):
    """The content of `registration.json`."""

    schema_version: int = SCHEMA_VERSION
    registration_id: str
    """Digest of all other values."""
    number: int
    frozen_at: str
    amends: Amendment | None

    @property
    def method_names(self) -> tuple[str, ...]:
        """The names of methods and baselines, in the order of pilot.yaml."""
        return tuple(method.name for method in self.methods)

    @property
    def frozen_ms(self) -> int:
        """Time of the registration in milliseconds since 1970."""
        return round(datetime.fromisoformat(self.frozen_at).timestamp() * 1000)


def identify_registration(value: Mapping[str, Json]) -> str:
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
        value = parse_strict(read_text(path).encode())
        registration = Registration.model_validate(value)
    except CanonicalError as error:
        raise InputError(f"{path}: {error}", remedy=_RESTORE) from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "registration"
        raise InputError(f"{path}: {place}: {first['msg']}", remedy=_RESTORE) from None
    computed = identify_registration(cast("Mapping[str, Json]", value))
    if computed != registration.registration_id:
        msg = f"{path} was edited: its content has the digest {computed}, not its registration_id"
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
