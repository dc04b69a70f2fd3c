"""Reports say in their first line that a record is not the one that was sealed."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agentbench.cli.main import root
from agentbench.core.errors import InputError
from agentbench.reports.html.detail import Trace, detail
from agentbench.reports.sources import open_run
from agentbench.trace.events import AttemptSealed, RunClosed
from agentbench.trace.log import EventLog, read_events
from agentbench.view.index import RunIndex
from agentbench.view.roots import Roots
from tests.record.samples import whole_run
from tests.reports.runs import record, run_dir, seal_run

EDITED = "attempts.jsonl:2 differs from its seal"


def ab(*args: object) -> str:
    return CliRunner().invoke(root, [str(arg) for arg in args]).output


def edit(run: Path, old: str, new: str, *, line: int = 2) -> None:
    file = run / "attempts.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    assert old in lines[line - 1]
    lines[line - 1] = lines[line - 1].replace(old, new, 1)
    file.write_text("".join(lines), encoding="utf-8")


@pytest.fixture
def edited(tmp_path: Path) -> Path:
    """A run of three attempts in which the verdict of the second was changed to a pass."""
    run = run_dir(tmp_path / "run", [record("a"), record("b", "fail"), record("c")])
    edit(run, '"passed":false', '"passed":true', line=2)
    return run


@pytest.mark.component
@pytest.mark.req("E-12")
def test_show_marks_an_edited_verdict_in_the_first_line(edited: Path) -> None:
    assert ab("show", edited).startswith(f"ALTERED: {EDITED}, see `ab verify`. ")
    assert ab("show", edited, "--task", "b").startswith(f"ALTERED: {EDITED}, see `ab verify`. ")
    assert ab("show", edited, "--task", "a").startswith("PASS")
    shown = json.loads(ab("show", edited, "--json"))
    assert shown["altered"] == [{"place": "attempts.jsonl:2", "attempt_id": "01-b-1", "why": "differs from its seal"}]


def test_summary_marks_an_edited_verdict_in_every_format(edited: Path, tmp_path: Path) -> None:
    assert ab("report", "summary", "--run", edited).startswith(f"# ALTERED: {EDITED}")
    summary = json.loads(ab("report", "summary", "--run", edited, "--json"))
    assert summary["decision"].startswith(f"ALTERED: {EDITED}")
    assert [alteration["attempt_id"] for alteration in summary["altered"]] == ["01-b-1"]
    rows = list(csv.DictReader(io.StringIO(ab("report", "summary", "--run", edited, "--format", "csv"))))
    assert [row["altered"] for row in rows] == ["", EDITED, ""]
    junit = ab("report", "summary", "--run", edited, "--format", "junit")
    assert 'errors="1"' in junit
    assert f"ALTERED: {EDITED}" in junit
    ab("report", "summary", "--run", edited, "--format", "html", "--out", tmp_path / "page")
    page = (tmp_path / "page/index.html").read_text(encoding="utf-8")
    assert page.count(f"ALTERED: {EDITED}") >= 2
    ab("show", edited, "--task", "b", "--html", tmp_path / "b.html")
    assert f"ALTERED: {EDITED}" in (tmp_path / "b.html").read_text(encoding="utf-8")


def test_comparison_of_an_altered_run_leaves_the_gate_undecided(edited: Path, tmp_path: Path) -> None:
    other = run_dir(tmp_path / "other", [record(name, variant="packer") for name in "abc"])
    gate = tmp_path / "gate.yaml"
    gate.write_text("{max_drop: 0.5}")
    result = CliRunner().invoke(root, ["report", "paired", "--run-a", str(edited), "--run-b", str(other)])
    assert result.output.startswith(f"# ALTERED in A: {EDITED}")
    gated = CliRunner().invoke(
        root, ["report", "paired", "--run-a", str(edited), "--run-b", str(other), "--gate", str(gate)]
    )
    assert gated.exit_code == 2
    assert f"records: A: {EDITED}" in gated.output


def test_query_has_a_column_for_altered_records(edited: Path) -> None:
    pytest.importorskip("duckdb")
    result = CliRunner().invoke(root, ["query", "select task_id from attempts where altered", str(edited), "--json"])
    assert json.loads(result.stdout) == [{"task_id": "b"}]
    assert EDITED in result.stderr


def test_query_names_a_forged_record_that_other_reports_do_not_read(tmp_path: Path) -> None:
    """A line without its end is still being written; DuckDB reads it nevertheless."""
    pytest.importorskip("duckdb")
    run = run_dir(tmp_path / "run", [record("a", "fail")])
    with (run / "attempts.jsonl").open("ab") as file:
        file.write(record("b").line())
    result = CliRunner().invoke(root, ["query", "select task_id from attempts where altered", str(run), "--json"])
    assert json.loads(result.stdout) == [{"task_id": "b"}]
    assert "attempts.jsonl:2 is not a complete line" in result.stderr


def test_list_of_runs_names_altered_ones_first(edited: Path, tmp_path: Path) -> None:
    run_dir(tmp_path / "sound", [record("a")])
    text = ab("runs", "ls", "--out", tmp_path)
    assert text.startswith("ALTERED: 1 run, see `ab verify`. 2 runs in ")
    assert f"ALTERED: {EDITED}, see `ab verify`. 2 passed" in text
    listed = json.loads(ab("runs", "ls", "--out", tmp_path, "--json"))["runs"]
    assert {run["name"]: run["altered"] for run in listed} == {"run": 1, "sound": 0}


def test_annotations_of_an_altered_run_begin_with_an_error(edited: Path) -> None:
    first = ab("ci", "annotations", edited).splitlines()[0]
    assert first == f"::error title=run::ALTERED: {EDITED}, see `ab verify`."
    log = json.loads(ab("ci", "annotations", edited, "--format", "sarif"))
    assert log["runs"][0]["results"][0]["message"]["text"] == f"ALTERED: {EDITED}, see `ab verify`."


def test_list_of_the_view_names_altered_records(edited: Path) -> None:
    index = RunIndex(Roots.of([edited.parent]))
    assert index.wait_until_read(100)
    (entry,) = index.entries()
    index.close()
    assert entry.as_json()["altered"] == EDITED
    assert not entry.as_json()["not_sealed"]


def _hide(run: Path) -> None:
    edit(run, '"final":true', '"final":false')


def _remove(run: Path) -> None:
    file = run / "attempts.jsonl"
    first, _second, third = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(first + third)


def _add(run: Path) -> None:
    with (run / "attempts.jsonl").open("ab") as file:
        file.write(record("d").line() + b"\n")


def _duplicate(run: Path) -> None:
    file = run / "attempts.jsonl"
    file.write_bytes(file.read_bytes() + file.read_bytes().splitlines(keepends=True)[0])


def _seal_twice(run: Path) -> None:
    """Edit a record and add a seal for it, with correct hashes."""
    before = (run / "events.jsonl").read_bytes()
    edit(run, '"passed":false', '"passed":true')
    (run / "events.jsonl").unlink()
    seal_run(run)
    seals = [event.payload for event in read_events(run / "events.jsonl", types={AttemptSealed.type})]
    (run / "events.jsonl").write_bytes(b"".join(before.splitlines(keepends=True)[:-1]))
    log, _ = EventLog.reopen(run / "events.jsonl")
    with log:
        log.append(seals[1])


def _close_twice(run: Path) -> None:
    log, _ = EventLog.reopen(run / "events.jsonl")
    with log:
        log.append(RunClosed(status="completed", closed_at="", attempts=3, events=log.count, head=log.head))


def _seal_folder_outside(run: Path) -> None:
    """Rewrite the chain with a seal for a folder outside the run directory."""
    before = (run / "events.jsonl").read_bytes().splitlines(keepends=True)
    seal = next(event.payload for event in read_events(run / "events.jsonl", types={AttemptSealed.type}))
    assert isinstance(seal, AttemptSealed)
    (run / "events.jsonl").write_bytes(before[0])
    (run / "attempts.jsonl").write_bytes((run / "attempts.jsonl").read_bytes().splitlines(keepends=True)[0])
    log, _ = EventLog.reopen(run / "events.jsonl")
    with log:
        log.append(seal.model_copy(update={"task_dir": "../outside", "files_sha256": "sha256:" + "1" * 64}))


def _reseal_without_the_chain(run: Path) -> None:
    _hide(run)
    edit(run, '"passed":false', '"passed":true')
    before = (run / "events.jsonl").read_bytes().splitlines(keepends=True)
    (run / "events.jsonl").unlink()
    seal_run(run)
    after = (run / "events.jsonl").read_bytes().splitlines(keepends=True)
    (run / "events.jsonl").write_bytes(b"".join([*before[:2], after[2], *before[3:]]))


@pytest.mark.parametrize(
    "change, why",
    [
        (_hide, "attempts.jsonl:2 is marked not final, but no record supersedes it"),
        (_remove, "attempts.jsonl lacks the sealed record of attempt 01-b-1"),
        (_add, "attempts.jsonl:4 was never sealed"),
        (_duplicate, "attempts.jsonl:4 is a second record of the same attempt"),
        (_seal_twice, "events.jsonl:5 is not a seal of its own"),
        (_seal_folder_outside, "events.jsonl seals '../outside', which is not an attempt folder"),
        (_close_twice, "events.jsonl:6 follows the closing record of the run"),
        (_reseal_without_the_chain, "events.jsonl:3 breaks the hash chain that seals the records"),
    ],
)
def test_hidden_removed_and_added_records_are_marked(tmp_path: Path, change: Callable[[Path], None], why: str) -> None:
    run = run_dir(tmp_path / "run", [record("a"), record("b", "fail"), record("c")])
    assert not open_run(run).altered
    change(run)
    assert ab("show", run).startswith(f"ALTERED: {why}")


def test_line_without_end_does_not_fill_the_memory(tmp_path: Path) -> None:
    run = whole_run(tmp_path)
    log = run / open_run(run).finals[0].artifact_paths.task_dir / "events.jsonl"
    os.truncate(log, 3_000_000_000)  # a sparse file
    tracemalloc.start()
    try:
        opened = open_run(run)
        assert detail(opened.finals[0], opened, Trace())["altered"]
        assert tracemalloc.get_traced_memory()[1] < 500_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["attempts.jsonl", "events.jsonl"])
def test_line_that_is_too_long_does_not_hide_what_follows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = whole_run(tmp_path)
    first, rest = (run / name).read_bytes().split(b"\n", 1)
    (run / name).write_bytes(first + b"\n" + b"x" * 200_000 + b"\n" + rest)
    for module in ("core.regular_file", "record.seals", "reports.record_rows", "trace.verify"):
        monkeypatch.setattr(f"agentbench.{module}.MAX_LINE", 100_000)
    if name == "attempts.jsonl":
        with pytest.raises(InputError, match=r"attempts\.jsonl:2"):
            open_run(run)
    else:
        assert "breaks the hash chain" in str(open_run(run).altered)


def test_run_whose_end_was_cut_off_is_not_closed(tmp_path: Path) -> None:
    """Without its end, a chain is valid, and nothing shows how many attempts followed."""
    run = run_dir(tmp_path / "run", [record("a"), record("b", "fail")])
    for name, lines in (("events.jsonl", 2), ("attempts.jsonl", 1)):
        (run / name).write_bytes(b"".join((run / name).read_bytes().splitlines(keepends=True)[:lines]))
    assert ab("report", "summary", "--run", run).splitlines()[0].endswith(" [NOT CLOSED]")
    assert ab("show", run).splitlines()[0].endswith(" [NOT CLOSED]")


def test_only_attempt_left_does_not_hide_that_others_were_removed(tmp_path: Path) -> None:
    run = run_dir(tmp_path / "run", [record("a"), record("b", "fail")])
    file = run / "attempts.jsonl"
    file.write_bytes(file.read_bytes().splitlines(keepends=True)[0])
    assert ab("show", run).startswith("ALTERED: attempts.jsonl lacks the sealed record of attempt 01-b-1")


def test_missing_records_are_named_with_the_command_that_explains_them(tmp_path: Path) -> None:
    run = run_dir(tmp_path / "run", [record("a"), record("b", "fail")])
    other = run_dir(tmp_path / "other", [record("a"), record("b")])
    (run / "attempts.jsonl").unlink()
    lacks = "attempts.jsonl lacks the sealed record of attempt 01-a-1"
    for command in ("show", "report summary"):
        first = ab(*command.split(), run).splitlines()[0].removeprefix("# ")
        assert first.startswith(f"ALTERED: {lacks} (and 1 more), see `ab verify`."), command
    for command in ("report paired", "report compare"):
        error = CliRunner().invoke(root, [*command.split(), str(run), str(other)]).exception
        assert isinstance(error, InputError), command
        assert lacks in error.message
        assert "ab verify" in error.remedy


def test_edited_run_json_is_marked(tmp_path: Path) -> None:
    run = whole_run(tmp_path / "runs")
    meta = json.loads((run / "run.json").read_bytes())
    (run / "run.json").write_text(json.dumps({**meta, "suite": "another"}), encoding="utf-8")
    assert ab("show", run).startswith("ALTERED: run.json differs from when the run was opened")


@pytest.mark.parametrize("name", ["events.jsonl", "diffs/final.patch", "manifest.json"])
def test_attempt_with_edited_evidence_is_marked(tmp_path: Path, name: str) -> None:
    run = whole_run(tmp_path / "runs")
    row = open_run(run).rows[0]
    file = run / row.task_dir / name
    file.write_bytes(file.read_bytes()[:-20])
    assert ab("show", run, "--task", row.task).startswith(f"ALTERED: {row.task_dir}/{name}")
    ab("show", run, "--task", row.task, "--html", tmp_path / "page.html")
    assert f"ALTERED: {row.task_dir}/{name}" in (tmp_path / "page.html").read_text(encoding="utf-8")
    finding = ["--attempt", row.attempt_id, "--truth", "correct", "--minutes", "1"]
    error = CliRunner().invoke(root, ["adjudicate", str(run), *finding]).exception
    assert isinstance(error, InputError)
    assert f"was altered: {row.task_dir}/{name}" in error.message
    ab("report", "summary", "--run", run, "--format", "html", "--out", tmp_path / "report")
    data = "".join(file.read_text("utf-8") for file in (tmp_path / "report/data").iterdir())
    assert f'altered\\":\\"{row.task_dir}/{name}' in data


def test_attempt_whose_folder_was_removed_is_marked(tmp_path: Path) -> None:
    """Reports would show it without its protocol deviations."""
    run = whole_run(tmp_path)
    shutil.rmtree(run / "tasks")
    altered = {str(record) for record in open_run(run).altered}
    assert altered == {f"{row.task_dir} is missing" for row in open_run(run).rows}
    assert ab("report", "summary", "--run", run).startswith("# ALTERED: ")


def test_run_without_a_chain_is_not_sealed_but_not_altered(tmp_path: Path) -> None:
    run = run_dir(tmp_path / "run", [record("a"), record("b", "fail")])
    (run / "events.jsonl").unlink()
    first = ab("report", "summary", "--run", run).splitlines()[0]
    assert first.endswith(" [NOT SEALED]")
    assert not open_run(run).altered
    exported = ab("export-run", run, "--format", "junit", "--out", tmp_path / "junit.xml")
    assert exported.endswith(" [NOT SEALED]\n")


def _without_chain(run: Path) -> None:
    (run / "events.jsonl").unlink()


def _empty_chain(run: Path) -> None:
    (run / "events.jsonl").write_bytes(b"")


def _chain_before_first_seal(run: Path) -> None:
    log = run / "events.jsonl"
    log.write_bytes(log.read_bytes().splitlines(keepends=True)[0])


def _imported_by_word(run: Path) -> None:
    (run / "events.jsonl").unlink()
    meta = json.loads((run / "run.json").read_bytes())
    (run / "run.json").write_text(json.dumps({**meta, "imported": {"tool": "another tool"}}))


UNSEALED = (_without_chain, _empty_chain, _chain_before_first_seal, _imported_by_word)


@pytest.fixture(params=UNSEALED)
def unsealed(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A run in which the second verdict was changed to a pass, and whose records have no seals."""
    run = run_dir(tmp_path / "run", [record("a"), record("b", "fail"), record("c")])
    edit(run, '"passed":false', '"passed":true', line=2)
    request.param(run)
    return run


