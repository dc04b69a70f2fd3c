"""Read and write `task.lock.json`: values resolved once, so that every later run uses the same ones."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from agentbench.contract.problem import InvalidFileError, Problem, dotted
from agentbench.contract.schema import FrozenScenario, Model
from agentbench.contract.task_files import TaskFileError, regular
from agentbench.core.atomic_file import write_atomic
from agentbench.core.errors import ContractError
from agentbench.core.unique_keys import unique_members

LOCK_NAME = "task.lock.json"
MAX_BYTES = 64 * 1024 * 1024

Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]


SUBMODULE = "submodule:"
"""A snapshot's source has one key `submodule:PATH` per submodule, with its revision and its URL."""


def submodule_revisions(source: Mapping[str, str]) -> dict[str, str]:
    """Return the revision of every submodule in a snapshot's source, by path."""
    return {
        name.removeprefix(SUBMODULE): value.partition(" ")[0]
        for name, value in source.items()
        if name.startswith(SUBMODULE)
    }


class LockedSource(Model):
    """The base repository when it was locked: resolved commit and submodules, digest of the tree."""

    commit: str | None = None
    submodules: dict[str, str] = Field(default_factory=dict)
    digest: str | None = None


class LockedImage(Model):
    reference: str
    digest: str


class LockedCheck(Model):
    """Test ids collected for a check; they are required if the check names none itself."""

    fail_to_pass: tuple[str, ...] = ()
    pass_to_pass: tuple[str, ...] = ()


class Identities(Model):
    """The digests of a task, each `sha256:…`. `parts` has one per section; in a lock it shows what changed since."""

    contract_id: Digest
    task_digest: Digest
    acceptance_id: Digest
    setup_key: Digest
    parts: dict[str, Digest]


class Lock(Model):
    """A whole `task.lock.json`."""

    schema_version: Literal[1] = 1
    task_id: str
    ids: Identities
    source: LockedSource = LockedSource.model_construct()
    image: LockedImage | None = None
    checks: dict[str, LockedCheck] = Field(default_factory=dict)
    protected: tuple[str, ...] | None = None
    """The files that grading restores from the base repository; None if not resolved."""
    scenario: FrozenScenario = FrozenScenario.model_construct()
    lockfiles: dict[str, str] = Field(default_factory=dict)
    """Digests of the dependency lock files in the base repository, by path."""
    env_digest: str | None = None
    backend: str | None = None
    """The sandbox backend that `env_digest` belongs to; None in locks of older versions."""

    @property
    def image_digest(self) -> str | None:
        return self.image.digest if self.image is not None else None

    def env_digest_for(self, backend: str) -> str | None:
        """Return the digest of the prepared environment, or None if it was locked with another backend."""
        locked_with = self.backend or ("docker" if self.image is not None else None)
        return self.env_digest if backend == locked_with else None


def read_lock(folder: Path) -> Lock | None:
    """Read the lock beside a task, or return None if there is none.

    Raises:
        ContractError: the lock exists and is not valid.
    """
    path = folder / LOCK_NAME
    file = str(path)
    try:
        if not os.path.lexists(path):
            return None
        with regular(path, LOCK_NAME).open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, TaskFileError) as error:
        raise _invalid(file, f"cannot read: {error}") from None
    if len(data) > MAX_BYTES:
        raise _invalid(file, f"larger than {MAX_BYTES // 1024**2} MiB")
    try:
        value = json.loads(data.decode(), object_pairs_hook=unique_members, parse_constant=_no_constant)
        return Lock.model_validate_json(json.dumps(value), strict=True, by_alias=True, by_name=False)
    except json.JSONDecodeError as error:
        raise _invalid(file, f"invalid JSON: {error.msg}", line=error.lineno) from None
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
        problems = [Problem(file, 0, dotted(detail["loc"]), detail["msg"].lower()) for detail in details]
        raise InvalidFileError(file, problems) from None
    except (ValueError, RecursionError) as error:
        raise _invalid(file, f"invalid lock: {error}") from None


def write_lock(folder: Path, lock: Lock) -> Path:
    """Write a lock beside its task. Equal locks give equal bytes.

    Raises:
        ContractError: the folder cannot be written.
    """
    path = folder / LOCK_NAME
    text = json.dumps(lock.model_dump(mode="json"), sort_keys=True, indent=2, ensure_ascii=False) + "\n"
    try:
        write_atomic(path, text.encode(), durable=True)
    except OSError as error:
        raise _invalid(str(path), f"cannot write: {error.strerror}") from None
    return path


def _invalid(file: str, message: str, line: int = 0) -> ContractError:
    error = InvalidFileError(file, [Problem(file, line, "", message)])
    error.remedy = "recreate it with `ab task lock`"
    return error


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")
