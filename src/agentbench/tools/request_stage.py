"""The tool `request_stage`: move to the next stage in strict mode."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from agentbench.contract.schema import StageName
from agentbench.policy.stages import REQUEST_STAGE as NAME
from agentbench.tools.definition import Arguments, Execution, Tool, ToolContext
from agentbench.tools.result import ToolResult

MAX_REASON = 4_000


class RequestStage(Arguments):
    stage: StageName = Field(description="The next stage of the contract.")
    reason: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_REASON)] = Field(
        description="Why you are ready for it. To leave the stage `plan`: the plan, that is which files you will change and how."
    )


def request_stage(context: ToolContext, arguments: RequestStage) -> Execution:
    context.stages.request(arguments.stage, arguments.reason)
    return Execution(ToolResult(ok=True, note=f"the current stage is '{context.stages.current}'"))


REQUEST_STAGE = Tool(
    NAME,
    None,
    RequestStage,
    request_stage,
    description="Ask for the next stage. Tools of a later stage are denied until you are in it; earlier tools stay available.",
)
