"""Validation of a suite: every task's oracle held to its own baseline and reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentbench.acceptance.checks.pytest.collect import collect
from agentbench.acceptance.validation import TaskValidation, validate
from agentbench.contract.load import LoadedTask
from agentbench.contract.lock import Lock, LockedImage, LockedSource
from agentbench.contract.make_lock import Resolution, lockfiles, make_lock
from agentbench.contract.problem import dotted
from agentbench.contract.scorers import missing_unmodified_paths, unmodified_paths
from agentbench.core.errors import TaskError
from agentbench.core.threads import threads
from agentbench.run.lab import Lab, PreparedTask


def validate_suite(
    tasks: Sequence[LoadedTask], lab: Lab, *, repeats: int, workers: int, tell: Callable[[str], None]
) -> list[TaskValidation]:
    """Validate every task. A task's own trouble makes it not valid; ours is raised.

    Raises:
        SandboxError: ours.
    """
    done: list[str] = []

    def told(task: LoadedTask) -> TaskValidation:
        """Verdicts are told as they come: what is known stays on the terminal when the rest is broken off."""
        found = one(task)
        done.append(task.id)
        verdict = "valid" if found.valid else f"NOT VALID: {found.why}"
        tell(f"{task.id}: {verdict} ({len(done)} of {len(tasks)})")
        return found

    def one(task: LoadedTask) -> TaskValidation:
        lab.require(task)
        if task.task.repo == "none":
            return TaskValidation(task.id, True, "none", "none", (), "no workspace: it is only judged")
        tell(f"{task.id}: setup")
        try:
            prepared = lab.prepare(task)
        except TaskError as error:
            return TaskValidation(task.id, False, "error", "none", (), f"setup: {error.message}")
        idle = _unguarded(task, prepared)
        if idle:
            return TaskValidation(task.id, False, "none", "none", (), idle)
        tell(f"{task.id}: baseline and reference, {repeats} times each")
        return validate(lab.grading_context(prepared), repeats=repeats)

    with threads(workers, "validate", lab.cancel) as pool:
        return list(pool.map(told, tasks))


def _unguarded(task: LoadedTask, prepared: PreparedTask) -> str:
    """The first file that a scorer of the task says must stay as it is, and that is not there when setup has ended.

    A scorer of the suite is for all its tasks: one of them need not have the file.
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


def lock_task(task: LoadedTask, lab: Lab) -> Lock:
    """Resolve what a task leaves open: commit, environment, test ids. `task` is loaded without its old lock.

    Raises:
        TaskError: the task's own trouble.
        SandboxError: ours.
    """
    lab.require(task)
    prepared = lab.prepare(task)
    found = collect(lab.grading_context(prepared))
    source = prepared.snapshot.source
    modules = {
        name.removeprefix("submodule."): value for name, value in source.items() if name.startswith("submodule.")
    }
    digest = prepared.environment.details.get("image_digest")
    image = task.task.environment.docker_image
    return make_lock(
        task,
        Resolution(
            source=LockedSource(commit=source.get("commit"), submodules=modules, digest=prepared.snapshot.digest),
            image=LockedImage(reference=image, digest=digest) if image and digest else None,
            checks=found.checks,
            protected=found.protected,
            lockfiles=lockfiles(prepared.snapshot.folder),
            env_digest=prepared.environment.digest,
        ),
    )
