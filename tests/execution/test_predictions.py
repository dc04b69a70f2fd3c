"""`ab grade`: patches made elsewhere, single and in bulk."""

from __future__ import annotations

import io
import json
import subprocess
from pathlib import Path

import pydantic_core
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.contract.load import load_task
from agentbench.core.errors import ContractError, InputError
from agentbench.execution import predictions as grading
from agentbench.execution.predictions import (
    Prediction,
    prediction_rows,
    read_patch,
    read_predictions,
    refuse_repeats,
    refuse_several_methods,
)
from tests.execution.conftest import Ab
from tests.execution.tasks import PATCH, make_suite, make_task

pytestmark = pytest.mark.end_to_end

SEPARATORS = "\u2028\u2029\x85\x0b\x0c\x1c"
"""Line separators for `str.splitlines` that are valid inside a JSON string."""


def written(folder: Path, text: str | bytes, name: str = "preds.jsonl") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def line(task: str, patch: str = PATCH, **more: object) -> str:
    return json.dumps({"instance_id": task, "model_patch": patch, **more}, ensure_ascii=False)


# --- reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        f"{line('a')}\n{line('b')}\n",
        f"\n{line('a')}\r\n\r\n{line('b')}",
        f"[{line('a')}, {line('b')}]",
        f"[\n{line('a')},\n{line('b')}\n]\n",
        json.dumps({"a": PATCH, "b": PATCH}),
        json.dumps({"a": {"model_patch": PATCH}, "b": {"model_patch": PATCH}}, indent=2),
        f"\ufeff{line('a')}\n{line('b')}\n",
        "\ufeff" + json.dumps({"a": PATCH, "b": PATCH}, indent=1),
    ],
    ids=["lines", "blank lines", "list", "list over lines", "by id", "objects by id", "BOM", "BOM by id"],
)
def test_predictions_are_read_in_every_published_format(tmp_path: Path, text: str) -> None:
    expected = [Prediction(task, PATCH.encode()) for task in ("a", "b")]
    assert read_predictions(written(tmp_path, text)) == expected


def test_one_line_is_one_prediction(tmp_path: Path) -> None:
    path = written(tmp_path, line("a", model_name_or_path="gpt"))
    assert read_predictions(path) == [Prediction("a", PATCH.encode(), "gpt")]


@given(st.lists(st.text(st.sampled_from(SEPARATORS + 'x\n\r"\\é')), min_size=1, max_size=4))
def test_patch_in_predictions_is_read_byte_for_byte(
    tmp_path_factory: pytest.TempPathFactory, patches: list[str]
) -> None:
    text = "".join(line(f"t{index}", patch) + "\n" for index, patch in enumerate(patches))
    predictions = read_predictions(written(tmp_path_factory.mktemp("p"), text))
    assert [prediction.patch for prediction in predictions] == [patch.encode() for patch in patches]


