"""Derives the conversation between an agent and its model from the events of an attempt.

A program sends its whole conversation with every request. Each message is written once, with the message that it follows
(`parent`), so a conversation that branches or is rewritten is a tree. A repeated message at another place names the line that
has its text (`same_as`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import field

from pydantic import JsonValue

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import RecordError
from agentbench.models.client.endpoint import Dialect
from agentbench.models.dialects.transcript import request_messages, response_message
from agentbench.models.json_values import JsonObject, read_object
from agentbench.models.metered_model import OK
from agentbench.models.protocol import Message, ToolCall
from agentbench.trace.blobs import BlobStore
from agentbench.trace.blobs import excerpt as take_excerpt
from agentbench.trace.events import EventLike, Excerpt, LlmRequest, LlmResponse

MAX_TEXT = 16 * 1024
"""Longest text that a line contains in full, in bytes. The blob of the request or response has the rest."""
MAX_NAME = 200
MAX_LINES = 50_000
MAX_BYTES = 32 * 1024 * 1024
MAX_READ = 512 * 1024 * 1024
"""Most bytes of requests and responses that are read."""


def conversation(events: Iterable[EventLike], blobs: BlobStore) -> bytes:
    """Return `conversation.jsonl`, one line per message; empty if there was no model request."""
    writer = _Writer(blobs)
    for event in events:
        match event.payload:
            case LlmRequest() as request:
                writer.add_request(event.seq, request)
            case LlmResponse() as response:
                writer.add_response(event.seq, response)
            case _:
                pass
        if writer.problem:
            writer.end(event.seq)
            break
    return b"".join(writer.lines)


@dataclass(frozen=True, slots=True)
class _Place:
    """A place in the tree of messages: its digest covers all messages up to it. `index` is the line of the last one."""

    digest: bytes = b""
    index: int | None = None


@dataclass(frozen=True, slots=True)
class _OpenRequest:
    seq: int
    dialect: Dialect
    streams: bool
    end: _Place


@dataclass(slots=True)
class _Writer:
    blobs: BlobStore
    lines: list[bytes] = field(default_factory=list)
    problem: str = ""
    """The limit that was reached, if any."""
    _size: int = 0
    _read_bytes: int = 0
    _places: dict[bytes, int] = field(default_factory=dict)
    _contents: dict[tuple[bytes, tuple[str | None, ...]], int] = field(default_factory=dict)
    _open: dict[str, _OpenRequest] = field(default_factory=dict)

    def add_request(self, seq: int, request: LlmRequest) -> None:
        try:
            dialect = Dialect(str(request.parameters.get("dialect")))
            messages = request_messages(dialect, read_object(self._whole(request.messages)))
        except ValueError:
            return
        place = _Place()
        for message in messages:
            if self.problem:
                return
            place = self._add(message, place, {"request": seq, "response": None}, request.messages)
        streams = request.parameters.get("stream") is True
        self._open[request.request_id] = _OpenRequest(seq, dialect, streams, place)

    def add_response(self, seq: int, response: LlmResponse) -> None:
        request = self._open.pop(response.request_id, None)
        if request is None:
            return
        message = response_message(request.dialect, self._whole(response.content), streams=request.streams)
        source: JsonObject = {"request": request.seq, "response": seq}
        if response.status != OK:
            source["error"] = self._redacted(response.error or response.status)
        self._add(message, request.end, source, response.content)

    def end(self, seq: int) -> None:
        """Write the last line, which says what is missing."""
        text = f"messages from event {seq} on are left out: {self.problem}"
        self._write({"index": len(self.lines), "role": "omitted", "text": text})

    def _add(self, message: Message, after: _Place, source: JsonObject, evidence: Excerpt) -> _Place:
        digest = _digest(message)
        place = hashlib.sha256(after.digest + digest).digest()
        if "error" not in source and place in self._places:
            return _Place(place, self._places[place])
        index = len(self.lines)
        line: JsonObject = {"index": index, "parent": after.index, "role": message.role, **source}
        # The ids say which call a result belongs to, so a line with others has different content.
        content = (digest, (message.tool_call_id, *(call.id for call in message.tool_calls)))
        if "error" not in source and content in self._contents:
            line["same_as"] = self._contents[content]
        else:
            line |= self._content(message, evidence)
            self._contents.setdefault(content, index)
        self._write(line)
        self._places.setdefault(place, index)
        return _Place(place, index)

    def _content(self, message: Message, evidence: Excerpt) -> JsonObject:
        text, whole = self._bounded(message.text)
        calls: list[JsonValue] = []
        for call in message.tool_calls:
            arguments, complete = self._arguments(call)
            whole = whole and complete
            calls.append({"id": call.id[:MAX_NAME], "name": call.name[:MAX_NAME], "arguments": arguments})
        content: JsonObject = {"text": text}
        if calls:
            content["tool_calls"] = calls
        if message.tool_call_id is not None:
            content["tool_call_id"] = message.tool_call_id[:MAX_NAME]
        if not whole:
            content |= {"truncated": True, "blob": evidence.blob}
        return content

    def _arguments(self, call: ToolCall) -> tuple[JsonValue, bool]:
        """Return the arguments as an object, or as text if they are malformed or long."""
        text, whole = self._bounded(call.arguments_text)
        if not whole:
            return text, False
        try:
            return read_object(text or "{}"), True
        except ValueError:
            return text, True

    def _bounded(self, text: str) -> tuple[str, bool]:
        cut = take_excerpt(self._redacted(text).encode("utf-8", "backslashreplace"), limit=MAX_TEXT)
        return cut.text, not cut.truncated

    def _redacted(self, text: str) -> str:
        return self.blobs.redact.text(text) if self.blobs.redact else text

    def _whole(self, excerpt: Excerpt) -> bytes:
        try:
            data = excerpt.data if excerpt.blob is None else self.blobs.get(excerpt.blob)
        except RecordError:
            return b""
        self._read_bytes += len(data)
        if self._read_bytes > MAX_READ:
            self.problem = f"requests and responses have more than {MAX_READ} bytes"
        return data

    def _write(self, line: JsonObject) -> None:
        data = json.dumps(line, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"
        self.lines.append(data)
        self._size += len(data)
        if len(self.lines) >= MAX_LINES or self._size >= MAX_BYTES:
            self.problem = f"the limit is {MAX_LINES} messages and {MAX_BYTES} bytes"


def _digest(message: Message) -> bytes:
    """Return a digest of a message that is the same in a response and when a later request repeats it."""
    calls = [[call.name, _canonical(call.arguments_text)] for call in message.tool_calls]
    key = json.dumps([message.role, message.text.strip(), calls])
    return hashlib.sha256(key.encode()).digest()


def _canonical(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments or "{}"), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments
