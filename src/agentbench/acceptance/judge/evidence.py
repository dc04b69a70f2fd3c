"""Builds the text that the judge reads: bounded pieces, each between marks that its content cannot forge.

This text is part of recorded requests, so its wording must not change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from agentbench.core.canonical import sha256_hex
from agentbench.core.dataclass import dataclass
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
MAX_TRAJECTORY = 40_000
MAX_STEP = 1_500
MAX_OUTPUT = 4_000
MAX_ANSWER = 8_000
"""Limit for what a model says where its words are the work that is judged."""


@dataclass(frozen=True, slots=True)
class Case:
    """One attempt as presented to the judge."""

    statement: str
    expected_outcome: Literal["completion", "refusal"]
    notes: tuple[str, ...]
    """Rubric notes of the task and of its `llm_judge` scorers."""
    events: Sequence[Payload]
    patch: bytes
    turns: tuple[str, ...] = ()
    workspace: bool = True


def evidence(case: Case) -> str:
    """Return all pieces as one text.

    The mark is a digest of the pieces, so a piece could contain it only as a fixed point of SHA-256.
    """
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
    yield (
        "trajectory",
        _trajectory(case.events, text_limit=MAX_STEP if case.workspace and not case.turns else MAX_ANSWER),
    )
    yield "command output", _last_output(case.events)
    if case.workspace:
        yield "diff", cut_diff(case.patch)
        yield "acceptance checks", _checks(case.events)
        yield "scorers", _scorers(case.events)


def cut_diff(patch: bytes, limit: int = DIFF_BYTES) -> str:
    """Return the diff. A long diff is cut in the middle, with the size of the gap."""
    if not patch:
        return "(nothing was changed)"
    if len(patch) <= limit:
        return patch.decode("utf-8", "replace")
    head, tail = patch[: limit * 3 // 4], patch[-(limit // 4) :]
    tail = tail.partition(b"\n")[2] or tail  # start at a whole line, whose first character gives its kind
    gap = len(patch) - len(head) - len(tail)
    gap_note = f"\n[TRUNCATED: {gap} of {len(patch)} bytes of this diff are not shown here]\n"
    return head.decode("utf-8", "replace") + gap_note + tail.decode("utf-8", "replace")


def _trajectory(events: Sequence[Payload], text_limit: int) -> str:
    # Further lines of a step are indented, so that no text can imitate another step.
    steps = [_indented(text) for event in events if (text := _step(event, text_limit))]
    if not steps:
        return "(nothing was seen of the agent at work)"
    trajectory = "\n".join(steps)
    if len(trajectory) <= MAX_TRAJECTORY:
        return trajectory
    # The rest starts with a whole line: if it were cut in the middle of one, foreign text could imitate a step.
    head, tail = trajectory[: MAX_TRAJECTORY // 4], trajectory[-MAX_TRAJECTORY * 3 // 4 :].partition("\n")[2]
    return (
        f"{head}\n[TRUNCATED: {len(trajectory) - len(head) - len(tail)} characters of the trajectory left out]\n{tail}"
    )


def _step(event: Payload, text_limit: int) -> str:
    match event:
        case Briefing() if "turn" in event.parts:
            return f"user, turn {event.parts['turn']}: {event.text[:text_limit]}"
        case LlmResponse():
            return f"model: {_text(event.content, text_limit)}"
        case ToolCallStarted():
            return f"call {event.call_id}: {event.tool} {str(event.arguments)[:MAX_STEP]}"
        case ToolCallFinished():
            ending = (
                "timed out" if event.timed_out else f"exit {event.exit_code}" if event.exit_code is not None else ""
            )
            limit = max(MAX_STEP, text_limit) // 2
            output = event.error_message or _text(event.stdout, limit)
            return f"result {event.call_id}: {'ok' if event.ok else 'failed'} {ending} {output[:limit]}"
        case Termination():
            return f"ended: {event.code}: {event.rationale[:MAX_STEP]}"
        case _:
            return ""


def _last_output(events: Sequence[Payload]) -> str:
    """Return exit code and the ends of both streams of the last command, which is all a CLI agent shows."""
    finished = [event for event in events if isinstance(event, ToolCallFinished) and event.exit_code is not None]
    if not finished:
        return "(no command)"
    last = finished[-1]
    streams = (f"stdout: {_text(last.stdout, MAX_OUTPUT)}", f"stderr: {_text(last.stderr, MAX_OUTPUT)}")
    # Indented, so that the text of one stream cannot imitate the other.
    return "\n".join((f"exit {last.exit_code}", *map(_indented, streams)))


def _checks(events: Sequence[Payload]) -> str:
    rows = [
        f"{check.check_id} ({'mandatory' if check.mandatory else 'diagnostic'}): {check.outcome}: {_cell(check.why)}\n"
        f"  command: {_cell(check.command)}"
        for check in events
        if isinstance(check, AcceptanceCheck)
    ]
    return "\n".join(rows) or "(none ran)"


def _scorers(events: Sequence[Payload]) -> str:
    rows = [
        f"| {_cell(scorer.name)} | {scorer.scorer_type} | {'required' if scorer.required else 'advisory'} | {scorer.verdict} | {_cell(scorer.detail[:MAX_STEP])} |"
        for scorer in events
        if isinstance(scorer, ScorerResult) and scorer.scorer_type != "llm_judge"
    ]
    return "\n".join(["| name | type | weight | verdict | detail |", *rows]) if rows else "(none)"


def _indented(text: str) -> str:
    """Indent every line but the first, whatever character ends a line for a reader."""
    return "\n    ".join(text.splitlines())


def _cell(text: str) -> str:
    """Return text for one table cell or list entry, without rows or columns of its own."""
    return " / ".join(text.replace("|", "\u00a6").splitlines())


def _text(excerpt: Excerpt, limit: int) -> str:
    if excerpt.encoding != "utf-8":
        return f"({excerpt.total_bytes} bytes that are no text)"
    return excerpt.text if len(excerpt.text) <= limit else "… " + excerpt.text[-limit:]
