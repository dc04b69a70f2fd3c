"""Validate, audit and lock tasks: are their checks fit to grade an agent, and what exactly do they name?"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from agentbench.acceptance.checks.probe_trial import ProbeTrials, try_probe
from agentbench.acceptance.collect import collect
from agentbench.acceptance.mutation.audit import Audit, audit
from agentbench.acceptance.validation import TaskValidation, validate
from agentbench.contract.advice import why_not_pinned
from agentbench.contract.load import LoadedTask
from agentbench.contract.lock import Lock, LockedImage, LockedSource, submodule_revisions
from agentbench.contract.make_lock import Resolution, lockfiles, make_lock
from agentbench.contract.problem import dotted
from agentbench.contract.scorers import missing_unmodified_paths, unmodified_paths
from agentbench.core.errors import InputError, Interrupted, TaskError
from agentbench.core.text import on_one_line
from agentbench.core.threads import threads
from agentbench.execution.lab import Lab, PreparedTask
from agentbench.execution.task_results import keep_result


def validate_suite(
    tasks: Sequence[LoadedTask],
    lab: Lab,
    *,
    repeats: int,
    workers: int,
    report: Callable[[str], None],
    keep: Callable[[TaskValidation], None] = lambda _: None,
) -> list[TaskValidation]:
    """Validate every task. A task at fault is invalid; harness errors are raised, if possible before anything runs.

    `keep` gets each result as soon as it is known, from the worker that found it.

    Raises:
        InputError: a task that cannot run here, for example because a secret is not set.
        SandboxError: the harness failed.
        Interrupted: the lab was cancelled. The tasks that were running then have no result.
    """
    lab.require_all(tasks)
    done: list[str] = []

    def validate_and_report(task: LoadedTask) -> TaskValidation:
        """Report each result at once, so that an interrupted validation has shown what it found."""
        validation = dataclasses.replace(_validate(task, lab, repeats, report), unpinned=why_not_pinned(task))
        if lab.cancelled.is_set():  # closed sandboxes look like errors of the task
            raise Interrupted("interrupted")
        keep_result(lab.state, task, "validation", dataclasses.asdict(validation))
        done.append(task.id)
        keep(validation)
        verdict = "valid" if validation.valid else f"NOT VALID: {on_one_line(validation.why)}"
        report(f"{task.id}: {verdict} ({len(done)} of {len(tasks)})")
        return validation

    with threads(workers, "validate", lab.cancel) as pool:
        return list(pool.map(validate_and_report, tasks))


def _validate(task: LoadedTask, lab: Lab, repeats: int, report: Callable[[str], None]) -> TaskValidation:
    if task.task.repo == "none":
        return TaskValidation(task.id, True, "none", "none", (), "no workspace, judged only")
    report(f"{task.id}: setup")
    try:
        prepared = lab.prepare(task)
    except TaskError as error:
        return TaskValidation(task.id, False, "error", "none", (), f"setup: {error.message}")
    missing = _missing_scorer_file(task, prepared)
    if missing:
        return TaskValidation(task.id, False, "none", "none", (), missing)
    report(f"{task.id}: baseline and reference{f', {repeats} times each' if repeats > 1 else ''}")
    return validate(lab.grading_context(prepared), repeats=repeats)


def _missing_scorer_file(task: LoadedTask, prepared: PreparedTask) -> str:
    """Name the first file that a scorer requires to stay unmodified and that does not exist after setup.

    Only the task's own scorers count: a scorer of the suite can name files that some of its tasks do not have.
    """
    if not any(unmodified_paths(task.task.scorers)):
        return ""
    files = {entry.path.decode("utf-8", "surrogateescape") for entry in prepared.environment.base_tree.entries()}
    return next(
        (
            f"{dotted(key)}: {message}"
            for key, message in missing_unmodified_paths(task.task.scorers, files.__contains__)
        ),
        "",
    )


def try_probes(task: LoadedTask, lab: Lab) -> list[ProbeTrials]:
    """Try the driver of every probe of a task.

    Raises:
        InputError: the task has no probe.
        TaskError: setup failed.
        SandboxError: the harness failed.
    """
    probes = [check for check in task.checks if check.kind == "probe"]
    if not probes:
        raise InputError(
            f"task {task.id} has no check of kind `probe`", remedy="see `ab task new --probe` for an example"
        )
    lab.require(task)
    context = lab.grading_context(lab.prepare(task))
    return [try_probe(context, check) for check in probes]


def audit_tasks(
    tasks: Sequence[LoadedTask], lab: Lab, *, wanted: int, workers: int, report: Callable[[str], None]
) -> list[Audit]:
    """Audit the checks of every task with mutants of its reference, one task after the other.

    Raises:
        InputError: a task without a repository.
        SandboxError: the harness failed.
    """
    for task in tasks:
        if task.task.repo == "none":
            raise InputError(f"task {task.id} has no repository, so it has no checks to audit")
        lab.require(task)
    audits: list[Audit] = []
    for task in tasks:
        report(f"{task.id}: setup")
        try:
            prepared = lab.prepare(task)
        except TaskError as error:
            audits.append(Audit(task.id, "error", "none", f"setup: {error.message}"))
            continue
        audits.append(audit(lab.grading_context(prepared), wanted=wanted, workers=workers, report=report))
        keep_result(lab.state, task, "audit", audit_json(audits[-1]))
    return audits


def audit_json(audit: Audit) -> dict[str, object]:
    """Return an audit with its counts, as `ab task audit --json` prints it."""
    return {
        **dataclasses.asdict(audit),
        "sound": audit.sound,
        "killed": audit.killed,
        "survived": len(audit.survivors),
        "kill_rate": audit.kill_rate,
        "operators": {
            name: {"killed": killed, "decided": total} for name, (killed, total) in audit.by_operator().items()
        },
    }


def lock_task(task: LoadedTask, lab: Lab) -> Lock:
    """Resolve what a task leaves open: commit, image digest, test ids. `task` must be loaded without its old lock.

    Raises:
        TaskError: the task is at fault.
        SandboxError: the harness failed.
    """
    lab.require(task)
    prepared = lab.prepare(task)
    collected = collect(lab.grading_context(prepared))
    source = prepared.snapshot.source
    image_digest = prepared.environment.details.get("image_digest")
    image = task.task.environment.docker_image
    return make_lock(
        task,
        Resolution(
            source=LockedSource(
                commit=source.get("commit"), submodules=submodule_revisions(source), digest=prepared.snapshot.digest
            ),
            image=LockedImage(reference=image, digest=image_digest) if image and image_digest else None,
            checks=collected.checks,
            protected=collected.protected,
            lockfiles=lockfiles(prepared.snapshot.folder),
            env_digest=prepared.environment.digest,
            backend=prepared.backend.name,
        ),
    )
