"""Requests and responses of every dialect read as the same messages, whole or streamed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.models.client.endpoint import Dialect
from agentbench.models.dialects.transcript import request_messages, response_message
from agentbench.models.protocol import Message, ToolCall

pytestmark = [pytest.mark.component, pytest.mark.req("E-09b")]

ARGUMENTS = {"command": "ls"}
CALL = ToolCall("c1", "run", json.dumps(ARGUMENTS, separators=(",", ":")))
ANSWER = Message("assistant", "I look.", (CALL,))
FUNCTION = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": CALL.arguments_text}}
ITEMS = [
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
    {"type": "function_call", "call_id": "c1", "name": "run", "arguments": CALL.arguments_text},
]
BLOCKS: list[dict[str, Any]] = [
    {"type": "text", "text": "I look."},
    {"type": "tool_use", "id": "c1", "name": "run", "input": ARGUMENTS},
]

REQUESTS: dict[Dialect, Any] = {
    Dialect.CHAT: {
        "messages": [
            {"role": "system", "content": "Be good."},
            {"role": "user", "content": [{"type": "text", "text": "Fix"}, {"type": "image_url", "image_url": {}}]},
            {"role": "assistant", "content": "I look.", "tool_calls": [FUNCTION]},
            {"role": "tool", "tool_call_id": "c1", "content": "a.py"},
        ]
    },
    Dialect.MESSAGES: {
        "system": "Be good.",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Fix"}, {"type": "image", "source": {"data": ""}}]},
            {"role": "assistant", "content": BLOCKS},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "a.py"}]},
        ],
    },
    Dialect.RESPONSES: {
        "instructions": "Be good.",
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Fix"}, {"type": "input_image"}]},
            *ITEMS,
            {"type": "function_call_output", "call_id": "c1", "output": "a.py"},
        ],
    },
}
WHOLE: dict[Dialect, Any] = {
    Dialect.CHAT: {"choices": [{"message": {"content": "I look.", "tool_calls": [FUNCTION]}}]},
    Dialect.MESSAGES: {"content": BLOCKS},
    Dialect.RESPONSES: {"output": ITEMS},
}
STREAMED: dict[Dialect, list[Any]] = {
    Dialect.CHAT: [
        {"choices": [{"delta": {"content": "I "}}]},
        {"choices": [{"delta": {"content": "look."}}]},
        {"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "run"}}]}}]},
        {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": '{"command":'}}]}}]},
        {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": '"ls"}'}}]}}]},
    ],
    Dialect.MESSAGES: [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "I "}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "look."}},
        {"type": "content_block_start", "index": 1, "content_block": {**BLOCKS[1], "input": {}}},
        {"type": "content_block_delta", "index": 1, "delta": {"partial_json": '{"command": '}},
        {"type": "content_block_delta", "index": 1, "delta": {"partial_json": '"ls"}'}},
    ],
    Dialect.RESPONSES: [{"type": "response.output_item.done", "item": item} for item in ITEMS],
}


@pytest.mark.parametrize("dialect", Dialect)
def test_requests_read_alike(dialect: Dialect) -> None:
    assert request_messages(dialect, REQUESTS[dialect]) == [
        Message("system", "Be good."),
        Message("user", "Fix\n[image]"),
        ANSWER,
        Message("tool", "a.py", tool_call_id="c1"),
    ]


@pytest.mark.parametrize("dialect", Dialect)
def test_whole_and_streamed_responses_read_alike(dialect: Dialect) -> None:
    assert response_message(dialect, json.dumps(WHOLE[dialect]).encode(), streams=False) == ANSWER
    stream = "".join(f"data: {json.dumps(event)}\n\n" for event in STREAMED[dialect]) + "data: [DONE]\n\n"
    assert response_message(dialect, stream.encode(), streams=True) == ANSWER


KEYS = st.sampled_from(
    [
        "messages",
        "content",
        "role",
        "type",
        "text",
        "tool_calls",
        "function",
        "name",
        "arguments",
        "input",
        "choices",
        "delta",
        "index",
        "message",
        "system",
        "output",
        "item",
        "content_block",
        "partial_json",
        "id",
        "refusal",
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(dialect=st.sampled_from(Dialect), body=st.dictionaries(KEYS, JSON), streams=st.booleans())
def test_unexpected_bodies_are_read_without_an_error(dialect: Dialect, body: dict[str, Any], *, streams: bool) -> None:
    request_messages(dialect, body)
    raw = json.dumps(body).encode()
    response_message(dialect, b"data: %s\n\n" % raw if streams else raw, streams=streams)


@given(raw=st.binary(max_size=60), dialect=st.sampled_from(Dialect), streams=st.booleans())
def test_damaged_responses_are_read_without_an_error(raw: bytes, dialect: Dialect, *, streams: bool) -> None:
    response_message(dialect, raw, streams=streams)
