from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.errors import ModelFault, RecordError
from agentbench.models.client.chat_model import ChatModel
from agentbench.models.client.endpoint import Dialect
from agentbench.models.faults import ReplayDiverged, ReplayExhausted, ServerError
from agentbench.models.metered_model import ModelIdentity
from agentbench.models.protocol import user
from agentbench.models.recording.recorded import RecordedUpstream, read_recording
from agentbench.models.recording.request_diff import PATTERNS, normalised, request_diff
from agentbench.models.upstream import ModelRequest
from agentbench.trace.redaction import Redactor
from tests.models import clients
from tests.models.conftest import OpenMetered
from tests.models.metered_gateway import PROMPT, MeteredGateway, script

pytestmark = pytest.mark.component

ANSWERS: list[dict[str, Any]] = [
    {"text": "first " + "and long " * 1000},
    {"tool_calls": [{"name": "run", "arguments": {"command": "ls"}}]},
    {"error": {"status": 500, "message": "out of order"}},
    {"text": "last"},
]


def _drive(metered: MeteredGateway, texts: list[str]) -> list[str]:
    """Send a request in every dialect, streaming and not, and return the responses as text."""
    got = []
    for number, text in enumerate(texts):
        prompt: list[Any] = [{"role": "user", "content": text}]
        try:
            if number % 3 == 0:
                chunks = metered.openai().chat.completions.create(model="m", messages=prompt, stream=True)
                got.append("".join(chunk.choices[0].delta.content or "" for chunk in chunks))
            elif number % 3 == 1:
                got.append(metered.anthropic().messages.create(model="m", max_tokens=9, messages=prompt).to_json())
            else:
                got.append(metered.openai().responses.create(model="m", input=text).to_json())
        except clients.openai.APIError as error:
            got.append(error.message)
    return got


@pytest.mark.req("T-06", "E-03")
def test_recorded_exchanges_are_replayed_byte_for_byte_in_every_dialect(open_metered: OpenMetered) -> None:
    texts = ["one took 0.12s in /tmp/abc123", "two", "three", "four"]
    first = open_metered(script(*ANSWERS)).open_gateway()
    answers = _drive(first, texts)
    first.close()
    recording = read_recording(first.log.path, first.blobs)
    assert (recording.model, len(recording.exchanges)) == ("vendor/model", 4)
    again = open_metered(RecordedUpstream(recording)).open_gateway()
    assert _drive(again, ["one took 7.5 s in /tmp/other-name", *texts[1:]]) == answers
    assert "out of order" in answers[2]
    assert [r.content.sha256 for r in again.responses()] == [r.content.sha256 for r in first.responses()]
    assert [(r.status, r.prompt_tokens) for r in again.responses()] == [
        (r.status, r.prompt_tokens) for r in first.responses()
    ]


def _recorded(open_metered: OpenMetered, *texts: str, **options: Any) -> RecordedUpstream:
    metered = open_metered(script({"text": "a"}, {"text": "b"}, {"text": "c"}))
    model = ChatModel("m", metered.metered_model)
    for text in texts:
        model.complete([user(text)])
    metered.close()
    return RecordedUpstream(read_recording(metered.log.path, metered.blobs), **options)


@pytest.mark.req("T-06")
def test_replay_stops_at_the_first_divergence_with_a_diff(open_metered: OpenMetered) -> None:
    recorded = _recorded(open_metered, "one", "line 1\nline 2\nline 3")
    model = ChatModel("m", recorded)
    assert model.complete([user("one")]).text == "a"
    with pytest.raises(ReplayDiverged, match="exchange 2 of 2") as caught:
        model.complete([user("line 1\nline TWO\nline 3")])
    assert '-    "line 2",' in caught.value.diff
    assert '+    "line TWO",' in caught.value.diff
    assert "line 1" in caught.value.diff
    with pytest.raises(ReplayDiverged):
        model.complete([user("line 1\nline 2\nline 3")])


@pytest.mark.req("T-06")
def test_lenient_replay_continues_until_the_recording_ends(open_metered: OpenMetered) -> None:
    recorded = _recorded(open_metered, "one", "two", lenient=True)
    model = ChatModel("m", recorded)
    assert [model.complete([user(text)]).text for text in ("one", "other")] == ["a", "b"]
    assert len(recorded.divergences) == 1
    with pytest.raises(ReplayExhausted, match="2 exchanges"):
        model.complete([user("three")])


