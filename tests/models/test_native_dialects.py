"""A service that speaks the client's dialect gets requests untranslated."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentbench.core.reasons import TerminationCode
from agentbench.models.client.chat_model import ChatModel
from agentbench.models.client.endpoint import Dialect, Endpoint
from agentbench.models.client.service import ServiceUpstream, Transport
from agentbench.models.faults import BudgetReached
from agentbench.models.keys import Secret
from agentbench.models.ledger import Caps
from agentbench.models.protocol import user
from tests.models.conftest import KEY, QUICK, OpenMetered, Serve
from tests.models.metered_gateway import PROMPT, MeteredGateway, script
from tests.models.service import Handler, Server

pytestmark = pytest.mark.component

ALL = frozenset(Dialect)

MESSAGE: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-1",
    "content": [{"type": "thinking", "thinking": "hm", "signature": "sig"}, {"type": "text", "text": "native"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 5, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 3, "output_tokens": 4},
}
EVENTS: list[dict[str, Any]] = [
    {"type": "message_start", "message": MESSAGE | {"content": [], "usage": MESSAGE["usage"] | {"output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "ping"},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "native"}},
    {"type": "content_block_stop", "index": 0},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"output_tokens": 4},
    },
    {"type": "message_stop"},
]
RESPONSE: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "model": "gpt-1",
    "output": [
        {
            "type": "message",
            "id": "m",
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "native", "annotations": []}],
        }
    ],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "usage": {
        "input_tokens": 28,
        "input_tokens_details": {"cached_tokens": 20},
        "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 32,
    },
}


def native(handler: Handler, body: dict[str, Any]) -> None:
    if handler.path.endswith("/responses"):
        handler.whole(json.dumps(RESPONSE).encode())
    elif body.get("stream"):
        handler.begin_stream()
        for event in EVENTS:
            handler.chunk(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        handler.chunk(b"")
    else:
        handler.whole(json.dumps(MESSAGE).encode())


@pytest.fixture
def metered(open_metered: OpenMetered, server: Server, transport: Transport) -> MeteredGateway:
    endpoint = Endpoint("test", server.url, Secret("K", KEY), auth="anthropic", dialects=ALL)
    gateway: MeteredGateway = open_metered(ServiceUpstream(endpoint, transport, retry=QUICK)).open_gateway()
    return gateway


@pytest.fixture
def server(serve: Serve) -> Server:
    return serve(native)


@pytest.mark.req("T-05")
def test_messages_pass_through_unchanged(metered: MeteredGateway, server: Server) -> None:
    got = metered.anthropic().messages.create(
        model="claude-x", max_tokens=9, messages=PROMPT, extra_headers={"anthropic-beta": "some-feature"}
    )
    assert [block.type for block in got.content] == ["thinking", "text"]
    path, headers, body = server.seen[0]
    assert path == "/v1/messages"
    assert (headers["x-api-key"], headers["anthropic-beta"]) == (KEY, "some-feature")
    assert "anthropic-version" in headers
    assert body == {"model": "vendor/model", "max_tokens": 9, "messages": PROMPT}
    (response,) = metered.responses()
    assert (response.prompt_tokens, response.completion_tokens, response.cached_tokens) == (28, 4, 20)
    assert not response.estimated


@pytest.mark.req("T-05")
def test_messages_stream_passes_through_and_is_counted(metered: MeteredGateway) -> None:
    with metered.anthropic().messages.stream(model="claude-x", max_tokens=9, messages=PROMPT) as stream:
        assert "".join(stream.text_stream) == "native"
    (response,) = metered.responses()
    assert (response.status, response.prompt_tokens, response.completion_tokens) == ("ok", 28, 4)


@pytest.mark.req("T-05")
def test_responses_pass_through_unchanged(metered: MeteredGateway, server: Server) -> None:
    assert metered.openai().responses.create(model="gpt-x", input="hi", store=False).output_text == "native"
    path, headers, body = server.seen[0]
    assert path == "/v1/responses"
    assert headers["authorization"] == f"Bearer {KEY}"
    assert body == {"model": "vendor/model", "input": "hi", "store": False}
    assert (metered.responses()[0].prompt_tokens, metered.responses()[0].cached_tokens) == (28, 20)


@pytest.mark.req("M-05", "M-07a")
def test_chat_model_stops_at_the_budget(open_metered: OpenMetered) -> None:
    metered = open_metered(
        script({"text": "a", "usage": {"prompt": 90, "completion": 20}}, after="repeat"), caps=Caps(tokens=100)
    )
    model = ChatModel("m", metered.metered_model)
    model.complete([user("hi")], max_tokens=20)
    with pytest.raises(BudgetReached) as caught:
        model.complete([user("hi")])
    assert caught.value.code is TerminationCode.TOKEN_CAP
    assert metered.metered_model.stopped is caught.value
    assert metered.metered_model.last_event == metered.log.count
