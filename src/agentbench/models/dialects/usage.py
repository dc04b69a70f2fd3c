"""Token usage of an exchange in any dialect, as the service states it or estimated."""

from __future__ import annotations

import math
from collections.abc import Mapping

from pydantic import JsonValue

from agentbench.models.client.endpoint import Dialect
from agentbench.models.dialects.chat import chat_usage
from agentbench.models.json_values import arr, count, dump, obj, text_of
from agentbench.models.protocol import TokenUsage
from agentbench.models.sse import DONE, SseEvent

BYTES_PER_TOKEN = 4
"""A rough mean for English and code, used only where the service states nothing."""

_BOUND_BYTES_PER_TOKEN = 2.5
"""For the amount held of a budget before the response is known; errs on the high side."""

DEFAULT_COMPLETION = 4096
_ANSWERS = ("n", "best_of")
"""Parameters with the number of answers to one request."""
_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


def usage_of(dialect: Dialect, body: Mapping[str, JsonValue]) -> TokenUsage | None:
    """Return the usage that a whole response states."""
    if dialect is Dialect.CHAT:
        return chat_usage(body)
    usage = body.get("usage")
    if not isinstance(usage, dict):
        return None
    if dialect is Dialect.RESPONSES:
        cached = count(obj(usage.get("input_tokens_details")).get("cached_tokens"))
        return TokenUsage(count(usage.get("input_tokens")), count(usage.get("output_tokens")), cached)
    return _anthropic(usage)


def _anthropic(usage: Mapping[str, JsonValue]) -> TokenUsage:
    """Sum the prompt: Anthropic counts uncached, cache-read and cache-written input tokens separately."""
    cached = count(usage.get("cache_read_input_tokens"))
    prompt = count(usage.get("input_tokens")) + count(usage.get("cache_creation_input_tokens")) + cached
    return TokenUsage(prompt, count(usage.get("output_tokens")), cached)


class StreamUsage:
    """Collects the usage that the events of a stream state."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._stated: dict[str, JsonValue] = {}
        self.usage: TokenUsage | None = None
        self.text_bytes = 0

    def see(self, event: SseEvent) -> None:
        self.text_bytes += len(event.data)
        if '"usage"' not in event.data or event.data == DONE:
            return
        value = event.object()
        if self._dialect is Dialect.MESSAGES:
            # The first event states the prompt, the last the completion. Later numbers replace earlier ones.
            stated = value.get("usage") or obj(value.get("message")).get("usage")
            self._stated |= {name: number for name, number in obj(stated).items() if number is not None}
            self.usage = _anthropic(self._stated)
            return
        inner = obj(value.get("response")) if self._dialect is Dialect.RESPONSES else value
        self.usage = usage_of(self._dialect, inner) or self.usage


def estimated(request_bytes: int, answer_bytes: int) -> TokenUsage:
    return TokenUsage(
        math.ceil(request_bytes / BYTES_PER_TOKEN), math.ceil(answer_bytes / BYTES_PER_TOKEN), estimated=True
    )


def bound(body: Mapping[str, JsonValue], request_bytes: int) -> TokenUsage:
    """Return an upper estimate of a request's usage, reserved in the budget until the response arrives."""
    limits = [count(body[name]) for name in _LIMITS if body.get(name) is not None]
    completion = (min(limits) if limits else DEFAULT_COMPLETION) * max(1, *(count(body.get(name)) for name in _ANSWERS))
    return TokenUsage(math.ceil(request_bytes / _BOUND_BYTES_PER_TOKEN), min(completion, 10**12), estimated=True)


def count_input(body: Mapping[str, JsonValue]) -> int:
    """Estimate the input tokens of a request, for `/v1/messages/count_tokens`."""
    parts = [text_of(body.get("system"))]
    for message in map(obj, arr(body.get("messages"))):
        content = message.get("content")
        parts.append(content if isinstance(content, str) else dump(content))
    if body.get("tools"):
        parts.append(dump(body["tools"]))
    size = sum(len(part.encode("utf-8", "surrogatepass")) for part in parts)
    return max(math.ceil(size / BYTES_PER_TOKEN), 1)
