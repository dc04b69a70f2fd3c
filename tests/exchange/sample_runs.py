"""Builds runs with a conversation, tool calls and hostile text, with the real writers and without a sandbox."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from agentbench.core.reasons import Outcome, TerminationCode
from agentbench.execution.attempt.conversation import conversation
from agentbench.record.attempt_folder import EVENTS, AttemptFolder
from agentbench.record.run_directory import RunDirectory
from agentbench.trace.blobs import excerpt
from agentbench.trace.events import LlmRequest, LlmResponse
from agentbench.trace.log import EventLog, read_events
from agentbench.trace.originals import Discarded, EvidenceTerms
from tests.record import samples

HOSTILE = "<script>alert('x')</script> ]]> \x1b[31m\x00\u202e\u2028 \"'\\ {{7*7}} %s attachment://x 🦄 \ud7ff"
SYSTEM: dict[str, object] = {"role": "system", "content": "You are careful."}
USER: dict[str, object] = {"role": "user", "content": f"fix it {HOSTILE}"}


def sample_run(
    out: Path,
    outcomes: Sequence[Outcome] = (Outcome.PASS, Outcome.FAIL),
    *,
    digest: bool = False,
    exact_patch: str | None = None,
    ending: TerminationCode = TerminationCode.AGENT_STOPPED,
) -> Path:
    """Create a closed run with one attempt per outcome, at tasks `task-1`, `task-2`, …

    `exact_patch` is the digest of the graded patches if they differ from the recorded ones.
    """
    run = samples.new_run(out)
    if digest:
        run.evidence = EvidenceTerms("digest", lambda _attempt: Discarded())
    for number, outcome in enumerate(outcomes, start=1):
        sample = samples.SampleAttempt(outcome, HOSTILE, ending=ending, exact_patch=exact_patch)
        add_attempt(run, f"task-{number}", sample)
    run.close()
    return run.path


def add_attempt(run: RunDirectory, task_id: str, sample: samples.SampleAttempt | None = None) -> None:
    sample = sample or samples.SampleAttempt(output=HOSTILE)
    folder = run.begin(task_id, 1)
    log = folder.open_log()
    samples.write_events(folder, log, sample, run.run_id)
    _write_requests(folder, log)
    # The real writer; attempts do the same when they end.
    events = read_events(folder.path / EVENTS, types={LlmRequest.type, LlmResponse.type})
    lines = conversation(events, folder.blobs())
    if lines:
        folder.write_derived("agent/conversation.jsonl", lines)
    samples.finish(run, folder, log, sample)


def _write_requests(folder: AttemptFolder, log: EventLog) -> None:
    call = {
        "id": "call-1",
        "type": "function",
        "function": {"name": "run", "arguments": json.dumps({"command": HOSTILE})},
    }
    broken = {"id": "call-2", "type": "function", "function": {"name": HOSTILE, "arguments": "{not json"}}
    asked: dict[str, object] = {"role": "assistant", "content": HOSTILE, "tool_calls": [call, broken]}
    answers: list[dict[str, object]] = [
        {"role": "tool", "tool_call_id": name, "content": f"{name} {HOSTILE}"} for name in ("call-1", "call-2")
    ]
    exchanges: list[tuple[list[dict[str, object]], dict[str, object]]] = [
        ([SYSTEM, USER], asked),
        ([SYSTEM, USER, asked, *answers], {"role": "assistant", "content": "Done."}),
    ]
    for number, (messages, reply) in enumerate(exchanges):
        _write_exchange(folder, log, number, {"model": "m", "messages": messages}, reply)


def _write_exchange(
    folder: AttemptFolder, log: EventLog, number: int, body: dict[str, object], reply: dict[str, object]
) -> None:
    answer = {"choices": [{"index": 0, "message": reply, "finish_reason": "stop"}]}
    log.append(
        LlmRequest(
            request_id=f"r{number}",
            provider="example",
            model="vendor/model <b>&",
            parameters={"dialect": "chat", "stream": False},
            messages=excerpt(json.dumps(body).encode(), store=folder.blobs()),
            conversation_index=2 * number,
        ),
        "agent",
    )
    log.append(
        LlmResponse(
            request_id=f"r{number}",
            status="ok",
            content=excerpt(json.dumps(answer).encode(), store=folder.blobs()),
            prompt_tokens=100,
            completion_tokens=10,
            cached_tokens=40,
            cost_micro_usd=2500,
            duration_us=1000,
            conversation_index=2 * number + 1,
        )
    )
