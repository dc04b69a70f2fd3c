"""An attempt by an agent. Not imported where only given patches are graded: agents, tools and models take long to import."""

from __future__ import annotations

from dataclasses import replace

from agentbench.agents.base import Agent, AgentSetup, require_multi_turn
from agentbench.agents.command import agent_mounts
from agentbench.agents.registry import make_agent
from agentbench.core.reasons import Observability
from agentbench.models.metered_model import MeteredModel
from agentbench.policy.applicability import not_applicable
from agentbench.record.schema import Model
from agentbench.run.attempt.agent_phase import run_agent
from agentbench.run.attempt.base import Attempt
from agentbench.run.attempt.grading_phase import ask_judge, grade_patch
from agentbench.run.attempt.setup_phase import bind_identity, open_attempt, prepare


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
            grade_patch(self, prepared, patch)
        ask_judge(self, b"" if patch is None else patch.patch)

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
