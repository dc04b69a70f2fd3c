"""Withholds text from events: what people, models, agents and their programs wrote is replaced by its digest and length.

Kept are numbers, times, digests, codes, names of files, tests and checks, and the task's own commands: enough to recompute the
verdict, which never reads text. A test fails for a text field of an event that is neither listed here nor known to be harmless.
"""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel

from agentbench.core.canonical import canonical
from agentbench.trace.events import Excerpt
from agentbench.trace.json_safe import to_json, valid_utf8
from agentbench.trace.originals import withheld

M = TypeVar("M", bound=BaseModel)

TEXT: dict[str, frozenset[str]] = {
    "SetupCommandFinished": frozenset({"stdout", "stderr"}),
    "Briefing": frozenset({"text", "parts"}),
    "StageChanged": frozenset({"reason"}),
    "LlmRequest": frozenset({"parameters", "messages"}),
    "LlmResponse": frozenset({"content", "error"}),
    "ToolCallStarted": frozenset({"arguments"}),
    "ToolCallFinished": frozenset({"stdout", "stderr", "error_message"}),
    "ProcessStarted": frozenset({"program", "argv", "cwd"}),
    "WorkspaceMutated": frozenset({"diff"}),
    "PatchApplied": frozenset({"patch", "diff", "why"}),
    "Delegation": frozenset({"role", "task"}),
    "NetworkRequest": frozenset({"method", "target", "head", "why"}),
    "NetworkResponse": frozenset({"request_body", "head", "body", "error"}),
    "MonitorAlert": frozenset({"detail"}),
    "Intervention": frozenset({"detail"}),
    "Termination": frozenset({"rationale"}),
    "PatchExtracted": frozenset({"problem"}),
    "BuildFinished": frozenset({"stdout", "stderr", "why"}),
    "StaticFinished": frozenset({"stdout", "stderr", "why"}),
    "TestsFinished": frozenset({"stdout", "stderr", "why"}),
    "AcceptanceCheck": frozenset({"diagnostics", "why", "not_started"}),
    "IntegrityFinding": frozenset({"detail", "excerpt"}),
    "ScorerResult": frozenset({"detail"}),
    "JudgeFact": frozenset({"claim", "evidence"}),
    "JudgeResult": frozenset({"failure_mode", "reasoning"}),
}
"""Fields with text, by the class of the payload or of a part of it."""


def withhold_text(value: M) -> M:
    """Return the payload without text. It is the same object if it has none."""
    listed = TEXT.get(type(value).__name__, frozenset())
    update: dict[str, object] = {}
    for name in type(value).model_fields:
        inner = getattr(value, name)
        without = _without_text(inner) if name in listed else _parts(inner)
        if without is not inner:
            update[name] = without
    return value.model_copy(update=update) if update else value


def _parts(value: object) -> object:
    """Withhold the text of nested models."""
    if isinstance(value, BaseModel):
        return withhold_text(value)
    if isinstance(value, list) and any(isinstance(inner, BaseModel) for inner in value):
        return [_parts(inner) for inner in value]
    if isinstance(value, dict) and any(isinstance(inner, BaseModel) for inner in value.values()):
        return {key: _parts(inner) for key, inner in value.items()}
    return value


def _without_text(value: object) -> object:
    match value:
        case Excerpt(total_bytes=size) if size:
            return value.model_copy(update={"text": "", "encoding": "utf-8", "truncated": True, "blob": None})
        case str():
            return withheld(valid_utf8(value).encode())
        case list() if value:
            return [withheld(canonical(to_json(value)))]
        case dict() if value:
            return {"withheld": withheld(canonical(to_json(value)))}
        case _:
            return value
