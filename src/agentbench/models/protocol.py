"""The interface between an agent and a model: messages and tools go in, one reply comes out.

    reply = model.complete([system("…"), user("…")], tools)
    for call in reply.tool_calls:
        arguments = call.arguments()            # MalformedArguments unless the model wrote a JSON object
        messages += [reply.message(), answer(call, "the tool's output")]

Budgets, events and recording work the same behind every `Model` (a provider, a script, a recording), and an agent need not know
them: a request beyond the budget raises `BudgetReached`, which an agent lets through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Literal, Protocol

from pydantic import JsonValue

from agentbench.core.dataclass import dataclass
from agentbench.models.faults import MalformedArguments
from agentbench.models.json_values import JsonObject, read_object

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """The description of a tool for a model. `parameters` is the JSON schema of its arguments."""

    name: str
    description: str
    parameters: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call as the model wrote it. The arguments are text until they are parsed."""

    id: str
    name: str
    arguments_text: str

    def arguments(self) -> JsonObject:
        """
        Raises:
            MalformedArguments: not a JSON object. Report it to the model; uncaught, it ends the attempt as LLM_ERROR.
        """
        try:
            return read_object(self.arguments_text or "{}")
        except ValueError as error:
            raise MalformedArguments(f"the arguments of {self.name!r} are not a JSON object: {error}") from None


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation. `tool_call_id` names the call that a `tool` message answers."""

    role: Role
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens of one exchange. `cached` is part of `prompt`. `estimated`: computed from byte counts, not stated."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    estimated: bool = False

    @property
    def total(self) -> int:
        return self.prompt + self.completion


class Finish(StrEnum):
    """The reason why a model stopped generating."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    FILTERED = "filtered"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply of a model. If `finish` is `length`, text and calls may be cut off."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    finish: Finish = Finish.STOP
    usage: TokenUsage = TokenUsage()
    model: str = ""
    request_id: str = ""
    reasoning: str = field(default="", repr=False)

    def message(self) -> Message:
        """Return the reply as the next message of the conversation."""
        return Message("assistant", self.text, self.tool_calls)


class Model(Protocol):
    """A model. Safe to use from several threads."""

    @property
    def name(self) -> str: ...

    def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = (), *, max_tokens: int | None = None
    ) -> Reply:
        """Send a conversation, and wait for the whole reply.

        Raises:
            ModelFault: no usable reply after all retries; the subclass says why (see `faults`).
            BudgetReached: the budget of the attempt, the task or the run is spent.
        """
        ...


def system(text: str) -> Message:
    return Message("system", text)


def user(text: str) -> Message:
    return Message("user", text)


def answer(call: ToolCall, text: str) -> Message:
    """Return the message with a tool's output for a call."""
    return Message("tool", text, tool_call_id=call.id)