@pytest.mark.req("T-06")
def test_concurrent_requests_may_be_replayed_in_another_order(open_metered: OpenMetered) -> None:
    answers: list[dict[str, Any]] = [{"text": "x", "delay_sec": 0.3}, {"text": "y", "delay_sec": 0.3}, {"text": "z"}]
    metered = open_metered(script(*answers))
    model = ChatModel("m", metered.metered_model)
    replies: dict[str, str] = {}

    def ask(text: str) -> None:
        replies[text] = model.complete([user(text)]).text

    threads = [threading.Thread(target=ask, args=(text,)) for text in ("left", "right")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ask("after")
    metered.close()
    recording = read_recording(metered.log.path, metered.blobs)
    assert [e.group for e in recording.exchanges] == [1, 1, 2]
    for order in (("left", "right"), ("right", "left")):
        again = ChatModel("m", RecordedUpstream(recording))
        assert {text: again.complete([user(text)]).text for text in (*order, "after")} == replies
    with pytest.raises(ReplayDiverged):
        ChatModel("m", RecordedUpstream(recording)).complete([user("after")])


@pytest.mark.req("T-06")
def test_recorded_fault_is_replayed(open_metered: OpenMetered) -> None:
    metered = open_metered(script({"error": {"status": 503, "message": "busy"}}))
    with pytest.raises(ServerError):
        ChatModel("m", metered.metered_model).complete([user("hi")])
    metered.close()
    with pytest.raises(ServerError, match="busy"):
        ChatModel("m", RecordedUpstream(read_recording(metered.log.path, metered.blobs))).complete([user("hi")])


@pytest.mark.req("T-06", "E-10a")
def test_redacted_recording_matches_the_original_conversation(open_metered: OpenMetered) -> None:
    redact = Redactor({"TOKEN": "some-secret-value"})
    prompt: list[Any] = [{"role": "user", "content": "it is some-secret-value"}]
    metered = open_metered(script({"text": "ok"}), redact=redact).open_gateway()
    metered.openai().chat.completions.create(model="m", messages=prompt)
    metered.close()
    recording = read_recording(metered.log.path, metered.blobs)
    again = open_metered(RecordedUpstream(recording, redact=redact)).open_gateway()
    assert again.openai().chat.completions.create(model="m", messages=prompt).choices[0].message.content == "ok"


@pytest.mark.req("T-06", "E-10a")
def test_pinned_parameters_do_not_cause_divergence(open_metered: OpenMetered) -> None:
    redact = Redactor({"TOKEN": "some-secret-value"})
    metered = open_metered(script({"text": "ok"}), redact=redact)
    metered.metered_model.identity = ModelIdentity("p", "first/model", {"temperature": 0.1})
    ChatModel("a", metered.metered_model).complete([user("some-secret-value")])
    metered.close()
    again = open_metered(RecordedUpstream(read_recording(metered.log.path, metered.blobs), redact=redact))
    again.metered_model.identity = ModelIdentity("p", "other/model", {"temperature": 0.9})
    assert ChatModel("b", again.metered_model).complete([user("some-secret-value")]).text == "ok"


def test_truncated_exchange_cannot_be_replayed(open_metered: OpenMetered, tmp_path: Path) -> None:
    metered = open_metered(script({"text": "x" * 10_000}))
    ChatModel("m", metered.metered_model).complete([user("hi")])
    metered.close()
    for file in (metered.folder / "blobs").iterdir():
        file.unlink()
    with pytest.raises(RecordError):
        read_recording(metered.log.path, metered.blobs)


def test_replay_requires_the_recorded_streaming_mode(open_metered: OpenMetered) -> None:
    recorded = _recorded(open_metered, "one", lenient=True)
    call = ModelRequest(Dialect.CHAT, {"messages": [{"role": "user", "content": "one"}], "stream": True})
    with pytest.raises(ReplayDiverged):
        recorded.send(call)


def test_budget_refusals_are_not_replayed(open_metered: OpenMetered) -> None:
    from agentbench.models.ledger import Caps

    metered = open_metered(
        script({"text": "a", "usage": {"prompt": 50, "completion": 1}}, after="repeat"), caps=Caps(tokens=40)
    )
    model = ChatModel("m", metered.metered_model)
    model.complete([user("hi")])
    with pytest.raises(ModelFault):
        model.complete([user("hi")])
    metered.close()
    assert len(read_recording(metered.log.path, metered.blobs).exchanges) == 1


# --- what is volatile ------------------------------------------------------------------------------------------------

VOLATILE = {
    "time": "2026-03-07T10:11:12.345Z",
    "date": "2026-03-07",
    "duration": "1.23s",
    "temporary": "/tmp/pytest-of-root",
    "address": "0x7f25aaeb9d00",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
    "ulid": "01J8ZQ4YV6M6Q0W9X1B2C3D4E5",
    "call": "call_AbC123xyz",
    "port": "127.0.0.1:39211",
    "pid": "pid 4711",
}


@pytest.mark.parametrize("name", PATTERNS)
def test_every_volatile_pattern_replaces_its_example(name: str) -> None:
    assert normalised(f"see {VOLATILE[name]} here") == f"see <{name}> here"


@pytest.mark.parametrize(
    "text", ["5 passed, 2 failed", "x = 0x10", "line 12", "v1.2.3", "tests/test_a.py::test_b", "3.5"]
)
def test_meaningful_text_is_not_volatile(text: str) -> None:
    assert normalised(text) == text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4))
def test_request_equals_itself(value: dict[str, Any]) -> None:
    assert request_diff(value, json.loads(json.dumps(value))) == ""
    assert normalised(normalised(value)) == normalised(value)


def test_deeply_nested_requests_are_compared() -> None:
    deep, other = (json.loads('{"tools": ' + "[" * 600 + end + "]" * 600 + "}") for end in ("1", "2"))
    assert request_diff(deep, deep) == ""
    assert request_diff(deep, other)


def test_diff_is_bounded() -> None:
    before = {"messages": [{"content": "\n".join(str(n) for n in range(5000))}]}
    after = {"messages": [{"content": "\n".join(str(n) + "x" * 1000 for n in range(5000))}]}
    assert len(request_diff(before, after)) < 40_000  # type: ignore[arg-type]


def test_recording_holds_the_exact_prompts(open_metered: OpenMetered) -> None:
    metered = open_metered(script({"text": "a"})).open_gateway()
    metered.openai().chat.completions.create(model="m", messages=PROMPT)
    (request,) = metered.requests()
    assert json.loads(request.messages.text)["messages"] == PROMPT
    assert request.parameters["dialect"] == "chat"
