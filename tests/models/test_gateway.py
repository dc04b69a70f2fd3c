from __future__ import annotations

import json
import socket
import stat
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from agentbench.core.http1 import BadRequest
from agentbench.models.client.service import ServiceUpstream
from agentbench.models.gateway.http import Connection, MemoryBudget
from agentbench.models.gateway.relay import KeepAliveIntervals
from agentbench.models.gateway.server import PLACEHOLDER, Gateway
from agentbench.models.ledger import Caps, Ledger
from agentbench.models.metered_model import ModelIdentity
from agentbench.policy.prices import parse_prices
from agentbench.trace.redaction import Redactor
from tests.models import clients
from tests.models.conftest import KEY, OpenMetered, Serve
from tests.models.metered_gateway import PROMPT, MeteredGateway, script
from tests.models.service import (
    Behaviour,
    bad_stream,
    closes_in_mid_stream,
    fifty_megabytes,
    good,
    hang,
    raw,
    slow,
    status,
    until_gone,
)

pytestmark = pytest.mark.component

Reach = Callable[..., ServiceUpstream]

CALLS = {
    "text": "I will look at the file first, and then run the tests as the task says.",
    "tool_calls": [
        {"name": "read_file", "arguments": {"path": "a.py"}},
        {"name": "run", "arguments": {"command": "pytest -q"}},
    ],
    "usage": {"prompt": 100, "completion": 20, "cached": 60},
}
WANTED = [("read_file", {"path": "a.py"}), ("run", {"command": "pytest -q"})]
CHAT_TOOLS: list[Any] = [{"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}}]
FLAT_TOOLS: list[Any] = [{"type": "function", "name": "run", "parameters": {"type": "object"}, "strict": False}]
ANTHROPIC_TOOLS: list[Any] = [{"name": "run", "input_schema": {"type": "object"}}]


# --- the official clients --------------------------------------------------------------------------------------------


@pytest.mark.req("T-05")
def test_openai_chat(open_metered: OpenMetered) -> None:
    metered = open_metered(script(CALLS)).open_gateway()
    got = metered.openai().chat.completions.create(model="gpt-x", messages=PROMPT, tools=CHAT_TOOLS)
    message = got.choices[0].message
    assert message.content == CALLS["text"]
    assert [
        (c.function.name, json.loads(c.function.arguments)) for c in message.tool_calls or [] if c.type == "function"
    ] == WANTED
    assert got.usage is not None
    assert (got.usage.prompt_tokens, got.usage.completion_tokens) == (100, 20)


@pytest.mark.req("T-05")
@pytest.mark.parametrize("asked", [True, False])
def test_openai_chat_stream(open_metered: OpenMetered, asked: bool) -> None:
    metered = open_metered(script(CALLS)).open_gateway()
    options: dict[str, Any] = {"stream_options": {"include_usage": True}} if asked else {}
    text, arguments, usages = "", {0: "", 1: ""}, 0
    for chunk in metered.openai().chat.completions.create(
        model="gpt-x", messages=PROMPT, tools=CHAT_TOOLS, stream=True, **options
    ):
        usages += chunk.usage is not None
        if asked and not chunk.choices:
            continue
        delta = chunk.choices[0].delta
        text += delta.content or ""
        for call in delta.tool_calls or []:
            arguments[call.index] += (call.function.arguments if call.function else "") or ""
    assert text == CALLS["text"]
    assert [json.loads(a) for a in arguments.values()] == [w for _, w in WANTED]
    assert usages == asked, "a client that did not ask must not see the chunk without choices"
    assert metered.responses()[0].prompt_tokens == 100


@pytest.mark.req("T-05")
def test_openai_responses(open_metered: OpenMetered) -> None:
    metered = open_metered(script(CALLS)).open_gateway()
    got = metered.openai().responses.create(model="gpt-x", input="hi", instructions="be brief", tools=FLAT_TOOLS)
    assert got.output_text == CALLS["text"]
    assert [(c.name, json.loads(c.arguments)) for c in got.output if c.type == "function_call"] == WANTED
    assert got.usage is not None
    assert (got.usage.input_tokens, got.usage.output_tokens, got.usage.input_tokens_details.cached_tokens) == (
        100,
        20,
        60,
    )


@pytest.mark.req("T-05")
def test_openai_responses_stream(open_metered: OpenMetered) -> None:
    metered = open_metered(script(CALLS)).open_gateway()
    with metered.openai().responses.stream(model="gpt-x", input=PROMPT, tools=FLAT_TOOLS) as stream:
        numbers = [event.sequence_number for event in stream if hasattr(event, "sequence_number")]
        got = stream.get_final_response()
    assert numbers == sorted(set(numbers))
    assert got.status == "completed"
    assert got.output_text == CALLS["text"]
    assert [(c.name, json.loads(c.arguments)) for c in got.output if c.type == "function_call"] == WANTED
    assert metered.responses()[0].completion_tokens == 20


@pytest.mark.req("T-05")
def test_anthropic_messages(open_metered: OpenMetered) -> None:
    metered = open_metered(script(CALLS)).open_gateway()
    got = metered.anthropic().messages.create(
        model="claude-x", max_tokens=100, system="be brief", messages=PROMPT, tools=ANTHROPIC_TOOLS
    )
    assert got.stop_reason == "tool_use"
    assert got.content[0].type == "text"
    assert [(b.name, b.input) for b in got.content if b.type == "tool_use"] == WANTED
    assert (got.usage.input_tokens, got.usage.cache_read_input_tokens, got.usage.output_tokens) == (40, 60, 20)


@pytest.mark.req("T-05")
def test_anthropic_messages_stream(open_metered: OpenMetered) -> None:
    metered = open_metered(script(CALLS)).open_gateway()
    with metered.anthropic().messages.stream(
        model="claude-x", max_tokens=100, messages=PROMPT, tools=ANTHROPIC_TOOLS
    ) as stream:
        text = "".join(stream.text_stream)
        got = stream.get_final_message()
    assert text == CALLS["text"]
    assert got.stop_reason == "tool_use"
    assert [(b.name, b.input) for b in got.content if b.type == "tool_use"] == WANTED
    assert got.usage.output_tokens == 20


@pytest.mark.req("T-05")
def test_models_and_token_counts_for_both_clients(open_metered: OpenMetered) -> None:
    metered = open_metered(script()).open_gateway()
    assert [m.id for m in metered.openai().models.list()] == ["vendor/model"]
    assert [m.id for m in metered.anthropic().models.list()] == ["vendor/model"]
    counted = metered.anthropic().messages.count_tokens(
        model="x", messages=[{"role": "user", "content": "word " * 100}]
    )
    assert 50 <= counted.input_tokens <= 250
    assert metered.requests() == []


@pytest.mark.req("T-05", "R-09")
def test_service_gets_pinned_model_and_key_but_no_client_headers(
    open_metered: OpenMetered, serve: Serve, transport: Any
) -> None:
    from agentbench.models.client.endpoint import Endpoint
    from agentbench.models.keys import Secret

    server = serve(good)
    metered = open_metered(ServiceUpstream(Endpoint("test", server.url, Secret("K", KEY)), transport)).open_gateway()
    metered.metered_model.identity = ModelIdentity("test", "pinned/model", {"temperature": 0.5})
    with metered.anthropic().messages.stream(model="claude-x", max_tokens=9, messages=PROMPT) as stream:
        assert "".join(stream.text_stream) == "hello"
    path, headers, body = server.seen[0]
    assert path == "/v1/chat/completions"
    assert headers["authorization"] == f"Bearer {KEY}"
    assert not any(name.startswith(("x-stainless", "anthropic", "x-api-key")) for name in headers)
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("pinned/model", 0.5, 9)
    events = (metered.folder / "events.jsonl").read_text()
    assert KEY not in events
    assert metered.requests()[0].parameters["asked_model"] == "claude-x"


# --- budget ----------------------------------------------------------------------------------------------------------

PRICES = parse_prices(b"action_type,unit,unit_price,notes\nllm_request,token,0.001,\n", "prices.csv")


@pytest.mark.req("T-05", "M-05")
def test_spent_budget_is_an_api_error_without_upstream_request(open_metered: OpenMetered) -> None:
    metered = open_metered(script(CALLS, after="repeat"), caps=Caps.of(usd=0.1), prices=PRICES).open_gateway()
    metered.openai().chat.completions.create(model="m", messages=PROMPT)
    with pytest.raises(clients.openai.RateLimitError, match="attempt's budget is spent") as quota:
        metered.openai().chat.completions.create(model="m", messages=PROMPT)
    assert quota.value.code == "insufficient_quota"
    with pytest.raises(clients.openai.RateLimitError):
        metered.openai().responses.create(model="m", input="hi")
    with pytest.raises(clients.openai.RateLimitError):
        metered.openai().chat.completions.create(model="m", messages=PROMPT, stream=True)
    with pytest.raises(clients.anthropic.APIStatusError, match="attempt's budget is spent") as billing:
        metered.anthropic().messages.create(model="m", max_tokens=5, messages=PROMPT)
    assert billing.value.status_code == 402
    assert metered.metered_model.stopped is not None
    assert metered.metered_model.stopped.code == "cost_cap"
    assert [r.status for r in metered.responses()] == ["ok"] + ["budget"] * 4
    assert [r.cost_micro_usd for r in metered.responses()] == [120_000, 0, 0, 0, 0]


@pytest.mark.req("T-05")
def test_clients_do_not_retry_a_spent_budget(open_metered: OpenMetered) -> None:
    metered = open_metered(script(CALLS), caps=Caps(tokens=0)).open_gateway()
    with pytest.raises(clients.openai.RateLimitError):
        metered.openai(max_retries=4).chat.completions.create(model="m", messages=PROMPT)
    with pytest.raises(clients.anthropic.APIStatusError):
        metered.anthropic(max_retries=4).messages.create(model="m", max_tokens=5, messages=PROMPT)
    assert len(metered.requests()) == 2
    assert metered.metered_model.stopped is not None
    assert metered.metered_model.stopped.code == "token_cap"


# --- faults of the service -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "behaviour, code, label",
    [
        pytest.param(status(429), 429, "rate_limited", id="429 for ever"),
        pytest.param(status(500), 500, "server_error", id="500 for ever"),
        pytest.param(status(401), 401, "unauthorised", id="401"),
        pytest.param(status(400, "prompt is too long"), 400, "context_overflow", id="overflow"),
        pytest.param(raw(b"{'x'}"), 502, "not_json", id="invalid JSON"),
        pytest.param(raw(b'{"choices": "\xff"}'), 502, "not_json", id="invalid UTF-8"),
        pytest.param(raw(b"hello", "text/plain"), 502, "not_json", id="content type"),
        pytest.param(fifty_megabytes, 502, "too_large", id="50 MB"),
    ],
)
@pytest.mark.req("T-05", "T-06")
def test_service_fault_reaches_each_client_as_its_own_error(
    open_metered: OpenMetered, upstream_for: Reach, behaviour: Behaviour, code: int, label: str
) -> None:
    metered = open_metered(upstream_for(behaviour)).open_gateway()
    asks: list[Callable[[], object]] = [
        lambda: metered.openai().chat.completions.create(model="m", messages=PROMPT),
        lambda: metered.openai().responses.create(model="m", input="hi"),
        lambda: metered.anthropic().messages.create(model="m", max_tokens=5, messages=PROMPT),
    ]
    for ask in asks:
        with pytest.raises((clients.openai.APIStatusError, clients.anthropic.APIStatusError)) as caught:
            ask()
        assert getattr(caught.value, "status_code", None) == code
    assert [r.status for r in metered.responses()] == [label] * 3
    assert all(r.error and r.cost_micro_usd == 0 for r in metered.responses())
    assert metered.metered_model.fault is not None


@pytest.mark.req("T-05")
def test_single_500_is_retried_unnoticed(open_metered: OpenMetered, upstream_for: Reach) -> None:
    metered = open_metered(upstream_for(status(500), good)).open_gateway()
    assert metered.openai().chat.completions.create(model="m", messages=PROMPT).choices[0].message.content == "hello"


@pytest.mark.parametrize(
    "behaviour",
    [
        pytest.param(closes_in_mid_stream, id="closes"),
        pytest.param(bad_stream(b'data: {"x": "\xff"}\n\n'), id="no UTF-8"),
        pytest.param(bad_stream(b"data: {nonsense}\n\n"), id="no JSON"),
    ],
)
@pytest.mark.req("T-05", "T-06")
def test_broken_stream_is_an_error_for_every_client(
    open_metered: OpenMetered, upstream_for: Reach, behaviour: Behaviour
) -> None:
    metered = open_metered(upstream_for(behaviour)).open_gateway()
    asks: list[Callable[[], object]] = [
        lambda: list(metered.openai().chat.completions.create(model="m", messages=PROMPT, stream=True)),
        lambda: [e for e in metered.openai().responses.create(model="m", input="hi", stream=True) if _fails(e)],
        lambda: list(metered.anthropic().messages.create(model="m", max_tokens=5, messages=PROMPT, stream=True)),
    ]
    for ask in asks:
        with pytest.raises((clients.openai.APIError, clients.anthropic.APIError)):
            ask()
    assert {r.status for r in metered.responses()} <= {"truncated", "not_json"}
    assert len(metered.responses()) == 3


def _fails(event: Any) -> bool:
    if event.type == "error":
        raise clients.openai.APIError(event.message, request=None, body=None)  # type: ignore[arg-type]
    return False


# --- waiting ---------------------------------------------------------------------------------------------------------


@pytest.mark.req("T-05")
def test_waiting_client_gets_keep_alives(open_metered: OpenMetered, upstream_for: Reach) -> None:
    metered = open_metered(upstream_for(slow(6.0))).open_gateway(KeepAliveIntervals(stream_sec=0.2, whole_sec=0.2))
    # Each client gives up after five seconds without data.
    gpt, claude = metered.openai(timeout=5.0), metered.anthropic(timeout=5.0)

    def streamed() -> str:
        chunks = gpt.chat.completions.create(model="m", messages=PROMPT, stream=True)
        return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)

    def streamed_messages() -> str:
        with claude.messages.stream(model="m", max_tokens=5, messages=PROMPT) as stream:
            return "".join(stream.text_stream)

    def message() -> str:
        (block,) = claude.messages.create(model="m", max_tokens=5, messages=PROMPT).content
        return block.text if block.type == "text" else block.type

    asks: list[Callable[[], str | None]] = [
        lambda: gpt.chat.completions.create(model="m", messages=PROMPT).choices[0].message.content,
        lambda: gpt.responses.create(model="m", input="hi").output_text,
        streamed,
        streamed_messages,
        message,
    ]
    with ThreadPoolExecutor(len(asks)) as pool:
        assert list(pool.map(lambda ask: ask(), asks)) == ["hello"] * len(asks)


