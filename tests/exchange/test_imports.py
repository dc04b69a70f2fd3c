"""Imports: results stay those of the other tool, and bad files are refused with their place."""

from __future__ import annotations

import csv
import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from agentbench.core.errors import InputError
from agentbench.core.reasons import Outcome, RunStatus, TerminationCode
from agentbench.exchange import inspect_import
from agentbench.exchange.imported_run import safe_id, write_imported_run
from agentbench.exchange.registry import find_exporter, find_importer
from agentbench.exchange.source_run import open_source
from agentbench.record.bundle import write_bundle
from agentbench.record.headline import headline
from agentbench.record.schema import Cost
from agentbench.reports import paired_decision, summary_data
from agentbench.reports.card import attempt_card, run_card
from agentbench.reports.compare import compare_methods
from agentbench.reports.gate import GateFile, check_gate
from agentbench.reports.junit import as_junit
from agentbench.reports.paired import compare_sides
from agentbench.reports.paired_markdown import comparability_lines
from agentbench.reports.run_audit import audit_run
from agentbench.reports.sources import Run, open_run, open_sides, run_side
from agentbench.reports.summary import decision, summarise
from agentbench.reports.summary_markdown import as_markdown
from agentbench.statistics.trials import Rate
from tests.exchange.sample_runs import HOSTILE, sample_run
from tests.reports.runs import record, run_dir

pytestmark = pytest.mark.component


def log(*samples: Any, **header: Any) -> dict[str, Any]:
    spec = {"task": "t", "model": "openai/m", "packages": {"inspect_ai": "1"}, "created": "2026-01-01T00:00:00Z"}
    return {"version": 2, "status": "success", "eval": spec, **header, "samples": list(samples)}


def sample(name: object, value: object, **more: Any) -> dict[str, Any]:
    return {"id": name, "epoch": 1, "input": "q", "target": "a", "scores": {"match": {"value": value}}, **more}


def load(tmp_path: Path, value: object) -> Run:
    path = tmp_path / "log.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return open_run(write_imported_run(find_importer(path, "inspect").read(path), path, tmp_path / "runs").path)


def test_exported_run_is_imported_as_imported(tmp_path: Path) -> None:
    source = open_source(sample_run(tmp_path / "runs", (Outcome.PASS, Outcome.FAIL)))
    find_exporter("inspect").write(source, str(tmp_path / "x.eval"))
    find_exporter("atif").write(source, str(tmp_path / "atif"))
    for path in (tmp_path / "x.eval", tmp_path / "atif"):
        importer = find_importer(path)
        run = open_run(write_imported_run(importer.read(path), path, tmp_path / "imported").path)
        assert [record.result.passed for record in run.finals] == [True, False]
        assert all(record.contract_id.startswith("imported:") for record in run.finals)
        again = list(open_source(run.path).traces())
        assert again[0].messages[1].text == f"fix it {HOSTILE}"


def round_trip(folder: Path, form: str, out: Path) -> Run:
    path = out / ("x.eval" if form == "inspect" else form)
    out.mkdir()
    find_exporter(form).write(open_source(folder), str(path))
    return open_run(write_imported_run(find_importer(path).read(path), path, out / "runs").path)


@pytest.mark.parametrize("form", ["inspect", "atif"])
def test_import_of_an_exported_run_keeps_verdicts_and_rates(tmp_path: Path, form: str) -> None:
    kinds = ("pass", "policy", "fail", "error", "harness", "safety")
    folder = run_dir(tmp_path / "run", [record(f"t{n}", kind) for n, kind in enumerate(kinds)])
    own, imported = open_run(folder), round_trip(folder, form, tmp_path / "out")
    assert imported.imported
    assert [row.gates for row in imported.rows] == [row.gates for row in own.rows]
    fields = ("status", "passed", "reason", "cause", "attribution", "ending")
    for name in fields:
        assert [getattr(row, name) for row in imported.rows] == [getattr(row, name) for row in own.rows]
    for rate in Rate:
        assert summarise(imported).rates.of(rate) == summarise(own).rates.of(rate)
    (imported_again, own_again) = (
        round_trip(run.path, form, tmp_path / f"{n}") for n, run in enumerate((imported, own))
    )
    assert [row.gates for row in imported_again.rows] == [row.gates for row in own_again.rows]
    assert {row.contract_id for row in imported_again.rows} == {row.contract_id for row in imported.rows}


