"""One attempt, from an empty folder to a sealed record.

    open → set up (snapshot, setup, baseline, manifest) → run the agent → extract the patch → grade → judge → finalize

Every failure becomes an event and then a record. The type of the error tells harness errors, task errors and agent failures
apart, and the verdict is decided from the log alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace

from agentbench.acceptance.grade import grade
from agentbench.agents.base import Agent, AgentSetup, require_multi_turn
from agentbench.agents.command import agent_mounts
from agentbench.agents.registry import make_agent
from agentbench.core.errors import AgentBenchError, Interrupted, RecordError
from agentbench.core.reasons import Observability
from agentbench.models.metered_model import MeteredModel
from agentbench.policy.applicability import not_applicable
from agentbench.record.attempt_folder import AttemptFolder
from agentbench.record.schema import Model
from agentbench.record.sealing import ClosedAttempt
from agentbench.run.attempt.agent_phase import run_agent
from agentbench.run.attempt.base import Attempt
from agentbench.run.attempt.finalize import finalize
from agentbench.run.attempt.judge import judge_enabled
from agentbench.run.attempt.patch import apply_given_patch
from agentbench.run.attempt.setup_phase import bind_identity, open_attempt, prepare
from agentbench.run.lab import Lab, PreparedTask
from agentbench.run.plan import PlanRow
from agentbench.workspace.diff.extract import ExtractedPatch


class AgentAttempt(Attempt):
    """Run an agent in a sandbox and grade the patch it leaves."""

    agent: Agent | None = None
    metered_model: MeteredModel | None = None

    def run(self) -> None:
        configuration = self.row.configuration
        open_attempt(self)
        self.metered_model = self.lab.models.metered_model(self.row, self.account, self.log, self.blobs)
        setup = self._agent_setup()
        self.agent = agent = make_agent(configuration.agent, setup)
        if self.row.task.task.turns:
            require_multi_turn(agent)
        prepared = prepare(self)
        skipped = not_applicable(agent.observability, prepared.facts.observation_problem)
        self.rules = replace(self.rules, not_applicable=skipped)
        program = self.lab.program(configuration.agent, self.row.task)
        bind_identity(self, prepared, program)
        mounts = (*agent_mounts(setup), *(() if program is None else (program.mount,)))
        patch = run_agent(self, prepared, agent, self.metered_model, mounts)
        if patch is not None:
            _grade(self, prepared, patch)
        _judge(self, b"" if patch is None else patch.patch)

    @property
    def observability(self) -> Observability | None:
        return None if self.agent is None else self.agent.observability

    def model_record(self) -> Model:
        fields: dict[str, str | None] = {"prompt_version": getattr(self.agent, "prompt_version", None)}
        if self.metered_model is not None:
            identity = self.metered_model.identity
            fields |= {"provider": identity.provider, "name": identity.name}
        return super().model_record().model_copy(update=fields)

    def _agent_setup(self) -> AgentSetup:
        task, configuration = self.row.task, self.row.configuration
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
            model=None if self.metered_model is None else self.lab.models.chat(self.metered_model, self.row),
            prompt=configuration.prompt,
            test_command=task.baseline_command or task.task.hints.test_command,
        )


class PatchAttempt(Attempt):
    """Grade a patch that was made elsewhere."""

    def run(self) -> None:
        open_attempt(self)
        prepared = prepare(self)
        bind_identity(self, prepared)
        patch = apply_given_patch(self, prepared)
        _grade(self, prepared, patch)
        _judge(self, patch.patch)


def make_attempt(
    row: PlanRow,
    lab: Lab,
    folder: AttemptFolder,
    *,
    base_seed: int,
    report_phase: Callable[[str], None] = lambda _phase: None,
) -> tuple[ClosedAttempt, RecordError | None]:
    """Make one attempt. Write only to its folder, and always end with a record unless that cannot be written.

    The error that is returned must be raised once the record is safe: for a while the folder could not be written, so other
    attempts cannot be recorded either. This attempt counts as interrupted.

    Raises:
        RecordError: not even the record could be written.
    """
    folder = folder.with_own_redactor()
    attempt = _kind(row)(row, lab, folder, folder.open_log(), base_seed=base_seed, report_phase=report_phase)
    failure = None
    try:
        attempt.run()
    except RecordError as error:
        failure = error
        attempt.record_failure(error)
    except BaseException as error:  # noqa: BLE001 - every attempt ends in a record, whatever went wrong
        attempt.record_failure(error)
    closed = finalize(attempt)
    attempt.meter.settle(closed.record.cost)
    return closed, failure


def close_abandoned(row: PlanRow, lab: Lab, folder: AttemptFolder, *, base_seed: int) -> ClosedAttempt:
    """Record an attempt whose process died as interrupted, with all the evidence it left."""
    folder = folder.with_own_redactor()
    attempt = _kind(row)(row, lab, folder, folder.reopen_log(), base_seed=base_seed)
    with contextlib.suppress(AgentBenchError):
        attempt.redact_repository()
    attempt.record_failure(Interrupted("the process that made this attempt died"))
    return finalize(attempt)


def _kind(row: PlanRow) -> type[Attempt]:
    return AgentAttempt if row.configuration.patch is None else PatchAttempt


def _grade(attempt: Attempt, prepared: PreparedTask, patch: ExtractedPatch) -> None:
    """Grade the patch in fresh sandboxes that the agent never touched."""
    attempt.report_phase("grading")
    grade(patch.patch, attempt.grading_context(prepared), problem=patch.problem)


def _judge(attempt: Attempt, patch: bytes) -> None:
    """Ask the judge model, if the study has one. The verdict is already in the log and does not depend on it."""
    judge = attempt.lab.judge
    if judge is not None and judge_enabled(attempt.row.task):
        attempt.report_phase("judge")
        attempt.log.append(judge.ask(attempt.row, attempt.lab.models, patch, attempt.log.path, attempt.blobs))
