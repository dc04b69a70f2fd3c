"""What an agent sees of a model: messages and tools go in, one reply comes out.

    reply = model.complete([system("…"), user("…")], tools)
    for call in reply.tool_calls:
        arguments = call.arguments()            # MalformedArguments when the model wrote no JSON object
        messages += [reply.message(), answer(call, "what the tool said")]

Whatever is behind a `Model` (a provider, a script, a recording), budgets, events and recording are the same, and are not the
agent's business: a request beyond the budget raises `BudgetReached`, which an agent lets pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, Protocol, TypeAlias

from pydantic import JsonValue

from agentbench.models.faults import MalformedArguments
from agentbench.models.json_values import read_object

Role = Literal["system", "user", "assistant", "tool"]
JsonObject: TypeAlias = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model is told of it. `parameters` is the JSON schema of its arguments."""

    name: str
    description: str
    parameters: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call as the model wrote it: its arguments are text until somebody reads them."""

    id: str
    name: str
    arguments_text: str

    def arguments(self) -> JsonObject:
        """
        Raises:
            MalformedArguments: no JSON object. Worth telling the model; uncaught it ends the run as LLM_ERROR.
        """
        try:
            return read_object(self.arguments_text or "{}")
        except ValueError as error:
            msg = f"the arguments of {self.name!r} are no JSON object: {error}"
            raise MalformedArguments(msg) from None


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation. `tool_call_id` names the call that a `tool` message answers."""

    role: Role
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens of one exchange. `cached` are part of `prompt`. `estimated`: the service did not say, we counted bytes."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    estimated: bool = False

    @property
    def total(self) -> int:
        return self.prompt + self.completion


class Finish(StrEnum):
    """Why a model stopped writing."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    FILTERED = "filtered"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of a model. `length` as the finish means that text and calls may be cut off."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    finish: Finish = Finish.STOP
    usage: TokenUsage = TokenUsage()
    model: str = ""
    request_id: str = ""
    reasoning: str = field(default="", repr=False)

    def message(self) -> Message:
        """The reply as the next message of the conversation."""
        return Message("assistant", self.text, self.tool_calls)


class Model(Protocol):
    """A model that an agent may ask. Safe to use from several threads."""

    @property
    def name(self) -> str: ...

    def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = (), *, max_tokens: int | None = None
    ) -> Reply:
        """Ask, and wait for the whole answer.

        Raises:
            ModelFault: no usable answer, for good; the subclass says why (see `faults`).
            BudgetReached: nothing is left of the run's, the task's or the total budget.
        """
        ...


def system(text: str) -> Message:
    return Message("system", text)


def user(text: str) -> Message:
    return Message("user", text)


def answer(call: ToolCall, text: str) -> Message:
    """What a tool said to a call."""
    return Message("tool", text, tool_call_id=call.id)