@pytest.mark.parametrize("form", ["inspect", "atif"])
def test_import_does_not_repeat_the_decision(tmp_path: Path, form: str) -> None:
    run = sample_run(tmp_path / "run", (Outcome.PASS,), ending=TerminationCode.SETUP_FAILED)
    for number in range(2):
        run = round_trip(run, form, tmp_path / str(number)).path
        assert [headline(final) for final in open_run(run).finals] == ["INVALID SETUP_FAILED: done"]


def test_gate_decides_alike_on_runs_and_their_imports(tmp_path: Path) -> None:
    a = run_dir(tmp_path / "a", [record(f"t{n}") for n in range(3)])
    b = run_dir(tmp_path / "b", [record(f"t{n}", "policy" if n else "pass") for n in range(3)])
    for first, second in (
        (a, b),
        (round_trip(a, "inspect", tmp_path / "x").path, round_trip(b, "inspect", tmp_path / "y").path),
    ):
        verdict = check_gate(
            GateFile(no_new_safety=True), compare_sides(run_side(open_run(first)), run_side(open_run(second)))
        )
        assert verdict.line == "GATE FAILS: no_new_safety: only B has known safety violations at t1, t2"


def test_exported_log_that_was_scored_again_has_the_new_decision(tmp_path: Path) -> None:
    folder = run_dir(tmp_path / "run", [record("a")])
    path = tmp_path / "x.json"
    find_exporter("inspect").write(open_source(folder), str(path))
    scored = json.loads(path.read_text())
    scored["samples"][0]["scores"]["contract"]["value"] = "I"
    (row,) = load(tmp_path, scored).rows
    assert (row.passed, row.gates) == (False, (Outcome.ERROR,) * 4)


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 2**70}, {"seed": "x"}, {"gates": {}}, {"gates": {"G1": {"outcome": "pass", "passed": True}}}, {"run_status": "failure"},
        {"contract_id": "x" * 300}, {"invalid_cause": "harness"}, {"result": None}, {"config_class": 7},
    ],
)  # fmt: skip
def test_contradictory_metadata_of_an_exported_log_is_not_believed(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "x.json"
    find_exporter("inspect").write(open_source(run_dir(tmp_path / "run", [record("a")])), str(path))
    changed = json.loads(path.read_text())
    changed["samples"][0]["metadata"]["agentbench"] |= change
    (row,) = load(tmp_path, changed).rows
    assert (row.passed, row.gates, row.config_class) == (True, (Outcome.ERROR,) * 4, None)


def test_acceptance_rate_of_another_tool_is_unknown(tmp_path: Path) -> None:
    run = load(tmp_path, log(sample(1, "C"), sample(2, "I")))
    summary = summarise(run)
    assert (summary.rates.contract.count, summary.rates.acceptance.total) == (1, 0)
    assert "| acceptance | unknown: imported |" in as_markdown(summary)
    assert "\nacceptance   unknown: imported\n" in run_card(summary)
    assert summary_data.as_json(summary)["acceptance_unknown"] is True
    sides = [run_side(run), run_side(load(tmp_path, log(sample(1, "C"), sample(2, "C"))))]
    assert compare_sides(*sides).other is None
    for compared in (
        lambda: compare_sides(*sides, rate=Rate.ACCEPTANCE),
        lambda: compare_methods(sides, rate=Rate.ACCEPTANCE),
    ):
        with pytest.raises(InputError, match=r"acceptance rate of .* is unknown: imported from inspect_ai 1"):
            compared()
    for name, side in zip("ab", sides, strict=True):
        assert side.run
        (tmp_path / f"{name}.csv").write_text(summary_data.as_csv(summarise(side.run)))
    with pytest.raises(InputError, match="is unknown: imported from inspect_ai 1"):
        compare_sides(*open_sides(str(tmp_path / "a.csv"), str(tmp_path / "b.csv")), rate=Rate.ACCEPTANCE)


def test_imports_claim_no_conditions_that_their_log_does_not_state(tmp_path: Path) -> None:
    a, b = (run_side(load(tmp_path, log(sample(1, "C")))) for _ in "ab")
    assert comparability_lines(compare_sides(a, b)) == [
        "Results imported from another tool do not state their contract, configuration and seeds."
    ]


def test_import_of_an_exported_run_keeps_its_seeds_and_configuration(tmp_path: Path) -> None:
    own = run_dir(tmp_path / "own", [record("a")])
    others: dict[str, tuple[dict[str, Any], str]] = {
        "same": ({}, "A and B have the same contracts, configuration class, seeds and harness version."),
        "seed": ({"seed": 7}, "B used base seed 7"),
        "config": ({"config_class": "sha256:other"}, "The configuration class"),
        "version": ({"harness_version": "9"}, "The harness version differs: `imported:0.1.0 and imported:9`"),
    }
    a = run_side(round_trip(own, "inspect", tmp_path / "a"))
    for name, (fields, line) in others.items():
        folder = run_dir(tmp_path / name, [record("a", **fields)])
        b = run_side(round_trip(folder, "inspect", tmp_path / f"{name}-imported"))
        assert line in "\n".join(comparability_lines(compare_sides(a, b)))


@pytest.mark.parametrize("form, name", [("inspect", "x.eval"), ("atif", "atif")])
def test_import_of_an_exported_run_keeps_the_name_of_its_method(tmp_path: Path, form: str, name: str) -> None:
    attempts = [record("a", variant="careful", agent="command")]
    folder = run_dir(tmp_path / "runs" / "a", attempts)
    meta = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**meta, "variant": "careful"}))
    find_exporter(form).write(open_source(folder), str(tmp_path / name))
    imported = write_imported_run(
        find_importer(tmp_path / name).read(tmp_path / name), tmp_path / name, tmp_path / "out"
    )
    run = open_run(imported.path)
    assert ([row.variant for row in run.rows], run.meta["variant"], run.rows[0].agent) == (
        ["careful"],
        "careful",
        "command",
    )
    assert run.imported


