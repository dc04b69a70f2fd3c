"""Definitions of tools: one argument model both validates the arguments and describes them to models."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from agentbench.contract.schema import StageName
from agentbench.core.command import ProcessCounts, Stream
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import ToolFault
from agentbench.core.text import printable
from agentbench.sandbox.protocol import Sandbox
from agentbench.tools.event_recorder import EventRecorder
from agentbench.tools.result import ToolError, ToolResult
from agentbench.tools.rules import Rules, Scope
from agentbench.tools.stages import StageGate
from agentbench.tools.workspace_tracker import WorkspaceTracker


@dataclass(slots=True)
class ToolContext:
    """The sandbox, workspace and rules that a tool works with."""

    sandbox: Sandbox
    workdir: str
    tracker: WorkspaceTracker
    rules: Rules
    recorder: EventRecorder
    stages: StageGate
    time_left: Callable[[], float]
    scope: Scope = field(init=False)
    call_id: str = ""
    """The call being executed; events about its effects carry this id."""

    def __post_init__(self) -> None:
        self.scope = self.rules.scope


_EMPTY = Stream.of(b"")


@dataclass(frozen=True, slots=True)
class Execution:
    """The outcome of a call: the result for the agent, and the complete output for the log."""

    result: ToolResult
    stdout: Stream = _EMPTY
    stderr: Stream = _EMPTY
    killed: int = 0
    duration_us: int = 0
    processes: ProcessCounts | None = None
    """Processes of an observed program; None if they were not observed."""
    not_observed: str | None = None
    """Why they were not, if they should have been."""


class Arguments(BaseModel):
    """Base of all argument models. Unknown arguments are rejected, so that a misspelt one is not silently ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


A = TypeVar("A", bound=Arguments)


@dataclass(frozen=True, slots=True)
class Tool(Generic[A]):
    """A tool: an argument model, and the function that implements it. `stage` is the stage it needs, None for any."""

    name: str
    stage: StageName | None
    arguments: type[A]
    work: Callable[[ToolContext, A], Execution]
    description: str

    def invoke(self, context: ToolContext, raw: Mapping[str, JsonValue]) -> Execution:
        return self.work(context, parse_arguments(self.name, self.arguments, raw))

    def schema(self) -> dict[str, JsonValue]:
        """Return name, description and argument schema; every model API takes these in some wrapping."""
        parameters = copy.deepcopy(self.arguments.model_json_schema())
        parameters.pop("title", None)
        parameters.pop("description", None)
        for field_schema in parameters.get("properties", {}).values():
            field_schema.pop("title", None)
        return {"name": self.name, "description": self.description, "parameters": parameters}


def parse_arguments(name: str, model: type[A], raw: Mapping[str, JsonValue]) -> A:
    """
    Raises:
        ToolFault: invalid_arguments, listing every problem.
    """
    try:
        return model.model_validate(dict(raw))
    except ValidationError as error:
        problems = "; ".join(
            problem_text(model, problem["loc"], problem["msg"]) for problem in error.errors(include_url=False)
        )
        raise ToolFault(f"{name}: {problems}", kind=ToolError.INVALID_ARGUMENTS) from None


def problem_text(model: type[Arguments], location: tuple[str | int, ...], message: str) -> str:
    """Describe one validation problem. For an unknown argument, list the known ones."""
    place = printable(".".join(str(part) for part in location)[:80])
    if message.startswith("Extra inputs"):
        text = f"unknown argument (expected: {', '.join(model.model_fields)})"
    else:
        text = printable(message[:300])
    return f"{place}: {text}" if place else text
