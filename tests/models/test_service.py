from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import httpx
import pytest

from agentbench.core.errors import ModelFault
from agentbench.core.reasons import Reason
from agentbench.models import faults
from agentbench.models.client.chat_model import ChatModel
from agentbench.models.client.endpoint import Dialect, Endpoint
from agentbench.models.client.outages import QUICK_TRIES, Outages
from agentbench.models.client.service import RetryPolicy, ServiceUpstream, Transport, map_error
from agentbench.models.keys import Secret
from agentbench.models.presets import Sampling
from agentbench.models.protocol import Finish, Message, ToolSpec, answer, system, user
from agentbench.models.sse import DONE
from agentbench.models.upstream import Cancel, ModelRequest
from tests.models.conftest import KEY, QUICK, Serve
from tests.models.service import (
    Behaviour,
    answer_body,
    bad_stream,
    closes_at_once,
    closes_in_mid_stream,
    ends_stream_early,
    fifty_megabytes,
    good,
    hang,
    raw,
    responds,
    shorter_than_promised,
    slow,
    status,
    until_gone,
)

pytestmark = pytest.mark.component

Reach = Callable[..., ServiceUpstream]
ASK = ModelRequest(Dialect.CHAT, {"model": "m", "messages": [{"role": "user", "content": "hi"}]})
STREAM = ModelRequest(Dialect.CHAT, {**ASK.body, "stream": True})


@pytest.mark.req("T-06")
def test_conversation_with_tools_gets_a_reply(serve: Serve, transport: Transport) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": '{"command": "ls"}'}}
    server = serve(responds(answer_body("I look", tool_calls=[call])))
    service = ServiceUpstream(Endpoint("test", server.url, Secret("TEST_KEY", KEY)), transport)
    model = ChatModel("vendor/name", service, Sampling(temperature=0.2, max_tokens=50))
    tools = [ToolSpec("run", "runs", {"type": "object"})]
    reply = model.complete([system("be brief"), user("go")], tools)
    assert (reply.text, reply.finish, reply.model) == ("I look", Finish.TOOL_CALLS, "m-1")
    assert [(call.name, call.arguments()) for call in reply.tool_calls] == [("run", {"command": "ls"})]
    assert (reply.usage.prompt, reply.usage.completion, reply.usage.cached) == (100, 10, 40)
    model.complete([user("go"), reply.message(), answer(reply.tool_calls[0], "a.py")], max_tokens=7)
    (path, headers, first), (_, _, second) = server.seen
    assert path == "/v1/chat/completions"
    assert headers["authorization"] == f"Bearer {KEY}"
    assert (first["model"], first["temperature"], first["max_tokens"], "top_p" in first) == (
        "vendor/name",
        0.2,
        50,
        False,
    )
    assert first["tools"][0]["function"]["name"] == "run"
    assert second["max_tokens"] == 7
    assert second["messages"][1] == {"role": "assistant", "content": "I look", "tool_calls": [call]}
    assert second["messages"][2] == {"role": "tool", "content": "a.py", "tool_call_id": "c1"}


@pytest.mark.req("T-06")
def test_azure_style_paths_and_headers(serve: Serve, transport: Transport) -> None:
    server = serve(good)
    endpoint = Endpoint(
        "azure",
        server.url + "/openai/deployments/d",
        Secret("K", KEY),
        auth="api-key",
        query={"api-version": "2024-10-21"},
        headers={"x-extra": "1"},
    )
    ServiceUpstream(endpoint, transport).send(ASK)
    path, headers, _ = server.seen[0]
    assert path == "/v1/openai/deployments/d/chat/completions?api-version=2024-10-21"
    assert (headers["api-key"], headers["x-extra"]) == (KEY, "1")
    assert "authorization" not in headers


