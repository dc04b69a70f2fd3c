from __future__ import annotations

import itertools
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from agentbench.core.canonical import sha256_hex
from agentbench.core.errors import InputError, RecordError
from agentbench.trace.chain import DOMAIN, GENESIS
from agentbench.trace.events import AgentTurnStarted, AttemptClosed, Briefing, StageChanged, ToolCallStarted
from agentbench.trace.log import EventLog, read_events, tail
from agentbench.trace.verify import check_chain, verify_log
from tests.trace.samples import EXAMPLES, OPENED, SHA, small_log

pytestmark = pytest.mark.component

any_text = st.text(st.characters(exclude_categories=()), max_size=30)
hostile = st.sampled_from(
    [
        "\x00",
        "\ud800",
        "\udcff\udc00",
        "\x1b[2J\x1b]0;x\x07",
        "\u202e",
        "\u2028",
        '","seq":1,"t":2',
        '"hash":"',
        "\n{}\n",
        "\r",
    ]
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text | hostile,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text | hostile, inner, max_size=3),
    max_leaves=8,
)


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Simulate a full disk: the first write is cut short, the next one fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.req("E-01")
def test_chain_follows_the_documented_formula(tmp_path: Path) -> None:
    log = EventLog.create(tmp_path / "e.jsonl")
    for payload in EXAMPLES:
        log.append(payload)
    log.release()
    head = GENESIS
    for raw in (tmp_path / "e.jsonl").read_bytes().splitlines():
        event = json.loads(raw)
        assert raw == rfc8785.dumps(event)
        assert set(event) == {"seq", "t", "type", "actor", "payload", "prev", "hash"}
        own = event.pop("hash")
        assert event["prev"] == head
        assert own == "sha256:" + sha256_hex(DOMAIN + bytes.fromhex(head[7:]) + rfc8785.dumps(event))
        head = own
    assert head == log.head


@pytest.mark.req("E-01")
@given(st.lists(st.dictionaries(any_text | hostile, json_values, max_size=3), min_size=1, max_size=4))
@settings(max_examples=150)
def test_log_accepts_any_text_and_number(tmp_path_factory: pytest.TempPathFactory, many: list) -> None:  # type: ignore[type-arg]
    path = tmp_path_factory.mktemp("log") / "e.jsonl"
    log = EventLog.create(path)
    log.append(OPENED)
    for arguments in many:
        log.append(ToolCallStarted(call_id="\ud800", tool="x\x00", arguments=arguments), "agent")
    log.close(SHA)
    assert verify_log(path).problem is None
    read = [event for event in read_events(path) if isinstance(event.payload, ToolCallStarted)]
    assert len(read) == len(many)
    for event, arguments in zip(read, many, strict=True):
        assert isinstance(event.payload, ToolCallStarted)
        assert len(event.payload.arguments) == len(arguments)


def test_text_round_trips_and_surrogates_are_escaped(tmp_path: Path) -> None:
    log = EventLog.create(tmp_path / "e.jsonl")
    text = "\x00\x1b[31mrot\x1b[0m \u202e\u2028 \U0001f600 ü\r\n"
    log.append(Briefing(text=text, sha256=SHA, parts={"name": "a\udc80b"}))
    log.append(
        ToolCallStarted(call_id="c", tool="t", arguments={"n": 2**53, "m": 2**53 - 1, "x": float("nan"), "y": 1.5})
    )
    first, second = (event.payload for event in read_events(tmp_path / "e.jsonl"))
    assert isinstance(first, Briefing)
    assert isinstance(second, ToolCallStarted)
    assert first.text == text
    assert first.parts == {"name": "a\\udc80b"}
    assert second.arguments == {"n": "9007199254740992", "m": 2**53 - 1, "x": "nan", "y": 1.5}


@pytest.mark.parametrize("depth", [63, 64, 65, 199, 400, 100_000])
def test_deep_nesting_is_cut(tmp_path: Path, depth: int) -> None:
    deep: dict[str, Any] = {}
    for _ in range(depth):
        deep = {"in": deep}
    log = EventLog.create(tmp_path / "e.jsonl")
    log.append(ToolCallStarted(call_id="c", tool="t", arguments=deep))
    log.append(AgentTurnStarted(turn=1))
    assert len(list(read_events(tmp_path / "e.jsonl"))) == 2


def test_values_that_are_not_json_become_text(tmp_path: Path) -> None:
    log = EventLog.create(tmp_path / "e.jsonl")
    odd: dict[Any, Any] = {1: date(2026, 3, 7), "b": b"\xff\x00", "s": frozenset({1}), None: 10**5000}
    log.append(ToolCallStarted(call_id="c", tool="t", arguments=odd))
    (event,) = read_events(tmp_path / "e.jsonl")
    assert isinstance(event.payload, ToolCallStarted)
    assert event.payload.arguments["1"] == "2026-03-07"
    assert event.payload.arguments["b"] == "/wA="
    assert set(event.payload.arguments) == {"1", "b", "s", "None"}


@pytest.mark.req("E-01")
def test_time_increases_even_if_the_clock_steps_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = EventLog.create(tmp_path / "e.jsonl")
    now = 1_700_000_000_000_000_000
    for step in (0, 0, -5_000_000_000, 10, 2_000_000):
        now += step
        monkeypatch.setattr(time, "time_ns", lambda now=now: now)
        log.append(AgentTurnStarted(turn=1))
    times = [event.t for event in read_events(tmp_path / "e.jsonl")]
    assert times[0] == 1_700_000_000_000_000
    assert all(earlier < later for earlier, later in itertools.pairwise(times))