@pytest.mark.req("T-05")
def test_fault_after_a_keep_alive_is_reported(open_metered: OpenMetered, upstream_for: Reach) -> None:
    def late(handler: Any, body: Any) -> None:
        time.sleep(1.5)
        status(400, "no")(handler, body)

    metered = open_metered(upstream_for(late)).open_gateway(KeepAliveIntervals(stream_sec=0.1, whole_sec=0.1))
    # The status line is already sent, so the clients raise nothing: the error is in the JSON body.
    chat = metered.openai().chat.completions.create(model="m", messages=PROMPT)
    assert not chat.choices
    assert "answered 400" in chat.to_dict()["error"]["message"]  # type: ignore[index]
    response = metered.openai().responses.create(model="m", input="hi")
    assert (response.status, response.output) == ("failed", [])
    assert response.error is not None
    assert "answered 400" in response.error.message
    message = metered.anthropic().messages.create(model="m", max_tokens=5, messages=PROMPT).to_dict()
    assert (message["type"], "content" in message) == ("error", False)
    assert "answered 400" in message["error"]["message"]  # type: ignore[index]
    with pytest.raises(clients.openai.APIError, match="answered 400"):
        list(metered.openai().chat.completions.create(model="m", messages=PROMPT, stream=True))
    with pytest.raises(clients.anthropic.APIStatusError, match="answered 400"):
        list(metered.anthropic().messages.create(model="m", max_tokens=5, messages=PROMPT, stream=True))


