"""`ab grade`: exit codes, score and output files of a patch made elsewhere."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.execution.conftest import Ab
from tests.execution.tasks import PATCH, make_task

pytestmark = [
    pytest.mark.end_to_end,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
]


def test_fail_on_decides_the_exit_code_of_a_graded_patch(ab: Ab, tmp_path: Path) -> None:
    task = make_task(tmp_path / "tasks" / "tiny" / "one", task_id="one")
    (tmp_path / "wrong.patch").write_text(PATCH.replace("+42", "+43"))
    grade = ("grade", "--task", task, "--patch")
    refused = ab(*grade, "wrong.patch", "--fail-on", "speed>1")
    assert (refused.code, "unknown metric" in refused.stderr) == (2, True)
    (tmp_path / "empty.patch").write_text("\n")
    warned = ab(*grade, "empty.patch", "--fail-on", "passed<1")
    assert (warned.code, "the patch is empty, so the base repository is graded" in warned.stderr) == (1, True)
    failed = ab(*grade, "wrong.patch", "--fail-on", "passed<1", "--json")
    assert failed.code == 1
    assert "--fail-on: passed<1 (passed is 0)" in failed.stderr
    # The output of checks that fail is not only called "passing".
    paths = failed.record["artifact_paths"]
    run = Path(failed.json["run_dir"])
    assert paths["checks_stdout"] == "tasks/one/logs/checks_stdout.txt"
    assert (run / paths["checks_stdout"]).samefile(run / paths["passing_stdout"])
    assert "logs/checks_stdout.txt" in ab("show", "latest").stdout
    assert ab("verify", "latest").code == 0
    passed = ab(*grade, task / "reference.patch", "--fail-on", "passed<1", "--json")
    assert passed.code == 0
    assert passed.record["score"] > 0.85
    assert ab("verify", "latest").code == 0


def test_closed_pipe_keeps_the_record_and_the_exit_code(ab: Ab, tmp_path: Path) -> None:
    task = make_task(tmp_path / "tasks" / "tiny" / "one", task_id="one")
    (tmp_path / "empty.patch").write_text("\n")
    with ab.start("grade", "--task", task, "--patch", "empty.patch", "--fail-on", "passed<1") as grading:
        assert grading.stdout is not None
        assert grading.stderr is not None
        grading.stdout.close()
        said = grading.stderr.read()
    assert (grading.returncode, "--fail-on: passed<1 (passed is 0)" in said) == (1, True), said
    assert ab("verify", "latest").code == 0