def test_run_without_seals_leaves_the_gate_undecided(unsealed: Path, tmp_path: Path) -> None:
    base = run_dir(tmp_path / "base", [record(name, variant="packer", run_id="01B") for name in "abc"])
    gate = tmp_path / "gate.yaml"
    gate.write_text("{max_drop: 0.5}")
    why = "records: B: 3 of 3 attempts have no seal, see `ab verify`"
    gated = CliRunner().invoke(root, ["report", "paired", str(base), str(unsealed), "--gate", str(gate)])
    assert (gated.exit_code, gated.output.splitlines()[0]) == (2, f"GATE UNDECIDED: {why}")
    commented = CliRunner().invoke(
        root, ["ci", "comment", str(unsealed), "--compare", str(base), "--gate", str(gate), "--json"]
    )
    assert commented.exit_code == 2
    assert json.loads(commented.output)["gate"]["line"] == f"GATE UNDECIDED: {why}"


def test_annotations_begin_with_an_error_if_records_have_no_seals(unsealed: Path) -> None:
    assert ab("ci", "annotations", unsealed).splitlines()[0] == "::error title=run::[NOT SEALED]"


def test_adjudicating_an_attempt_without_a_seal_is_refused(unsealed: Path) -> None:
    args = ["adjudicate", str(unsealed), "--attempt", "b", "--truth", "correct", "--minutes", "1"]
    with pytest.raises(InputError, match="b, repeat 1 has no seal"):
        CliRunner().invoke(root, args, catch_exceptions=False)
    assert not (unsealed / "adjudications.jsonl").exists()