@pytest.mark.req("T-05")
def test_disconnected_client_is_logged_as_abandoned(
    open_metered: OpenMetered, serve: Serve, upstream_for: Reach
) -> None:
    def endless(handler: Any, body: Any) -> None:
        from tests.models.service import stream_chunks

        handler.begin_stream()
        for _ in range(2000):
            handler.chunk(stream_chunks()[1])
            time.sleep(0.01)

    metered = open_metered(upstream_for(endless)).open_gateway()
    stream = metered.openai().chat.completions.create(model="m", messages=PROMPT, stream=True)
    next(iter(stream))
    stream.close()
    _until(lambda: bool(metered.responses()))
    (response,) = metered.responses()
    assert response.status == "abandoned"
    assert response.estimated
    assert metered.account.statement().held.micro == 0


@pytest.mark.req("T-05")
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_client_timeout_before_first_byte_cancels_upstream_request(
    open_metered: OpenMetered, upstream_for: Reach, stream: bool
) -> None:
    noticed = [threading.Event(), threading.Event()]
    metered = open_metered(upstream_for(*map(until_gone, noticed), silence=60)).open_gateway()
    with pytest.raises(clients.openai.APITimeoutError):
        metered.openai(timeout=3.0).chat.completions.create(model="m", messages=PROMPT, stream=stream)
    with pytest.raises(clients.anthropic.APITimeoutError):
        metered.anthropic(timeout=3.0).messages.create(model="m", max_tokens=5, messages=PROMPT, stream=stream)
    assert [event.wait(60) for event in noticed] == [True, True]
    _until(lambda: len(metered.responses()) == 2)
    assert [response.status for response in metered.responses()] == ["abandoned"] * 2
    assert metered.account.statement().held.micro == 0


