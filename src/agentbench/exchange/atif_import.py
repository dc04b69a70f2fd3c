"""Read trajectories of Harbor (ATIF): one file, or a folder of them.

A trajectory has no verdict. Only one that AgentBench exported says in `extra` how the attempt ended; results of others are undecided.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from agentbench.core.canonical import Json, digest
from agentbench.core.errors import InputError
from agentbench.exchange.attempt_trace import RequestedCall, TraceMessage
from agentbench.exchange.exported_attempt import ExportedAttempt, exported_attempt
from agentbench.exchange.foreign_json import count, member, read_json_file, real, text, time_or
from agentbench.exchange.imported_result import Decision, ImportedAttempt, ImportedLog, stated_cost
from agentbench.record.schema import Usage
from agentbench.trace.json_safe import to_json

PREFIX = "ATIF-v"
EPOCH = "1970-01-01T00:00:00.000+00:00"
_ROLES = {"system": "system", "user": "user", "agent": "assistant"}


def detects(path: Path) -> bool:
    first = next(_files(path), None)
    if first is None:
        return False
    with first.open("rb") as file:
        return PREFIX.encode() in file.read(4096)


def read(path: Path) -> ImportedLog:
    files = list(_files(path))
    if not files:
        raise InputError(f"{path}: no trajectories (*.json)")
    first = _trajectory(files[0])
    model = member(first, "agent", "model_name")
    return ImportedLog(
        format="atif",
        tool=text(first.get("schema_version")),
        suite=text(member(first, "extra", "agentbench", "suite"), "trajectories"),
        agent=text(member(first, "agent", "name"), "agent"),
        model=None if model is None else str(model),
        provider=None,
        attempts=lambda: map(partial(_attempt, path), files),
        method=text(member(first, "extra", "agentbench", "variant")),
        meta={"files": len(files)},
    )


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from sorted(file for file in path.rglob("*.json") if file.is_file())
    elif path.suffix.lower() == ".json" and path.is_file():
        yield path


def _trajectory(path: Path) -> dict[str, Json]:
    value = read_json_file(path)
    if not text(value.get("schema_version")).startswith(PREFIX):
        raise InputError(f"{path}: not a trajectory: 'schema_version' does not start with {PREFIX}")
    if not isinstance(value.get("steps"), list):
        raise InputError(f"{path}: not a trajectory: 'steps' is not a list")
    return value


def _attempt(root: Path, path: Path) -> ImportedAttempt:
    value = _trajectory(path)
    messages = tuple(_messages(value["steps"]))
    times = [time_or(member(step, "timestamp"), "") for step in value["steps"] if member(step, "timestamp")]  # type: ignore[union-attr]
    known = sorted(filter(None, times))
    exported = exported_attempt(member(value, "extra", "attempt"))
    decision, why = _decision(value.get("extra"), exported)
    place = path.relative_to(root).with_suffix("").as_posix() if path != root else path.stem
    opening = next((message.text for message in messages if message.role == "user"), "")
    metrics = value.get("final_metrics")
    return ImportedAttempt(
        task=text(member(value, "extra", "task_id"), place),
        repeat=max(1, count(member(value, "extra", "repeat"))),
        decision=decision,
        why=why,
        identity=digest(to_json([opening])),
        started_at=known[0] if known else EPOCH,
        ended_at=known[-1] if known else EPOCH,
        duration_sec=0.0,
        usage=Usage(
            prompt_tokens=count(member(metrics, "total_prompt_tokens")),
            completion_tokens=count(member(metrics, "total_completion_tokens")),
            cached_tokens=count(member(metrics, "total_cached_tokens")),
        ),
        cost=stated_cost(member(value, "extra", "cost"), real(member(metrics, "total_cost_usd"))),
        messages=messages,
        exported=exported,
        original={"file": path.name, "notes": value.get("notes"), "extra": value.get("extra")},
    )


def _decision(extra: Json, exported: ExportedAttempt | None) -> tuple[Decision, str]:
    if member(extra, "agentbench") is None:
        return "undecided", "a trajectory has no verdict"
    verdict = text(member(extra, "verdict"))
    if exported is not None:
        return ("error" if exported.contract is None else "pass" if exported.contract else "fail"), verdict
    if member(extra, "run_status") == "invalid":
        return "error", verdict
    return ("pass", verdict) if member(extra, "passed") is True else ("fail", verdict)


def _messages(steps: Json) -> Iterator[TraceMessage]:
    position = 0

    def following(message: Mapping[str, object]) -> TraceMessage:
        nonlocal position
        position += 1
        return TraceMessage(parent=position - 2 if position > 1 else None, **message)  # type: ignore[arg-type]

    for step in steps if isinstance(steps, list) else ():
        role = _ROLES.get(text(member(step, "source")))
        if role is None:
            continue
        calls = tuple(_calls(member(step, "tool_calls")))
        yield following({"role": role, "text": _content(member(step, "message")), "calls": calls})
        results = member(step, "observation", "results")
        for result in results if isinstance(results, list) else ():
            answers = member(result, "source_call_id")
            content = _content(member(result, "content"))
            yield following({"role": "tool", "text": content, "answers": None if answers is None else str(answers)})


def _content(content: Json) -> str:
    if not isinstance(content, list):
        return text(content)
    texts = (member(part, "text") for part in content)
    return "\n".join("[media are not imported]" if part is None else str(part) for part in texts)


def _calls(calls: Json) -> Iterator[RequestedCall]:
    for call in calls if isinstance(calls, list) else ():
        arguments = member(call, "arguments")
        yield RequestedCall(
            id=text(member(call, "tool_call_id")),
            name=text(member(call, "function_name")),
            arguments=arguments if isinstance(arguments, dict) else {},
        )
