"""A conversation with a model that can call tools, kept within a window of tokens."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from pydantic import JsonValue

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import AgentCrashed
from agentbench.models.faults import MalformedArguments
from agentbench.models.protocol import Finish, Message, Model, Reply, ToolCall, ToolSpec, answer
from agentbench.tools.definition import Tool
from agentbench.tools.result import ToolError, ToolResult
from agentbench.tools.session import Session

CHARS_PER_TOKEN = 4
"""An estimate for fitting a conversation into a context window; costs use real token counts."""
MAX_TOOL_TEXT = 12_000
MAX_FAULTS_IN_A_ROW = 6
_DROPPED = "[an older tool answer was left out to save room]"


def tool_specs(tools: Mapping[str, Tool[Any]], only: Sequence[str] | None = None) -> list[ToolSpec]:
    """Describe the session's tools for a model."""
    specs = []
    for tool in (tool for name, tool in tools.items() if only is None or name in only):
        parameters = tool.schema()["parameters"]
        specs.append(ToolSpec(tool.name, tool.description, parameters if isinstance(parameters, dict) else {}))
    return specs


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer of the model, and the name and result of each of its tool calls."""

    reply: Reply
    calls: tuple[tuple[str, ToolResult], ...] = ()


@dataclass(slots=True)
class Conversation:
    """The messages so far, and the model and tools to continue with."""

    model: Model
    session: Session
    tools: Sequence[ToolSpec]
    messages: list[Message] = field(default_factory=list)
    window_tokens: int = 60_000
    faults: int = 0
    """Number of failed tool calls in a row."""

    def ask(self) -> Turn:
        """Ask the model once, run the tool calls of its answer, and add both to the conversation.

        Raises:
            ModelFault, SessionEnded, SandboxError.
            AgentCrashed: too many failed calls in a row.
        """
        self.session.turn()
        # The last answer may have used up the budget.
        self.session.check_budget()
        self._fit()
        reply = self.model.complete(self.messages, self.tools)
        self.messages.append(reply.message())
        calls: list[tuple[str, ToolResult]] = []
        for call in reply.tool_calls:
            result = self._call(call, cut=reply.finish is Finish.LENGTH)
            self.messages.append(answer(call, _shown(result)))
            self.count_faults(result)
            calls.append((call.name, result))
        return Turn(reply, tuple(calls))

    def ask_until_text(self, max_turns: int = 50) -> str:
        """Ask until an answer has no tool call, and return its text."""
        turn = self.ask()
        while turn.calls and max_turns > 1:
            turn, max_turns = self.ask(), max_turns - 1
        return turn.reply.text

    def count_faults(self, result: ToolResult) -> None:
        """Count failed calls in a row. A command that ran and failed is a result, not a fault.

        Raises:
            AgentCrashed: too many.
        """
        broken = not result.ok and result.exit_code is None
        self.faults = self.faults + 1 if broken else 0
        if self.faults >= MAX_FAULTS_IN_A_ROW:
            raise AgentCrashed(f"{self.faults} tool calls in a row failed; last error: {result.error_message}")

    def _call(self, call: ToolCall, *, cut: bool) -> ToolResult:
        offered = {tool.name for tool in self.tools}
        if call.name not in offered and call.name in self.session.tools:
            # The session has this tool, but this part of the agent may not use it.
            return ToolResult.refused(ToolError.TOOL_DENIED, f"there is no tool {call.name!r} here")
        try:
            arguments: JsonValue = call.arguments()
        except MalformedArguments as fault:
            why = "the answer was cut off by its length" if cut else fault.message
            return ToolResult.refused(ToolError.INVALID_ARGUMENTS, why)
        return self.session.call(call.name, arguments)

    def _fit(self) -> None:
        """Drop the oldest tool answers if the conversation exceeds the window."""
        room = self.window_tokens * CHARS_PER_TOKEN
        size = sum(map(_length, self.messages))
        for index, message in enumerate(self.messages[:-2]):
            if size <= room:
                return
            if message.role == "tool" and len(message.text) > len(_DROPPED):
                size -= len(message.text) - len(_DROPPED)
                self.messages[index] = Message("tool", _DROPPED, tool_call_id=message.tool_call_id)


def _length(message: Message) -> int:
    return len(message.text) + sum(len(call.arguments_text) for call in message.tool_calls)


def _shown(result: ToolResult) -> str:
    """Render a result for the model. Long output keeps only its two ends."""
    value = result.as_json()
    for name in ("stdout", "stderr"):
        text = value.get(name)
        if isinstance(text, str) and len(text) > MAX_TOOL_TEXT:
            half = MAX_TOOL_TEXT // 2
            value[name] = f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"
    return json.dumps(value, ensure_ascii=False)
