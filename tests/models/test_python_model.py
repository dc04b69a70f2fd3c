from __future__ import annotations

from collections.abc import Sequence

import pytest

from agentbench.core.errors import InputError, ModelFault
from agentbench.models.client.chat_model import ChatModel
from agentbench.models.protocol import Finish, Message, Reply, TokenUsage, ToolCall, ToolSpec
from agentbench.models.python_model import PythonUpstream, python_model

pytestmark = pytest.mark.component
TOOL = ToolSpec("run", "Run a command.", {"type": "object", "properties": {}})


class Recorder:
    """A model that keeps what it was asked and gives one reply."""

    name = "recorder"

    def __init__(self, reply: Reply | Exception) -> None:
        self.reply = reply
        self.asked: list[tuple[list[Message], list[ToolSpec], int | None]] = []

    def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = (), *, max_tokens: int | None = None
    ) -> Reply:
        self.asked.append((list(messages), list(tools), max_tokens))
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply


def test_conversation_with_tools_arrives_as_it_was_sent() -> None:
    call = ToolCall("c1", "run", '{"command": "ls"}')
    reply = Reply("", (call,), Finish.TOOL_CALLS, TokenUsage(prompt=7, completion=3))
    model = Recorder(reply)
    messages = [Message("system", "s"), Message("assistant", "", (call,)), Message("tool", "out", tool_call_id="c1")]
    answered = ChatModel("m", PythonUpstream(model)).complete(messages, [TOOL], max_tokens=9)
    assert model.asked == [(messages, [TOOL], 9)]
    assert (answered.tool_calls, answered.finish, answered.usage.total) == ((call,), Finish.TOOL_CALLS, 10)


def test_exception_of_the_model_is_a_model_fault() -> None:
    with pytest.raises(ModelFault, match="model 'recorder' raised ZeroDivisionError"):
        ChatModel("m", PythonUpstream(Recorder(ZeroDivisionError()))).complete([Message("user", "u")])


def test_model_of_another_process_is_an_input_error() -> None:
    with pytest.raises(InputError, match="'gone' was passed in from Python"):
        python_model("gone")
