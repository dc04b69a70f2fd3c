"""A source that speaks the chat dialect, made to answer in all three."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from agentbench.models.client.endpoint import Dialect
from agentbench.models.dialects import messages, response_events, responses
from agentbench.models.dialects.messages import MessagesWriter
from agentbench.models.dialects.pieces import ChatReader, string
from agentbench.models.dialects.response_events import ResponsesWriter
from agentbench.models.protocol import JsonObject
from agentbench.models.sse import DONE, SseEvent
from agentbench.models.wire import Answer, Call, Upstream


class TranslatedUpstream:
    """An `Upstream` that speaks every dialect: natively where the one behind it does, else by way of chat."""

    dialects = frozenset(Dialect)

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    def send(self, call: Call) -> Answer:
        if call.dialect in self._upstream.dialects:
            return self._upstream.send(_with_usage(call))
        writer: MessagesWriter | ResponsesWriter
        model, custom = string(call.body.get("model")), responses.custom_tools(call.body)
        if call.dialect is Dialect.MESSAGES:
            asked, writer = messages.to_chat(call.body), MessagesWriter(model)
        else:
            asked, writer = responses.to_chat(call.body), ResponsesWriter(call.body, custom)
        # Headers of one dialect mean nothing in another.
        answer = self._upstream.send(_with_usage(replace(call, dialect=Dialect.CHAT, body=asked, headers={}, raw=b"")))
        if answer.streams:
            return Answer(events=_rewritten(answer, writer), close=answer.close)
        if call.dialect is Dialect.MESSAGES:
            return Answer(messages.from_chat(answer.body, model))
        return Answer(response_events.from_chat(answer.body, call.body, custom))


def _with_usage(call: Call) -> Call:
    """A chat stream states its tokens only when asked to."""
    if call.dialect is not Dialect.CHAT or not call.stream:
        return call
    options: JsonObject = {}
    given = call.body.get("stream_options")
    if isinstance(given, dict):
        options |= given
    return replace(call, body={**call.body, "stream_options": {**options, "include_usage": True}})


def _rewritten(answer: Answer, writer: MessagesWriter | ResponsesWriter) -> Iterator[SseEvent]:
    reader = ChatReader()
    for event in answer.events:
        if event.data != DONE:
            yield from writer.feed(reader, reader.chunk(event.object()))
    yield from writer.end(reader)
