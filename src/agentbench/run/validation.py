"""Validation of a suite: every task's oracle held to its own baseline and reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentbench.acceptance.checks.pytest.collect import collect
from agentbench.acceptance.grading_context import GradingContext
from agentbench.acceptance.validation import TaskValidation, validate
from agentbench.contract.load import LoadedTask
from agentbench.contract.lock import Lock, LockedImage, LockedSource
from agentbench.contract.make_lock import Resolution, lockfiles, make_lock
from agentbench.contract.problem import dotted
from agentbench.contract.scorers import missing_unmodified_paths, unmodified_paths
from agentbench.core.errors import TaskError
from agentbench.core.threads import threads
from agentbench.run.lab import Ground, Lab
from agentbench.sandbox.protocol import Phase


def validation_context(ground: Ground, lab: Lab) -> GradingContext:
    """A context outside of any attempt."""
    return GradingContext(
        backend=ground.backend,
        spec=ground.spec(Phase.ORACLE),
        prepared=ground.prepared,
        loaded=ground.task,
        contract_id=ground.ids.contract_id,
        cache=lab.oracle_cache,
    )


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
            ground = lab.ground(task)
        except TaskError as error:
            return TaskValidation(task.id, False, "error", "none", (), f"setup: {error.message}")
        idle = _unguarded(task, ground)
        if idle:
            return TaskValidation(task.id, False, "none", "none", (), idle)
        tell(f"{task.id}: baseline and reference, {repeats} times each")
        return validate(validation_context(ground, lab), repeats=repeats)

    with threads(workers, "validate", lab.cancel) as pool:
        return list(pool.map(told, tasks))


def _unguarded(task: LoadedTask, ground: Ground) -> str:
    """The first file that a scorer of the task says must stay as it is, and that is not there when setup has ended.

    A scorer of the suite is for all its tasks: one of them need not have the file.
    """
    if not any(unmodified_paths(task.task.scorers)):
        return ""
    files = {entry.path.decode("utf-8", "surrogateescape") for entry in ground.prepared.base_tree.entries()}
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
    ground = lab.ground(task)
    found = collect(validation_context(ground, lab))
    source = ground.snapshot.source
    modules = {
        name.removeprefix("submodule."): value for name, value in source.items() if name.startswith("submodule.")
    }
    digest = ground.prepared.details.get("image_digest")
    image = task.task.environment.docker_image
    return make_lock(
        task,
        Resolution(
            source=LockedSource(commit=source.get("commit"), submodules=modules, digest=ground.snapshot.digest),
            image=LockedImage(reference=image, digest=digest) if image and digest else None,
            checks=found.checks,
            protected=found.protected,
            lockfiles=lockfiles(ground.snapshot.folder),
            env_digest=ground.prepared.digest,
        ),
    )