def test_threads_write_one_valid_chain(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    log = EventLog.create(path)
    log.append(OPENED)

    def work() -> None:
        for turn in range(100):
            log.append(AgentTurnStarted(turn=turn), "agent")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close(SHA)
    report = verify_log(path)
    assert report.ok
    assert report.chain.events == 402


def test_existing_log_is_not_overwritten(tmp_path: Path) -> None:
    small_log(tmp_path / "e.jsonl")
    with pytest.raises(RecordError, match="exists"):
        EventLog.create(tmp_path / "e.jsonl")


def test_closed_log_rejects_events(tmp_path: Path) -> None:
    log = EventLog.create(tmp_path / "e.jsonl")
    log.append(OPENED)
    head = log.close(SHA)
    with pytest.raises(RecordError, match="closed"):
        log.append(AgentTurnStarted(turn=1))
    last = list(read_events(tmp_path / "e.jsonl"))[-1]
    assert last.hash == head
    assert last.payload == AttemptClosed(events=1, head=last.prev, record_sha256=SHA)


@pytest.mark.req("R-13")
def test_full_disk_leaves_the_log_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    log = EventLog.create(path)
    log.append(OPENED)
    before, head = path.read_bytes(), log.head
    with file_size_limit(len(before) + 100), pytest.raises(RecordError, match="cannot write"):
        log.append(Briefing(text="x" * 5000, sha256=SHA, parts={}))
    assert path.read_bytes() == before
    assert (log.head, log.count) == (head, 1)
    log.append(AgentTurnStarted(turn=1))
    log.close(SHA)
    assert verify_log(path).ok


def test_interrupted_write_does_not_break_the_chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "e.jsonl"
    log = EventLog.create(path)
    log.append(OPENED)
    real = os.write

    def interrupted(fd: int, data: bytes) -> int:
        real(fd, data)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            log.append(AgentTurnStarted(turn=1))
    log.append(AgentTurnStarted(turn=2))
    log.close(SHA)
    assert verify_log(path).ok
    assert [event.payload for event in read_events(path)][1] == AgentTurnStarted(turn=2)


def test_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="nowhere"):
        EventLog.create(tmp_path / "nowhere" / "e.jsonl")


@pytest.mark.req("R-13")
def test_events_survive_a_killed_writer(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from agentbench.trace.log import EventLog; from agentbench.trace.events import AgentTurnStarted\n"
        "log = EventLog.create(Path(sys.argv[1]))\n"
        "for turn in range(50): log.append(AgentTurnStarted(turn=turn))\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert [event.seq for event in read_events(path)] == list(range(1, 51))
    log, torn = EventLog.reopen(path)
    assert torn == b""
    assert log.append(AgentTurnStarted(turn=50)) == 51
    log.release()
    assert check_chain(path).problem is None


def test_reopen_returns_an_incomplete_last_line(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    lines = small_log(path, closed=False)
    path.write_bytes(b"".join(lines) + lines[-1][:77])
    assert len(list(read_events(path))) == len(lines)
    log, torn = EventLog.reopen(path)
    assert torn == lines[-1][:77]
    log.close(SHA)
    assert verify_log(path).ok


def test_log_broken_in_the_middle_is_not_continued(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    lines = small_log(path, closed=False)
    del lines[2]
    path.write_bytes(b"".join(lines))
    with pytest.raises(RecordError, match=r"e\.jsonl:3: the chain is broken"):
        tail(path)
    with pytest.raises(RecordError):
        EventLog.reopen(path)
    assert path.read_bytes() == b"".join(lines)


def test_second_writer_is_rejected(tmp_path: Path) -> None:
    log = EventLog.create(tmp_path / "e.jsonl")
    log.append(OPENED)
    with pytest.raises(InputError, match="another process"):
        EventLog.reopen(tmp_path / "e.jsonl")
    log.release()
    EventLog.reopen(tmp_path / "e.jsonl")[0].release()


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with EventLog.create(tmp_path / "e.jsonl") as log:
        log.append(OPENED)
        with pytest.raises(InputError):
            EventLog.reopen(tmp_path / "e.jsonl")
    with pytest.raises(RecordError):
        EventLog.create(tmp_path / "e.jsonl")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_reading_can_be_limited_to_types(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    small_log(path)
    assert [event.type for event in read_events(path, types={"briefing", "termination"})] == ["briefing", "termination"]


@pytest.mark.parametrize("line", [b"{}\n", b"\n", b"not json\n", b'{"actor":"agent"}\n', b"\xff\n"])
def test_invalid_line_is_reported_with_its_number(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "e.jsonl"
    lines = small_log(path)
    path.write_bytes(b"".join([*lines[:2], line, *lines[2:]]))
    with pytest.raises(RecordError, match=r"e\.jsonl:3: "):
        list(read_events(path))


def test_duplicate_key_in_a_payload_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    log = EventLog.create(path)
    log.append(StageChanged(before=None, after="write", cause="x"))
    log.release()
    path.write_bytes(path.read_bytes().replace(b'"after":"write"', b'"after":"test","after":"write"'))
    with pytest.raises(RecordError, match="canonical"):
        list(read_events(path))