def read_csv(*args: object) -> list[dict[str, str]]:
    result = CliRunner().invoke(root, [*map(str, args), "--format", "csv"])
    return list(csv.DictReader(io.StringIO(result.stdout)))


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return run_dir(tmp_path / "base", [record(name, variant="packer", run_id="01B") for name in "abc"])


def test_csv_of_comparisons_has_a_column_for_altered_records(edited: Path, base: Path) -> None:
    assert {row["altered"] for row in read_csv("report", "paired", base, edited)} == {f"B: {EDITED}"}
    compared = {row["method"]: row["altered"] for row in read_csv("report", "compare", base, edited)}
    assert compared == {"packer": "", "baseline": EDITED}


def test_csv_and_junit_name_attempts_without_a_seal(unsealed: Path, base: Path) -> None:
    counted = "3 of 3 attempts have no seal"
    assert {row["altered"] for row in read_csv("report", "summary", unsealed)} == {"has no seal"}
    assert {row["altered"] for row in read_csv("report", "paired", base, unsealed)} == {f"B: {counted}"}
    assert counted in {row["altered"] for row in read_csv("report", "compare", base, unsealed)}
    junit = ab("report", "summary", unsealed, "--format", "junit")
    assert 'errors="3"' in junit
    assert '<property name="not_sealed" value="3"/>' in junit


