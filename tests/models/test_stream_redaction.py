"""A secret split over the events of a stream is redacted in the record; everything else is unchanged."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.models.recording.stream_redaction import redact_stream
from agentbench.models.sse import SseEvent, event_of, read_events
from agentbench.trace.redaction import Redactor

pytestmark = [pytest.mark.req("E-10a"), pytest.mark.component]

SECRET = 'hunter2-"quoted"-välue'
REDACT = Redactor({"TOKEN": SECRET})


def stream(*texts: str) -> bytes:
    chunks = [event_of({"id": "c1", "choices": [{"index": 0, "delta": {"content": text}}]}) for text in texts]
    return b"".join(event.encode() for event in (*chunks, SseEvent("[DONE]")))


def streamed_text(content: bytes) -> str:
    bodies = [json.loads(event.data) for event in read_events([content]) if event.data != "[DONE]"]
    return "".join(body["choices"][0]["delta"]["content"] for body in bodies)


@given(st.lists(st.integers(0, len(SECRET)), max_size=6), st.text("ab ", max_size=5), st.text("ab ", max_size=5))
def test_secret_split_over_events_is_redacted(cuts: list[int], before: str, after: str) -> None:
    edges = [0, *sorted(cuts), len(SECRET)]
    pieces = [SECRET[start:end] for start, end in itertools.pairwise(edges)]
    kept = REDACT.data(redact_stream(stream(before, *pieces, after), REDACT))
    text = streamed_text(kept)
    assert SECRET not in text
    assert "[redacted:TOKEN:" in text
    assert text.startswith(before)
    assert text.endswith(after)
    assert len(list(read_events([kept]))) == len(pieces) + 3


@given(st.lists(st.text(max_size=8), max_size=6))
def test_stream_without_secrets_is_unchanged(texts: list[str]) -> None:
    content = stream(*texts)
    assert redact_stream(content, REDACT) == content
    assert redact_stream(content, None) == content


@given(st.binary(max_size=200))
def test_other_content_is_unchanged(content: bytes) -> None:
    assert redact_stream(content, REDACT) == content


def test_texts_of_different_events_are_not_joined() -> None:
    half = len(SECRET) // 2
    events = [event_of({"type": "a", "delta": SECRET[:half]}), event_of({"type": "b", "delta": SECRET[half:]})]
    content = b"".join(event.encode() for event in events)
    assert redact_stream(content, REDACT) == content


def test_escaped_secret_in_streamed_arguments_is_redacted() -> None:
    written = json.dumps({"password": SECRET}, ensure_ascii=False)
    third = len(written) // 3
    pieces = [written[:third], written[third : 2 * third], written[2 * third :]]
    events = [event_of({"type": "content_block_delta", "delta": {"partial_json": piece}}) for piece in pieces]
    kept = redact_stream(b"".join(event.encode() for event in events), REDACT)
    whole = "".join(json.loads(event.data)["delta"]["partial_json"] for event in read_events([kept]))
    assert json.loads(whole)["password"].startswith("[redacted:TOKEN:")
