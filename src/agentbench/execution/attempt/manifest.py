"""Build the manifest of an attempt: what the task plans, and what was observed when it was prepared."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import asdict
from typing import TYPE_CHECKING

from agentbench.contract.load import LoadedTask
from agentbench.contract.lock import Lock, LockedSource
from agentbench.contract.schema import Environment, Repo
from agentbench.core.ids import now_iso
from agentbench.core.protocol import PROTOCOL_SEED, SEED_DEVIATION
from agentbench.core.reasons import Observability
from agentbench.execution.attempt.base import US, Attempt
from agentbench.execution.extensions import used_by
from agentbench.execution.lab import PreparedTask, config_class
from agentbench.execution.plan import PlanRow
from agentbench.execution.version import harness_version
from agentbench.record.manifest import (
    Entrypoints,
    EvidencePlan,
    ExecutedCommand,
    HeadroomPlan,
    Manifest,
    Observed,
    Planned,
    PlannedCheck,
    PluginUse,
    ProtocolManifest,
    RatesPlan,
    RedactedSecret,
    RedactedSecrets,
    RepositoryPlan,
    SandboxPlan,
    TaskIds,
)
from agentbench.record.plans import grading_plan, guard_plan
from agentbench.sandbox.protocol import Backend
from agentbench.trace.redaction import repository_placeholder
from agentbench.workspace.secrets.scan import RepositorySecrets

if TYPE_CHECKING:
    from agentbench.agents.cli.layer import ProgramLayer

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def build_manifest(
    attempt: Attempt, backend: Backend, prepared: PreparedTask | None = None, program: ProgramLayer | None = None
) -> Manifest:
    """Describe the plan and, once the task is prepared, what was observed."""
    deviations = (
        ()
        if attempt.base_seed == PROTOCOL_SEED
        else (f"{SEED_DEVIATION}{attempt.base_seed} instead of {PROTOCOL_SEED}",)
    )
    return Manifest(
        harness_version=harness_version(),
        study_id=attempt.folder.study_id,
        run_id=attempt.folder.run_id,
        attempt_id=attempt.folder.attempt_id,
        written_at=now_iso(),
        replayable=attempt.row.task.task.environment.network_policy != "always",
        protocol_manifest=ProtocolManifest(
            planned=_planned(attempt, backend),
            observed=None if prepared is None else _observed(attempt, prepared, program),
            deviations=deviations,
        ),
    )


def _planned(attempt: Attempt, backend: Backend) -> Planned:
    row, rules, ids = attempt.row, attempt.rules, attempt.ids
    task, loaded = row.task.task, row.task
    environment = task.environment
    return Planned(
        repository=_repository(row),
        task=TaskIds(
            task_id=task.id,
            suite=task.suite,
            contract_id=ids.contract_id,
            task_digest=ids.task_digest,
            acceptance_id=ids.acceptance_id,
            locked=loaded.lock is not None,
        ),
        acceptance=tuple(
            PlannedCheck(
                id=check.id,
                layer=check.layer,
                mandatory=check.mandatory,
                command=check.command or f"probe: {check.candidate}",
                timeout_sec=check.timeout_sec,
            )
            for check in loaded.checks
        ),
        entrypoints=_entrypoints(loaded),
        sandbox=_sandbox(environment, backend.name, loaded.lock),
        environment=environment.env,
        secrets=environment.secrets,
        variant=row.configuration.variant,
        agent=row.configuration.agent,
        observability=attempt.observability,
        configuration={name: dict(value) for name, value in row.configuration.described().items()},
        limits={
            "wall_sec": {"value": loaded.wall.value, "origin": loaded.wall.origin},
            "tool_calls": {"value": loaded.tool_calls.value, "origin": loaded.tool_calls.origin},
            "tool_timeout_sec": {"value": environment.tool_timeout_sec, "origin": "environment.tool_timeout_sec"},
        },
        config_class=config_class(loaded, backend),
        grading=grading_plan(attempt.terms),
        guard=guard_plan(
            rules.limits,
            rules.contract,
            rules.stages,
            rules.stage_mode,
            rules.not_applicable,
        ),
        rates=RatesPlan.of(attempt.rates),
        headroom=_headroom(attempt),
        evidence=EvidencePlan(text=attempt.folder.text),
        plugins=tuple(PluginUse.model_validate(asdict(used)) for used in used_by(row, attempt.lab)),
        base_seed=attempt.base_seed,
        seed=row.seed,
    )


def _headroom(attempt: Attempt) -> HeadroomPlan | None:
    if attempt.headroom is None:
        return None
    return HeadroomPlan(**asdict(attempt.headroom), micro=attempt.headroom.micro(attempt.rates))


def _entrypoints(loaded: LoadedTask) -> Entrypoints:
    oracle = loaded.task.oracle
    return Entrypoints(
        install=loaded.task.setup.commands,
        build=oracle.build,
        static=() if oracle.static == "none" else oracle.static,
        acceptance=tuple(check.command or check.candidate or "" for check in loaded.checks),
    )


def _sandbox(environment: Environment, backend: str, lock: Lock | None) -> SandboxPlan:
    return SandboxPlan(
        backend=backend,
        image=environment.docker_image,
        image_digest=lock.image_digest if lock is not None and backend == "docker" else None,
        env_digest=lock.env_digest_for(backend) if lock is not None else None,
        workdir=environment.workdir,
        python=environment.python,
        network=environment.network_policy,
        network_allow=environment.network_allow,
        limits={
            "cpu": environment.cpu_limit,
            "memory_mb": environment.mem_limit_mb,
            "pids": environment.pids_limit,
            "disk_mb": environment.disk_limit_mb,
        },
    )


def _repository(row: PlanRow) -> RepositoryPlan:
    repo, lock = row.task.task.repo, row.task.lock
    if not isinstance(repo, Repo):
        return RepositoryPlan(kind="none")
    locked = lock.source if lock else LockedSource()
    if repo.url is not None:
        # A tag or an abbreviated commit pins nothing: the lock has the commit it stood for.
        commit = repo.commit if repo.commit and _COMMIT.fullmatch(repo.commit) else None
        return RepositoryPlan(
            kind="git",
            url=repo.url,
            commit=commit or locked.commit,
            submodules=dict(locked.submodules),
            content=locked.digest,
        )
    if repo.archive is not None:
        return RepositoryPlan(kind="archive", archive=repo.archive, sha256=repo.sha256, content=locked.digest)
    return RepositoryPlan(kind="path", content=locked.digest)


def _observed(attempt: Attempt, task: PreparedTask, program: ProgramLayer | None) -> Observed:
    row, prepared = attempt.row, task.environment
    # Agents that work through tools start no program of their own.
    is_program = attempt.observability not in {None, Observability.TOOLS}
    problem = task.facts.observation_problem if is_program else None
    details = prepared.details
    return Observed(
        snapshot=task.snapshot.digest,
        source=dict(task.snapshot.source),
        base_tree=task.base_digest,
        env_digest=prepared.digest,
        backend=prepared.backend,
        image_digest=details.get("image_digest"),
        command_server=details.get("server", ""),
        enforcement=dict(task.limits.strengths()),
        os=dict(task.facts.os),
        python=task.facts.python,
        package_managers=dict(task.facts.package_managers),
        locale=dict(task.facts.locale),
        hardware=_hardware(),
        registries=tuple(filter(None, details.get("registries", "").split("\n"))),
        lockfiles=dict(prepared.lockfiles),
        environment=dict(task.facts.environment),
        commands=tuple(
            ExecutedCommand(
                phase="capture" if step.capture else "setup",
                command=step.command,
                exit_code=step.exit_code,
                timed_out=step.timed_out,
                duration_us=int(step.duration_sec * US),
                cached=prepared.cached,
            )
            for step in prepared.steps
        ),
        setup_changed=tuple(path.decode("utf-8", "backslashreplace") for path in prepared.setup_changed),
        seed=row.seed,
        started_at=now_iso(),
        agent_program={} if program is None else program.described(),
        repository_secrets=_repository_secrets(attempt.secrets),
        program_commands=("not_observed" if problem else "observed") if is_program else None,
        program_commands_why=problem or "",
        notes=(*task.limits.notes, *_network_notes(row), *_lock_notes(row, prepared.backend)),
    )


def _repository_secrets(search: RepositorySecrets | None) -> RedactedSecrets | None:
    if search is None:
        return None
    return RedactedSecrets(
        rules=search.rules,
        searched_files=search.searched_files,
        skipped_files=search.skipped_files,
        complete=search.complete,
        secrets=tuple(
            RedactedSecret(placeholder=repository_placeholder(number), kind=secret.kind, places=secret.places)
            for number, secret in enumerate(search.secrets, start=1)
        ),
    )


def _network_notes(row: PlanRow) -> tuple[str, ...]:
    """Say why an attempt with network access cannot be replayed, and what was recorded instead."""
    if row.task.task.environment.network_policy != "always":
        return ()
    note = (
        "network: the agent reaches the allowed hosts through the recording proxy; plain requests are recorded in full, tunnels "
        "by destination, count and digest; a replay gets no answers from the recording, so the agent phase is not replayable"
    )
    return (note,)


def _lock_notes(row: PlanRow, backend: str) -> tuple[str, ...]:
    lock = row.task.lock
    if lock is None or lock.env_digest is None or lock.env_digest_for(backend) is not None:
        return ()
    return (
        f"env_digest is not compared: the task was locked with {lock.backend or 'an older version'}, not {backend}",
    )


def _hardware() -> dict[str, str]:
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "machine": platform.machine(),
        "cpus": str(os.cpu_count() or 0),
        "memory_gib": str(round(pages / 2**30)),
    }