def gate_over_csv(base: Path, run: Path) -> Result:
    """Write a run as CSV and compare the file with another run."""
    file, gate = base.parent / "b.csv", base.parent / "gate.yaml"
    file.write_text(CliRunner().invoke(root, ["report", "summary", str(run), "--format", "csv"]).stdout)
    gate.write_text("{max_drop: 0.5}")
    return CliRunner().invoke(root, ["report", "paired", str(base), str(file), "--gate", str(gate)])


def test_csv_of_an_altered_run_leaves_the_gate_undecided(edited: Path, base: Path) -> None:
    gated = gate_over_csv(base, edited)
    first, _, decision = gated.output.splitlines()[:3]
    assert (gated.exit_code, first) == (2, f"GATE UNDECIDED: records: B: {EDITED}, see `ab verify`")
    assert decision.startswith(f"# ALTERED in B: {EDITED}, see `ab verify`. ")
    assert ab("report", "compare", base, base.parent / "b.csv").startswith(f"# ALTERED in baseline: {EDITED}")
    (row, *_) = read_csv("report", "paired", base, base.parent / "b.csv")
    assert row["altered"] == f"B: {EDITED}"


def test_csv_of_a_run_without_seals_leaves_the_gate_undecided(unsealed: Path, base: Path) -> None:
    gated = gate_over_csv(base, unsealed)
    first, _, decision = gated.output.splitlines()[:3]
    assert (gated.exit_code, first) == (
        2,
        "GATE UNDECIDED: records: B: 3 of 3 attempts have no seal, see `ab verify`",
    )
    assert decision.endswith("[NOT SEALED IN B]")


