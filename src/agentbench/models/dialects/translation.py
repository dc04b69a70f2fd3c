"""Lets an upstream that only speaks chat serve all three dialects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from agentbench.models.client.endpoint import Dialect
from agentbench.models.dialects import messages, responses
from agentbench.models.dialects.chat import ChatReader
from agentbench.models.dialects.messages import MessagesWriter
from agentbench.models.dialects.responses import ResponsesWriter
from agentbench.models.json_values import obj, string
from agentbench.models.sse import DONE, SseEvent
from agentbench.models.upstream import ModelRequest, ModelResponse, Upstream


class TranslatedUpstream:
    """An `Upstream` that speaks every dialect: natively if the wrapped one does, else by translation to chat."""

    dialects = frozenset(Dialect)

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    def send(self, request: ModelRequest) -> ModelResponse:
        if request.dialect in self._upstream.dialects:
            return self._upstream.send(_with_usage(request))
        writer: MessagesWriter | ResponsesWriter
        model, custom = string(request.body.get("model")), responses.custom_tools(request.body)
        if request.dialect is Dialect.MESSAGES:
            chat, writer = messages.to_chat(request.body), MessagesWriter(model)
        else:
            chat, writer = responses.to_chat(request.body), ResponsesWriter(request.body, custom)
        # The headers of one dialect mean nothing in another.
        response = self._upstream.send(
            _with_usage(replace(request, dialect=Dialect.CHAT, body=chat, headers={}, raw=b""))
        )
        if response.streams:
            return ModelResponse(events=_translated(response, writer), close=response.close)
        if request.dialect is Dialect.MESSAGES:
            return ModelResponse(messages.from_chat(response.body, model))
        return ModelResponse(responses.from_chat(response.body, request.body, custom))


def _with_usage(request: ModelRequest) -> ModelRequest:
    """Ask for the usage, which a chat stream states only on request."""
    if request.dialect is not Dialect.CHAT or not request.stream:
        return request
    options = {**obj(request.body.get("stream_options")), "include_usage": True}
    return replace(request, body={**request.body, "stream_options": options})


def _translated(response: ModelResponse, writer: MessagesWriter | ResponsesWriter) -> Iterator[SseEvent]:
    reader = ChatReader()
    for event in response.events:
        if event.data != DONE:
            yield from writer.feed(reader, reader.chunk(event.object()))
    yield from writer.end(reader)