@pytest.mark.req("T-05")
def test_concurrent_requests_run_in_parallel_and_are_logged(open_metered: OpenMetered, upstream_for: Reach) -> None:
    together = threading.Barrier(10, timeout=300)

    def when_all_are_here(handler: Any, body: Any) -> None:
        together.wait()
        good(handler, body)

    metered = open_metered(upstream_for(when_all_are_here)).open_gateway()
    client = metered.openai()

    def ask(_: int) -> str | None:
        return client.chat.completions.create(model="m", messages=PROMPT).choices[0].message.content

    with ThreadPoolExecutor(10) as pool:
        assert list(pool.map(ask, range(10))) == ["hello"] * 10
    assert sorted(r.request_id for r in metered.requests()) == sorted(r.request_id for r in metered.responses())
    assert [r.conversation_index for r in metered.requests()] == [2 * n for n in range(10)]


@pytest.mark.req("T-05")
def test_close_ends_open_requests_and_their_events(open_metered: OpenMetered, upstream_for: Reach) -> None:
    metered = open_metered(upstream_for(hang)).open_gateway()
    failed = threading.Event()

    def ask() -> None:
        with pytest.raises(clients.openai.APIError):
            metered.openai().chat.completions.create(model="m", messages=PROMPT)
        failed.set()

    thread = threading.Thread(target=ask)
    thread.start()
    _until(lambda: bool(metered.requests()))
    assert metered.gateway is not None
    metered.gateway.close()
    thread.join(60)
    assert failed.is_set()
    assert [r.status for r in metered.responses()] == ["abandoned"]
    assert not (metered.folder / "gateway").exists()


