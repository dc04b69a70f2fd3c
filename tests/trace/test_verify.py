from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.canonical import canonical
from agentbench.core.errors import RecordError
from agentbench.trace.chain import GENESIS, write_line
from agentbench.trace.events import AgentTurnStarted
from agentbench.trace.log import EventLog
from agentbench.trace.verify import check_chain, verify_log
from tests.trace.samples import OPENED, SHA, small_log

pytestmark = [pytest.mark.req("E-12"), pytest.mark.component]

Tamper = Callable[[list[bytes]], list[bytes]]


def rewritten(lines: list[bytes], change: Callable[[int, dict[str, object]], None]) -> list[bytes]:
    """Change a log and recompute every hash, as an attacker who knows the formula would."""
    head, out = GENESIS, []
    for number, raw in enumerate(lines, start=1):
        event = json.loads(raw)
        change(number, event)
        line, head = write_line(
            canonical(event["payload"]),
            event_type=event["type"],
            actor=event["actor"],
            seq=event["seq"],
            t=event["t"],
            prev=head,
        )
        out.append(line)
    return out


def test_untouched_log_verifies(tmp_path: Path) -> None:
    lines = small_log(tmp_path / "e.jsonl")
    report = verify_log(tmp_path / "e.jsonl")
    assert report.ok
    assert report.closing
    assert report.closing.record_sha256 == SHA
    assert report.chain.events == len(lines)
    assert report.chain.size == sum(map(len, lines))


@pytest.mark.parametrize(
    "tamper,kind,place",
    [
        (lambda ls: [*ls[:2], ls[2].replace(b'"n":1', b'"n":2'), *ls[3:]], "changed", 3),
        (lambda ls: [*ls[:2], ls[2].replace(b'"agent"', b'"harness"', 1), *ls[3:]], "changed", 3),
        (lambda ls: [*ls[:2], *ls[3:]], "removed", 3),
        (lambda ls: ls[1:], "removed", 1),
        (lambda ls: [*ls[:1], *ls[4:]], "removed", 2),
        (lambda ls: [*ls[:1], ls[2], ls[1], *ls[3:]], "reordered", 2),
        (lambda ls: [*ls[:1], ls[3], *ls[1:3], *ls[4:]], "reordered", 2),
        (lambda ls: [*ls[:3], ls[2], *ls[3:]], "appended", 4),
        (lambda ls: ls[:-1], "truncated", 6),
        (lambda ls: ls[:-3], "truncated", 4),
        (lambda _: [], "truncated", 1),
        (lambda ls: [*ls[:-1], ls[-1][:-30]], "truncated", 6),
        (lambda ls: [*ls[:-1], ls[-1][:-1]], "truncated", 6),
        (lambda ls: [*ls, ls[-1]], "appended", 7),
        (lambda ls: [*ls, b"x"], "appended", 7),
        (lambda ls: [*ls, b"\n"], "changed", 7),
        (lambda ls: [*ls[:2], b"\n", *ls[2:]], "changed", 3),
        (lambda ls: [*ls[:2], ls[2][:-1] + b" \n", *ls[3:]], "changed", 3),
    ],
)
def test_first_change_is_reported(tmp_path: Path, tamper: Tamper, kind: str, place: int) -> None:
    path = tmp_path / "e.jsonl"
    path_lines = small_log(path)
    path.write_bytes(b"".join(tamper(path_lines)))
    problem = verify_log(path).problem
    assert problem
    assert (problem.kind, problem.place) == (kind, f"e.jsonl:{place}")


def test_changing_any_byte_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    log = EventLog.create(path)
    log.append(OPENED)
    log.append(AgentTurnStarted(turn=1), "agent")
    log.close(SHA)
    whole = path.read_bytes()
    for place, byte in enumerate(whole):
        for other in {byte ^ 1, byte ^ 0x20, 0x0A, 0x22} - {byte}:
            path.write_bytes(whole[:place] + bytes([other]) + whole[place + 1 :])
            assert not verify_log(path).ok, (place, other)


@given(st.data())
def test_truncation_and_insertion_are_detected(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("log") / "e.jsonl"
    whole = b"".join(small_log(path))
    start = data.draw(st.integers(0, len(whole) - 1))
    end = data.draw(st.integers(start, len(whole)))
    middle = data.draw(st.binary(max_size=4) | st.just(whole[start:end] * 2))
    tampered = whole[:start] + middle + whole[end:]
    path.write_bytes(tampered)
    assert verify_log(path).ok == (tampered == whole)


def test_rewritten_chain_has_another_head(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    lines = small_log(path)
    before = verify_log(path).chain.head

    def soften(number: int, event: dict[str, object]) -> None:
        if number == 3:
            event["payload"] = {"call_id": "c1", "tool": "run", "arguments": {"command": "false"}, "stage": None}

    new = rewritten(lines[:-1], soften)
    path.write_bytes(b"".join(new))
    log, _ = EventLog.reopen(path)
    log.close(SHA)
    report = verify_log(path)
    assert report.ok
    assert report.chain.head != before


def test_wrong_closing_event_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    lines = small_log(path)
    path.write_bytes(b"".join(rewritten(lines, lambda *_: None)))
    assert verify_log(path).ok

    def lie(number: int, event: dict[str, object]) -> None:
        if number == len(lines):
            event["payload"] = {"events": 4, "head": event["prev"], "record_sha256": SHA}

    path.write_bytes(b"".join(rewritten(lines, lie)))
    problem = verify_log(path).problem
    assert problem
    assert problem.kind == "inconsistent"


def test_non_increasing_time_is_detected_in_a_rewritten_chain(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"

    def freeze(number: int, event: dict[str, object]) -> None:
        event["t"] = 1

    path.write_bytes(b"".join(rewritten(small_log(path), freeze)))
    problem = verify_log(path).problem
    assert problem
    assert (problem.kind, problem.place) == ("inconsistent", "e.jsonl:2")


def test_ambiguous_payload_is_rejected_despite_a_valid_hash(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    line, _ = write_line(
        b'{"turn":1,"turn":2}', event_type="agent_turn_started", actor="agent", seq=1, t=1, prev=GENESIS
    )
    path.write_bytes(line)
    problem = check_chain(path).problem
    assert problem
    assert problem.kind == "changed"


def test_report_says_whether_the_attempt_was_opened(tmp_path: Path) -> None:
    small_log(tmp_path / "whole.jsonl")
    assert verify_log(tmp_path / "whole.jsonl").opened
    log = EventLog.create(tmp_path / "e.jsonl")
    log.append(AgentTurnStarted(turn=1))
    log.close(SHA)
    assert not verify_log(tmp_path / "e.jsonl").opened


def test_incomplete_last_line_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    lines = small_log(path, closed=False)
    path.write_bytes(b"".join(lines) + b'{"actor":"ag')
    chain = check_chain(path)
    assert chain.problem is None
    assert (chain.events, chain.torn_bytes) == (len(lines), 12)
    problem = verify_log(path).problem
    assert problem
    assert problem.kind == "truncated"
    assert "12 bytes of an incomplete line" in problem.message


def test_unreadable_file_raises_record_error(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="nothing"):
        verify_log(tmp_path / "nothing.jsonl")
