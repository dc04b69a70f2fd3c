"""The manifest of an attempt, from what the contract says and what was found on the ground."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass

from agentbench.agents.cli.agent import profile_of
from agentbench.agents.cli.layer import ProgramLayer
from agentbench.contract.identity import Identities
from agentbench.contract.load import LoadedTask
from agentbench.contract.lock import LockedSource
from agentbench.contract.schema import Environment, Repo
from agentbench.core.ids import now_iso
from agentbench.core.reasons import Observability
from agentbench.record.manifest import (
    Entrypoints,
    ExecutedCommand,
    Manifest,
    Observed,
    Planned,
    PlannedCheck,
    ProtocolManifest,
    RepositoryPlan,
    SandboxPlan,
    TaskIds,
)
from agentbench.record.recompute import grading_plan, guard_plan
from agentbench.run.config import PROTOCOL_SEED
from agentbench.run.lab import Ground
from agentbench.run.plan import PlanRow
from agentbench.tools.rules import Rules
from agentbench.verdict.terms import Terms

US = 1_000_000
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Names:
    """Which attempt of which run by which harness, and how it will be judged."""

    harness_version: str
    study_id: str
    run_id: str
    attempt_id: str
    base_seed: int
    terms: Terms
    rules: Rules
    observability: Observability | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where an attempt is to run, known before anything of it does."""

    ids: Identities
    backend: str
    config_class: str


def manifest_of(
    row: PlanRow, names: Names, place: Place, ground: Ground | None = None, program: ProgramLayer | None = None
) -> Manifest:
    """What was planned, and what was found once the ground stands."""
    deviations = (
        () if names.base_seed == PROTOCOL_SEED else (f"base seed {names.base_seed} instead of {PROTOCOL_SEED}",)
    )
    return Manifest(
        harness_version=names.harness_version,
        study_id=names.study_id,
        run_id=names.run_id,
        attempt_id=names.attempt_id,
        written_at=now_iso(),
        replayable=row.task.task.environment.network_policy != "always",
        protocol_manifest=ProtocolManifest(
            planned=_planned(row, place, names),
            observed=None if ground is None else _observed(row, ground, program),
            deviations=deviations,
        ),
    )


def _planned(row: PlanRow, place: Place, names: Names) -> Planned:
    task, loaded = row.task.task, row.task
    environment = task.environment
    return Planned(
        repository=_repository(row),
        task=TaskIds(
            task_id=task.id,
            suite=task.suite,
            contract_id=place.ids.contract_id,
            task_digest=place.ids.task_digest,
            acceptance_id=place.ids.acceptance_id,
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
        sandbox=_sandbox(environment, place.backend),
        environment=environment.env,
        secrets=environment.secrets,
        variant=row.configuration.variant,
        agent=row.configuration.agent,
        observability=names.observability,
        configuration={name: dict(value) for name, value in row.configuration.described().items()},
        limits={
            "wall_sec": {"value": loaded.wall.value, "origin": loaded.wall.origin},
            "tool_calls": {"value": loaded.tool_calls.value, "origin": loaded.tool_calls.origin},
            "tool_timeout_sec": {"value": environment.tool_timeout_sec, "origin": "environment.tool_timeout_sec"},
        },
        config_class=place.config_class,
        grading=grading_plan(names.terms),
        guard=guard_plan(
            names.rules.limits,
            names.rules.contract,
            names.rules.stages,
            # What a program does inside the sandbox passes no tool, so no stage can be refused to it.
            enforced=row.configuration.agent_command is None and profile_of(row.configuration.agent) is None,
        ),
        base_seed=names.base_seed,
        seed=row.seed,
    )


def _entrypoints(loaded: LoadedTask) -> Entrypoints:
    oracle = loaded.task.oracle
    return Entrypoints(
        install=loaded.task.setup.commands,
        build=oracle.build,
        static=() if oracle.static == "none" else oracle.static,
        acceptance=tuple(check.command or check.candidate or "" for check in loaded.checks),
    )


def _sandbox(environment: Environment, backend: str) -> SandboxPlan:
    return SandboxPlan(
        backend=backend,
        image=environment.docker_image,
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
        # An abbreviation or a tag pins nothing by itself: then the lock says what it stood for.
        whole = repo.commit if repo.commit and _COMMIT.fullmatch(repo.commit) else None
        return RepositoryPlan(
            kind="git",
            url=repo.url,
            commit=whole or locked.commit,
            submodules=dict(locked.submodules),
            content=locked.digest,
        )
    if repo.archive is not None:
        return RepositoryPlan(kind="archive", archive=repo.archive, sha256=repo.sha256, content=locked.digest)
    return RepositoryPlan(kind="path", content=locked.digest)


def _observed(row: PlanRow, ground: Ground, program: ProgramLayer | None) -> Observed:
    prepared = ground.prepared
    details = prepared.details
    return Observed(
        snapshot=ground.snapshot.digest,
        source=dict(ground.snapshot.source),
        base_tree=ground.base_digest,
        env_digest=prepared.digest,
        backend=prepared.backend,
        image_digest=details.get("image_digest"),
        command_server=details.get("server", ""),
        enforcement={
            "cpu": ground.limits.cpu,
            "memory": ground.limits.memory,
            "pids": ground.limits.pids,
            "disk": ground.limits.disk,
        },
        os=dict(ground.inside.os),
        python=ground.inside.python,
        package_managers=dict(ground.inside.package_managers),
        locale=dict(ground.inside.locale),
        hardware=_hardware(),
        registries=tuple(filter(None, details.get("registries", "").split("\n"))),
        lockfiles=dict(prepared.lockfiles),
        environment=dict(row.task.task.environment.env),
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
        notes=(*ground.limits.notes, *_network_notes(row)),
    )


def _network_notes(row: PlanRow) -> tuple[str, ...]:
    """Why a run cannot be replayed, and what there is of it instead."""
    if row.task.task.environment.network_policy != "always":
        return ()
    told = (
        "network: the agent reaches what is listed through the recording proxy; plain requests are recorded in full, tunnels "
        "by destination, count and digest; nothing is answered from the recording, so the agent's work is not replayable"
    )
    return (told,)


def _hardware() -> dict[str, str]:
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "machine": platform.machine(),
        "cpus": str(os.cpu_count() or 0),
        "memory_gib": str(round(pages / 2**30)),
    }