@pytest.mark.parametrize(
    "behaviour, expected, tries",
    [
        pytest.param(status(429), faults.RateLimited, 3, id="429 for ever"),
        pytest.param(status(500), faults.ServerError, 3, id="500 for ever"),
        pytest.param(status(503), faults.ServerError, 3, id="503 for ever"),
        pytest.param(status(401), faults.Unauthorised, 1, id="401"),
        pytest.param(status(403), faults.Unauthorised, 1, id="403"),
        pytest.param(status(404, "no such model"), faults.Rejected, 1, id="404"),
        pytest.param(status(302), faults.Rejected, 1, id="redirection"),
        pytest.param(status(400, "maximum context length is 8192"), faults.ContextOverflow, 1, id="overflow"),
        pytest.param(status(413), faults.ContextOverflow, 1, id="413"),
        pytest.param(
            status(429, "Request too large for m on tokens per min (TPM): Limit 10, Requested 20"),
            faults.ContextOverflow,
            1,
            id="429 of a request above the limit per minute",
        ),
        pytest.param(closes_at_once, faults.Truncated, 3, id="closes"),
        pytest.param(shorter_than_promised, faults.Truncated, 3, id="cut body"),
        pytest.param(raw(b'{"choices": [{"mess'), faults.Truncated, 3, id="cut JSON"),
        pytest.param(raw(b"{'choices': []}"), faults.NotJson, 3, id="invalid JSON"),
        pytest.param(raw(b'{"choices": "\xff\xfe"}'), faults.NotJson, 3, id="invalid UTF-8"),
        pytest.param(raw(b"[" * 100_000 + b"}"), faults.NotJson, 3, id="nested without end"),
        pytest.param(raw(b"[1]}"), faults.NotJson, 3, id="no object"),
        pytest.param(raw(b"<html></html>", "text/html"), faults.NotJson, 3, id="wrong content type"),
        pytest.param(fifty_megabytes, faults.TooLarge, 1, id="50 MB"),
        pytest.param(raw(b" " * (33 << 20)), faults.TooLarge, 1, id="33 MB announced"),
        pytest.param(responds({"choices": []}), faults.EmptyResponse, 3, id="no choice"),
        pytest.param(responds({}), faults.EmptyResponse, 3, id="nothing"),
        pytest.param(responds({"error": {"code": 429, "message": "slow"}}), faults.RateLimited, 3, id="error with 200"),
    ],
)
@pytest.mark.req("T-06")
def test_each_service_error_has_its_fault_type(
    serve: Serve, transport: Transport, behaviour: Behaviour, expected: type[faults.ServiceFault], tries: int
) -> None:
    server = serve(behaviour)
    with pytest.raises(expected) as caught:
        ServiceUpstream(Endpoint("test", server.url, Secret("K", KEY)), transport, retry=QUICK).send(ASK)
    assert type(caught.value) is expected
    assert caught.value.reason is Reason.LLM_ERROR
    assert len(server.seen) == tries


@pytest.mark.req("T-06")
def test_single_failure_is_retried(upstream_for: Reach) -> None:
    for trouble in (status(500), status(429, retry_after="0"), closes_at_once, raw(b"{")):
        assert upstream_for(trouble, good).send(ASK).body == answer_body()


@pytest.mark.req("T-06")
def test_retry_after_is_honoured(upstream_for: Reach) -> None:
    begin = time.monotonic()
    upstream_for(status(429, retry_after="0.3"), good).send(ASK)
    assert time.monotonic() - begin >= 0.3


@pytest.mark.req("T-06")
def test_retry_after_beyond_the_deadline_gives_up_at_once(upstream_for: Reach) -> None:
    with pytest.raises(faults.RateLimited) as caught:
        upstream_for(status(429, retry_after="3600"), good).send(ASK)
    assert caught.value.retry_after == 3600


@pytest.mark.req("T-06")
def test_hanging_service_times_out_at_the_deadline(upstream_for: Reach) -> None:
    retry = RetryPolicy(tries=10, first_sec=0.01, max_sec=0.01, deadline_sec=0.5)
    with pytest.raises(faults.TimedOut):
        upstream_for(hang, retry=retry, silence=0.2).send(ASK)


@pytest.mark.req("T-06")
def test_refused_connection_is_unreachable(transport: Transport) -> None:
    with pytest.raises(faults.Unreachable):
        ServiceUpstream(Endpoint("test", "http://127.0.0.1:9/v1"), transport, retry=QUICK).send(ASK)


@pytest.mark.req("R-09", "E-10a")
def test_key_repeated_by_the_service_is_redacted(upstream_for: Reach) -> None:
    with pytest.raises(faults.Unauthorised) as caught:
        upstream_for(status(401, f"Incorrect API key provided: {KEY}")).send(ASK)
    assert KEY not in caught.value.message
    assert KEY not in str(caught.value)
    assert KEY not in repr(caught.value.args)


@pytest.mark.req("T-06")
def test_stream_is_read_event_by_event(upstream_for: Reach) -> None:
    with upstream_for(good).send(STREAM) as got:
        events = list(got.events)
    assert events[-1].data == DONE
    assert "".join(e.object()["choices"][0]["delta"].get("content", "") for e in events[:-3]) == "hello"  # type: ignore[index,call-overload,union-attr,misc]