# --- hostile clients -------------------------------------------------------------------------------------------------


def _talk(metered: MeteredGateway, data: bytes) -> bytes:
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(10)
    sock.connect(str(metered.folder / "gateway/mount/gateway.sock"))
    got = b""
    try:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        while piece := sock.recv(65536):
            got += piece
    except OSError:
        pass
    sock.close()
    return got


@pytest.mark.parametrize(
    "data, code",
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\n\r\n", 400),
        (b"GET http://elsewhere/ HTTP/1.1\r\n\r\n", 400),
        (b"CONNECT example.org:443 HTTP/1.1\r\n\r\n", 400),
        (b"GET /v1/files HTTP/1.1\r\n\r\n", 404),
        (b"GET /v1/../admin HTTP/1.1\r\n\r\n", 404),
        (b"GET /v1/chat/completions HTTP/1.1\r\n\r\n", 405),
        (b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 3\r\n\r\n[1]", 400),
        (b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}", 400),
        (b"POST /v1/messages HTTP/1.1\r\ncontent-length: -1\r\n\r\n", 400),
        (b"POST /v1/messages HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n", 413),
        (b"POST /v1/messages HTTP/1.1\r\ncontent-length: " + b"9" * 5000 + b"\r\n\r\n", 413),
        (b'POST /v1/messages HTTP/1.1\r\ncontent-length: 37\r\n\r\n{"messages": [], "max_tokens": 1e999}', 400),
        (b"POST /v1/messages HTTP/1.1\r\ncontent-length: 5\r\n\r\n{}", 400),
        (b"POST /v1/messages HTTP/1.1\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}", 400),
        (b"POST /v1/messages HTTP/1.1\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n{}", 400),
        (b"POST /v1/messages HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"POST /v1/messages HTTP/1.1\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n{}", 415),
        (b"GET /v1/models HTTP/1.1\r\n" + b"x: y\r\n" * 300 + b"\r\n", 431),
        (b"GET /v1/models HTTP/1.1\r\nbroken header\r\n\r\n", 400),
        (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n", 400),
    ],
)
@pytest.mark.req("T-05")
def test_malformed_requests_are_refused(open_metered: OpenMetered, data: bytes, code: int) -> None:
    metered = open_metered(script(CALLS)).open_gateway()
    assert _talk(metered, data).startswith(b"HTTP/1.1 %d " % code)
    assert metered.requests() == []
    assert b" 200 " in _talk(metered, b"GET /v1/models HTTP/1.1\r\nconnection: close\r\n\r\n")


@pytest.mark.parametrize("wide", ["\N{GRINNING FACE}".encode(), b"\\ud83d\\ude00"])
def test_wide_characters_count_as_the_memory_that_their_text_takes(wide: bytes) -> None:
    for text, fits in ((b"x" * 100_000, True), (b"x" * 100_000 + wide, False)):
        connection = _open_request(text, MemoryBudget(400_000))
        with nullcontext() if fits else pytest.raises(BadRequest, match="too large"):
            assert connection.read_request() is not None
        connection.socket.close()


def _open_request(body: bytes, room: MemoryBudget) -> Connection:
    server_end, client_end = socket.socketpair()
    with client_end:
        client_end.sendall(b"POST /v1/messages HTTP/1.1\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
    return Connection(server_end, room)


@pytest.mark.req("T-05", "R-03")
def test_requests_cannot_exhaust_host_memory() -> None:
    room = MemoryBudget(100_000)
    first, second = _open_request(b"x" * 90_000, room), _open_request(b"x" * 90_000, room)
    # Short text may take much memory once parsed.
    long, broad = _open_request(b"x" * 100_001, room), _open_request(b"{" * 70_000, MemoryBudget(100_000))
    assert first.read_request() is not None
    for connection, code in ((second, 503), (long, 413), (broad, 413)):
        with pytest.raises(BadRequest) as refused:
            connection.read_request()
        assert refused.value.status == code
    for connection in (first, second, long, broad):
        connection.release()
        connection.socket.close()
    room.take(100_000)


@pytest.mark.req("T-05")
def test_chunked_and_http10_clients_are_served(open_metered: OpenMetered) -> None:
    metered = open_metered(script({"text": "yes"}, after="repeat")).open_gateway()
    body = json.dumps({"model": "m", "messages": PROMPT}).encode()
    half = len(body) // 2
    chunked = b"%x\r\n%b\r\n%x;a=b\r\n%b\r\n0\r\n\r\n" % (half, body[:half], len(body) - half, body[half:])
    head = b"POST /v1/chat/completions HTTP/1.1\r\nexpect: 100-continue\r\nconnection: close\r\n"
    got = _talk(metered, head + b"transfer-encoding: chunked\r\n\r\n" + chunked)
    assert got.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")
    streamed = json.dumps({"model": "m", "messages": PROMPT, "stream": True}).encode()
    old = b"POST /chat/completions HTTP/1.0\r\ncontent-length: %d\r\n\r\n%b" % (len(streamed), streamed)
    got = _talk(metered, old)
    assert b"transfer-encoding" not in got
    assert got.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("name", ["model", "tool_choice", "stop"])
@pytest.mark.parametrize("value", ['"%s"' % ("m" * 100_000), "[" * 950 + "]" * 950, "1" * 400, "1.5"])
@pytest.mark.req("T-05", "E-03")
def test_oversized_parameters_are_cut_in_events(open_metered: OpenMetered, name: str, value: str) -> None:
    metered = open_metered(script({"text": "yes"}, after="repeat")).open_gateway()
    body = f'{{"messages": [], "{name}": {value}}}'.encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
    assert _talk(metered, head + body).startswith(b"HTTP/1.1 ")
    (asked,), (answered,) = metered.requests(), metered.responses()
    assert asked.request_id == answered.request_id
    assert len(json.dumps(asked.parameters)) < 2000


@pytest.mark.req("E-10a", "E-03")
def test_secrets_in_a_conversation_are_redacted_in_events_and_blobs(open_metered: OpenMetered) -> None:
    secret = "value-of-a-secret-variable"
    metered = open_metered(script({"text": f"you said {secret}"}), redact=Redactor({"TOKEN": secret})).open_gateway()
    prompt: list[Any] = [{"role": "user", "content": f"{secret} " + "long " * 5000}]
    got = metered.openai().chat.completions.create(model="m", messages=prompt)
    assert got.choices[0].message.content == f"you said {secret}"
    kept = [metered.folder / "events.jsonl", *(metered.folder / "blobs").iterdir()]
    assert len(kept) == 2
    assert all(secret not in file.read_text() for file in kept)
    assert "[redacted:TOKEN:" in metered.blobs.get(metered.requests()[0].messages.blob or "").decode()


# --- what the sandbox is given ---------------------------------------------------------------------------------------


@pytest.mark.req("R-09", "T-05")
def test_sandbox_gets_placeholder_key_and_private_socket(
    open_metered: OpenMetered, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    metered = open_metered(script()).open_gateway()
    assert metered.gateway is not None
    env = metered.gateway.environment()
    assert env["OPENAI_API_KEY"] == env["ANTHROPIC_API_KEY"] == PLACEHOLDER
    assert KEY not in "".join(env.values())
    # Only a mount of the inner folder bypasses the mode of the outer one.
    assert stat.S_IMODE((metered.folder / "gateway").stat().st_mode) == 0o700
    assert stat.S_IMODE(metered.gateway.forward.mounted.stat().st_mode) == 0o755
    assert sorted(file.name for file in metered.gateway.forward.mounted.iterdir()) == ["forward.py", "gateway.sock"]


def test_long_socket_path_works(open_metered: OpenMetered, tmp_path: Path) -> None:
    metered = open_metered(script())
    with Gateway(tmp_path / ("long" * 40) / "gateway", metered.metered_model) as gateway:
        assert gateway.forward.socket.is_socket()


@pytest.mark.req("M-05")
def test_total_cap_applies_across_gateways(open_metered: OpenMetered) -> None:
    ledger = Ledger(Caps.of(usd=0.5))
    gateways = [
        open_metered(script(CALLS, after="repeat"), prices=PRICES, ledger=ledger).open_gateway() for _ in range(3)
    ]
    refused: list[str] = []
    for _ in range(4):
        for metered in gateways:
            try:
                metered.openai().chat.completions.create(model="m", messages=PROMPT, max_tokens=20)
            except clients.openai.RateLimitError as error:
                refused.append(error.message)
    # Each costs 0.12, and part of the cap is reserved: only the last admitted request exceeds it.
    assert ledger.run.statement().spent.micro == 600_000
    assert len(refused) == 7
    assert all("the run's total budget" in words for words in refused)


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)
