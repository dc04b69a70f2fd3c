"""An answer in the chat dialect as a sequence of small pieces: the same for a whole answer and for a stream.

What writes another dialect is fed with pieces, so it exists once and does not know whether the service streamed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pydantic import JsonValue

from agentbench.models.faults import BadResponse
from agentbench.models.protocol import JsonObject, TokenUsage


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True)
class Refusal:
    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    text: str


@dataclass(frozen=True, slots=True)
class CallStart:
    """A tool call begins. `index` tells the calls of one answer apart."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallText:
    """More of a call's arguments."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class Finish:
    reason: str


@dataclass(frozen=True, slots=True)
class Used:
    usage: TokenUsage


Piece: TypeAlias = "Text | Refusal | Reasoning | CallStart | CallText | Finish | Used"


class ChatReader:
    """Reads chunks of a stream, or one whole answer. Only the first choice counts: nobody here asks for more."""

    def __init__(self) -> None:
        self.model = ""
        self.id = ""
        self._seen: dict[int, bool] = {}

    def whole(self, body: Mapping[str, JsonValue]) -> list[Piece]:
        self._names(body)
        choice = _first(body.get("choices"))
        message = obj(choice.get("message"))
        pieces = self._content(message)
        for position, call in enumerate(arr(message.get("tool_calls"))):
            pieces += self._call({**obj(call), "index": position})
        pieces.append(Finish(string(choice.get("finish_reason")) or "stop"))
        return [*pieces, *_used(body)]

    def chunk(self, body: Mapping[str, JsonValue]) -> list[Piece]:
        self._names(body)
        choice = _first(body.get("choices"))
        delta = obj(choice.get("delta"))
        pieces = self._content(delta)
        for call in arr(delta.get("tool_calls")):
            pieces += self._call(obj(call))
        reason = string(choice.get("finish_reason"))
        if reason:
            pieces.append(Finish(reason))
        return [*pieces, *_used(body)]

    def _names(self, body: Mapping[str, JsonValue]) -> None:
        self.model = self.model or string(body.get("model"))
        self.id = self.id or string(body.get("id"))

    def _content(self, message: Mapping[str, JsonValue]) -> list[Piece]:
        reasoning = string(message.get("reasoning_content")) or string(message.get("reasoning"))
        content, refusal = text_of(message.get("content")), string(message.get("refusal"))
        pieces: list[Piece] = [Reasoning(reasoning)] if reasoning else []
        if content:
            pieces.append(Text(content))
        if refusal:
            pieces.append(Refusal(refusal))
        return pieces

    def _call(self, call: Mapping[str, JsonValue]) -> list[Piece]:
        function = obj(call.get("function"))
        number = call.get("index")
        # Some servers leave the index out, and send every call whole.
        index = number if isinstance(number, int) and not isinstance(number, bool) else len(self._seen)
        pieces: list[Piece] = []
        if index not in self._seen:
            self._seen[index] = True
            pieces.append(CallStart(index, string(call.get("id")) or f"call_{index}", string(function.get("name"))))
        elif index != next(reversed(self._seen)):
            # No dialect can go back to a call that is closed, and mixing two would run something nobody asked for.
            msg = "the stream goes back to a tool call after another has begun"
            raise BadResponse(msg)
        arguments = function.get("arguments")
        if isinstance(arguments, dict):
            pieces.append(CallText(index, dump(arguments)))
        elif isinstance(arguments, str) and arguments:
            pieces.append(CallText(index, arguments))
        return pieces


def _used(body: Mapping[str, JsonValue]) -> list[Piece]:
    usage = chat_usage(body)
    return [Used(usage)] if usage else []


def chat_usage(body: Mapping[str, JsonValue]) -> TokenUsage | None:
    """Tokens that a body of the chat dialect states."""
    usage = body.get("usage")
    if not isinstance(usage, dict):
        return None
    details = obj(usage.get("prompt_tokens_details"))
    return TokenUsage(
        count(usage.get("prompt_tokens")), count(usage.get("completion_tokens")), count(details.get("cached_tokens"))
    )


def _first(choices: JsonValue) -> JsonObject:
    return obj(choices[0]) if isinstance(choices, list) and choices else {}


# --- reading JSON that may be anything -------------------------------------------------------------------------------


def obj(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}


def arr(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def string(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""


def count(value: JsonValue) -> int:
    """A number of tokens: never negative, never a float, never absurd."""
    return min(max(int(value), 0), 10**12) if isinstance(value, int | float) and value == value else 0  # noqa: PLR0124 - NaN


def text_of(content: JsonValue) -> str:
    """The text of a content: a string, or a list of parts of which some are text."""
    if isinstance(content, str):
        return content
    texts: Iterable[str] = (string(obj(part).get("text")) for part in arr(content))
    return "\n".join(text for text in texts if text)


def dump(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