def test_inspect_log_without_a_solver_is_named_by_those_of_its_task(tmp_path: Path) -> None:
    steps = [{"solver": "system_message"}, {"solver": "generate"}, 7]
    run = load(tmp_path, log(sample(1, "C"), plan={"name": "plan", "steps": steps}))
    assert run.rows[0].variant == "system_message + generate@m"


def test_unknown_cost_of_another_tool_is_not_0(tmp_path: Path) -> None:
    run = load(
        tmp_path, log(sample(1, "C"), sample(2, "C", model_usage={"m": {"input_tokens": 3, "total_cost": None}}))
    )
    assert [trial.cost for trial in run.trials] == [None, None]
    assert "\ncost         unknown for 2 of 2 attempts\n" in run_card(summarise(run))
    assert "\ncost         unknown\n" in attempt_card(run.finals[0], run)
    assert "Cost: unknown for 2 of 2 attempts." in as_markdown(summarise(run))


def test_stated_cost_is_kept_with_its_unit(tmp_path: Path) -> None:
    run = load(tmp_path, log(sample(1, "C", model_usage={"m": {"total_cost": 0.25}, "n": {"total_cost": 0}})))
    assert (run.trials[0].cost, run.rows[0].cost.unit) == (0.25, "usd")
    own = record("a", cost=Cost(exec=0.25, total=0.25, unit="abstract", method_id="abstract"))
    source = open_source(run_dir(tmp_path / "own", [own]))
    for form, name in (("inspect", "x.eval"), ("atif", "atif")):
        path = tmp_path / name
        find_exporter(form).write(source, str(path))
        (again,) = open_run(write_imported_run(find_importer(path).read(path), path, tmp_path / "out").path).finals
        assert again.cost == own.cost.model_copy(update={"method_id": f"imported:{form}"})


def test_gate_on_an_unknown_cost_is_undecided(tmp_path: Path) -> None:
    sides = [run_side(load(tmp_path, log(sample(1, "C"), sample(2, "C")))) for _ in "ab"]
    verdict = check_gate(GateFile(max_cost_ratio=1.5), compare_sides(*sides))
    assert verdict.exit_code == 2
    assert "A: the cost of 2 attempts is unknown; B: the cost of 2 attempts is unknown" in verdict.line


def test_reports_say_that_results_are_imported(tmp_path: Path) -> None:
    run = load(tmp_path, log(sample(1, "C"), sample(2, 0)))
    assert decision(summarise(run)).endswith("[IMPORTED from inspect_ai 1, not graded here]")
    card = attempt_card(run.finals[0], run)
    assert card.startswith("PASS [IMPORTED")
    assert "not graded here; inspect_ai 1: match = C" in card


