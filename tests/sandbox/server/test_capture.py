"""Output capture and the message format of the command server."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentbench.process import Capture as HostCapture
from agentbench.sandbox.server.capture import Capture, pack, unpack


@given(st.lists(st.binary(max_size=20), max_size=10))
def test_fields_round_trip(fields: list[bytes]) -> None:
    assert unpack(pack(fields)) == fields


@given(st.lists(st.binary(max_size=60)), st.integers(0, 64))
def test_capture_agrees_with_the_hosts_capture(chunks: list[bytes], keep: int) -> None:
    inside, host = Capture(keep, b"1"), HostCapture(keep)
    for chunk in chunks:
        inside.feed(chunk)
        host.feed(chunk)
    total, sha256, head, tail = inside.fields()
    stream = host.stream()
    assert (int(total), sha256.decode(), head, tail) == ((stream.total_bytes, stream.sha256, stream.head, stream.tail))
