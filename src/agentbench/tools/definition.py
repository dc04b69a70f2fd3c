"""One definition per tool: its arguments are checked, and described to models, from the same place."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from agentbench.contract.schema import StageName
from agentbench.core.errors import ToolFault
from agentbench.core.text import printable
from agentbench.tools.result import ToolError
from agentbench.tools.tool_context import Execution, ToolContext


class Arguments(BaseModel):
    """Base of all argument models: closed, so that a misspelt argument is an error and not ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


A = TypeVar("A", bound=Arguments)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as the registry holds it. `stage` is the privilege it needs."""

    name: str
    description: str
    stage: StageName
    arguments: type[Arguments]
    invoke: Callable[[ToolContext, Mapping[str, JsonValue]], Execution]

    def schema(self) -> dict[str, JsonValue]:
        """Name, description and JSON schema of the arguments, as every model API takes them in one wrapping or another."""
        parameters = copy.deepcopy(self.arguments.model_json_schema())
        parameters.pop("title", None)
        parameters.pop("description", None)
        for field in parameters.get("properties", {}).values():
            field.pop("title", None)
        return {"name": self.name, "description": self.description, "parameters": parameters}


def define(
    name: str, stage: StageName, arguments: type[A], work: Callable[[ToolContext, A], Execution], *, description: str
) -> Tool:
    """Join an argument model and the function that works on it."""

    def invoke(context: ToolContext, raw: Mapping[str, JsonValue]) -> Execution:
        return work(context, parse_arguments(name, arguments, raw))

    return Tool(name=name, description=description, stage=stage, arguments=arguments, invoke=invoke)


def parse_arguments(name: str, model: type[A], raw: Mapping[str, JsonValue]) -> A:
    """
    Raises:
        ToolFault: invalid_arguments, with every problem and what was expected.
    """
    try:
        return model.model_validate(dict(raw))
    except ValidationError as error:
        problems = "; ".join(problem_text(model, one["loc"], one["msg"]) for one in error.errors(include_url=False))
        raise ToolFault(f"{name}: {problems}", kind=ToolError.INVALID_ARGUMENTS) from None


def problem_text(model: type[Arguments], where: tuple[str | int, ...], message: str) -> str:
    """One problem of an argument; an unknown one is answered with those that exist."""
    place = printable(".".join(str(part) for part in where)[:80])
    if message.startswith("Extra inputs"):
        return f"{place}: unknown argument (there are: {', '.join(model.model_fields)})"
    return f"{place}: {printable(message[:300])}" if place else printable(message[:300])