@pytest.mark.parametrize("cell, exit_code", [("True", 2), ("False", 0), ("", 0)])
def test_column_altered_may_have_the_values_of_a_query(cell: str, exit_code: int, base: Path, tmp_path: Path) -> None:
    file, gate = tmp_path / "b.csv", tmp_path / "gate.yaml"
    file.write_text("task,method,repeat,outcome,altered\n" + "".join(f"{name},m,1,pass,{cell}\n" for name in "abc"))
    gate.write_text("{max_drop: 0.5}")
    gated = CliRunner().invoke(root, ["report", "paired", str(base), str(file), "--gate", str(gate)])
    assert gated.exit_code == exit_code, gated.output


@pytest.mark.parametrize("change", [_hide, _remove])
def test_every_csv_row_names_a_record_that_has_no_row(tmp_path: Path, change: Callable[[Path], None]) -> None:
    run = run_dir(tmp_path / "run", [record("a"), record("b", "fail"), record("c")])
    change(run)
    why = str(open_run(run).altered[0])
    assert [row["altered"] for row in read_csv("report", "summary", run)] == [why, why]


def test_csv_without_rows_names_hidden_records_on_stderr(tmp_path: Path) -> None:
    run = run_dir(tmp_path / "run", [record("a"), record("b", "fail")])
    (run / "attempts.jsonl").write_bytes(b"")
    result = CliRunner().invoke(root, ["report", "summary", str(run), "--format", "csv"])
    assert result.stderr.startswith("ALTERED: attempts.jsonl lacks the sealed record of attempt 01-a-1 (and 1 more)")