@pytest.mark.parametrize(
    "behaviour, expected",
    [
        pytest.param(closes_in_mid_stream, faults.Truncated, id="closes"),
        pytest.param(ends_stream_early, faults.Truncated, id="ends early"),
        pytest.param(bad_stream(b"data: {'no': json}\n\n"), faults.NotJson, id="no JSON"),
        pytest.param(bad_stream(b'data: {"a": "\xff"}\n\n'), faults.NotJson, id="no UTF-8"),
        pytest.param(
            bad_stream(b'data: {"error": {"message": "overloaded", "code": 503}}\n\n'), faults.ServerError, id="error"
        ),
        pytest.param(bad_stream(b"data: " + b"x" * (9 << 20)), faults.TooLarge, id="endless event"),
    ],
)
@pytest.mark.req("T-06")
def test_broken_stream_has_a_specific_fault(
    upstream_for: Reach, behaviour: Behaviour, expected: type[ModelFault]
) -> None:
    def read() -> None:
        with upstream_for(behaviour).send(STREAM) as got:
            for event in got.events:
                if event.data != DONE:
                    event.object()

    with pytest.raises(expected):
        read()


@pytest.mark.req("T-06")
def test_cancelling_ends_the_retry_wait(upstream_for: Reach) -> None:
    cancel = Cancel()
    cancel.set()
    slow_retry = RetryPolicy(tries=5, first_sec=60, max_sec=60, deadline_sec=600)
    # Without cancellation this would take minutes.
    with pytest.raises(faults.ServiceFault):
        upstream_for(status(500), retry=slow_retry).send(ModelRequest(Dialect.CHAT, ASK.body, cancel=cancel))


@pytest.mark.req("T-06")
@pytest.mark.parametrize("ask", [ASK, STREAM], ids=["whole", "stream"])
@pytest.mark.parametrize("before", [(), (good,)], ids=["new connection", "used connection"])
def test_cancelled_request_is_aborted_before_the_first_byte(
    upstream_for: Reach, ask: ModelRequest, before: tuple[Behaviour, ...]
) -> None:
    noticed, arrived = threading.Event(), threading.Event()
    retry = RetryPolicy(tries=3, first_sec=60, max_sec=60)
    service = upstream_for(*before, until_gone(noticed, arrived), retry=retry, silence=60)
    for _ in before:
        service.send(ASK).close()
    cancel = Cancel()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(service.send, replace(ask, cancel=cancel))
        assert arrived.wait(60)
        assert not waiting.done()
        cancel.set()
        with pytest.raises(faults.ServiceFault):
            waiting.result(60)
    assert noticed.wait(60)


@pytest.mark.req("T-06")
def test_cancelling_late_does_not_break_a_reused_connection(upstream_for: Reach) -> None:
    service = upstream_for(good, slow(0.5))
    first = replace(ASK, cancel=Cancel())
    service.send(first).close()
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(service.send, replace(ASK, cancel=Cancel()))
        time.sleep(0.1)
        first.cancel.set()
        assert second.result(60).body["choices"]


@pytest.mark.req("T-06")
def test_nothing_is_sent_after_cancellation(serve: Serve, transport: Transport) -> None:
    server = serve(good)
    service = ServiceUpstream(Endpoint("test", server.url, None), transport, retry=QUICK)
    cancel = Cancel()
    cancel.set()
    with pytest.raises(faults.ServiceFault):
        service.send(replace(ASK, cancel=cancel))
    assert server.seen == []


@pytest.mark.req("T-06")
def test_empty_and_refused_replies_are_distinguished(upstream_for: Reach) -> None:
    refusal = answer_body("", refusal="I can not help with that")
    with pytest.raises(faults.Refused, match="can not help"):
        ChatModel("m", upstream_for(responds(refusal))).complete([user("hi")])
    filtered = answer_body("")
    filtered["choices"][0]["finish_reason"] = "content_filter"
    with pytest.raises(faults.Refused):
        ChatModel("m", upstream_for(responds(filtered))).complete([user("hi")])
    with pytest.raises(faults.EmptyResponse):
        ChatModel("m", upstream_for(responds(answer_body("")))).complete([user("hi")])
    assert ChatModel("m", upstream_for(responds(answer_body("")), good)).complete([user("hi")]).text == "hello"


@pytest.mark.req("T-06")
def test_malformed_arguments_raise_when_parsed(upstream_for: Reach) -> None:
    calls = [
        {"id": "c", "type": "function", "function": {"name": "run", "arguments": text}}
        for text in ('{"a": ', "[1]", "NaN")
    ]
    reply = ChatModel("m", upstream_for(responds(answer_body("", tool_calls=calls)))).complete([Message("user", "hi")])
    for call in reply.tool_calls:
        with pytest.raises(faults.MalformedArguments, match="'run'"):
            call.arguments()


