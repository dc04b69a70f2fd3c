"""The host's end of the command channel, against a server that sends invalid data, does not read or dies."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from agentbench.core.command import Command, ProcessCounts
from agentbench.sandbox.command_channel import ChannelClosed, CommandChannel
from agentbench.sandbox.protocol import ProcessEnd, ProcessStart
from agentbench.sandbox.server.capture import pack

pytestmark = pytest.mark.component

Pair = tuple[CommandChannel, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    channel = CommandChannel(ours, "test")
    yield channel, theirs
    theirs.close()
    channel.close()


def frame(*fields: bytes) -> bytes:
    body = pack(list(fields))
    return len(body).to_bytes(4, "big") + body


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x08\xff\xff\xff\xff\x00\x00",
        frame(b"done", b"1"),
        frame(b"done", b"1", *[b"x"] * 17),
        frame(b"seen", b"1", b"x"),
        frame(b"seen", b"1", pack([b"start", b"1", b"1", b"1"])),
        frame(b"seen", b"1", pack([b"end", b"x", b"1", b"1", b""])),
        frame(b"out", b"1"),
        frame(b"ack", b"1", b"NaN"),
        frame(b"done"),
        b"\x00\x00\x00\x00",
        b"",
    ],
)
def test_invalid_data_ends_the_channel_only(pair: Pair, data: bytes) -> None:
    channel, theirs = pair
    call = channel.start(Command(line="true"), open_stdin=False, observe=lambda _event: None)
    theirs.sendall(data)
    theirs.shutdown(socket.SHUT_WR)
    with pytest.raises(ChannelClosed):
        call.wait()


def test_answers_without_a_request_are_dropped(pair: Pair) -> None:
    channel, theirs = pair
    theirs.sendall(frame(b"done", b"77", b"x") + frame(b"out", b"78", b"1", b"x"))

    def answer() -> None:
        theirs.recv(1000)
        theirs.sendall(frame(b"count", b"1", b"5"))

    server = threading.Thread(target=answer)
    server.start()
    assert channel.ask(b"killall") == [b"5"]
    server.join()


def test_record_of_a_command_without_an_answer_is_incomplete(pair: Pair) -> None:
    channel, theirs = pair
    events: list[ProcessStart | ProcessEnd] = []
    call = channel.start(Command(line="true"), open_stdin=False, observe=events.append)
    start = pack([b"start", b"1", b"5", b"2", b"1", b"0", b"/bin/true", b"/", b"true"])
    theirs.sendall(frame(b"seen", b"1", start, pack([b"end", b"1", b"9", b"", b"9"])))
    theirs.shutdown(socket.SHUT_WR)
    with pytest.raises(ChannelClosed):
        call.wait()
    assert events == [ProcessStart(1, 5, 2, 1, "/bin/true", ("true",), "/"), ProcessEnd(1, 9, None, 9)]
    assert call.programs_until_now == ProcessCounts(started=2, dropped=1, refused=0)


def test_missing_answer_times_out(pair: Pair) -> None:
    channel, _ = pair
    with pytest.raises(ChannelClosed, match="did not answer"):
        channel.ask(b"stat", timeout_sec=0.05)


def test_closed_channel_refuses_requests(pair: Pair) -> None:
    channel, theirs = pair
    theirs.close()
    with pytest.raises(ChannelClosed):
        channel.ask(b"stat")
    with pytest.raises(ChannelClosed):
        channel.start(Command(line="true"), open_stdin=False)


@pytest.mark.req("M-01a")
def test_try_send_does_not_wait_for_a_server_that_does_not_read(pair: Pair) -> None:
    channel, theirs = pair
    assert channel.try_send([b"kill-largest", b"0"])
    sent = 1
    # The other end does not read: once the socket is full, try_send fails at once and never sends half a frame.
    while channel.try_send([b"kill-largest", b"0"]):
        sent += 1
    theirs.settimeout(5)
    expected = frame(b"kill-largest", b"0") * sent
    received = b""
    while len(received) < len(expected):
        received += theirs.recv(1 << 20)
    assert received == expected
    assert channel.try_send([b"kill-largest", b"0"])