def test_list_of_runs_names_those_without_seals(tmp_path: Path) -> None:
    run = run_dir(tmp_path / "run", [record("a"), record("b", "fail")])
    _chain_before_first_seal(run)
    text = ab("runs", "ls", "--out", tmp_path)
    assert text.startswith("NOT SEALED: 1 run. 1 run in ")
    assert "[NOT SEALED] 1 passed" in text
    (listed,) = json.loads(ab("runs", "ls", "--out", tmp_path, "--json"))["runs"]
    assert (listed["not_sealed"], listed["warning"]) == (2, "[NOT SEALED]")


def test_list_of_the_view_names_runs_without_seals(unsealed: Path) -> None:
    marks: list[str] = []
    index = RunIndex(
        Roots.of([unsealed.parent]), on_rows=lambda _key, _path, _meta, _rows, altered: marks.append(altered)
    )
    assert index.wait_until_read(100)
    (entry,) = index.entries()
    index.close()
    if entry.state == "unreadable":  # without a chain, nothing of the run is shown
        assert not marks
        return
    assert entry.as_json()["not_sealed"] == "3 of 3 attempts have no seal"
    assert marks == ["3 of 3 attempts have no seal"]
    assert index.unsealed() == ["run"]


@pytest.mark.parametrize("change", [_hide, _remove])
def test_junit_has_an_error_for_a_record_that_has_no_row(tmp_path: Path, change: Callable[[Path], None]) -> None:
    run = run_dir(tmp_path / "run", [record("a"), record("b", "fail"), record("c")])
    change(run)
    text = ab("report", "summary", run, "--format", "junit")
    assert '<testsuites tests="3" failures="0" errors="1"' in text
    assert f'<error type="ALTERED" message="{open_run(run).altered[0]}, see `ab verify`"/>' in text


def test_junit_has_an_error_for_an_edited_run_json(tmp_path: Path) -> None:
    run = whole_run(tmp_path / "runs")
    (run / "run.json").write_bytes((run / "run.json").read_bytes() + b"\n")
    assert 'message="run.json differs from when the run was opened' in ab("report", "summary", run, "--format", "junit")


def _edit_event(log: Path) -> None:
    log.write_bytes(log.read_bytes().replace(b'"outcome":"', b'"outcome":"x', 1))


def _cut_events(log: Path) -> None:
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))