def test_every_http_library_error_is_mapped() -> None:
    def leaves(kind: type[Exception]) -> list[type[Exception]]:
        return [kind, *(leaf for sub in kind.__subclasses__() for leaf in leaves(sub))]

    for kind in {*leaves(httpx.HTTPError), *leaves(httpx.StreamError), httpx.InvalidURL}:
        fault = map_error(Exception.__new__(kind))
        assert isinstance(fault, faults.ServiceFault), kind
        assert fault.label != "service_error"


def test_every_fault_has_a_unique_label() -> None:
    kinds = [kind for kind in vars(faults).values() if isinstance(kind, type) and issubclass(kind, ModelFault)]
    labels = [getattr(kind, "label", None) for kind in kinds if kind is not ModelFault]
    assert len(set(labels)) == len(labels)
    page = faults.__doc__ or ""
    assert all(kind.__name__ in page for kind in kinds)


def test_request_body_may_contain_lone_surrogates(serve: Serve, transport: Transport) -> None:
    server = serve(good)
    body = {**ASK.body, "messages": [{"role": "user", "content": "é \u2028"}]}
    ServiceUpstream(Endpoint("test", server.url), transport).send(
        ModelRequest(Dialect.CHAT, json.loads(json.dumps(body)))
    )
    assert server.seen[0][2] == body


# --- outages ---------------------------------------------------------------------------------------------------------


def unless_one_token(trouble: Behaviour) -> Behaviour:
    """Fail for every request but the smallest."""
    return lambda handler, body: (good if body.get("max_tokens") == 1 else trouble)(handler, body)


def patient(
    serve: Serve, transport: Transport, patience: float, *behaviours: Behaviour
) -> tuple[ServiceUpstream, list[str]]:
    messages: list[str] = []
    outages = Outages(patience, messages.append)
    endpoint = Endpoint("test", serve(*behaviours).url, Secret("K", KEY))
    return ServiceUpstream(endpoint, transport, retry=QUICK, outages=outages, model="m"), messages


def test_requests_wait_for_an_unavailable_service(serve: Serve, transport: Transport) -> None:
    """Longer than the retry policy says, also for a key that is refused; people are told once."""
    service, messages = patient(serve, transport, 60, *[status(401)] * 4, *[status(503)] * 5, good)
    waits: list[tuple[float, float]] = []
    service.send(replace(ASK, on_outage=lambda since, until: waits.append((since, until))))
    assert [message.split(":")[0] for message in messages] == ["test is unavailable", "test answers again"]
    assert len(waits) == 8
    assert all(since < until for since, until in waits)


@pytest.mark.parametrize("trouble", [status(401), status(429), status(503), closes_at_once, raw(b"{")])
def test_outage_longer_than_the_patience_is_marked(serve: Serve, transport: Transport, trouble: Behaviour) -> None:
    service, _ = patient(serve, transport, 0.2, trouble)
    with pytest.raises(faults.ServiceFault) as caught:
        service.send(ASK)
    assert caught.value.outage


@pytest.mark.parametrize("trouble", [status(403), status(500)])
def test_error_that_only_one_request_gets_is_no_outage(serve: Serve, transport: Transport, trouble: Behaviour) -> None:
    """An agent must not leave the rates by provoking errors of the service."""
    service, _ = patient(serve, transport, 60, unless_one_token(trouble))
    with pytest.raises(faults.ServiceFault, match="after 3 tries") as caught:
        service.send(ASK)
    assert not caught.value.outage


def test_requests_share_the_patience_of_one_outage(serve: Serve, transport: Transport) -> None:
    """A request that begins when the patience is over makes a few quick tries instead of waiting as long again."""
    messages: list[str] = []
    outages = Outages(60, messages.append)
    outages.failed("test", faults.ServerError("down"), QUICK_TRIES, first_try=time.monotonic() - 61)
    server = serve(status(503))
    endpoint = Endpoint("test", server.url, Secret("K", KEY))
    service = ServiceUpstream(endpoint, transport, retry=replace(QUICK, tries=6), outages=outages, model="m")
    with pytest.raises(faults.ServerError) as caught:
        service.send(ASK)
    assert caught.value.outage
    assert len([body for _, _, body in server.seen if body.get("max_tokens") != 1]) == QUICK_TRIES
    assert len(messages) == 1


def test_new_outage_has_its_own_patience(serve: Serve, transport: Transport) -> None:
    service, messages = patient(serve, transport, 60, *[status(503)] * 4, good, *[status(503)] * 4, good)
    service.send(ASK)
    service.send(ASK)
    assert [message.split(":")[0] for message in messages] == ["test is unavailable", "test answers again"] * 2
