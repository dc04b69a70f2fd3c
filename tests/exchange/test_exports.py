"""Exports that need no other program: content, streaming, and runs that must not be exported."""

from __future__ import annotations

import importlib.util
import json
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from agentbench.core.canonical import canonical
from agentbench.core.errors import InputError
from agentbench.core.reasons import Outcome, TerminationCode
from agentbench.exchange import atif_export, attempt_trace, inspect_export, otel, output_file, registry, source_run
from agentbench.exchange.imported_run import write_imported_run
from agentbench.exchange.registry import exporters, find_exporter, find_importer, importers
from agentbench.exchange.source_run import open_source
from agentbench.record.attempt_folder import EVENTS
from tests.exchange.sample_runs import HOSTILE, sample_run
from tests.record import samples

pytestmark = pytest.mark.component

STREAMING = [
    ("inspect", "run.eval", inspect_export),
    ("inspect", "run.json", inspect_export),
    ("atif", "atif", atif_export),
    ("otel", "spans.jsonl", otel),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_run(tmp_path_factory.mktemp("run"), (Outcome.PASS, Outcome.FAIL, Outcome.ERROR))


@pytest.fixture(scope="module")
def withheld(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_run(tmp_path_factory.mktemp("withheld"), digest=True)


@pytest.fixture(scope="module")
def imported(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run without seals, whose records can be changed."""
    folder = tmp_path_factory.mktemp("imported")
    export(run, "atif", folder / "atif")
    return write_imported_run(find_importer(folder / "atif").read(folder / "atif"), folder / "atif", folder).path


def export(run: Path, form: str, out: Path) -> registry.Written:
    return find_exporter(form).write(open_source(run), str(out))


def test_formats_are_listed_without_their_modules() -> None:
    assert list(exporters()) == ["inspect", "atif", "otel", "parquet", "junit", "swebench"]
    assert list(importers()) == ["inspect", "atif"]
    for lazy in (*registry._EXPORTERS, *registry._IMPORTERS):
        assert importlib.util.find_spec(lazy.module), lazy.module


@pytest.mark.parametrize("form, name, module", STREAMING)
def test_one_attempt_is_in_memory_at_a_time(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, name: str, module: Any
) -> None:
    steps: list[str] = []

    def noted(step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            steps.append(step)
            return function(*given)

        return call

    monkeypatch.setattr(source_run, "read_trace", noted("read", attempt_trace.read_trace))
    monkeypatch.setattr(module, "json_bytes", noted("encoded", output_file.json_bytes))
    assert export(run, form, tmp_path / name).attempts == 3
    reads = [number for number, step in enumerate(steps) if step == "read"]
    assert len(reads) == 3
    assert all(steps[number + 1] == "encoded" for number in reads)


@pytest.mark.parametrize("form, name, module", STREAMING)
def test_export_of_withheld_text_contains_no_text(
    withheld: Path, tmp_path: Path, form: str, name: str, module: Any
) -> None:
    out = tmp_path / (name if name != "run.eval" else "other.json")
    export(withheld, form, out)
    text = "".join(path.read_text() for path in ([out] if out.is_file() else out.iterdir()))
    assert "[withheld: " in text
    assert "alert(" not in text
    assert "fix it" not in text


def test_atif_steps_keep_calls_results_and_metrics(run: Path, tmp_path: Path) -> None:
    export(run, "atif", tmp_path / "out")
    value = json.loads(next(tmp_path.glob("out/task-1__r1__*.json")).read_text())
    assert [step["source"] for step in value["steps"]] == ["system", "user", "agent", "agent", "agent"]
    dispatched, asked, done = value["steps"][2:]
    assert dispatched["llm_call_count"] == 0
    assert [call["arguments"] for call in asked["tool_calls"]] == [{"command": HOSTILE}, {}]
    assert asked["tool_calls"][1]["extra"] == {"malformed_arguments": "{not json"}
    assert [result["source_call_id"] for result in asked["observation"]["results"]] == ["call-1", "call-2"]
    assert (done["message"], done["metrics"]["cost_usd"]) == ("Done.", 0.0025)
    assert value["extra"]["passed"] is True


def test_parquet_has_one_row_per_attempt(run: Path, tmp_path: Path) -> None:
    export(run, "parquet", tmp_path / "t.parquet")
    table = pq.read_table(tmp_path / "t.parquet")
    assert table.column("passed").to_pylist() == [True, False, False]
    assert table.schema.field("score").type == "double"


def test_junit_counts_failures_and_errors(run: Path, tmp_path: Path) -> None:
    export(run, "junit", tmp_path / "t.xml")
    suites = ET.fromstring((tmp_path / "t.xml").read_text())  # noqa: S314 - our own output
    assert (suites.get("tests"), suites.get("failures"), suites.get("errors")) == ("3", "1", "1")


def test_swebench_predictions_have_the_graded_patches(run: Path, tmp_path: Path) -> None:
    export(run, "swebench", tmp_path / "p.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert [line["instance_id"] for line in lines] == ["task-1", "task-2", "task-3"]
    assert lines[0]["model_patch"].startswith("diff --git a/src/core.py")
    export(run, "swebench", tmp_path / "r.json")
    report = json.loads((tmp_path / "r.json").read_text())
    assert (report["resolved_ids"], report["error_ids"]) == (["task-1"], ["task-3"])


@pytest.mark.parametrize("skip", [set(), {"patch_extracted", "patch_applied", "acceptance_check"}])
def test_swebench_leaves_out_attempts_without_a_decision(tmp_path: Path, skip: set[str]) -> None:
    run = samples.new_run(tmp_path / "run")
    ended = samples.SampleAttempt(ending=TerminationCode.INTERRUPTED, skip=frozenset(skip))
    ended.lies = {"patch": None} if skip else {}
    samples.attempt(run, "task-1", sample=samples.SampleAttempt())
    samples.attempt(run, "task-2", sample=ended)
    run.close()
    for name in ("p.jsonl", "r.json"):
        written = export(run.path, "swebench", tmp_path / name)
        assert (written.attempts, written.notes) == (1, ("left out 1 attempt without a decision",))
    report = json.loads((tmp_path / "r.json").read_text())
    assert (report["submitted_ids"], report["incomplete_ids"]) == (["task-1"], ["task-2"])


@pytest.mark.parametrize("exact", [None, "0" * 64])
def test_swebench_leaves_out_patches_that_were_graded_with_another_text(tmp_path: Path, exact: str | None) -> None:
    run = sample_run(tmp_path / "run", (Outcome.PASS,), exact_patch=exact)
    written = export(run, "swebench", tmp_path / "p.jsonl")
    left_out = "left out 1 attempt: the graded patch is not in the evidence"
    assert (written.attempts, written.notes) == ((1, ()) if exact is None else (0, (left_out,)))


@pytest.mark.parametrize("form, name", [("inspect", "a.txt"), ("swebench", "a.txt"), ("junit", "no/such/a.xml")])
def test_unusable_output_is_refused(run: Path, tmp_path: Path, form: str, name: str) -> None:
    with pytest.raises(InputError, match="--out"):
        export(run, form, tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "change, why",
    [
        ({"task_id": "../../escaped"}, "is not an id"),
        ({"attempt_id": "a/../../escaped"}, "is not an id"),
        ({"artifact_paths": {"task_dir": "../other"}}, "outside of the run"),
        ({"timestamps": {"started_at": "now", "ended_at": "later"}}, "not ISO 8601"),
    ],
)
def test_record_of_a_hostile_run_reaches_no_other_file(
    imported: Path, tmp_path: Path, change: dict[str, Any], why: str
) -> None:
    run = tmp_path / "run"
    shutil.copytree(imported, run)
    first = json.loads((run / "attempts.jsonl").read_bytes().splitlines()[0])
    for key, value in change.items():
        first[key] = {**first[key], **value} if isinstance(value, dict) else value
    (run / "attempts.jsonl").write_bytes(canonical(first) + b"\n")
    before = set(tmp_path.rglob("*"))
    form, out = ("otel", tmp_path / "x.jsonl") if "timestamps" in change else ("atif", tmp_path / "out")
    with pytest.raises(InputError, match=why):
        export(run, form, out)
    assert set(tmp_path.rglob("*")) - before <= {tmp_path / "out"}


@pytest.mark.parametrize("line", [b"[" * 100_000 + b"]" * 100_000, b'{"a": ' * 100_000])
def test_deeply_nested_conversation_is_an_error_with_its_line(imported: Path, tmp_path: Path, line: bytes) -> None:
    run = tmp_path / "run"
    shutil.copytree(imported, run)
    next(run.rglob("conversation.jsonl")).write_bytes(line + b"\n")
    with pytest.raises(InputError, match=r"conversation\.jsonl:1"):
        export(run, "inspect", tmp_path / "x.eval")


@pytest.mark.parametrize(
    "address, why",
    [("http://h:abc", "Invalid port"), ("http://", "no host"), ("http://ada:secret@127.0.0.1:9", "password")],
)
def test_bad_address_is_refused_without_its_password(run: Path, address: str, why: str) -> None:
    with pytest.raises(InputError, match=why) as caught:
        find_exporter("otel").write(open_source(run), address)
    assert "secret" not in caught.value.message


def test_receiver_that_cannot_be_reached_is_named(run: Path) -> None:
    with pytest.raises(InputError, match=r"cannot send to http://127\.0\.0\.1:9/v1/traces"):
        find_exporter("otel").write(open_source(run), "http://127.0.0.1:9")


@pytest.mark.parametrize(
    "form, name", [("inspect", "x.eval"), ("junit", "x.xml"), ("parquet", "x.parquet"), ("swebench", "x.json")]
)
def test_altered_evidence_is_not_exported(tmp_path: Path, form: str, name: str) -> None:
    run = sample_run(tmp_path / "runs", (Outcome.PASS,))
    log = next(run.glob(f"tasks/*/{EVENTS}"))
    log.write_bytes(log.read_bytes().replace(b"Done.", b"Nope."))
    with pytest.raises(InputError, match="does not verify"):
        export(run, form, tmp_path / name)
    assert not list(tmp_path.glob(f"*{name}*"))


def test_altered_record_is_not_exported(tmp_path: Path) -> None:
    run = sample_run(tmp_path, (Outcome.FAIL,))
    records = run / "attempts.jsonl"
    records.write_bytes(records.read_bytes().replace(b'"passed":false', b'"passed":true'))
    with pytest.raises(InputError, match="does not verify"):
        open_source(run)


def test_unknown_format_suggests_a_known_one() -> None:
    with pytest.raises(InputError, match="did you mean `inspect`"):
        find_exporter("inspct")
