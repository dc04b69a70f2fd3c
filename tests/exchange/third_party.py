"""Reads exports with the programs they are for, and makes logs of Inspect. Runs with the Python of `scripts/exchange-peers`.

    python third_party.py FOLDER

FOLDER has `logs/` (Inspect), `atif/`, `spans.jsonl`, `requests.jsonl` (received by HTTP), `harbor/` (a task) and `run.sarif`. Prints one
JSON object.
"""
# ruff: noqa: ANN001, ANN202, T201 - types of the other programs are not here
# mypy: ignore-errors

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

from click.testing import CliRunner
from google.protobuf import json_format
from harbor.models.task.task import Task as HarborTask
from harbor.utils.trajectory_validator import TrajectoryValidator
from inspect_ai import Task, eval  # noqa: A004
from inspect_ai._cli.log import log_command
from inspect_ai.dataset import Sample
from inspect_ai.log import bundle_log_dir, list_eval_logs, read_eval_log, read_eval_log_sample_summaries, write_eval_log
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import match
from inspect_ai.solver import generate
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from sarif.loader import load_sarif_file


def read_log(path: Path) -> dict:
    log, header = read_eval_log(str(path)), read_eval_log(str(path), header_only=True)
    return {
        "status": log.status,
        "header_samples": header.samples,
        "accuracy": log.results.scores[0].metrics["accuracy"].value,
        "samples": [read_sample(sample) for sample in log.samples],
        "summaries": [[item.id, item.error] for item in read_eval_log_sample_summaries(str(path))],
    }


def read_sample(sample) -> dict:
    return {
        "id": sample.id,
        "epoch": sample.epoch,
        "score": sample.scores["contract"].value if sample.scores else None,
        "error": sample.error.message if sample.error else None,
        "messages": [[message.role, message.text] for message in sample.messages],
        "calls": [call.arguments for message in sample.messages for call in getattr(message, "tool_calls", None) or []],
        "parse_errors": [
            call.parse_error for message in sample.messages for call in getattr(message, "tool_calls", None) or []
        ],
        "usage": {name: usage.model_dump() for name, usage in sample.model_usage.items()},
        "events": [event.event for event in sample.events],
        "inputs": [len(event.input) for event in sample.events if event.event == "model"],
    }


def run_commands(log: Path, folder: Path) -> dict:
    """Run `inspect log dump`, `headers` and `list`."""

    def output(*arguments: str) -> str:
        done = CliRunner().invoke(log_command, list(arguments), catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    return {
        "dump": len(json.loads(output("dump", str(log)))["samples"]),
        "headers": [header["eval"]["task"] for header in json.loads(output("headers", str(log)))],
        "list": sorted(
            Path(entry["name"]).name for entry in json.loads(output("list", "--json", "--log-dir", str(folder)))
        ),
    }


def bundle(logs: Path, out: Path) -> list[str]:
    """Build Inspect's static viewer of the logs, as `inspect view bundle` does."""
    bundle_log_dir(str(logs), str(out))
    return sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.suffix in {".html", ".eval"})


def read_spans(path: Path) -> list[dict]:
    """Parse OTLP JSON with the protocol's own classes. OTLP writes ids in hex, where protobuf expects base64."""
    spans = []
    for line in path.read_text(encoding="utf-8").splitlines():
        request = json_format.ParseDict(_with_base64_ids(json.loads(line)), ExportTraceServiceRequest())
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                spans += map(read_span, scope.spans)
    return spans


def read_span(span) -> dict:
    attributes = {item.key: getattr(item.value, item.value.WhichOneof("value")) for item in span.attributes}
    return {
        "name": span.name,
        "ids": [len(span.trace_id), len(span.span_id), len(span.parent_span_id)],
        "ordered": span.start_time_unix_nano <= span.end_time_unix_nano,
        "attributes": {key: value for key, value in attributes.items() if isinstance(value, (str, int, float, bool))},
        "events": [event.name for event in span.events],
    }


def _with_base64_ids(value):
    if isinstance(value, list):
        return [_with_base64_ids(item) for item in value]
    if not isinstance(value, dict):
        return value
    ids = {"traceId", "spanId", "parentSpanId"}
    return {
        key: base64.b64encode(bytes.fromhex(item)).decode() if key in ids else _with_base64_ids(item)
        for key, item in value.items()
    }


def make_logs(out: Path) -> list[str]:
    """Evaluate a mock model with Inspect itself: one answer is right, one wrong, each twice."""
    samples = [
        Sample(id="right: <1>", input="Say it.", target="said"),
        Sample(id="wrong", input="Say <b>", target="x"),
    ]
    task = Task(name="spoken", dataset=samples, solver=generate(), scorer=match(), epochs=2)
    # Usage is stated, because Inspect would download a tokenizer to count it.
    usage = ModelUsage(input_tokens=3, output_tokens=2, total_tokens=5)
    said = [ModelOutput.from_content("mockllm/model", "said") for _ in range(4)]
    model = get_model("mockllm/model", custom_outputs=[output.model_copy(update={"usage": usage}) for output in said])
    (log,) = eval(task, model=model, log_dir=str(out), display="none")
    write_eval_log(log, str(out / "log.json"))
    return [log.location.removeprefix("file://"), str(out / "log.json")]


def main(folder: Path) -> None:
    logs = folder / "logs"
    conventions = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")}
    spans = read_spans(folder / "spans.jsonl")
    used = {key for span in spans for key in span["attributes"] if key.startswith("gen_ai.")}
    validator = TrajectoryValidator()
    result = {
        "logs": {path.name: read_log(path) for path in sorted(logs.iterdir())},
        "listed": sorted(Path(info.name).name for info in list_eval_logs(str(logs))),
        "commands": run_commands(logs / "run.eval", logs),
        "bundle": bundle(logs, folder / "bundle"),
        "atif": {
            path.name: [validator.validate(path), validator.get_errors()] for path in sorted(folder.glob("atif/*.json"))
        },
        "spans": spans,
        "received": read_spans(folder / "requests.jsonl"),
        "unknown_attributes": sorted(used - conventions),
        "made": make_logs(folder / "made"),
        "sarif": load_sarif_file(str(folder / "run.sarif")).get_records(),
    }
    if (folder / "harbor").is_dir():
        result["harbor"] = [read_harbor_task(path) for path in sorted((folder / "harbor").iterdir())]
    print(json.dumps(result))


def read_harbor_task(path: Path) -> dict:
    task = HarborTask(path)
    return {
        "instruction": task.instruction,
        "valid": HarborTask.is_valid_dir(path),
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
