"""Making a lock: what was resolved by looking and running elsewhere, bound to the identities of the task."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentbench.contract.identity import identify
from agentbench.contract.load import LoadedTask
from agentbench.contract.lock import Lock, LockedCheck, LockedIds, LockedImage, LockedSource
from agentbench.contract.task_files import FileTrouble, walk
from agentbench.core.errors import ContractError

_LOCKFILE = re.compile(
    r"uv\.lock|poetry\.lock|pdm\.lock|pylock(\..+)?\.toml|Pipfile\.lock|requirements[^/]*\.txt|conda-lock\.ya?ml"
    r"|package-lock\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-lock\.yaml|bun\.lockb?"
    r"|Cargo\.lock|go\.sum|Gemfile\.lock|composer\.lock|gradle\.lockfile|mix\.lock"
)
_UNKNOWN = "sha256:" + "0" * 64


@dataclass(frozen=True, slots=True)
class Resolved:
    """What had to be looked up or run to be known."""

    source: LockedSource = field(default_factory=LockedSource)
    image: LockedImage | None = None
    checks: Mapping[str, LockedCheck] = field(default_factory=dict)
    protected: tuple[str, ...] | None = None
    lockfiles: Mapping[str, str] = field(default_factory=dict)
    env_digest: str | None = None


def make_lock(loaded: LoadedTask, resolved: Resolved) -> Lock:
    """The lock of a task: deterministic, with the suite's scorers as they are now.

    `loaded` comes from `load_task(…, use_lock=False)`: an old lock must not freeze an old scenario again.

    Raises:
        ContractError: a check is locked that the task does not have, or a file of the task cannot be read.
    """
    unknown = sorted(set(resolved.checks) - {check.id for check in loaded.checks})
    if unknown:
        raise ContractError(f"{loaded.file}: the lock names checks that the task does not have: {', '.join(unknown)}")
    draft = Lock(
        task_id=loaded.task.id,
        ids=LockedIds(contract_id=_UNKNOWN, task_digest=_UNKNOWN, acceptance_id=_UNKNOWN, setup_key=_UNKNOWN, parts={}),
        source=resolved.source,
        image=resolved.image,
        checks=dict(resolved.checks),
        protected=tuple(sorted(resolved.protected)) if resolved.protected is not None else None,
        scenario=loaded.scenario,
        lockfiles=dict(resolved.lockfiles),
        env_digest=resolved.env_digest,
    )
    return draft.model_copy(update={"ids": identify(loaded.with_lock(draft)).locked()})


def lockfiles(folder: Path) -> dict[str, str]:
    """Dependency lock files of a tree and their digests, by path (C-17).

    Raises:
        ContractError: the folder cannot be read.
    """
    found: dict[str, str] = {}
    try:
        for path, _ in walk(folder):
            file = Path(path)
            relative = file.relative_to(folder)
            if relative.parts[0] == ".git" or not _LOCKFILE.fullmatch(file.name):
                continue
            if file.is_file() and not file.is_symlink():
                with file.open("rb") as stream:
                    found[relative.as_posix()] = "sha256:" + hashlib.file_digest(stream, "sha256").hexdigest()
    except (FileTrouble, OSError) as error:
        raise ContractError(f"{folder}: {error}") from None
    return dict(sorted(found.items()))
