"""The setup phase: everything is identified and recorded before the agent acts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from agentbench.acceptance.validation import baseline
from agentbench.core.errors import BaselineNotFailing, HarnessError, LockMismatch, TaskError
from agentbench.core.ids import new_ulid
from agentbench.core.text import shell_quoted
from agentbench.execution.attempt.base import US, Attempt
from agentbench.execution.attempt.manifest import build_manifest
from agentbench.execution.attempt.metering import expected_headroom
from agentbench.execution.lab import PreparedTask, config_class
from agentbench.execution.task_bundle import CONTRACT, pack, write_private
from agentbench.execution.version import harness_version
from agentbench.record.manifest_problems import manifest_problems
from agentbench.sandbox.protocol import SetupStep
from agentbench.trace.blobs import excerpt
from agentbench.trace.events import (
    AttemptOpened,
    IdentityBound,
    SetupCommandFinished,
    SetupCommandStarted,
    TaskStarted,
)

if TYPE_CHECKING:
    from agentbench.agents.cli.layer import ProgramLayer


def open_attempt(attempt: Attempt) -> None:
    """Write the planned manifest and the first events."""
    row, folder, task = attempt.row, attempt.folder, attempt.row.task
    backend = attempt.lab.backend(task)
    attempt.config_class = config_class(task, backend)
    folder.write_manifest(build_manifest(attempt, backend))
    attempt.log.append(
        AttemptOpened(
            attempt_id=folder.attempt_id,
            run_id=folder.run_id,
            study_id=folder.study_id,
            task_id=task.id,
            contract_id=attempt.ids.contract_id,
            task_digest=attempt.ids.task_digest,
            harness_version=harness_version(),
            config_class=attempt.config_class,
            nonce=new_ulid(),
            supersedes=folder.supersedes,
        )
    )
    attempt.log.append(
        TaskStarted(
            task_id=task.id,
            suite=task.task.suite,
            variant=row.configuration.variant,
            agent=row.configuration.agent,
            repeat=row.repeat,
            seed=row.seed,
            started_at=attempt.started_at,
        )
    )


def prepare(attempt: Attempt) -> PreparedTask:
    """Prepare the base repository and its environment."""
    attempt.report_phase("setup")
    # Setup commands can print what is in the repository.
    attempt.redact_repository()

    def record_step(step: SetupStep) -> None:
        _record_step(attempt, len(attempt.setup_steps), step)
        attempt.setup_steps.append(step)

    prepared = attempt.lab.prepare(attempt.row.task, record_step)
    attempt.env_digest = prepared.environment.digest
    attempt.rules = replace(attempt.rules, known_packages=prepared.known_packages)
    if not attempt.setup_steps:
        for step in prepared.environment.steps:
            record_step(replace(step, cached=True))
    return prepared


def bind_identity(attempt: Attempt, prepared: PreparedTask, program: ProgramLayer | None = None) -> None:
    """Write the complete manifest, bind it to the log, and pack the task for replays.

    If the identity is as planned, the checks run on the base repository first: the manifest holds the headroom, which is
    expected from their duration.

    Raises:
        LockMismatch: something differs from what the task or its lock pins.
        BaselineNotFailing: the checks pass without any work.
        TaskError: a check cannot be run on the base repository.
        HarnessError: the manifest is incomplete or contradicts itself, or the sandbox failed.
    """
    problems = manifest_problems(build_manifest(attempt, prepared.backend, prepared, program))
    failure = None if problems else _measure_baseline(attempt, prepared)
    manifest = build_manifest(attempt, prepared.backend, prepared, program)
    sha256 = attempt.folder.write_manifest(manifest)
    attempt.log.append(
        IdentityBound(
            snapshot=prepared.snapshot.digest,
            source=dict(prepared.snapshot.source),
            base_tree=prepared.base_digest,
            env_digest=prepared.environment.digest,
            backend=prepared.backend.name,
            image=prepared.environment.details.get("image_digest"),
            manifest_sha256=sha256,
        )
    )
    repository = attempt.lab.packed_repository(prepared.snapshot)
    bundle = pack(attempt.row.task, prepared.ids, repository, attempt.secrets)
    write_private(attempt.folder.path, CONTRACT, attempt.folder.evidence_of(CONTRACT, bundle, bundle))
    details = "; ".join(problem.message for problem in problems)
    if problems and all(problem.task_at_fault for problem in problems):
        names = ", ".join(problem.field for problem in problems)
        # The remedy precedes the details, which are long: reports cut the line.
        remedy = f"restore what changed, or review it and run `ab task lock {shell_quoted(attempt.row.task.folder)}`"
        raise LockMismatch(f"{names} not as pinned: {remedy}; {details}")
    if problems:
        raise HarnessError(f"invalid manifest: {details}")
    if failure is not None:
        raise failure
    attempt.log.sync()


def _measure_baseline(attempt: Attempt, prepared: PreparedTask) -> TaskError | HarnessError | None:
    """Run the checks on the base repository, where they must fail, and reserve headroom. Return what went wrong."""
    if not attempt.terms.judged_only:
        attempt.report_phase("baseline")
        try:
            attempt.baseline = baseline(attempt.grading_context(prepared))
        except (TaskError, HarnessError) as error:
            return error
        if not attempt.baseline.failed_as_expected:
            return BaselineNotFailing(f"baseline already passes: {attempt.baseline.why}")
    attempt.reserve_headroom(expected_headroom(attempt.row.task, attempt.baseline, attempt.rules.thresholds))
    return None


def _record_step(attempt: Attempt, index: int, step: SetupStep) -> None:
    """Log one setup command with its result."""
    attempt.log.append(SetupCommandStarted(index=index, command=step.command, capture=step.capture, cached=step.cached))
    attempt.log.append(
        SetupCommandFinished(
            index=index,
            exit_code=step.exit_code,
            timed_out=step.timed_out,
            duration_us=int(step.duration_sec * US),
            stdout=excerpt(step.stdout, store=attempt.blobs),
            stderr=excerpt(step.stderr, store=attempt.blobs),
            cached=step.cached,
        )
    )
