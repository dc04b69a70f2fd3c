"""A `Model` for our own agents: sends conversations in the chat dialect to any upstream."""

from __future__ import annotations

from collections.abc import Sequence

from agentbench.models.client.endpoint import Dialect
from agentbench.models.dialects.chat import chat_reply, chat_request
from agentbench.models.faults import EmptyResponse
from agentbench.models.presets import Sampling
from agentbench.models.protocol import Message, Reply, ToolSpec
from agentbench.models.upstream import ModelRequest, Upstream

TRIES = 3
"""For complete but empty replies, which models send now and then, rarely twice in a row."""


class ChatModel:
    """A model over an upstream, normally a `MeteredModel`, which meters and records it."""

    def __init__(
        self, name: str, upstream: Upstream, sampling: Sampling | None = None, *, seed: int | None = None
    ) -> None:
        """`seed` is sent with every request; None sends none."""
        self.name = name
        self._seed = seed
        self._upstream = upstream
        self._sampling = sampling or Sampling()

    def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = (), *, max_tokens: int | None = None
    ) -> Reply:
        body = chat_request(self.name, messages, tools, self._sampling, max_tokens=max_tokens, seed=self._seed)
        for _ in range(TRIES - 1):
            try:
                return self._once(ModelRequest(Dialect.CHAT, body))
            except EmptyResponse:
                continue
        return self._once(ModelRequest(Dialect.CHAT, body))

    def _once(self, request: ModelRequest) -> Reply:
        with self._upstream.send(request) as response:
            return chat_reply(response.body)
