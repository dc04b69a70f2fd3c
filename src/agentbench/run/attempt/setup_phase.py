"""The first half of an attempt: everything identified and written down before the agent acts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from agentbench.acceptance.validation import baseline
from agentbench.agents.base import AgentSetup, conversing
from agentbench.agents.registry import make_agent
from agentbench.contract.identity import identify
from agentbench.core.errors import BaselineNotFailing, HarnessError
from agentbench.core.ids import new_ulid
from agentbench.run.attempt.log_entries import note_step
from agentbench.run.attempt.manifest import Names, Place, manifest_of
from agentbench.run.lab import Ground, config_class, held_limits
from agentbench.run.task_bundle import pack, write_bundle
from agentbench.run.version import harness_version
from agentbench.sandbox.protocol import SetupStep
from agentbench.trace.events import AttemptOpened, IdentityBound, TaskStarted

if TYPE_CHECKING:
    from agentbench.run.attempt.pipeline import Attempt


def open_attempt(attempt: Attempt) -> None:
    """The first events and the planned manifest; the agent is made, and knows its model."""
    task = attempt.row.task
    attempt.ids = identify(task)
    backend = attempt.lab.backend(task)
    config = config_class(task, backend.name, held_limits(backend, task))
    attempt.place = Place(attempt.ids, backend.name, config)
    attempt.folder.write_manifest(manifest_of(attempt.row, _names(attempt), attempt.place))
    attempt.log.append(
        AttemptOpened(
            attempt_id=attempt.folder.attempt_id,
            run_id=attempt.folder.run_id,
            study_id=attempt.folder.study_id,
            task_id=task.id,
            contract_id=attempt.ids.contract_id,
            task_digest=attempt.ids.task_digest,
            harness_version=harness_version(),
            config_class=config,
            nonce=new_ulid(),
            supersedes=attempt.folder.supersedes,
        )
    )
    attempt.log.append(
        TaskStarted(
            task_id=task.id,
            suite=task.task.suite,
            variant=attempt.row.configuration.variant,
            agent=attempt.row.configuration.agent,
            repeat=attempt.row.repeat,
            seed=attempt.row.seed,
            started_at=attempt.started_at,
        )
    )
    if attempt.row.configuration.patch is None:
        attempt.metered_model = attempt.lab.models.metered_model(
            attempt.row, attempt.account, attempt.log, attempt.blobs
        )
        attempt.agent = make_agent(attempt.row.configuration.agent, agent_setup(attempt))
        if task.task.turns:
            conversing(attempt.agent)


def bind(attempt: Attempt) -> Ground:
    """R, its environment and its baseline, all identified and written down before the agent acts."""
    attempt.report_phase("setup")
    ground = attempt.lab.ground(attempt.row.task, partial(_setup_step, attempt))
    attempt.ground = ground
    if not attempt.setup_steps:
        attempt.setup_steps += ground.prepared.steps
        for index, step in enumerate(ground.prepared.steps):
            note_step(attempt.log, attempt.blobs, index, step, cached=True)
    assert attempt.place is not None  # noqa: S101 - open_attempt() made it
    if not attempt.terms.judged_only:
        attempt.report_phase("baseline")
        attempt.baseline = baseline(attempt.grading_context(ground))
    if attempt.row.configuration.patch is None:
        attempt.program = attempt.lab.program(attempt.row.configuration.agent, attempt.row.task)
    manifest = manifest_of(attempt.row, _names(attempt), attempt.place, ground, attempt.program)
    sha256 = attempt.folder.write_manifest(manifest)
    attempt.log.append(
        IdentityBound(
            snapshot=ground.snapshot.digest,
            source=dict(ground.snapshot.source),
            base_tree=ground.base_digest,
            env_digest=ground.prepared.digest,
            backend=ground.backend.name,
            image=ground.prepared.details.get("image_digest"),
            manifest_sha256=sha256,
        )
    )
    write_bundle(attempt.folder.path, pack(attempt.row.task, ground.ids, ground.snapshot.folder))
    if attempt.baseline is not None and not attempt.baseline.failed_as_expected:
        raise BaselineNotFailing(f"the task is solved before anybody works on it: {attempt.baseline.why}")
    problems = manifest.problems()
    if problems:
        raise HarnessError(f"the manifest does not hold: {'; '.join(problems)}")
    attempt.log.sync()
    return ground


def agent_setup(attempt: Attempt) -> AgentSetup:
    task, configuration = attempt.row.task, attempt.row.configuration
    script = configuration.script
    if script is not None and script.is_dir():
        script = script / f"{task.id}.yaml"
    return AgentSetup(
        task_id=task.id,
        task_folder=task.folder,
        reference=task.reference_file if configuration.agent in {"reference", "oracle"} else None,
        command=configuration.agent_command,
        files=configuration.agent_files,
        script=script,
        options=configuration.options,
        model=None if attempt.metered_model is None else attempt.lab.models.chat(attempt.metered_model, attempt.row),
        prompt=configuration.prompt,
        test_command=task.task.hints.test_command,
    )


def _names(attempt: Attempt) -> Names:
    return Names(
        harness_version(),
        attempt.folder.study_id,
        attempt.folder.run_id,
        attempt.folder.attempt_id,
        attempt.base_seed,
        attempt.terms,
        attempt.rules,
        attempt.agent.observability if attempt.agent is not None else None,
    )


def _setup_step(attempt: Attempt, step: SetupStep) -> None:
    note_step(attempt.log, attempt.blobs, len(attempt.setup_steps), step, cached=False)
    attempt.setup_steps.append(step)
    attempt.setup_ran = True