@pytest.mark.parametrize(
    "text,expected",
    [
        ("nonsense", ":1: not JSON: Expecting value (column 1)"),
        ('{"instance_id": "a", "model_patch": "x"\n', ":1: not JSON: Expecting ',' delimiter (column 40)"),
        (f"{line('a')}\n{{oops\n", ":2: not JSON: Expecting property name"),
        (f"{{oops\n{line('a')}\n", ":1: not JSON: Expecting property name"),
        ('{\n"a": "x",\n"b": oops\n}', ":3: not JSON: Expecting value (column 6)"),
        (line("a").encode() + b'\n{"instance_id": "\xff"}', ":2: not UTF-8"),
        ("[" * 100_000, ":1: nested too deeply"),
        (f"{line('a')}\n" + "[" * 100_000, ":2: nested too deeply"),
        ('{"instance_id": "a", "n": ' + "1" * 5000 + "}", ":1: not JSON: Exceeds the limit"),
        (f"{line('a')}\n[]\n", ":2: expected an object with instance_id and model_patch"),
        ('{"instance_id": 3}', ":1: instance_id: expected a task id"),
        ('{"a": {"model_patch": 3}}', ":a: model_patch: expected a string"),
        (
            '{"instance_id": "a", "patch": "x"}',
            ":1: missing key 'model_patch'; found 'patch'",
        ),
        ('{"a": {}}', ":a: missing key 'model_patch'"),
        (
            f'{line("a")}\n{{"instance_id": "b", "model_patch": "x", "model_patch": "y"}}\n',
            ":2: duplicate key 'model_patch'",
        ),
        ('{"instance_id": "a", "model_patch": "x", "model_patch": "y"}', ":1: duplicate key 'model_patch'"),
        ('{\n"a": "x",\n"b": "x",\n"a": "y"\n}', ":4: duplicate key 'a'"),
        (f'{{\n"a": "x",\n"b": {line("c")}\n}}', ":3: the key is 'b', but its instance_id is 'c'"),
        (f'{{"b": {line("c")}}}', ":1: the key is 'b', but its instance_id is 'c'"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "bytes",
)
def test_bad_entry_is_reported_with_its_place(tmp_path: Path, text: str | bytes, expected: str) -> None:
    with pytest.raises(InputError) as refused:
        read_predictions(written(tmp_path, text))
    assert f"preds.jsonl{expected}" in refused.value.message


def test_all_bad_predictions_are_listed(tmp_path: Path) -> None:
    text = f'{line("a")}\n{{oops\n{{"instance_id": 3}}\n{line("b")}\n'
    with pytest.raises(ContractError) as refused:
        read_predictions(written(tmp_path, text))
    assert refused.value.message == "2 problems, nothing was started"
    assert "preds.jsonl:2: not JSON" in refused.value.problems[0]
    assert "preds.jsonl:3: instance_id: expected a task id" in refused.value.problems[1]


def test_oversized_predictions_are_rejected_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two = written(tmp_path, f"{line('a')}\n{line('b')}\n")
    monkeypatch.setattr(grading, "MAX_DOCUMENT_BYTES", len(line("a")) - 1)
    with pytest.raises(InputError, match=r"preds.jsonl:1: line is larger than \d+ bytes"):
        read_predictions(two)
    monkeypatch.setattr(grading, "MAX_DOCUMENT_BYTES", len(line("a")) + 1)
    assert len(read_predictions(two)) == 2
    with pytest.raises(InputError, match=r"JSON value is larger than \d+ bytes"):
        read_predictions(written(tmp_path, f"[\n{line('a')}]", "preds.json"))
    sparse = tmp_path / "sparse.jsonl"
    with sparse.open("wb") as file:
        file.truncate(grading.MAX_PREDICTIONS_BYTES + 1)
    with pytest.raises(InputError, match=r"\d+ bytes, the limit is"):
        read_predictions(sparse)


class _Endless(io.RawIOBase):
    """An endless pipe that counts the bytes read."""

    taken = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        assert size >= 0, "read to an end that never comes"
        self.taken += size
        return b"x" * size


def test_patch_is_read_only_up_to_the_size_limit() -> None:
    stream = _Endless()
    prediction = read_patch("a", stream)  # type: ignore[arg-type]
    assert (prediction.patch, prediction.problem) == (b"", "the patch is larger than 67108864 bytes")
    assert stream.taken == 67108865


@pytest.mark.parametrize("end", ["", "\n"])
def test_second_prediction_for_a_task_is_refused_with_both_lines(tmp_path: Path, end: str) -> None:
    path = written(tmp_path, f"{line('a')}\n{line('b')}\n\n{line('a', '')}{end}")
    with pytest.raises(InputError) as refused:
        refuse_repeats(read_predictions(path))
    assert refused.value.message == f"{path}:4: second prediction for 'a'; the first is at {path}:1"
    assert "--repeats-allowed" in (refused.value.remedy or "")
    listed = written(tmp_path, f"[{line('a')}, {line('a')}]", "list.json")
    with pytest.raises(
        InputError, match=r"list.json:\[1\]: second prediction for 'a'; the first is at .*list.json:\[0\]"
    ):
        refuse_repeats(read_predictions(listed))


def test_predictions_of_two_methods_are_not_repeats_but_have_no_common_report(tmp_path: Path) -> None:
    both = [line("a", model_name_or_path=name) for name in ("one", "two")]
    predictions = read_predictions(written(tmp_path, "\n".join(both)))
    refuse_repeats(predictions)
    with pytest.raises(InputError, match=r":2: model_name_or_path is 'two', but 'one' at .*:1"):
        refuse_several_methods(predictions)


# --- grading ----------------------------------------------------------------------------------------------------------


@pytest.mark.req("G-01", "G-15")
def test_patch_of_300_mb_is_invalid_and_not_kept(ab: Ab, tmp_path: Path) -> None:
    task = make_task(tmp_path / "task")
    huge = tmp_path / "huge.patch"
    with huge.open("wb") as file:
        file.write(PATCH.encode())
        file.truncate(300 * 1024 * 1024)
    record = ab("grade", "--task", task, "--patch", huge, "--json").record
    assert record["result"] == {"passed": False, "exit_code": None, "failure_reason": "PATCH_INVALID"}
    assert record["gates"]["G1"]["why"] == "the patch is larger than 67108864 bytes"
    assert [(check["outcome"], check["why"]) for check in record["checks"]] == [("fail", "not run: G1 failed")]
    assert record["run_status"] == "failure"


@pytest.mark.req("G-01")
def test_bad_prediction_does_not_affect_the_others(ab: Ab, tmp_path: Path) -> None:
    suite = make_suite(tmp_path / "tasks", "one", "two", "three") / "tiny"
    marked = PATCH.replace("diff --git", "a mail with \u2028 in it\ndiff --git", 1)
    preds = written(tmp_path, f"\ufeff{line('one', marked)}\n{line('two', '')}\n{line('three', 'nonsense @@')}\n")
    report = tmp_path / "report.json"
    done = ab("grade", "--task", suite, "--predictions", preds, "--workers", "2", "--report", report, "--json")
    reasons = {record["task_id"]: record["result"]["failure_reason"] for record in done.json["attempts"]}
    assert (reasons["one"], reasons["two"]) == (None, "TESTS_FAILED")
    assert reasons["three"] is not None
    summary = json.loads(report.read_text())
    assert (summary["resolved_ids"], summary["empty_patch_ids"]) == (["one"], ["two"])


@pytest.mark.req("G-01")
def test_exported_report_of_graded_predictions_is_the_one_of_grading(ab: Ab, tmp_path: Path) -> None:
    suite = make_suite(tmp_path / "tasks", "one", "two", "three", "left") / "tiny"
    preds = written(tmp_path, f"{line('one')}\n{line('two', '')}\n{line('three', PATCH.replace('-41', '-40'))}\n")
    graded, exported = tmp_path / "graded.json", tmp_path / "exported.json"
    done = ab("grade", "--task", suite, "--predictions", preds, "--report", graded, "--json")
    ab("export-run", done.json["run_dir"], "--format", "swebench", "--out", exported)
    summary = json.loads(graded.read_text())
    assert (summary["empty_patch_ids"], summary["error_ids"], summary["incomplete_ids"]) == (
        ["two"],
        ["three"],
        ["left"],
    )
    assert json.loads(exported.read_text()) == summary
    shown = ab("show", done.json["run_dir"], "--task", "three").stdout
    assert "patch        cannot be applied, so its changes are not counted, " in shown


@pytest.mark.req("C-18")
def test_unwritable_report_is_rejected_before_grading(ab: Ab, tmp_path: Path) -> None:
    suite = make_suite(tmp_path / "tasks", "one") / "tiny"
    preds, out = written(tmp_path, line("one")), tmp_path / "runs"
    report = tmp_path / "gone/report.json"
    done = ab("grade", "--task", suite, "--predictions", preds, "--report", report, "--out", out)
    assert done.code == 2
    assert f"folder {report.parent} does not exist" in done.stderr
    assert not out.exists()


@pytest.mark.req("G-01")
def test_repeats_count_as_resolved_only_if_all_pass(ab: Ab, tmp_path: Path) -> None:
    suite = make_suite(tmp_path / "tasks", "one", "two") / "tiny"
    preds = written(tmp_path, "\n".join([line("one"), line("one", ""), line("two"), line("two")]))
    refused = ab("grade", "--task", suite, "--predictions", preds)
    assert refused.code == 2
    assert "preds.jsonl:2: second prediction for 'one'; the first is at" in refused.stderr
    report = tmp_path / "report.json"
    done = ab("grade", "--task", suite, "--predictions", preds, "--repeats-allowed", "--report", report)
    assert "patch: pass@1 75.0%, pass^1 75.0% (2 tasks)" in done.stdout
    assert "patch: pass@2 100.0%, pass^2 50.0% (2 tasks)" in done.stdout
    summary = json.loads(report.read_text())
    assert (summary["resolved_ids"], summary["unresolved_ids"]) == (["two"], ["one"])
    assert summary["resolved_rule"] == "an instance is resolved if every prediction for it passed"
    assert summary["pass_k"][1] == {"k": 2, "pass_at_k": 1.0, "pass_hat_k": 0.5, "instances": 2}


@pytest.mark.req("E-16")
def test_extension_in_a_binary_patch_passes_but_needs_review(ab: Ab, tmp_path: Path) -> None:
    """The patch that `git diff --binary` makes of a compiled extension under an innocent name."""
    (extension,) = Path(pydantic_core.__file__).parent.glob("_pydantic_core*.so")
    repository = tmp_path / "repository"
    repository.mkdir()
    (repository / "table.dat").write_bytes(extension.read_bytes()[:50_000])
    git = ["git", "-C", str(repository), "-c", "core.fileMode=false"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    binary = subprocess.run([*git, "diff", "--cached", "--binary"], check=True, capture_output=True).stdout
    assert b"GIT binary patch" in binary
    patch = tmp_path / "fix.patch"
    patch.write_bytes(PATCH.encode() + binary)
    done = ab("grade", "--task", make_task(tmp_path / "task"), "--patch", patch, "--json")
    assert done.record["result"]["passed"]
    assert done.record["needs_review"]
    summary = (Path(done.json["run_dir"]) / "report_summary.md").read_text(encoding="utf-8")
    assert summary.startswith("# `PASS"), "the verdict of one patch, without rates"
    shown = ab("show", done.json["run_dir"]).stdout
    assert "compiled code, which a diff does not show: table.dat" in shown
    assert "compiled_file  table.dat" in shown


def test_unknown_tasks_are_named_with_their_places(tmp_path: Path) -> None:
    task = load_task(make_task(tmp_path / "tasks/median", task_id="median"))
    predictions = read_predictions(written(tmp_path, f"{line('median')}\n{line('medium')}\n"))
    with pytest.raises(InputError, match=r"unknown tasks: medium at .*preds.jsonl:2 \(did you mean `median`\?\)"):
        prediction_rows([task], predictions)