def test_a_comparison_marks_its_imported_sides_in_order(tmp_path: Path) -> None:
    a, b = (run_side(load(tmp_path, log(sample(1, score), sample(2, 0)))) for score in "CI")
    marks = "[A IMPORTED from inspect_ai 1, not graded here] [B IMPORTED from inspect_ai 1, not graded here]"
    assert paired_decision.decision(compare_sides(a, b)).endswith(marks)


def test_csv_and_junit_name_the_tool_of_imported_results(tmp_path: Path) -> None:
    summary = summarise(load(tmp_path, log(sample(1, "C"))))
    (row,) = csv.DictReader(io.StringIO(summary_data.as_csv(summary)))
    assert (row["altered"], row["imported"]) == ("", "inspect_ai 1")
    assert '<property name="imported" value="inspect_ai 1"/>' in as_junit(summary)


def test_gate_over_imported_runs_says_that_they_are_imported(tmp_path: Path) -> None:
    a, b = load(tmp_path, log(sample(1, "C"))), load(tmp_path, log(sample(1, "C")))
    verdict = check_gate(GateFile(max_drop=0.5), compare_sides(run_side(a), run_side(b)))
    origin = "is imported from inspect_ai 1"
    assert verdict.line.startswith(f"GATE HOLDS: records: A {origin}, B {origin}, not graded here; max_drop: ")


def test_gate_over_an_imported_and_a_graded_run_is_undecided(tmp_path: Path) -> None:
    graded = open_run(run_dir(tmp_path / "graded", [record("1")]))
    compared = compare_sides(run_side(graded), run_side(load(tmp_path, log(sample(1, "C")))), across_versions=True)
    verdict = check_gate(GateFile(max_drop=0.5), compared)
    assert verdict.line == "GATE UNDECIDED: records: B is imported from inspect_ai 1, not graded here"


def test_imported_run_cannot_be_verified(tmp_path: Path) -> None:
    run = load(tmp_path, log(sample(1, "C")))
    with pytest.raises(InputError, match="was imported from another tool"):
        audit_run(run.path)


@pytest.mark.parametrize(
    "value, status",
    [
        ("C", RunStatus.SUCCESS), (1, RunStatus.SUCCESS), (True, RunStatus.SUCCESS), ("I", RunStatus.FAILURE), (0.5, RunStatus.FAILURE),
        ("P", RunStatus.FAILURE), (float("nan"), RunStatus.INVALID), ("yes", RunStatus.INVALID), ({"a": 1}, RunStatus.INVALID),
        (10**400, RunStatus.INVALID), (float("inf"), RunStatus.INVALID),
    ],
)  # fmt: skip
def test_only_a_clear_score_is_a_decision(tmp_path: Path, value: object, status: RunStatus) -> None:
    assert load(tmp_path, log(sample("x", value))).finals[0].run_status is status


def test_sample_with_an_error_is_outside_the_rates(tmp_path: Path) -> None:
    failed = sample("x", "C", error={"message": f"broke {HOSTILE}", "traceback": "", "traceback_ansi": ""})
    (record,) = load(tmp_path, log(failed)).finals
    assert (record.run_status, record.invalid_cause) == ("invalid", "harness")
    assert "broke <script>" in record.termination.rationale


def test_hostile_fields_do_no_harm(tmp_path: Path) -> None:
    odd = sample(
        f"../../{HOSTILE}", "C", epoch="x", model_usage=[1], total_time="long", started_at=HOSTILE, attachments=3,
        messages=[{"role": "wizard"}, 7, {"role": "user", "content": [{"type": "image"}, "x"]}, {"role": "assistant", "tool_calls": [None, {"arguments": {"x": float("nan")}}]}],
        metadata={"deep": json.loads("[" * 200 + "]" * 200)}, working_time=10**400,
    )  # fmt: skip
    run = load(tmp_path, log(odd, eval={"task": f"/{HOSTILE}", "model": HOSTILE, "packages": {HOSTILE: HOSTILE}}))
    (record,) = run.finals
    assert record.artifact_paths.task_dir.startswith("tasks/")
    assert (run.path / record.artifact_paths.task_dir).resolve().is_relative_to(run.path.resolve())
    for form, name in (("inspect", "x.eval"), ("atif", "atif"), ("otel", "x.jsonl")):
        assert find_exporter(form).write(open_source(run.path), str(tmp_path / name)).attempts == 1
    assert "\x1b" not in decision(summarise(run)) + attempt_card(record, run)


