from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.errors import ModelFault
from agentbench.models import faults
from agentbench.models.client.endpoint import Dialect
from agentbench.models.client.response_errors import fault_of
from agentbench.models.dialects import messages, responses
from agentbench.models.dialects.chat import ChatReader
from agentbench.models.dialects.errors import api_error
from agentbench.models.dialects.usage import StreamUsage, bound, count_input, estimated, usage_of
from agentbench.models.json_values import arr, obj
from agentbench.models.sse import SseEvent, event_of, read_events
from tests.models.service import answer_body

pytestmark = pytest.mark.component

# --- Anthropic's messages --------------------------------------------------------------------------------------------


@pytest.mark.req("T-05")
def test_messages_request_becomes_a_chat_request() -> None:
    chat = messages.to_chat(
        {
            "model": "claude",
            "max_tokens": 50,
            "system": [
                {"type": "text", "text": "be"},
                {"type": "text", "text": "brief", "cache_control": {"type": "x"}},
            ],
            "stop_sequences": ["END"],
            "stream": True,
            "top_k": 5,
            "thinking": {"type": "enabled", "budget_tokens": 1000},
            "metadata": {"user_id": "u"},
            "tools": [
                {"name": "run", "description": "runs", "input_schema": {"type": "object"}},
                {"type": "web_search_20250305", "name": "web_search"},
            ],
            "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
            "messages": [
                {"role": "user", "content": "go"},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "hm", "signature": "s"},
                        {"type": "text", "text": "I run"},
                        {"type": "tool_use", "id": "t1", "name": "run", "input": {"command": "ls"}},
                        {"type": "tool_use", "id": "t2", "name": "run", "input": {}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "and now?"},
                        {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "a.py"}]},
                        {"type": "tool_result", "tool_use_id": "t2", "content": "no", "is_error": True},
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
                    ],
                },
            ],
        }
    )
    assert chat == {
        "model": "claude",
        "max_tokens": 50,
        "stop": ["END"],
        "stream": True,
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "tools": [
            {"type": "function", "function": {"name": "run", "description": "runs", "parameters": {"type": "object"}}}
        ],
        "messages": [
            {"role": "system", "content": "be\nbrief"},
            {"role": "user", "content": "go"},
            {
                "role": "assistant",
                "content": "I run",
                "tool_calls": [
                    {"id": "t1", "type": "function", "function": {"name": "run", "arguments": '{"command":"ls"}'}},
                    {"id": "t2", "type": "function", "function": {"name": "run", "arguments": "{}"}},
                ],
            },
            {"role": "tool", "tool_call_id": "t1", "content": "a.py"},
            {"role": "tool", "tool_call_id": "t2", "content": "[error] no"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "and now?"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                ],
            },
        ],
    }


@pytest.mark.req("T-05")
@pytest.mark.parametrize(
    "reason, stop",
    [("stop", "end_turn"), ("length", "max_tokens"), ("content_filter", "refusal"), ("odd", "end_turn")],
)
def test_stop_reasons_are_translated(reason: str, stop: str) -> None:
    body = answer_body()
    body["choices"][0]["finish_reason"] = reason
    assert messages.from_chat(body, "m")["stop_reason"] == stop


def test_tool_calls_override_the_stop_reason() -> None:
    call = {"id": "c", "function": {"name": "run", "arguments": "{not json"}}
    body = answer_body("", tool_calls=[call])
    body["choices"][0]["finish_reason"] = "stop"
    got = messages.from_chat(body, "m")
    assert got["stop_reason"] == "tool_use"
    assert got["content"] == [
        {"type": "tool_use", "id": "c", "name": "run", "input": {"malformed_arguments": "{not json"}}
    ]


# --- OpenAI's responses ----------------------------------------------------------------------------------------------