@pytest.mark.parametrize(
    "change, why",
    [(_edit_event, "differs from its seal"), (_cut_events, "differs from its seal"), (Path.unlink, "is missing")],
)
def test_query_of_events_names_altered_logs(tmp_path: Path, change: Callable[[Path], None], why: str) -> None:
    pytest.importorskip("duckdb")
    run = whole_run(tmp_path / "runs")
    place = f"{open_run(run).rows[0].task_dir}/events.jsonl"
    count = ["query", "select count(*) n from events", str(run), "--json"]
    assert not CliRunner().invoke(root, count).stderr
    change(run / place)
    assert CliRunner().invoke(root, count).stderr == f"ALTERED: {place} {why}, see `ab verify`\n"
    assert not CliRunner().invoke(root, ["query", "select count(*) n from attempts", str(run)]).stderr.count("ALTERED")


def test_query_of_events_names_a_log_that_no_seal_covers(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    run = whole_run(tmp_path / "runs")
    folder = run / open_run(run).rows[0].task_dir
    shutil.copytree(folder, folder.with_name("added"))
    result = CliRunner().invoke(root, ["query", "select count(*) n from events", str(run)])
    assert result.stderr.startswith("ALTERED: tasks/added/events.jsonl was never sealed, see `ab verify`\n")


def test_query_does_not_call_records_without_a_seal_unaltered(unsealed: Path) -> None:
    pytest.importorskip("duckdb")
    result = CliRunner().invoke(root, ["query", "select distinct altered from attempts", str(unsealed), "--json"])
    assert json.loads(result.stdout) == [{"altered": None}]
    assert result.stderr == "NOT SEALED: run has records without a seal that shows whether they were edited\n"


def test_query_tells_sealed_attempts_of_a_running_run_from_others(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    run = run_dir(tmp_path / "run", [record("a"), record("b", "fail")])
    log = run / "events.jsonl"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:2]))
    answer = json.loads(ab("query", "select altered from attempts order by task_id", run, "--json").partition("\n")[2])
    assert answer == [{"altered": False}, {"altered": None}]


def test_record_of_a_running_run_may_wait_for_its_seal(tmp_path: Path) -> None:
    run = run_dir(tmp_path / "run", [record("a"), record("b", "fail")])
    log = run / "events.jsonl"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:2]))
    assert ab("show", run).splitlines()[0].endswith(" [1 NOT SEALED]")


def test_member_named_like_an_unsealed_one_does_not_look_altered(tmp_path: Path) -> None:
    tagged = record("a", "fail")
    tag = tagged.tags[0].model_copy(update={"attributes": {"a": 1, "final": True, "trace_head": "x", "z": 1}})
    run = run_dir(tmp_path / "run", [tagged.model_copy(update={"tags": (tag,)})])
    assert not open_run(run).altered


def test_records_of_a_real_run_match_their_seals(tmp_path: Path) -> None:
    run = open_run(whole_run(tmp_path / "runs"))
    assert (run.altered, run.unsealed) == ((), frozenset())


def test_adjudicating_an_altered_record_is_refused(edited: Path) -> None:
    args = ["adjudicate", str(edited), "--attempt", "b", "--truth", "correct", "--minutes", "1"]
    with pytest.raises(InputError, match=EDITED):
        CliRunner().invoke(root, args, catch_exceptions=False)
    assert not (edited / "adjudications.jsonl").exists()


@pytest.mark.component
@pytest.mark.parametrize("name", ["manifest.json", "task.yaml", "meta/files.json"])
def test_reports_name_an_altered_description_of_a_task(tmp_path: Path, name: str) -> None:
    """The manifest says where the run deviated from its protocol, which every report has to show."""
    run = whole_run(tmp_path / "runs")
    task_dir = open_run(run).rows[0].task_dir
    file = run / task_dir / name
    file.write_bytes(file.read_bytes() + b" ")
    line = f"ALTERED: {task_dir}/{name} differs from its seal"
    assert ab("report", "summary", run).startswith(f"# {line}")
    assert ab("show", run).startswith(line)
    file.unlink()
    assert ab("show", run).startswith(f"ALTERED: {task_dir}/{name} is missing")
