from __future__ import annotations

from pathlib import Path

import pytest

from tests.execution.conftest import Ab
from tests.execution.tasks import make_task

pytestmark = pytest.mark.end_to_end


@pytest.mark.req("C-19")
def test_audit_counts_killed_mutants_and_checks_the_reference(tmp_path: Path, ab: Ab) -> None:
    task = make_task(tmp_path / "tasks" / "t")
    done = ab("task", "audit", tmp_path / "tasks", "--variants", "2", "--json")
    (audited,) = done.json["tasks"]
    assert (done.code, audited["sound"], audited["noop"], audited["reference"]) == (0, True, "fail", "pass")
    assert (audited["killed"], audited["survived"], audited["kill_rate"]) == (2, 0, 1.0)
    assert {mutant["result"] for mutant in audited["tried"]} == {"killed"}
    reference = task / "reference.patch"
    reference.write_text(reference.read_text().replace("+42", "+43"))
    broken = ab("task", "audit", task)
    assert broken.code == 1
    assert "NOT SOUND (empty patch fail, reference fail)" in broken.stdout


@pytest.mark.req("C-19")
def test_kill_rate_without_mutants_is_undecided(tmp_path: Path, ab: Ab) -> None:
    task = make_task(tmp_path / "t")
    (task / "repo" / "answer.txt").write_text("42\n")
    (task / "repo" / "broken").touch()
    text = (task / "task.yaml").read_text().replace("grep -qx 42 answer.txt", "test ! -e broken")
    (task / "task.yaml").write_text(text)
    gone = "diff --git a/broken b/broken\ndeleted file mode 100644\n"
    (task / "reference.patch").write_text(gone)
    assert ab("task", "audit", task).code == 0
    done = ab("task", "audit", task, "--min-kill-rate", "0.5")
    assert done.code == 2
    assert "--min-kill-rate: no mutation of answer was decided" in done.stderr


@pytest.mark.req("C-19")
def test_audit_without_tasks_is_an_input_error(tmp_path: Path, ab: Ab) -> None:
    done = ab("task", "audit", tmp_path)
    assert done.code == 2
    assert "no task.yaml in this folder" in done.stderr
