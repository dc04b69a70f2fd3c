"""Describes what an agent of one attempt is created from."""

from __future__ import annotations

from agentbench.agents.base import AgentSetup
from agentbench.agents.registry import canonical_name
from agentbench.execution.plan import PlanRow
from agentbench.models.protocol import Model


def agent_setup(row: PlanRow, model: Model | None = None) -> AgentSetup:
    task, configuration = row.task, row.configuration
    script = configuration.script
    if script is not None and script.is_dir():
        script = script / f"{task.id}.yaml"
    return AgentSetup(
        task_id=task.id,
        task_folder=task.folder,
        reference=task.reference_file if canonical_name(configuration.agent) == "reference" else None,
        command=configuration.agent_command,
        files=configuration.agent_files,
        env=configuration.env,
        script=script,
        options=configuration.options,
        model=model,
        prompt=configuration.prompt,
        test_command=task.baseline_command or task.task.hints.test_command,
    )
