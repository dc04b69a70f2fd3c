"""Importing SWE-bench rows as tasks and exporting them again, with every character of their test ids."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentbench.authoring.formats.row_ids import resolve_bare_names
from agentbench.authoring.formats.swebench import (
    Instance,
    export_task,
    import_instance,
    read_instances,
    report,
    repository_url,
)
from agentbench.contract.load import load_task
from agentbench.core.errors import InputError, SourceError
from agentbench.core.reasons import InvalidCause, Reason, RunStatus
from agentbench.execution.lab import Lab
from agentbench.reports.sources import open_run
from agentbench.reports.summary import summarise
from tests.authoring.conftest import FIX, put
from tests.reports.runs import record, run_dir
from tests.workspace.reference_git import git

pytestmark = [pytest.mark.req("C-18"), pytest.mark.component]

F2P = ["tests/test_calc.py::test_odd[a b]", "tests/test_calc.py::test_odd[[x]]", "tests/test_calc.py::test_odd[é::'\"]"]
P2P = ["tests/test_calc.py::test_even"]


@pytest.fixture
def row(repo: Path) -> dict[str, object]:
    base = git(repo, "rev-parse", "HEAD").decode().strip()
    fix = put(repo, FIX, "Fix")
    return {
        "instance_id": "me__calc-1",
        "repo": "me/calc",
        "base_commit": base,
        "patch": git(repo, "diff", base, fix, "--", "calc.py").decode(),
        "test_patch": git(repo, "diff", base, fix, "--", "tests").decode(),
        "problem_statement": "half(3) is 1\n",
        "FAIL_TO_PASS": json.dumps(F2P),
        "PASS_TO_PASS": P2P,
    }


def read(tmp_path: Path, text: str, name: str = "rows.jsonl") -> list[Instance | InputError]:
    (tmp_path / name).write_text(text)
    return [row for _, row in read_instances(tmp_path / name)]


def instance(tmp_path: Path, row: dict[str, object]) -> Instance:
    (parsed,) = read(tmp_path, json.dumps(row))
    assert isinstance(parsed, Instance)
    return parsed


@pytest.mark.parametrize("spelling", [json.dumps, str, list])
def test_id_lists_in_every_form(tmp_path: Path, row: dict[str, object], spelling: type) -> None:
    lower = {key.lower(): value for key, value in row.items()} | {"fail_to_pass": spelling(F2P)}
    assert instance(tmp_path, lower).fail_to_pass == tuple(F2P)


def test_json_list_and_json_lines(tmp_path: Path, row: dict[str, object]) -> None:
    assert len(read(tmp_path, json.dumps([row, row]))) == 2
    assert len(read(tmp_path, json.dumps(row) + "\n\n" + json.dumps(row) + "\n")) == 2


def test_row_survives_import_and_export(tmp_path: Path, row: dict[str, object], repo: Path, lab: Lab) -> None:
    folder = import_instance(instance(tmp_path, row), str(repo), tmp_path / "tasks/swe", lab)
    task = load_task(folder)
    assert task.checks[0].fail_to_pass == tuple(F2P)
    assert task.checks[0].pass_to_pass == tuple(P2P)
    assert {path: file.content.decode() for path, file in task.hidden_files().items()} == {
        b"tests/test_calc.py": FIX["tests/test_calc.py"]
    }
    back = export_task(task, lab)
    assert json.loads(str(back["FAIL_TO_PASS"])) == F2P
    assert back["base_commit"] == row["base_commit"]
    assert back["patch"] == row["patch"]
    assert back["problem_statement"] == row["problem_statement"]
    (tmp_path / "again").mkdir()
    again = import_instance(instance(tmp_path, {**back, "repo": "me/calc"}), str(repo), tmp_path / "again/swe", lab)
    assert load_task(again).hidden_files() == task.hidden_files()


def test_non_utf8_patch_keeps_its_bytes(tmp_path: Path, row: dict[str, object]) -> None:
    patch = b"diff --git a/calc.py b/calc.py\n--- a/calc.py\n+++ b/calc.py\n@@ -1 +1 @@\n-# caf\xe9\n+# caf\xe8\n"
    assert instance(tmp_path, {**row, "patch": patch.decode("utf-8", "surrogateescape")}).patch == patch


def test_only_requested_rows_are_validated(tmp_path: Path, row: dict[str, object]) -> None:
    (tmp_path / "rows.json").write_text(json.dumps([{**row, "instance_id": "other", "FAIL_TO_PASS": ["t (a.B)"]}, row]))
    ((place, parsed),) = read_instances(tmp_path / "rows.json", ["me__calc-1"])
    assert isinstance(parsed, Instance)
    assert place.endswith("[1]")


class TestBareNames:
    """Rows of sympy name their tests without the file."""

    def test_bare_name_resolves_to_the_function_in_test_patch(
        self, tmp_path: Path, row: dict[str, object], repo: Path, lab: Lab
    ) -> None:
        bare = {**row, "FAIL_TO_PASS": ["test_odd[a b]", "test_odd[[x]]"], "PASS_TO_PASS": '["test_even"]'}
        task = load_task(import_instance(instance(tmp_path, bare), str(repo), tmp_path / "tasks/swe", lab))
        assert task.checks[0].fail_to_pass == tuple(F2P[:2])
        assert task.checks[0].pass_to_pass == tuple(P2P)
        assert (task.checks[0].command or "").endswith(" 'tests/test_calc.py'")
        back = export_task(task, lab)
        assert json.loads(str(back["FAIL_TO_PASS"])) == bare["FAIL_TO_PASS"]
        assert json.loads(str(back["PASS_TO_PASS"])) == ["test_even"]

    def test_unknown_bare_name_is_rejected(self, tmp_path: Path, row: dict[str, object], repo: Path, lab: Lab) -> None:
        bare = {**row, "PASS_TO_PASS": ["test_gone"]}
        with pytest.raises(InputError, match=r"PASS_TO_PASS: 'test_gone' is not a test in the files .*test_calc\.py"):
            import_instance(instance(tmp_path, bare), str(repo), tmp_path / "tasks/swe", lab)
        assert not (tmp_path / "tasks/swe").exists()

    def test_ambiguous_bare_name_is_rejected_with_its_places(self) -> None:
        files = {"a.py": b"def test_x(): pass\n", "b.py": b"if 1:\n  class T:\n    async def test_x(self): pass\n"}
        with pytest.raises(InputError, match=r"2 tests: a\.py::test_x, b\.py::T::test_x") as caught:
            resolve_bare_names(["test_x"], files, "FAIL_TO_PASS")
        assert "file::test" in caught.value.remedy
        assert list(resolve_bare_names(["test_x[a::b]"], {"b.py": files["b.py"]}, "")) == ["b.py::T::test_x[a::b]"]

    def test_function_defined_twice_is_one_test(self) -> None:
        assert list(resolve_bare_names(["test_x"], {"a.py": b"def test_x(): pass\n" * 2}, "")) == ["a.py::test_x"]


class TestSpellings:
    """How the datasets themselves write their rows."""

    def test_verified_and_lite_rows(self, tmp_path: Path, row: dict[str, object]) -> None:
        more = {"difficulty": "<15 min fix", "version": "1.0", "created_at": "2024-01-01", "hints_text": ""}
        parsed = instance(tmp_path, {**row, **more, "PASS_TO_PASS": json.dumps(P2P)})
        assert (parsed.fail_to_pass, parsed.pass_to_pass) == (tuple(F2P), tuple(P2P))

    def test_pro_rows(self, tmp_path: Path, row: dict[str, object]) -> None:
        lower = {key.lower(): value for key, value in row.items()}
        more = {"fail_to_pass": repr(F2P), "requirements": "- exact halves", "interface": "half(value)"}
        parsed = instance(tmp_path, {**lower, **more, "repo_language": "python"})
        assert parsed.fail_to_pass == tuple(F2P)
        assert parsed.problem == ("half(3) is 1\n\n## Requirements\n\n- exact halves\n\n## Interface\n\nhalf(value)\n")

    @pytest.mark.parametrize("listed", [True, False])
    def test_parquet_rows(self, tmp_path: Path, row: dict[str, object], listed: bool) -> None:
        duckdb = pytest.importorskip("duckdb")
        ids = F2P if listed else json.dumps(F2P)
        (tmp_path / "rows.json").write_text(json.dumps([{**row, "FAIL_TO_PASS": ids}]))
        place = tmp_path / "rows.parquet"
        duckdb.sql(f"copy (select * from read_json('{tmp_path / 'rows.json'}')) to '{place}' (format parquet)")  # noqa: S608 - our own paths
        ((where, parsed),) = read_instances(place)
        assert isinstance(parsed, Instance)
        assert where.endswith("rows.parquet[0]")
        assert (parsed.fail_to_pass, parsed.pass_to_pass) == (tuple(F2P), tuple(P2P))
        assert parsed.patch == str(row["patch"]).encode()

    def test_parquet_without_duckdb_names_the_extra(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "duckdb", None)
        with pytest.raises(InputError, match="needs DuckDB") as caught:
            list(read_instances(tmp_path / "rows.parquet"))
        assert "[query]" in caught.value.remedy

    def test_invalid_parquet_file(self, tmp_path: Path) -> None:
        pytest.importorskip("duckdb")
        (tmp_path / "rows.parquet").write_bytes(b"nothing of the kind")
        with pytest.raises(InputError, match="cannot read"):
            list(read_instances(tmp_path / "rows.parquet"))


class TestRejected:
    def test_lone_surrogates_are_rejected_in_patches_and_replaced_in_text(
        self, tmp_path: Path, row: dict[str, object]
    ) -> None:
        (parsed,) = read(tmp_path, json.dumps({**row, "patch": "\ud800"}))
        assert isinstance(parsed, InputError)
        assert "surrogate" in parsed.message
        assert instance(tmp_path, {**row, "problem_statement": "half \ud800 of 3"}).problem == "half ? of 3"

    @pytest.mark.parametrize("key", ["instance_id", "repo", "base_commit", "patch", "test_patch"])
    def test_missing_field(self, tmp_path: Path, row: dict[str, object], key: str) -> None:
        (parsed,) = read(tmp_path, json.dumps({name: value for name, value in row.items() if name != key}))
        assert isinstance(parsed, InputError)
        assert f"missing {key}" in parsed.message

    @pytest.mark.parametrize("value", ["test_x (app.tests.T)", "not a list", [], [3], None, ["a\ud800.py::t"]])
    def test_invalid_id_lists(self, tmp_path: Path, row: dict[str, object], value: object) -> None:
        (parsed,) = read(tmp_path, json.dumps({**row, "FAIL_TO_PASS": value}))
        assert isinstance(parsed, InputError)
        assert "FAIL_TO_PASS" in parsed.message

    @pytest.mark.parametrize(
        "test, why",
        [
            ("test_x (app.tests.T.test_x)", "no file in the repository has this class"),
            ("A sentence of a test.", "neither a pytest id"),
        ],
    )
    def test_ids_that_cannot_be_run_have_a_remedy(
        self, tmp_path: Path, row: dict[str, object], repo: Path, lab: Lab, test: str, why: str
    ) -> None:
        with pytest.raises(InputError, match=why) as caught:
            import_instance(instance(tmp_path, {**row, "FAIL_TO_PASS": [test]}), str(repo), tmp_path / "tasks/s", lab)
        assert "remove the row" in caught.value.remedy
        assert not (tmp_path / "tasks/s").exists()

    def test_repository_without_a_clone(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="no clone of me/other"):
            repository_url("me/other", tmp_path, "")

    def test_missing_commit(self, tmp_path: Path, row: dict[str, object], repo: Path, lab: Lab) -> None:
        with pytest.raises(SourceError, match="has no commit"):
            import_instance(instance(tmp_path, {**row, "base_commit": "0" * 40}), str(repo), tmp_path / "s", lab)

    @pytest.mark.parametrize("key", ["patch", "test_patch"])
    def test_patch_that_does_not_apply(
        self, tmp_path: Path, row: dict[str, object], repo: Path, lab: Lab, key: str
    ) -> None:
        wrong = str(row[key]).replace("assert half(4) == 2", "assert half(5) == 2").replace("value // 2", "value % 2")
        with pytest.raises(InputError, match=f"^{key} does not apply"):
            import_instance(instance(tmp_path, {**row, key: wrong}), str(repo), tmp_path / "s", lab)
        assert not (tmp_path / "s").exists()
        assert not (tmp_path / ".s.draft").exists()

    def test_invalid_json(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"rows\.jsonl:2: invalid JSON"):
            read(tmp_path, "\n{nonsense\n{}\n")

    def test_deep_nesting(self, tmp_path: Path, row: dict[str, object]) -> None:
        deep = "[" * 100_000
        with pytest.raises(InputError, match="nested too deeply"):
            read(tmp_path, deep)
        _, error = read(tmp_path, f"{json.dumps(row)}\n{deep}\n")
        assert isinstance(error, InputError)
        _, error = read(tmp_path, f"{json.dumps(row)}\n{json.dumps({**row, 'FAIL_TO_PASS': deep})}\n")
        assert isinstance(error, InputError)

    def test_truncated_line_affects_only_itself(self, tmp_path: Path, row: dict[str, object]) -> None:
        text = json.dumps(row)
        first, cut, last = read(tmp_path, f"\ufeff{text}\n{text[:50]}\n{text}\n")
        assert isinstance(first, Instance)
        assert isinstance(last, Instance)
        assert isinstance(cut, InputError)
        assert "invalid JSON" in cut.message

    @pytest.mark.parametrize("name", ["..", "../../evil", ".x"])
    def test_path_as_id(self, tmp_path: Path, row: dict[str, object], repo: Path, lab: Lab, name: str) -> None:
        with pytest.raises(InputError, match="instance_id: expected letters"):
            import_instance(instance(tmp_path, {**row, "instance_id": name}), str(repo), tmp_path / "s", lab)


def test_clones_are_found_by_several_folder_names(tmp_path: Path) -> None:
    (tmp_path / "me__calc/.git").mkdir(parents=True)
    assert repository_url("me/calc", tmp_path, "") == str(tmp_path / "me__calc")
    assert repository_url("me/calc", None, "https://x/{repo}.git") == "https://x/me/calc.git"


def test_empty_report_counts_missing_instances() -> None:
    summary = report([], ["a", "b"])
    assert (summary["total_instances"], summary["submitted_instances"], summary["incomplete_ids"]) == (2, 0, ["a", "b"])


def test_report_counts_invalid_patches_as_errors_and_undecided_attempts_as_incomplete() -> None:
    def of(
        task: str, status: RunStatus, reason: Reason | None = None, files: int = 1, cause: InvalidCause | None = None
    ) -> Any:
        result = SimpleNamespace(passed=status is RunStatus.SUCCESS, failure_reason=reason)
        patch = SimpleNamespace(files=files)
        return SimpleNamespace(task_id=task, run_status=status, result=result, patch=patch, invalid_cause=cause)

    failed, invalid = RunStatus.FAILURE, RunStatus.INVALID
    records = [
        of("good", RunStatus.SUCCESS),
        of("good", invalid, Reason.INTERRUPTED, files=0, cause=InvalidCause.OPERATOR),
        of("bad", failed, Reason.TESTS_FAILED),
        of("torn", failed, Reason.PATCH_INVALID, files=0),
        of("undecided", RunStatus.ACCEPTANCE_ERROR, Reason.ACCEPTANCE_ERROR),
        of("unsafe", invalid, Reason.SAFETY_STOP, files=0, cause=InvalidCause.SAFETY),
        of("ours", invalid, Reason.SANDBOX_ERROR, files=0, cause=InvalidCause.HARNESS),
        of("blank", failed, Reason.TESTS_FAILED, files=0),
    ]
    summary = report(records, ["good", "bad", "torn", "undecided", "unsafe", "ours", "blank", "left"])
    assert summary["resolved_ids"] == ["good"]
    assert summary["unresolved_ids"] == ["bad"]
    assert summary["error_ids"] == ["torn", "undecided", "unsafe"]
    assert summary["empty_patch_ids"] == ["blank"]
    assert summary["completed_ids"] == ["bad", "good"]
    assert summary["incomplete_ids"] == ["left", "ours"]
    assert "pass_k" not in summary


def test_pass_at_k_of_report_leaves_out_invalid_attempts_as_the_terminal_does(tmp_path: Path) -> None:
    kinds = {
        "solved": ("pass", "pass"),
        "mixed": ("pass", "task"),
        "broken": ("task", "harness"),
        "bad": ("fail", "safety"),
    }
    records = [record(task, kind, repeat) for task, both in kinds.items() for repeat, kind in enumerate(both, start=1)]
    (first, second) = summarise(open_run(run_dir(tmp_path / "run", records))).pass_k
    summary: Any = report(records, list(kinds))
    assert [(one["k"], one["pass_at_k"], one["pass_hat_k"], one["instances"]) for one in summary["pass_k"]] == [
        (each.k, each.any_of, each.all_of, each.tasks) for each in (first, second)
    ]
    assert (first.tasks, second.tasks, summary["predictions"]) == (3, 2, 5)
    assert (summary["error_ids"], summary["incomplete_ids"]) == (["bad"], ["broken"])
