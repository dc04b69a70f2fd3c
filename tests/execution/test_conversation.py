"""The conversation is derived from the events: branches, repeated messages, failures and limits."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agentbench.execution.attempt import conversation as conversation_module
from agentbench.execution.attempt.conversation import conversation
from agentbench.trace.blobs import BlobStore, excerpt
from agentbench.trace.events import LlmRequest, LlmResponse, Payload

pytestmark = [pytest.mark.synthetic, pytest.mark.req("E-09b")]


@dataclass(frozen=True)
class Event:
    seq: int
    payload: Payload


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


def say(role: str, text: str) -> dict[str, str]:
    return {"role": role, "content": text}


def exchange(
    blobs: BlobStore, number: int, messages: list[dict[str, str]], reply: str, *, status: str = "ok"
) -> list[Event]:
    request = LlmRequest(
        request_id=f"m{number}",
        provider="p",
        model="m",
        parameters={"dialect": "chat", "stream": False},
        messages=excerpt(json.dumps({"messages": messages}).encode(), store=blobs),
        conversation_index=2 * number - 2,
    )
    body = json.dumps({"choices": [{"message": say("assistant", reply)}]}).encode() if status == "ok" else b""
    response = LlmResponse(
        request_id=f"m{number}",
        status=status,
        content=excerpt(body, store=blobs),
        prompt_tokens=1,
        completion_tokens=1,
        cached_tokens=0,
        cost_micro_usd=0,
        duration_us=1,
        conversation_index=2 * number - 1,
        error="" if status == "ok" else "the service answered 500",
    )
    return [Event(2 * number - 1, request), Event(2 * number, response)]


def lines(events: list[Event], blobs: BlobStore) -> list[dict[str, Any]]:
    return [json.loads(line) for line in conversation(events, blobs).splitlines()]


def test_branches_and_rewritten_history_form_a_tree(blobs: BlobStore) -> None:
    one, two, other = say("user", "one"), say("user", "two"), say("user", "other")
    events = [
        *exchange(blobs, 1, [one], "A"),
        *exchange(blobs, 2, [one, say("assistant", "A"), two], "B"),
        *exchange(blobs, 3, [other], "C"),
        *exchange(blobs, 4, [say("user", "short"), say("assistant", "A"), two], "D"),
    ]
    shown = [(line["parent"], line.get("text"), line.get("same_as")) for line in lines(events, blobs)]
    assert shown == [
        (None, "one", None),
        (0, "A", None),
        (1, "two", None),
        (2, "B", None),
        (None, "other", None),
        (4, "C", None),
        (None, "short", None),
        (6, None, 1),
        (7, None, 2),
        (8, "D", None),
    ]


def test_equal_results_of_two_calls_keep_their_ids(blobs: BlobStore) -> None:
    results = [{"role": "tool", "content": "ok", "tool_call_id": name} for name in ("a", "b")]
    _, first, second, _ = lines(exchange(blobs, 1, [say("user", "one"), *results], "A"), blobs)
    assert (first["tool_call_id"], second["tool_call_id"]) == ("a", "b")


def test_failed_request_is_a_line_with_its_error(blobs: BlobStore) -> None:
    events = [
        *exchange(blobs, 1, [say("user", "one")], "", status="http_500"),
        *exchange(blobs, 2, [say("user", "one")], "A"),
    ]
    _, failed, answered = lines(events, blobs)
    assert (failed["parent"], failed["error"], failed["response"]) == (0, "the service answered 500", 2)
    assert (answered["parent"], answered["text"], answered["request"]) == (0, "A", 3)


def test_long_text_is_cut_and_names_the_blob_with_the_whole(blobs: BlobStore) -> None:
    long = "x" * 100_000
    asked, _ = lines(exchange(blobs, 1, [say("user", long)], "A"), blobs)
    assert asked["truncated"]
    assert len(asked["text"]) < 20_000
    assert long.encode() in blobs.get(asked["blob"])


def test_limit_ends_the_file_with_what_is_missing(blobs: BlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation_module, "MAX_LINES", 4)
    events = [event for number in range(1, 9) for event in exchange(blobs, number, [say("user", f"{number}")], "A")]
    last = lines(events, blobs)[-1]
    assert (last["index"], last["role"]) == (4, "omitted")
    assert "from event 4 on" in last["text"]