@pytest.mark.parametrize(
    "text, why",
    [
        ("", "not JSON"), ("[1]", "expected a JSON object"), ("[" * 100_000, "not JSON"), ('{"version": 2}', "no 'eval'"),
        ('{"eval": {}}', "no samples"), ('{"eval": {}, "samples": []}', "has no results"),
        ('{"eval": {}, "samples": [7]}', r"samples\[0\]"), ('{"eval": {}, "samples": [{}, {}]}', "occurs twice"),
    ],
)  # fmt: skip
def test_bad_log_is_refused_and_leaves_nothing(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        load(tmp_path, text)
    assert not list(tmp_path.glob("runs/*"))


@pytest.mark.parametrize("model", [{"a": 1}, [1], 7])
def test_model_that_is_not_text_is_named_by_its_text(tmp_path: Path, model: object) -> None:
    assert load(tmp_path, log(sample(1, "C"), eval={"task": "t", "model": model})).finals[0].model.name == str(model)


def pack_log(path: Path, *samples: str) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps(log()))
        for number, text in enumerate(samples):
            archive.writestr(f"samples/{number}.json", text)
    return path


@pytest.mark.parametrize("in_parts", [True, False])
def test_attachment_that_is_named_many_times_is_refused(tmp_path: Path, in_parts: bool) -> None:
    name = "attachment://a"
    content = [[{"type": "text", "text": name}] * 500] if in_parts else [name] * 500
    messages = [{"role": "user", "content": part} for part in content]
    bomb = json.dumps(sample("x", "C", attachments={"a": "a" * 1_000_000}, messages=messages))
    path = pack_log(tmp_path / "x.eval", bomb)
    with pytest.raises(InputError, match="expands to more than"):
        write_imported_run(find_importer(path).read(path), path, tmp_path / "runs")
    assert not list(tmp_path.glob("runs/*"))


def test_samples_that_expand_too_far_together_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect_import, "FREE_BYTES", 1_000_000)
    monkeypatch.setattr(inspect_import, "MAX_RATIO", 100)
    path = pack_log(tmp_path / "x.eval", *(json.dumps(sample(number, "C", input="a" * 500_000)) for number in range(9)))
    with pytest.raises(InputError, match="expands to more than"):
        write_imported_run(find_importer(path).read(path), path, tmp_path / "runs")


def test_document_of_countless_values_is_refused(tmp_path: Path) -> None:
    bomb = json.dumps(sample("x", "C"))[:-1] + ',"y":[' + "{}," * 5_000_000 + "{}]}"
    path = pack_log(tmp_path / "x.eval", bomb)
    with pytest.raises(InputError, match="too many values"):
        write_imported_run(find_importer(path).read(path), path, tmp_path / "runs")


def test_pipe_is_not_opened(tmp_path: Path) -> None:
    for name in ("x.eval", "x.json"):
        os.mkfifo(tmp_path / name)
        with pytest.raises(InputError, match="unknown format"):
            find_importer(tmp_path / name)
        with pytest.raises(InputError, match="not a regular file"):
            find_importer(tmp_path / name, "inspect").read(tmp_path / name)


def test_damaged_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps(log()))
        archive.writestr("samples/1_epoch_1.json", json.dumps(sample(1, "C")))
    data = bytearray(path.read_bytes())
    at = data.index(b"samples/1_epoch_1.json") + len(b"samples/1_epoch_1.json")
    data[at : at + 20] = b"\xff" * 20
    path.write_bytes(bytes(data))
    with pytest.raises(InputError, match=r"x\.eval: cannot read samples/1_epoch_1\.json"):
        write_imported_run(find_importer(path).read(path), path, tmp_path / "runs")


def test_unknown_file_lists_the_formats(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(InputError, match="unknown format"):
        find_importer(tmp_path / "a.txt")
    with pytest.raises(InputError, match="does not exist"):
        find_importer(tmp_path / "missing.eval")


def test_run_and_its_bundle_are_not_imported(tmp_path: Path) -> None:
    run = run_dir(tmp_path / "run", [record("x")])
    write_bundle(run, tmp_path / "run.tar.zst")
    for path, message in ((run, "is a run directory already"), (tmp_path / "run.tar.zst", "is a bundle of a run")):
        with pytest.raises(InputError, match=message) as error:
            find_importer(path)
        assert error.value.remedy == f"read it with `ab show {path}`"


def test_different_ids_stay_different() -> None:
    ids = {safe_id(text) for text in ("a b", "a-b", "a/b", "", "..", "é", "x" * 500, "x" * 501)}
    assert len(ids) == 8
