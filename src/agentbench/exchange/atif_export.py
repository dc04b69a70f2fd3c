"""Write the attempts of a run as trajectories of Harbor (ATIF), one file each.

A step is one message: of the system, of the user, or of the agent with its tool calls and their results. Tool calls that the
model did not ask for are steps without a model request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentbench.core.canonical import Json
from agentbench.exchange.attempt_trace import AttemptTrace, ModelRequest, RequestedCall, ToolRun, TraceMessage, iso_time
from agentbench.exchange.exported_attempt import exported_fields
from agentbench.exchange.output_file import json_bytes, output_file, output_folder
from agentbench.exchange.registry import Written
from agentbench.exchange.source_run import SourceRun
from agentbench.record.headline import headline

SCHEMA = "ATIF-v1.7"
"""The oldest version that has all fields that are written."""
NO_CONVERSATION = "The agent's conversation with a model is not in the evidence; its tool calls are."

JsonDict = dict[str, Json]


def write(run: SourceRun, out: str) -> Written:
    """Write one file per attempt into the folder `out`."""
    folder = output_folder(out)
    attempts = size = 0
    for trace in run.traces():
        record = trace.record
        name = f"{record.task_id}__r{record.repeat}__{record.attempt_id}.json"
        with output_file(folder / name) as file:
            file.write(json_bytes(trajectory(trace, run)) + b"\n")
            size += file.tell()
        attempts += 1
    return Written(attempts, size, files=attempts)


def trajectory(trace: AttemptTrace, run: SourceRun) -> JsonDict:
    """Return one attempt as a trajectory."""
    record = trace.record
    steps = [{"step_id": number, **step} for number, step in enumerate(_steps(trace), start=1)]
    notes = [*trace.notes, *([] if trace.has_conversation else [NO_CONVERSATION])]
    branches = len(trace.messages) - len(trace.main_path())
    if branches > 0:
        notes.append(f"{branches} messages of other branches of the conversation are left out")
    value: JsonDict = {
        "schema_version": SCHEMA,
        "session_id": record.run_id,
        "trajectory_id": record.attempt_id,
        "agent": {
            "name": record.agent,
            "version": record.harness_version,
            "extra": {"variant": record.variant, "observability": record.observability},
        },
        "steps": steps,
        "final_metrics": {
            "total_prompt_tokens": record.usage.prompt_tokens,
            "total_completion_tokens": record.usage.completion_tokens,
            "total_cached_tokens": record.usage.cached_tokens,
            "total_cost_usd": record.cost.lm if record.cost.known and record.cost.unit == "usd" else None,
            "total_steps": len(steps),
            "extra": {"tool_calls": record.usage.tool_calls, "model_requests": record.usage.model_requests},
        },
        "extra": {
            "task_id": record.task_id,
            "repeat": record.repeat,
            "passed": record.result.passed,
            "verdict": headline(record),
            "run_status": record.run_status,
            "termination": record.termination.code,
            "cost": record.cost.model_dump(mode="json"),
            "agentbench": run.provenance(),
            "attempt": exported_fields(record),
        },
    }
    if record.model.name is not None and isinstance(value["agent"], dict):
        value["agent"] |= {"model_name": record.model.name}
    if notes:
        value["notes"] = "; ".join(notes)
    return value


def _steps(trace: AttemptTrace) -> Iterator[JsonDict]:
    requests = {request.reply: request for request in trace.requests if request.reply is not None}
    path = trace.main_path()
    unasked = _unasked_tools(trace)
    for position, number in enumerate(path):
        message = trace.messages[number]
        if message.role == "tool":
            continue
        if message.role != "assistant":
            yield {"source": message.role, "message": message.text}
            continue
        request = requests.get(number)
        while request is not None and unasked and unasked[0].seq < request.seq:
            yield _dispatched(unasked.pop(0))
        yield _agent_step(message, _answers(trace, path[position + 1 :]), request)
    yield from map(_dispatched, unasked)
    if not path:
        yield {"source": "user", "message": trace.briefing}


def _unasked_tools(trace: AttemptTrace) -> list[ToolRun]:
    """Return executed calls that the model did not ask for, if the conversation tells which it asked for.

    Ids of the model and of the harness differ. The calls of a reply are executed in their order before the next request.
    """
    unasked: list[ToolRun] = []
    waiting: list[str] = []
    if not trace.has_conversation:
        return unasked
    for step in trace.steps:
        if isinstance(step, ModelRequest):
            waiting = [] if step.reply is None else [call.name for call in trace.messages[step.reply].calls]
        elif step.tool in waiting:
            waiting.remove(step.tool)
        elif step.by_agent:
            unasked.append(step)
    return unasked


def _answers(trace: AttemptTrace, following: Sequence[int]) -> Iterator[TraceMessage]:
    for number in following:
        if trace.messages[number].role != "tool":
            return
        yield trace.messages[number]


def _agent_step(message: TraceMessage, answers: Iterator[TraceMessage], request: ModelRequest | None) -> JsonDict:
    step: JsonDict = {"source": "agent", "message": message.text}
    if message.calls:
        step["tool_calls"] = list(map(_call, message.calls))
    known = {call.id for call in message.calls}
    results: list[Json] = [
        {"source_call_id": answer.answers if answer.answers in known else None, "content": answer.text}
        for answer in answers
    ]
    if results:
        step["observation"] = {"results": results}
    if request is None:
        return {**step, "llm_call_count": 0}
    step |= {"timestamp": iso_time(request.ended_us), "model_name": request.model, "llm_call_count": 1}
    if request.response is not None:
        response = request.response
        step["metrics"] = {
            "prompt_tokens": response.prompt_tokens,
            "completion_tokens": response.completion_tokens,
            "cached_tokens": response.cached_tokens,
            "cost_usd": response.cost_micro_usd / 1e6,
            "extra": {"estimated": response.estimated},
        }
    if request.error:
        step["extra"] = {"error": request.error}
    return step


def _call(call: RequestedCall) -> JsonDict:
    value: JsonDict = {"tool_call_id": call.id, "function_name": call.name, "arguments": dict(call.arguments)}
    if call.malformed is not None:
        value["extra"] = {"malformed_arguments": call.malformed}
    return value


def _dispatched(tool: ToolRun) -> JsonDict:
    return {
        "source": "agent",
        "message": "",
        "timestamp": iso_time(tool.started_us),
        "llm_call_count": 0,
        "tool_calls": [{"tool_call_id": tool.id, "function_name": tool.tool, "arguments": dict(tool.arguments)}],
        "observation": {"results": [{"source_call_id": tool.id, "content": tool.output or tool.error}]},
    }
