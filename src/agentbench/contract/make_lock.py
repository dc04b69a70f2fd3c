"""Make a lock: bind resolved values to the identities of a task. Resolving them is the caller's job."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from agentbench.contract.identity import identify
from agentbench.contract.load import LoadedTask
from agentbench.contract.lock import Identities, Lock, LockedCheck, LockedImage, LockedSource
from agentbench.contract.task_files import TaskFileError, walk
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import ContractError

_LOCKFILE = re.compile(
    r"uv\.lock|poetry\.lock|pdm\.lock|pylock(\..+)?\.toml|Pipfile\.lock|requirements[^/]*\.txt|conda-lock\.ya?ml"
    r"|package-lock\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-lock\.yaml|bun\.lockb?"
    r"|Cargo\.lock|go\.sum|Gemfile\.lock|composer\.lock|gradle\.lockfile|mix\.lock"
)
_UNKNOWN = "sha256:" + "0" * 64


@dataclass(frozen=True, slots=True)
class Resolution:
    """Values that are only known after fetching the repository and running the task."""

    source: LockedSource = field(default_factory=LockedSource)
    image: LockedImage | None = None
    checks: Mapping[str, LockedCheck] = field(default_factory=dict)
    protected: tuple[str, ...] | None = None
    lockfiles: Mapping[str, str] = field(default_factory=dict)
    env_digest: str | None = None
    backend: str | None = None


def make_lock(loaded: LoadedTask, resolved: Resolution) -> Lock:
    """Make the lock of a task, with the current scorers of its suite. Deterministic.

    Load the task with `load_task(…, use_lock=False)`, or the old lock's scenario is frozen again.

    Raises:
        ContractError: `resolved` names a check that the task does not have, or a file of the task cannot be read.
    """
    unknown = sorted(set(resolved.checks) - {check.id for check in loaded.checks})
    if unknown:
        raise ContractError(f"{loaded.file}: cannot lock unknown checks: {', '.join(unknown)}")
    draft = Lock(
        task_id=loaded.task.id,
        ids=Identities(
            contract_id=_UNKNOWN, task_digest=_UNKNOWN, acceptance_id=_UNKNOWN, setup_key=_UNKNOWN, parts={}
        ),
        source=resolved.source,
        image=resolved.image,
        checks=dict(resolved.checks),
        protected=tuple(sorted(resolved.protected)) if resolved.protected is not None else None,
        scenario=loaded.scenario,
        lockfiles=dict(resolved.lockfiles),
        env_digest=resolved.env_digest,
        backend=resolved.backend,
    )
    return draft.model_copy(update={"ids": identify(loaded.with_lock(draft))})


def lockfiles(folder: Path) -> dict[str, str]:
    """Return the digests of the dependency lock files in a tree, by path.

    Raises:
        ContractError: the folder cannot be read.
    """
    digests: dict[str, str] = {}
    try:
        for path, _ in walk(folder):
            file = Path(path)
            relative = file.relative_to(folder)
            if relative.parts[0] == ".git" or not _LOCKFILE.fullmatch(file.name):
                continue
            if file.is_file() and not file.is_symlink():
                with file.open("rb") as stream:
                    digests[relative.as_posix()] = "sha256:" + hashlib.file_digest(stream, "sha256").hexdigest()
    except (TaskFileError, OSError) as error:
        raise ContractError(f"{folder}: {error}") from None
    return dict(sorted(digests.items()))