@pytest.mark.req("T-05")
def test_responses_request_becomes_a_chat_request() -> None:
    body: dict[str, Any] = {
        "model": "gpt",
        "instructions": "be brief",
        "max_output_tokens": 9,
        "parallel_tool_calls": False,
        "tool_choice": {"type": "function", "name": "run"},
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}},
        "tools": [
            {"type": "function", "name": "run", "parameters": {"type": "object"}},
            {"type": "custom", "name": "apply_patch", "description": "free text"},
            {"type": "web_search"},
        ],
        "input": [
            {"role": "developer", "content": [{"type": "input_text", "text": "rules"}]},
            {"type": "message", "role": "user", "content": "go"},
            {"type": "reasoning", "id": "r", "summary": []},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I run"}]},
            {"type": "function_call", "call_id": "c1", "name": "run", "arguments": "{}"},
            {"type": "custom_tool_call", "call_id": "c2", "name": "apply_patch", "input": "*** Begin"},
            {"type": "function_call_output", "call_id": "c1", "output": "ok"},
            {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "done"}]},
        ],
    }
    chat = responses.to_chat(body)
    assert responses.custom_tools(body) == {"apply_patch"}
    assert [tool["function"]["name"] for tool in chat["tools"]] == ["run", "apply_patch"]  # type: ignore[union-attr,index,call-overload]
    assert chat["tool_choice"] == {"type": "function", "function": {"name": "run"}}
    assert chat["max_tokens"] == 9
    assert chat["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True},
    }
    assert chat["messages"] == [
        {"role": "system", "content": "be brief"},
        {"role": "system", "content": "rules"},
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": "I run",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "run", "arguments": "{}"}},
                {
                    "id": "c2",
                    "type": "function",
                    "function": {"name": "apply_patch", "arguments": '{"input":"*** Begin"}'},
                },
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
        {"role": "tool", "tool_call_id": "c2", "content": "done"},
    ]


def test_stored_conversation_is_refused() -> None:
    with pytest.raises(faults.Rejected, match="whole input"):
        responses.to_chat({"input": "hi", "previous_response_id": "resp_1"})


def test_custom_tool_gets_free_text() -> None:
    call = {"id": "c", "function": {"name": "apply_patch", "arguments": '{"input": "*** Begin"}'}}
    got = responses.from_chat(answer_body("", tool_calls=[call]), {"model": "m"}, frozenset({"apply_patch"}))
    (item,) = arr(got["output"])
    assert obj(item) | {"type": "custom_tool_call", "input": "*** Begin", "call_id": "c"} == item


