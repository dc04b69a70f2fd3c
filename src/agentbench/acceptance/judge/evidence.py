"""What the judge reads: pieces of text, each bounded, each between marks that its content cannot forge."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from agentbench.core.canonical import sha256_hex
from agentbench.trace.events import (
    AcceptanceCheck,
    Briefing,
    Excerpt,
    LlmResponse,
    Payload,
    ScorerResult,
    Termination,
    ToolCallFinished,
    ToolCallStarted,
)

DIFF_BYTES = 60_000
TRAJECTORY = 40_000
STEP = 1_500
OUTPUT = 4_000
ANSWER = 8_000
"""Of what a model says, where its words are what is judged."""


@dataclass(frozen=True, slots=True)
class Case:
    """One attempt as the judge is told of it."""

    statement: str
    expected_outcome: Literal["completion", "refusal"]
    notes: tuple[str, ...]
    """Rubric notes of the task and of its `llm_judge` scorers."""
    events: Sequence[Payload]
    patch: bytes
    turns: tuple[str, ...] = ()
    workspace: bool = True


def evidence(case: Case) -> str:
    """All pieces. The mark is a digest of them, so no piece can contain it but by finding a fixed point of SHA-256."""
    pieces = list(_pieces(case))
    boundary = sha256_hex("\x00".join(part for piece in pieces for part in piece).encode("utf-8", "replace"))[:16]
    blocks = [f"<<<{boundary} {name}>>>\n{text}\n<<<{boundary} end>>>" for name, text in pieces]
    return f"BOUNDARY is {boundary}. The expected outcome is `{case.expected_outcome}`.\n\n" + "\n\n".join(blocks)


def _pieces(case: Case) -> Iterable[tuple[str, str]]:
    yield "task", case.statement
    for index, turn in enumerate(case.turns, start=2):
        yield f"turn {index}", turn
    for note in case.notes:
        yield "rubric note", note
    # In a conversation, and where nothing was to be changed, the agent's words are the work.
    yield "trajectory", _trajectory(case.events, words=STEP if case.workspace and not case.turns else ANSWER)
    yield "command output", _last_output(case.events)
    if case.workspace:
        yield "diff", cut_diff(case.patch)
        yield "acceptance checks", _checks(case.events)
        yield "scorers", _scorers(case.events)


def cut_diff(patch: bytes, limit: int = DIFF_BYTES) -> str:
    """The diff; of a long one the beginning and the end, with the place and the size of the gap."""
    if not patch:
        return "(nothing was changed)"
    if len(patch) <= limit:
        return patch.decode("utf-8", "replace")
    head, tail = patch[: limit * 3 // 4], patch[-(limit // 4) :]
    tail = tail.partition(b"\n")[2] or tail  # from a whole line on, which says by its first character what it is
    gap = len(patch) - len(head) - len(tail)
    words = f"\n[TRUNCATED: {gap} of {len(patch)} bytes of this diff are not shown here]\n"
    return head.decode("utf-8", "replace") + words + tail.decode("utf-8", "replace")


def _trajectory(events: Sequence[Payload], words: int) -> str:
    # What follows the first line of a step stands to the right: nobody's words can look like another step.
    steps = [_indented(text) for event in events if (text := _step(event, words))]
    if not steps:
        return "(nothing was seen of the agent at work)"
    whole = "\n".join(steps)
    if len(whole) <= TRAJECTORY:
        return whole
    # The rest begins with a whole line: cut in the middle of one, somebody's words would begin it.
    head, tail = whole[: TRAJECTORY // 4], whole[-TRAJECTORY * 3 // 4 :].partition("\n")[2]
    return f"{head}\n[TRUNCATED: {len(whole) - len(head) - len(tail)} characters of the trajectory left out]\n{tail}"


def _step(event: Payload, words: int) -> str:
    match event:
        case Briefing() if "turn" in event.parts:
            return f"user, turn {event.parts['turn']}: {event.text[:words]}"
        case LlmResponse():
            return f"model: {_text(event.content, words)}"
        case ToolCallStarted():
            return f"call {event.call_id}: {event.tool} {str(event.arguments)[:STEP]}"
        case ToolCallFinished():
            ended = "timed out" if event.timed_out else f"exit {event.exit_code}" if event.exit_code is not None else ""
            room = max(STEP, words) // 2
            said = event.error_message or _text(event.stdout, room)
            return f"result {event.call_id}: {'ok' if event.ok else 'failed'} {ended} {said[:room]}"
        case Termination():
            return f"ended: {event.code}: {event.rationale[:STEP]}"
        case _:
            return ""


def _last_output(events: Sequence[Payload]) -> str:
    """Exit code and the ends of both streams of the last command: of a command line agent, all there is to see."""
    finished = [event for event in events if isinstance(event, ToolCallFinished) and event.exit_code is not None]
    if not finished:
        return "(no command)"
    last = finished[-1]
    streams = (f"stdout: {_text(last.stdout, OUTPUT)}", f"stderr: {_text(last.stderr, OUTPUT)}")
    # Indented, so that what one stream says cannot look like the other.
    return "\n".join((f"exit {last.exit_code}", *map(_indented, streams)))


def _checks(events: Sequence[Payload]) -> str:
    rows = [
        f"{one.check_id} ({'mandatory' if one.mandatory else 'diagnostic'}): {one.outcome}: {_cell(one.why)}\n"
        f"  command: {_cell(one.command)}"
        for one in events
        if isinstance(one, AcceptanceCheck)
    ]
    return "\n".join(rows) or "(none ran)"


def _scorers(events: Sequence[Payload]) -> str:
    rows = [
        f"| {_cell(one.name)} | {one.scorer_type} | {'required' if one.required else 'advisory'} | {one.verdict} | {_cell(one.detail[:STEP])} |"
        for one in events
        if isinstance(one, ScorerResult) and one.scorer_type != "llm_judge"
    ]
    return "\n".join(["| name | type | weight | verdict | detail |", *rows]) if rows else "(none)"


def _indented(text: str) -> str:
    """Every line but the first to the right, whatever character ends a line for a reader."""
    return "\n    ".join(text.splitlines())


def _cell(text: str) -> str:
    """Text for one place of a table or list: it makes no rows or columns of its own."""
    return " / ".join(text.replace("|", "\u00a6").splitlines())


def _text(excerpt: Excerpt, limit: int) -> str:
    if excerpt.encoding != "utf-8":
        return f"({excerpt.total_bytes} bytes that are no text)"
    return excerpt.text if len(excerpt.text) <= limit else "… " + excerpt.text[-limit:]
