"""Reports of unusual runs: empty, invalid, incomplete, newer, huge, hostile. Each gives output or one clear error."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agentbench.cli.report import command
from agentbench.core.errors import AgentBenchError, ContractError, InputError
from agentbench.reports.html import page
from agentbench.reports.record_rows import read_rows
from agentbench.reports.sources import open_run
from tests.reports.runs import record, run_dir

pytestmark = pytest.mark.component

FORMATS = ("md", "csv", "json", "junit", "html")


def invoke(*args: object) -> Result:
    return CliRunner().invoke(command, list(map(str, args)))


def summary(run: Path, form: str) -> str:
    extra = ("--out", run.with_name(f"{run.name}-page")) if form == "html" else ()
    result = invoke("summary", "--run", run, "--format", form, *extra)
    assert result.exception is None, result.exception
    return result.output


def error_of(*args: object) -> InputError:
    result = invoke(*args)
    assert isinstance(result.exception, InputError), result.output
    return result.exception


@pytest.mark.req("A-01")
@pytest.mark.parametrize("form", FORMATS)
def test_empty_invalid_and_single_runs_are_summarised(tmp_path: Path, form: str) -> None:
    for name, kinds in (("empty", []), ("invalid", ["task", "harness", "operator"]), ("one", ["pass"])):
        run = run_dir(tmp_path / name, [record(f"t{n}", kind) for n, kind in enumerate(kinds)])
        assert summary(run, form) or not kinds


@pytest.mark.req("A-02")
def test_impossible_comparisons_state_the_reason(tmp_path: Path) -> None:
    full = run_dir(tmp_path / "full", [record("a"), record("b", "fail")])
    empty = run_dir(tmp_path / "empty", [])
    other = run_dir(tmp_path / "other", [record("c")])
    invalid = run_dir(tmp_path / "invalid", [record("a", "task"), record("b", "harness")])
    assert "has no finished attempts" in error_of("paired", "--run-a", full, "--run-b", empty).message
    assert "no task in common" in error_of("paired", "--run-a", full, "--run-b", other).message
    for same in (full, full / "run.json", shutil.copytree(full, tmp_path / "copy")):
        assert "both sides are the same run" in error_of("paired", full, same).message
    results = tmp_path / "results.csv"
    results.write_text("task,method,repeat,outcome\na,one,1,pass\n")
    assert "both sides are the same results" in error_of("paired", results, f"{results}#one").message
    assert "only invalid attempts" in error_of("paired", "--run-a", full, "--run-b", invalid).message


@pytest.mark.parametrize("command", ["paired", "compare"])
def test_problems_of_all_sides_are_listed(tmp_path: Path, command: str) -> None:
    results = tmp_path / "results.csv"
    results.write_text("task,method,repeat,outcome\na,one,x,pass\nb,one,1,maybe\n")
    error = error_of(command, tmp_path / "missing.csv", results)
    assert isinstance(error, ContractError)
    assert error.message == "3 problems"
    assert "missing.csv does not exist" in error.problems[0]
    assert [problem.startswith(f"{results}:{line}: ") for line, problem in zip((2, 3), error.problems[1:], strict=True)]


@pytest.mark.req("A-02", "A-04")
@pytest.mark.parametrize("form", ["md", "csv", "json", "html"])
def test_one_common_task_is_inconclusive(tmp_path: Path, form: str) -> None:
    a = run_dir(tmp_path / "a", [record("x", "fail"), record("only-a")])
    b = run_dir(tmp_path / "b", [record("x"), record("only-b")])
    extra = ("--out", tmp_path / "page") if form == "html" else ()
    result = invoke("paired", "--run-a", a, "--run-b", b, "--format", form, *extra)
    assert result.exception is None
    if form == "md":
        first = result.output.splitlines()[0]
        assert first.startswith("# INCONCLUSIVE: B − A = +100.0 points")
        assert "Underpowered: 1 task differs, at least 5 are needed for significance." in first
        assert "run only by A" in result.output


@pytest.mark.req("A-11a")
def test_page_size_is_bounded_and_omissions_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "ROW_BYTES", 30_000)
    records = [record(f"{n:03}" + "é" * 400, "fail", needs_review=True, run_badge="x" * 9_000) for n in range(40)]
    run = run_dir(tmp_path / "run", records)
    summary(run, "html")
    text = (tmp_path / "run-page" / "index.html").read_text(encoding="utf-8")
    data = json.loads(text.split('id="data">')[1].split("</script>")[0])
    assert 0 < len(data["attempts"]) < 10
    assert len(data["attempts"]) + data["omitted"] == 40
    assert len(list((tmp_path / "run-page" / "data").iterdir())) == len(data["attempts"])


@pytest.mark.req("E-14", "C-11")
def test_contract_versions_are_compared_only_with_the_option(tmp_path: Path) -> None:
    a = run_dir(tmp_path / "a", [record("x"), record("y")])
    b = run_dir(tmp_path / "b", [record("x", contract_id="sha256:other"), record("y")])
    assert "contract of 1 task differs" in error_of("paired", "--run-a", a, "--run-b", b).message
    text = invoke("paired", "--run-a", a, "--run-b", b, "--across-versions").output
    assert "[ACROSS CONTRACT VERSIONS]" in text.splitlines()[0]
    data = json.loads(invoke("paired", "--run-a", a, "--run-b", b, "--across-versions", "--json").output)
    assert data["labels"] == ["ACROSS CONTRACT VERSIONS"]


@pytest.mark.req("E-14", "A-09a")
def test_different_caps_make_a_comparison_provisional(tmp_path: Path) -> None:
    a = run_dir(tmp_path / "a", [record("x"), record("y")])
    b = run_dir(tmp_path / "b", [record(task, config_class="sha256:tighter") for task in "xy"])
    text = invoke("paired", "--run-a", a, "--run-b", b).output
    assert "[PROVISIONAL]" in text.splitlines()[0]
    assert "configuration class (sandbox constraints, limits, logging) differs" in text


@pytest.mark.req("A-02")
def test_unequal_repeats_are_compared_by_task(tmp_path: Path) -> None:
    a = run_dir(tmp_path / "a", [record("x", "pass", n) for n in (1, 2, 3)] + [record("y", "fail")])
    b = run_dir(tmp_path / "b", [record("x", "fail"), record("y", "pass")])
    data = json.loads(invoke("paired", "--run-a", a, "--run-b", b, "--json").output)
    comparison = data["comparisons"]["contract"]
    assert comparison["difference"] == 0
    assert any("different numbers of counted attempts" in note for note in comparison["notes"])


def test_incomplete_record_is_ignored_and_invalid_one_reported(tmp_path: Path) -> None:
    run = run_dir(tmp_path / "run", [record("a"), record("b")])
    with (run / "attempts.jsonl").open("ab") as file:
        file.write(record("c").line()[:80])
    assert [row.task for row in open_run(run).rows] == ["a", "b"]
    with (run / "attempts.jsonl").open("ab") as file:
        file.write(b"\n")
    with pytest.raises(InputError, match=r"attempts\.jsonl:3: "):
        open_run(run)


def test_newer_schema_versions_are_rejected_with_a_remedy(tmp_path: Path) -> None:
    run = run_dir(tmp_path / "run", [record("a")])
    path = run / "attempts.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"schema_version":1', b'"schema_version":7'))
    with pytest.raises(InputError, match="schema_version 7 is not supported, expected 1") as caught:
        open_run(run)
    assert "upgrade" in caught.value.remedy
    newer = run_dir(tmp_path / "newer", [record("a")])
    meta = json.loads((newer / "run.json").read_text(encoding="utf-8"))
    (newer / "run.json").write_text(json.dumps(meta | {"schema_version": 2}), encoding="utf-8")
    with pytest.raises(InputError, match="recorded by a newer version"):
        open_run(newer)


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e999", b'"2"x', b"null"])
def test_invalid_number_is_rejected(tmp_path: Path, number: bytes) -> None:
    run = run_dir(tmp_path / "run", [record("a", duration_sec=2.5)])
    path = run / "attempts.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"duration_sec":2.5', b'"duration_sec":' + number))
    with pytest.raises(InputError, match=r"attempts\.jsonl:1"):
        open_run(run)


@pytest.mark.parametrize("form", FORMATS)
def test_overflowing_count_is_rejected_with_its_place(tmp_path: Path, form: str) -> None:
    run = run_dir(tmp_path / "run", [record("a")])
    path = run / "attempts.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"prompt_tokens":0', b'"prompt_tokens":' + b"9" * 400))
    error = error_of("summary", "--run", run, "--format", form)
    assert "attempts.jsonl:1: usage.prompt_tokens: " in error.message


@pytest.mark.req("A-07a")
@pytest.mark.parametrize("form", FORMATS)
def test_huge_numbers_never_become_invalid_json(tmp_path: Path, form: str) -> None:
    huge = {"lm": 1.7e308, "total": 1.7e308}
    records = [record(f"t{n}", cost=huge, duration_sec=1e300, seed=2**80 + n) for n in range(3)]
    text = summary(run_dir(tmp_path / "run", records), form)
    if form == "json":
        json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    if form == "md":
        assert "overflow" in text


@pytest.mark.parametrize("form", FORMATS)
def test_markup_in_names_is_escaped(tmp_path: Path, form: str) -> None:
    attack = "<b onmouseover=alert(1)>|`[x](javascript:1)</b>"
    run = run_dir(tmp_path / "run", [record(attack, "fail", variant=attack, agent=attack)])
    text = summary(run, form)
    if form == "html":
        text = (tmp_path / "run-page" / "index.html").read_text(encoding="utf-8")
        text += (tmp_path / "run-page" / "data" / "a0.js").read_text(encoding="utf-8")
    if form in {"html", "junit"}:
        assert "<b onmouseover" not in text


def test_conflicting_options_are_rejected(tmp_path: Path) -> None:
    run = run_dir(tmp_path / "run", [record("a")])
    assert "takes only one run" in error_of("summary", "--run", run, "--run", run).message
    assert "--out needs --format html" in error_of("summary", "--run", run, "--out", tmp_path / "x").message
    assert (
        "--out needs --format html"
        in error_of("paired", "--run-a", run, "--run-b", run, "--out", tmp_path / "x").message
    )
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "precious.txt").write_text("mine", encoding="utf-8")
    error = error_of("summary", "--run", run, "--format", "html", "--out", tmp_path / "full")
    assert "is not a report" in error.message
    assert (tmp_path / "full" / "precious.txt").exists()


def test_report_replaces_an_earlier_report(tmp_path: Path) -> None:
    run = run_dir(tmp_path / "run", [record("a"), record("b")])
    page = tmp_path / "run-page"
    summary(run, "html")
    stale = page / "data" / "a7.js"
    stale.write_text("old", encoding="utf-8")
    summary(run, "html")
    assert not stale.exists()
    assert sorted(file.name for file in (page / "data").iterdir()) == ["a0.js", "a1.js"]


@pytest.mark.req("A-01")
def test_rows_match_the_records(tmp_path: Path) -> None:
    kinds = ["pass", "fail", "policy", "error", "harness", "task", "safety", "operator"]
    records = [record(f't{n} ü\u2028"\\', kind, n + 1, seed=2**70, task_digest="x") for n, kind in enumerate(kinds)]
    old = record("old", final=False)
    run = run_dir(tmp_path / "run", [old, *records])
    read = read_rows(run)
    assert read.superseded == 1
    for row, one in zip(read.finals, records, strict=True):
        assert (row.task, row.repeat, row.variant, row.attempt_id) == (
            one.task_id,
            one.repeat,
            one.variant,
            one.attempt_id,
        )
        assert (row.status, row.passed, row.reason, row.cause) == (
            one.run_status,
            one.result.passed,
            one.result.failure_reason,
            one.invalid_cause,
        )
        assert row.gates == tuple(gate.outcome for _, gate in sorted(one.gates.items()))
        assert row.usage._asdict() == one.usage.model_dump()
        assert row.cost._asdict().items() <= one.cost.model_dump().items()
        assert row.progress == tuple(one.progress.model_dump().values())
        assert (row.duration, row.ending, row.badge) == (one.duration_sec, one.termination.code, one.run_badge)
        assert (row.harness_version, row.env_digest, row.config_class) == (
            one.harness_version,
            one.env_digest,
            one.config_class,
        )
        assert (row.contract_id, row.task_digest, row.acceptance_id) == (
            one.contract_id,
            one.task_digest,
            one.acceptance_id,
        )
        assert (row.agent, row.model, row.attribution, row.observability) == (
            one.agent,
            one.model.name,
            one.attribution,
            one.observability,
        )
        assert (row.timeout_sec, row.tool_timeout_sec) == (one.limits.timeout_sec, one.limits.tool_timeout_sec)
        assert (row.workspace_verdict, row.judge, row.mean_score) == (one.workspace_verdict, None, one.mean_score)
        assert (row.needs_review, row.task_dir) == (one.needs_review, one.artifact_paths.task_dir)
        assert (row.seed, row.assurance, row.score) == (2**70, one.checks[0].assurance, one.score)
    assert open_run(run).records(read.finals) == tuple(records)


def test_record_without_judge_cost_is_read(tmp_path: Path) -> None:
    run = run_dir(tmp_path / "run", [record("a")])
    path = run / "attempts.jsonl"
    data = json.loads(path.read_bytes())
    del data["cost"]["judge"]
    path.write_text(json.dumps(data, separators=(",", ":")) + "\n", encoding="utf-8")
    (row,) = open_run(run).rows
    assert row.cost.judge == 0
    assert row.cost.total == 0.5


def test_unreadable_records_raise_an_expected_error(tmp_path: Path) -> None:
    for bad in (b"\xff\xfe\n", b"[]\n", b"{}\n", b'{"schema_version": "1"}\n', b"\n", b"[" * 5000 + b"\n"):
        run = run_dir(tmp_path / bad.hex()[:8], [])
        (run / "attempts.jsonl").write_bytes(bad)
        result = invoke("summary", "--run", run)
        assert isinstance(result.exception, AgentBenchError), bad
