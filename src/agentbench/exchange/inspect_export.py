"""Write a run as a log of Inspect AI: `.eval` (a zip with one file per sample) or `.json`.

One attempt is one sample, one repeat one epoch. The score `contract` is C or I for attempts that count in the contract rate. Attempts
outside of it (harness errors, invalid tasks) have an error and no score, as samples that failed in Inspect have. Messages are
stored once per sample; model events refer to them.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import BinaryIO

from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError
from agentbench.exchange.attempt_trace import AttemptTrace, ModelRequest, ToolRun, TraceMessage, iso_time
from agentbench.exchange.exported_attempt import exported_fields
from agentbench.exchange.output_file import json_bytes, output_file
from agentbench.exchange.registry import Written
from agentbench.exchange.source_run import SourceRun
from agentbench.record.headline import headline
from agentbench.record.schema import AttemptRecord, Cost
from agentbench.record.schema import Usage as RecordUsage
from agentbench.reports.number_format import plural
from agentbench.statistics.trials import contract_value

LOG_VERSION = 2
NO_MODEL = "none/none"
"""The name that Inspect uses for an evaluation without a model."""
SCORE = "contract"
MAX_SUMMARY_TEXT = 1024
"""Longest text in the list of samples; the sample has the whole text."""

JsonDict = dict[str, Json]


def write(run: SourceRun, out: str) -> Written:
    """Write the log. The suffix of `out` chooses its form."""
    suffix = Path(out).suffix.lower()
    if suffix not in {".eval", ".json"}:
        raise InputError(f"--out {out}: an Inspect log ends in .eval or .json")
    _refuse_several_variants(run)
    totals = _Totals()
    for record in run.records():
        totals.add(record)
    with output_file(out) as file:
        if suffix == ".eval":
            _write_eval(file, run, totals)
        else:
            _write_json(file, run, totals)
        size = file.tell()
    return Written(totals.attempts, size, notes=totals.notes())


# --- the two forms ----------------------------------------------------------------------------------------------------


def _write_eval(file: BinaryIO, run: SourceRun, totals: _Totals) -> None:
    header = _header(run, totals)
    start = {key: header[key] for key in ("version", "eval", "plan")}
    summaries: list[JsonDict] = []
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        archive.writestr("_journal/start.json", json_bytes(start))
        for trace in run.traces():
            sample = _sample(trace)
            name = f"samples/{sample['id']}_epoch_{sample['epoch']}.json"
            archive.writestr(name, json_bytes(sample))
            summaries.append(_summary(sample))
        archive.writestr("summaries.json", json_bytes(summaries))
        archive.writestr("header.json", json_bytes(header))


def _write_json(file: BinaryIO, run: SourceRun, totals: _Totals) -> None:
    # Everything but the samples first, so that readers of the header need not parse them.
    file.write(json_bytes(_header(run, totals))[:-1] + b',"samples":[')
    file.writelines(
        (b",\n" if number else b"\n") + json_bytes(_sample(trace)) for number, trace in enumerate(run.traces())
    )
    file.write(b"]}\n")


# --- the header -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Totals:
    """Totals over all attempts, for the header."""

    attempts: int = 0
    values: list[int] = field(default_factory=list)
    epochs: int = 1
    tasks: dict[str, None] = field(default_factory=dict)
    started_at: str = ""
    ended_at: str = ""
    usage: dict[str, RecordUsage] = field(default_factory=dict)
    agents: dict[str, None] = field(default_factory=dict)
    models: dict[str, None] = field(default_factory=dict)
    temperature: float | None = None

    def add(self, record: AttemptRecord) -> None:
        self.attempts += 1
        value = _value(record)
        if value is not None:
            self.values.append(value)
        self.epochs = max(self.epochs, record.repeat)
        self.tasks[record.task_id] = None
        self.agents[record.agent] = None
        self.models[_model_name(record)] = None
        self.temperature = record.model.temperature
        self.started_at = min(filter(None, (self.started_at, record.timestamps.started_at)))
        self.ended_at = max(self.ended_at, record.timestamps.ended_at)
        known = self.usage.get(_model_name(record), RecordUsage())
        self.usage[_model_name(record)] = RecordUsage(
            prompt_tokens=known.prompt_tokens + record.usage.prompt_tokens,
            completion_tokens=known.completion_tokens + record.usage.completion_tokens,
            cached_tokens=known.cached_tokens + record.usage.cached_tokens,
        )

    def notes(self) -> tuple[str, ...]:
        outside = self.attempts - len(self.values)
        return (f"error instead of a score: {plural(outside, 'attempt')} outside the contract rate",) if outside else ()


def _header(run: SourceRun, totals: _Totals) -> JsonDict:
    model = next(iter(totals.models))
    config: JsonDict = {} if totals.temperature is None else {"temperature": totals.temperature}
    agent = next(iter(totals.agents))
    spec: JsonDict = {
        "eval_id": run.run.run_id,
        "run_id": run.meta("study_id"),
        "created": run.meta("created_at") or totals.started_at,
        "task": run.run.suite or "runs",
        "task_id": run.run.run_id,
        "task_version": 0,
        "task_attribs": {},
        "task_args": {},
        "solver": agent,
        "dataset": {"name": run.run.suite, "samples": len(totals.tasks), "sample_ids": list(totals.tasks)},
        "model": model,
        "model_generate_config": config,
        "model_args": {},
        "config": {"epochs": totals.epochs, "epochs_reducer": ["mean"]},
        "packages": {"agentbench-harness": run.meta("harness_version")},
        "metadata": {"agentbench": run.provenance()},
        "scorers": [{"name": SCORE, "metrics": [{"name": "accuracy"}, {"name": "stderr"}]}],
    }
    return {
        "version": LOG_VERSION,
        "status": {"open": "started"}.get(run.state, "success"),
        "eval": spec,
        "plan": {"name": "plan", "steps": [{"solver": agent, "params": {}}], "config": config},
        "results": _results(totals),
        "stats": {
            "started_at": totals.started_at,
            "completed_at": totals.ended_at,
            "model_usage": {name: _usage(usage) for name, usage in totals.usage.items() if name != NO_MODEL},
        },
    }


def _results(totals: _Totals) -> JsonDict:
    scored = len(totals.values)
    metrics: JsonDict = {}
    if scored:
        mean = sum(totals.values) / scored
        error = math.sqrt(mean * (1 - mean) / (scored - 1)) if scored > 1 else 0.0
        metrics = {
            "accuracy": {"name": "accuracy", "value": mean, "params": {}},
            "stderr": {"name": "stderr", "value": error, "params": {}},
        }
    score: JsonDict = {
        "name": SCORE,
        "scorer": SCORE,
        "scored_samples": scored,
        "unscored_samples": totals.attempts - scored,
        "params": {},
        "metrics": metrics,
    }
    return {"total_samples": totals.attempts, "completed_samples": scored, "scores": [score]}


# --- one sample -------------------------------------------------------------------------------------------------------


def _sample(trace: AttemptTrace) -> JsonDict:
    record = trace.record
    pool = [_message(trace, number) for number in range(len(trace.messages))]
    main = trace.main_path()
    messages = [pool[number] for number in main]
    model = _model_name(record)
    sample: JsonDict = {
        "id": record.task_id,
        "epoch": record.repeat,
        "input": trace.briefing,
        "target": "",
        "messages": messages,
        "output": _output(trace, model, main),
        "scores": _scores(record),
        "metadata": {"agentbench": _metadata(trace)},
        "store": {},
        "events": list(_events(trace)),
        "events_data": {"messages": pool, "calls": []},
        "model_usage": {model: _usage(record.usage, _usd(record.cost))} if record.usage.model_requests else {},
        "started_at": record.timestamps.started_at,
        "completed_at": record.timestamps.ended_at,
        "total_time": record.duration_sec,
        "working_time": record.usage.wall_sec,
        "uuid": record.attempt_id,
        "attachments": {},
    }
    if _value(record) is None:
        sample["error"] = {"message": headline(record), "traceback": "", "traceback_ansi": ""}
    return sample


def _summary(sample: Mapping[str, Json]) -> JsonDict:
    """Return the entry of a sample in the list of samples."""
    kept = (
        "id",
        "epoch",
        "target",
        "scores",
        "model_usage",
        "started_at",
        "completed_at",
        "total_time",
        "working_time",
    )
    summary: JsonDict = {key: sample[key] for key in (*kept, "uuid")}
    messages, error = sample["messages"], sample.get("error")
    summary["input"] = str(sample["input"])[:MAX_SUMMARY_TEXT]
    summary["message_count"] = len(messages) if isinstance(messages, list) else 0
    summary["completed"] = True
    if isinstance(error, dict):
        summary["error"] = str(error["message"])[:MAX_SUMMARY_TEXT]
    return summary


def _message(trace: AttemptTrace, number: int) -> JsonDict:
    message = trace.messages[number]
    value: JsonDict = {
        "id": f"{trace.record.attempt_id}-{number}",
        "role": message.role,
        "content": message.text,
        "source": "generate" if message.role == "assistant" else "input" if message.role == "user" else None,
    }
    if message.role == "assistant":
        value["model"] = _model_name(trace.record)
        if message.calls:
            value["tool_calls"] = [
                {
                    "id": call.id,
                    "function": call.name,
                    "arguments": call.arguments,
                    "parse_error": None if call.malformed is None else f"not a JSON object: {call.malformed}",
                    "type": "function",
                }
                for call in message.calls
            ]
    elif message.role == "tool":
        value["tool_call_id"] = message.answers
        value["function"] = _called_function(trace, message)
    return value


def _called_function(trace: AttemptTrace, answer: TraceMessage) -> str | None:
    parent = answer.parent
    while parent is not None and trace.messages[parent].role == "tool":
        parent = trace.messages[parent].parent
    calls = trace.messages[parent].calls if parent is not None else ()
    return next((call.name for call in calls if call.id == answer.answers), None)


def _output(trace: AttemptTrace, model: str, main: Sequence[int]) -> JsonDict:
    last = next((number for number in reversed(main) if trace.messages[number].role == "assistant"), None)
    if last is None or not trace.has_conversation:
        return {"model": model, "choices": [], "completion": ""}
    return _choice(trace, model, last)


def _choice(trace: AttemptTrace, model: str, reply: int) -> JsonDict:
    message = trace.messages[reply]
    choice = {"message": _message(trace, reply), "stop_reason": "tool_calls" if message.calls else "stop"}
    return {"model": model, "choices": [choice], "completion": message.text}


def _scores(record: AttemptRecord) -> JsonDict | None:
    value = _value(record)
    if value is None:
        return None
    scores: JsonDict = {SCORE: {"value": "C" if value else "I", "explanation": headline(record), "history": []}}
    for scorer in record.scorers:
        number: Json = scorer.score if scorer.score is not None else scorer.verdict
        scores[f"scorer:{scorer.name}"] = {"value": number, "explanation": scorer.detail, "history": []}
    if record.judge is not None:
        verdict = {"PASS": "C", "FAIL": "I"}.get(record.judge.verdict, "N")
        scores["judge"] = {"value": verdict, "explanation": record.judge.reasoning, "history": []}
    return scores


def _metadata(trace: AttemptTrace) -> JsonDict:
    """Return what Inspect has no field for."""
    record = trace.record
    return {
        **exported_fields(record),
        **record.model_dump(
            mode="json",
            include={
                "attempt_id", "run_id", "study_id", "suite", "variant", "agent", "observability", "checks", "progress", "cost",
                "usage", "patch", "tags", "score", "trace_head",
            },
        ),
        "notes": list(trace.notes),
    }  # fmt: skip


# --- events -----------------------------------------------------------------------------------------------------------


def _events(trace: AttemptTrace) -> Iterator[JsonDict]:
    """Yield model requests and executed tool calls in the order they began, then the checks and the score."""
    began = min((step.started_us for step in trace.steps), default=0)
    for step in trace.steps:
        base: JsonDict = {
            "uuid": f"{trace.record.attempt_id}-e{step.seq}",
            "timestamp": iso_time(step.started_us),
            "working_start": (step.started_us - began) / 1e6,
            "completed": iso_time(step.ended_us),
            "working_time": (step.ended_us - step.started_us) / 1e6,
        }
        yield base | (_model_event(trace, step) if isinstance(step, ModelRequest) else _tool_event(step))
    ended: JsonDict = {"timestamp": trace.record.timestamps.ended_at, "working_start": trace.record.duration_sec}
    for check in trace.record.checks:
        data = check.model_dump(mode="json")
        uuid = f"{trace.record.attempt_id}-check-{check.id}"
        yield {"event": "info", "uuid": uuid, "source": f"check {check.id}", "data": data, **ended}
    for name, score in (_scores(trace.record) or {}).items():
        uuid = f"{trace.record.attempt_id}-score-{name}"
        yield {"event": "score", "uuid": uuid, "scorer": name, "score": score, **ended}


def _model_event(trace: AttemptTrace, request: ModelRequest) -> JsonDict:
    reply = request.reply
    output: JsonDict = {"model": request.model, "choices": [], "completion": ""}
    inputs: list[int] = []
    if reply is not None:
        output = _choice(trace, request.model, reply)
        inputs = trace.path(trace.messages[reply].parent)
    if request.response is not None:
        response = request.response
        used = RecordUsage(
            prompt_tokens=response.prompt_tokens,
            completion_tokens=response.completion_tokens,
            cached_tokens=response.cached_tokens,
        )
        output["usage"] = _usage(used, response.cost_micro_usd / 1e6)
        output["time"] = response.duration_us / 1e6
    return {
        "event": "model",
        "model": request.model,
        "input": [],
        "input_refs": list(_ranges(inputs)),
        "tools": [],
        "tool_choice": "auto",
        "config": {},
        "output": output,
        "error": request.error or None,
        "metadata": {"parameters": dict(request.parameters)},
    }


def _tool_event(tool: ToolRun) -> JsonDict:
    kind = "timeout" if tool.finished is not None and tool.finished.timed_out else "unknown"
    return {
        "event": "tool",
        "type": "function",
        "id": tool.id,
        "function": tool.tool,
        "arguments": dict(tool.arguments),
        "result": tool.output,
        "error": {"type": kind, "message": tool.error} if tool.error else None,
        "failed": bool(tool.error) or None,
        "events": [],
        "metadata": {"by_agent": tool.by_agent},
    }


def _ranges(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Compress ascending numbers to ranges, each with its exclusive end."""
    start = end = -1
    for number in numbers:
        if number == end:
            end += 1
            continue
        if end > start:
            yield start, end
        start, end = number, number + 1
    if end > start:
        yield start, end


# --- values -----------------------------------------------------------------------------------------------------------


def _value(record: AttemptRecord) -> int | None:
    return contract_value(record.run_status, record.invalid_cause, passed=record.result.passed)


def _model_name(record: AttemptRecord) -> str:
    model = record.model
    return NO_MODEL if model.name is None else f"{model.provider}/{model.name}" if model.provider else model.name


def _usd(cost: Cost) -> float | None:
    """Return the cost of the model in the unit of Inspect; None if it is unknown or in another one."""
    return cost.lm if cost.known and cost.unit == "usd" else None


def _usage(usage: RecordUsage, cost: float | None = None) -> JsonDict:
    return {
        "input_tokens": usage.prompt_tokens - usage.cached_tokens,
        "input_tokens_cache_read": usage.cached_tokens,
        "output_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "total_cost": cost,
    }


def _refuse_several_variants(run: SourceRun) -> None:
    variants = sorted({row.variant for row in run.run.rows})
    if len(variants) > 1:
        raise InputError(f"{run.path} has several variants ({', '.join(variants)}); an Inspect log has one")