def test_truncated_reply_is_incomplete() -> None:
    body = answer_body()
    body["choices"][0]["finish_reason"] = "length"
    got = responses.from_chat(body, {"model": "m"}, frozenset())
    assert (got["status"], got["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})


# --- streams ---------------------------------------------------------------------------------------------------------


def _chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"id": "x", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


CHUNKS = [
    _chunk({"role": "assistant", "content": ""}),
    _chunk({"reasoning_content": "hm"}),
    _chunk({"content": "I "}),
    _chunk({"content": "run"}),
    _chunk({"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "run", "arguments": ""}}]}),
    _chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"a"'}}]}),
    _chunk({"tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}]}),
    _chunk({"tool_calls": [{"index": 1, "id": "c2", "function": {"name": "run", "arguments": "{}"}}]}),
    _chunk({}, "tool_calls"),
    {"id": "x", "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}},
]


def _through(writer: Any) -> list[dict[str, Any]]:
    reader = ChatReader()
    events: list[SseEvent] = []
    for chunk in CHUNKS:
        events += writer.feed(reader, reader.chunk(chunk))
    return [event.object() for event in [*events, *writer.end(reader)]]


@pytest.mark.req("T-05")
def test_chat_stream_becomes_a_messages_stream() -> None:
    events = _through(messages.MessagesWriter("m"))
    assert [e["type"] for e in events] == [
        "message_start",
        *("content_block_start", "content_block_delta", "content_block_delta", "content_block_stop"),
        *("content_block_start", "content_block_delta", "content_block_delta", "content_block_stop"),
        *("content_block_start", "content_block_delta", "content_block_stop"),
        *("message_delta", "message_stop"),
    ]
    assert [e["index"] for e in events if e["type"] == "content_block_start"] == [0, 1, 2]
    assert events[-2]["usage"]["output_tokens"] == 3
    seen = StreamUsage(Dialect.MESSAGES)
    for event in events:
        seen.see(event_of(event))
    assert seen.usage is not None
    assert (seen.usage.prompt, seen.usage.completion) == (7, 3)


@pytest.mark.req("T-05")
def test_chat_stream_becomes_a_responses_stream() -> None:
    events = _through(responses.ResponsesWriter({"model": "m"}, frozenset()))
    assert [e["sequence_number"] for e in events] == list(range(len(events)))
    output = events[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["message", "function_call", "function_call"]
    assert json.loads(output[1]["arguments"]) == {"a": 1}
    assert events[-1]["type"] == "response.completed"


def test_stream_with_interleaved_calls_is_refused() -> None:
    reader = ChatReader()
    for chunk in CHUNKS[:8]:
        reader.chunk(chunk)
    with pytest.raises(faults.BadResponse):
        reader.chunk(_chunk({"tool_calls": [{"index": 0, "function": {"arguments": "x"}}]}))


@given(
    st.lists(st.text(alphabet=st.characters(exclude_characters="\r\n", codec="utf-8"), max_size=20), max_size=8),
    st.data(),
)
def test_events_survive_any_chunking_of_the_stream(texts: list[str], data: st.DataObject) -> None:
    whole = b"".join(SseEvent(text, "name").encode() for text in texts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert [event.data for event in read_events(pieces)] == texts


@pytest.mark.parametrize("line", ["\n", "\r\n", "\r"])
def test_all_line_endings_and_comments_are_parsed(line: str) -> None:
    text = line.join([": comment", "", "event: e", "data: 1", "data:2", "id: 7", "", "data: cut"])
    assert list(read_events([text.encode()])) == [SseEvent("1\n2", "e")]


# --- hostile answers -------------------------------------------------------------------------------------------------

JSON = st.recursive(
    # Infinity and NaN are not JSON; a response with them is refused earlier.
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "message",
                    "delta",
                    "content",
                    "tool_calls",
                    "function",
                    "arguments",
                    "usage",
                    "index",
                    "text",
                    "role",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(
    st.dictionaries(st.sampled_from(["choices", "usage", "id", "model", "messages", "input", "system", "tools"]), JSON)
)
def test_translation_never_fails_on_unexpected_json(body: dict[str, Any]) -> None:
    messages.from_chat(body, "m")
    responses.from_chat(body, body, frozenset())
    messages.to_chat(body)
    responses.to_chat(body)
    count_input(body)
    bound(body, 10)
    for dialect in Dialect:
        usage_of(dialect, body)


# --- usage and errors ------------------------------------------------------------------------------------------------


@pytest.mark.req("T-06")
def test_usage_is_read_in_every_dialect() -> None:
    chat = usage_of(Dialect.CHAT, answer_body())
    again = usage_of(Dialect.MESSAGES, messages.from_chat(answer_body(), "m"))
    third = usage_of(Dialect.RESPONSES, responses.from_chat(answer_body(), {}, frozenset()))
    assert chat == again == third
    assert chat is not None
    assert (chat.prompt, chat.completion, chat.cached) == (100, 10, 40)


def test_estimated_usage_is_marked() -> None:
    assert estimated(400, 40).estimated
    assert (estimated(400, 40).prompt, estimated(400, 40).completion) == (100, 10)
    assert bound({"max_tokens": 50}, 1000).completion == 50
    assert bound({}, 1000).completion > 1000
    assert bound({"max_tokens": 50, "n": 3}, 1000).completion == 150
    assert bound({"max_tokens": 50, "n": -1, "best_of": "x"}, 1000).completion == 50


def test_every_fault_has_an_error_in_every_dialect() -> None:
    samples: list[ModelFault] = [fault_of(code, b'{"error": {"message": "m"}}') for code in range(300, 600)]
    samples += [faults.ReplayDiverged("d", diff=""), faults.Refused("r"), faults.NotJson("n"), ModelFault("x")]
    for fault in samples:
        for dialect in Dialect:
            error = api_error(fault, dialect)
            assert 400 <= error.status < 600
            assert error.message
            assert error.body(dialect)["error"]
            assert error.event(dialect).object()
