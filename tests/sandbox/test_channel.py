"""The host's end of the channel against a server that lies, floods or dies."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.command import Command
from agentbench.sandbox.command_channel import ChannelClosed, CommandChannel
from agentbench.sandbox.server.capture import Capture, pack, unpack

Wire = tuple[CommandChannel, socket.socket]


@pytest.fixture
def wire() -> Iterator[Wire]:
    ours, theirs = socket.socketpair()
    channel = CommandChannel(ours, "test")
    yield channel, theirs
    theirs.close()
    channel.close()


def frame(*fields: bytes) -> bytes:
    body = pack(list(fields))
    return len(body).to_bytes(4, "big") + body


@pytest.mark.parametrize(
    "said",
    [
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x08\xff\xff\xff\xff\x00\x00",
        frame(b"done", b"1"),
        frame(b"done", b"1", *[b"x"] * 16),
        frame(b"out", b"1"),
        frame(b"ack", b"1", b"NaN"),
        frame(b"done"),
        b"\x00\x00\x00\x00",
        b"",
    ],
)
def test_nonsense_ends_the_channel_not_the_harness(wire: Wire, said: bytes) -> None:
    channel, theirs = wire
    call = channel.start(Command(line="true"), open_stdin=False)
    theirs.sendall(said)
    theirs.shutdown(socket.SHUT_WR)
    with pytest.raises(ChannelClosed):
        call.wait()


def test_answers_to_nobody_are_dropped(wire: Wire) -> None:
    channel, theirs = wire
    theirs.sendall(frame(b"done", b"77", b"x") + frame(b"out", b"78", b"1", b"x"))

    def answer() -> None:
        theirs.recv(1000)
        theirs.sendall(frame(b"count", b"1", b"5"))

    server = threading.Thread(target=answer)
    server.start()
    assert channel.ask(b"killall") == [b"5"]
    server.join()


def test_silence_is_not_waited_for_for_ever(wire: Wire) -> None:
    channel, _ = wire
    with pytest.raises(ChannelClosed, match="did not answer"):
        channel.ask(b"stat", timeout_sec=0.05)


def test_asking_a_closed_channel(wire: Wire) -> None:
    channel, theirs = wire
    theirs.close()
    with pytest.raises(ChannelClosed):
        channel.ask(b"stat")
    with pytest.raises(ChannelClosed):
        channel.start(Command(line="true"), open_stdin=False)


@given(st.lists(st.binary(max_size=20), max_size=10))
def test_fields_round_trip(fields: list[bytes]) -> None:
    assert unpack(pack(fields)) == fields


@given(st.lists(st.binary(max_size=60)), st.integers(0, 64))
def test_servers_capture_agrees_with_the_hosts(chunks: list[bytes], keep: int) -> None:
    from agentbench.process import Capture as HostCapture

    inside, host = Capture(keep, b"1"), HostCapture(keep)
    for chunk in chunks:
        inside.feed(chunk)
        host.feed(chunk)
    total, sha256, head, tail = inside.fields()
    stream = host.stream()
    assert (int(total), sha256.decode(), head, tail) == ((stream.total_bytes, stream.sha256, stream.head, stream.tail))


@pytest.mark.req("M-01")
def test_nudging_a_server_that_does_not_read_waits_for_nothing(wire: Wire) -> None:
    channel, theirs = wire
    assert channel.try_send([b"kill-largest", b"0"])
    told = 1
    # Nobody reads at the other end: after what the socket holds, the answer is no, at once, and never half a frame.
    while channel.try_send([b"kill-largest", b"0"]):
        told += 1
    theirs.settimeout(5)
    wanted = frame(b"kill-largest", b"0") * told
    seen = b""
    while len(seen) < len(wanted):
        seen += theirs.recv(1 << 20)
    assert seen == wanted
    assert channel.try_send([b"kill-largest", b"0"])
