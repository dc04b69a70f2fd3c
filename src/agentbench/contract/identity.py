"""Compute the digests that identify a task: over its meaning, not over its formatting.

    setup_key      repo, environment and setup: which prepared environment fits
    contract_id    the same plus oracle and policy: which contract was run
    task_digest    the contract plus statement, hints, turns, budget, scorers, judge and rubric
    acceptance_id  the mandatory checks and their files: what a verdict was decided by

`agent.editable_globs` means the same as `policy.editable_globs`, so the effective globs are part of the policy wherever
they are written. A local folder is identified by its content, not by its name. Hidden files, drivers and the Dockerfile
count with their bytes. Title, notes, strata, reference, agent and artifacts are part of no digest. Test ids that only
the lock has are part of the acceptance, not of the contract: the contract is what the author wrote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from agentbench.contract.lock import LOCK_NAME, Identities, Lock
from agentbench.contract.problem import Problem
from agentbench.contract.schema import Check, Repo
from agentbench.contract.task_files import folder_digest, read_bytes
from agentbench.core.canonical import Json, digest, sha256_hex

if TYPE_CHECKING:
    from agentbench.contract.load import LoadedTask

SETUP_PARTS = ("repo", "environment", "setup")
CONTRACT_PARTS = (*SETUP_PARTS, "oracle", "policy")
TASK_PARTS = (*CONTRACT_PARTS, "statement", "hints", "turns", "budget", "scorers", "judge", "rubric")


def identify(loaded: LoadedTask) -> Identities:
    """Compute the identities of a task from its current files; those of a copy on another machine are known.

    Raises:
        ContractError: a file of the task vanished or can no longer be read.
    """
    if loaded.identities is not None:
        return loaded.identities
    hidden = _hidden(loaded)
    parts = {name: digest(value) for name, value in _parts(loaded, hidden).items()}
    return Identities(
        contract_id=_over("contract", parts, CONTRACT_PARTS),
        task_digest=_over("task", parts, TASK_PARTS),
        acceptance_id=_acceptance(loaded, hidden),
        setup_key=_over("setup", parts, SETUP_PARTS),
        parts=parts,
    )


def stale_lock_problems(loaded: LoadedTask, lock: Lock) -> list[Problem]:
    """Report what changed since the lock was written; empty if the lock still fits the task."""
    file = str(loaded.folder / LOCK_NAME)
    if lock.task_id != loaded.task.id:
        return [Problem(file, 0, "task_id", f"expected {loaded.task.id}; this is the lock of {lock.task_id}")]
    now = identify(loaded)
    changed = [name for name in TASK_PARTS if lock.ids.parts.get(name) != now.parts[name]]
    if changed:
        return [Problem(file, 0, "ids", f"stale lock: {', '.join(changed)} changed since it was written")]
    if now != lock.ids:
        return [Problem(file, 0, "ids", "stale or edited lock: its digests do not match its contents")]
    return []


def _over(kind: str, parts: dict[str, str], names: tuple[str, ...]) -> str:
    return digest({"agentbench": f"{kind}/1", **{name: parts[name] for name in names}})


def _parts(loaded: LoadedTask, hidden: Json) -> dict[str, Json]:
    task = loaded.task
    # Dumped as a whole: a dump of each section would build a serializer for each.
    plain = _plain(task)
    policy = {**plain["policy"], "editable_globs": list(loaded.editable_globs)}
    if task.policy.stage_mode == "auto":
        del policy["stage_mode"]  # means the same as an absent key
    checks = zip(task.oracle.checks, plain["oracle"]["checks"], strict=True)
    return {
        "repo": _repo(loaded, plain["repo"]),
        "environment": _environment(loaded, plain["environment"]),
        "setup": plain["setup"],
        "oracle": {
            **plain["oracle"],
            "hidden": hidden,
            "checks": [_with_driver(loaded, check, fields) for check, fields in checks],
            "validation": plain.get("validation"),
        },
        "policy": policy,
        "statement": loaded.statement,
        "hints": plain["hints"],
        "turns": list(task.turns),
        "budget": plain["budget"],
        "scorers": [_plain(scorer) for scorer in loaded.scorers],
        "judge": _plain(loaded.judge) if loaded.judge is not None else None,
        "rubric": plain["rubric"],
    }


def _plain(model: BaseModel) -> dict[str, Any]:
    # Without None values, so that a new optional key does not change the digests of existing tasks.
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def _repo(loaded: LoadedTask, fields: dict[str, Json]) -> Json:
    repo = loaded.task.repo
    if not isinstance(repo, Repo):
        return "none"
    plain = {name: value for name, value in fields.items() if name != "origin"}  # another address of the same commit
    if repo.sha256 is not None:
        plain["sha256"] = repo.sha256.removeprefix("sha256:")
    if loaded.repo_folder is not None:
        plain["path"] = folder_digest(loaded.repo_folder)
    return plain


def _environment(loaded: LoadedTask, fields: dict[str, Json]) -> Json:
    dockerfile = loaded.task.environment.dockerfile
    if dockerfile is None:
        return fields
    return {**fields, "dockerfile": sha256_hex(read_bytes(loaded.folder / dockerfile))}


def _with_driver(loaded: LoadedTask, check: Check, fields: dict[str, Json]) -> Json:
    if check.driver is None:
        return fields
    return {**fields, "driver_sha256": sha256_hex(read_bytes(loaded.driver_file(check)))}


def _hidden(loaded: LoadedTask) -> Json:
    """Return name, executable bit and digest of each hidden file. Names are hexadecimal: they need not be UTF-8."""
    return [[name.hex(), file.executable, sha256_hex(file.content)] for name, file in loaded.hidden_files().items()]


def _acceptance(loaded: LoadedTask, hidden: Json) -> str:
    protected = loaded.task.oracle.protected
    mandatory = [_with_driver(loaded, check, _plain(check)) for check in loaded.checks if check.mandatory]
    return digest(
        {
            "agentbench": "acceptance/1",
            "checks": mandatory,
            "hidden": hidden,
            "protected": list(protected) if protected is not None else None,
        }
    )
