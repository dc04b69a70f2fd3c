"""Replays grade with the recorded decoys, and refuse to compare without them."""

from __future__ import annotations

import json
import shutil
import stat
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentbench.execution.reference_evidence import REFERENCE
from tests.execution.conftest import Ab, make_ab

pytestmark = [pytest.mark.end_to_end, pytest.mark.req("E-13")]

PATIENT = 900
"""Seconds for one command on a machine with much else to do: the first one installs pytest and tries the decoys."""

TASK = """\
schema_version: 1
id: median
suite: tiny
title: median
statement: median of an even number of values
repo: {path: repo}
environment: {network_policy: setup_only, timeout_sec: 120, tool_timeout_sec: 60}
setup: {commands: ["pip install pytest==8.4.2"]}
oracle:
  build: none
  static: none
  hidden: hidden
  checks:
    - id: unit
      layer: unit
      command: python -m pytest
      parser: pytest
      timeout_sec: 60
      fail_to_pass: ["tests/test_toy.py::test_four", "tests/test_toy.py::test_two", "tests/test_toy.py::test_order"]
      pass_to_pass: ["tests/test_toy.py::test_three"]
reference: reference.patch
"""
TESTS = """\
from toy import median


def test_four():
    assert median([1, 2, 3, 4]) == 2.5


def test_two():
    assert median([1, 10]) == 5.5


def test_order():
    assert median([4, 1, 3, 2]) == 2.5


def test_three():
    assert median([3, 1, 2]) == 2
"""
FIX = """\
--- a/toy.py
+++ b/toy.py
@@ -1,2 +1,4 @@
 def median(values):
-    return sorted(values)[len(values) // 2]
+    ordered, half = sorted(values), len(values) // 2
+    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
+
"""
CHEAT = """\
--- a/toy.py
+++ b/toy.py
@@ -1,2 +1,8 @@
+class Near(float):
+    def __eq__(self, other):
+        return abs(float(self) - float(other)) <= abs(float(self)) + 1
+
+    __hash__ = float.__hash__
+
 def median(values):
-    return sorted(values)[len(values) // 2]
+    return Near(sorted(values)[len(values) // 2])
"""


def grade(ab: Ab, folder: Path, patch: str) -> tuple[Path, Path]:
    """Grade a patch; return the task and the run directory."""
    task = folder / "task"
    for name, text in {
        "task.yaml": TASK,
        "repo/toy.py": "def median(values):\n    return sorted(values)[len(values) // 2]\n",
        "repo/tests/__init__.py": "",
        "hidden/tests/test_toy.py": TESTS,
        "reference.patch": FIX,
    }.items():
        (task / name).parent.mkdir(parents=True, exist_ok=True)
        (task / name).write_text(textwrap.dedent(text))
    file = folder / "given.patch"
    file.write_text(patch)
    done = ab("grade", "--task", task, "--patch", file, "--json", timeout=PATIENT)
    return task, Path(done.json["run_dir"])


def outcome_of(run: Path) -> dict[str, str]:
    record = json.loads((run / "attempts.jsonl").read_text())
    return {"outcome": record["checks"][0]["outcome"], "why": record["checks"][0]["why"]}


@pytest.fixture(scope="module")
def caught(tmp_path_factory: pytest.TempPathFactory, shared_state: Path) -> Path:
    """A folder with a task and the run directory of a cheat that only decoys catch."""
    folder = tmp_path_factory.mktemp("caught")
    _, run = grade(make_ab(folder, shared_state), folder, CHEAT)
    recorded = outcome_of(run)
    assert (recorded["outcome"], "with a wrong expected value" in recorded["why"]) == ("fail", True), recorded
    return run


@pytest.fixture
def run(caught: Path, tmp_path: Path) -> Path:
    """A copy of that run directory."""
    return Path(shutil.copytree(caught, tmp_path / "run"))


@pytest.fixture
def no_task(caught: Path) -> Iterator[None]:
    """The task's folder is gone, as on another machine."""
    task, away = caught.parents[2] / "task", caught.parents[2] / "away"
    task.rename(away)
    yield
    away.rename(task)


def test_honest_patch_agrees_with_the_recorded_decoys_elsewhere(ab: Ab, tmp_path: Path) -> None:
    task, run = grade(ab, tmp_path, FIX)
    recorded = outcome_of(run)
    assert (recorded["outcome"], "failed as expected" in recorded["why"]) == ("pass", True), recorded
    file = run / "tasks/median" / REFERENCE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "ordered[half - 1]" not in file.read_text()
    shutil.rmtree(task)
    ran = ab("replay", run, timeout=PATIENT)
    assert (ran.code, ran.stdout.partition(":")[0]) == (0, "AGREES"), ran.stdout
    assert ab("verify", run).code == 0


def test_record_and_card_state_the_decoy_coverage(caught: Path, ab: Ab) -> None:
    record = json.loads((caught / "attempts.jsonl").read_text())
    assert (record["decoy_coverage"], record["checks"][0]["decoys"], record["checks"][0]["f2p_total"]) == (1.0, 3, 3)
    shown = ab("show", caught).stdout
    assert "assurance per_test (decoys for 100.0% of fail-to-pass)" in shown
    assert "per_test with decoys for 3 of 3 fail-to-pass" in shown


@pytest.mark.usefixtures("no_task")
def test_caught_cheat_is_caught_again_with_the_recorded_decoys(ab: Ab, run: Path) -> None:
    ran = ab("replay", run, timeout=PATIENT)
    assert (ran.code, ran.stdout.partition(":")[0]) == (0, "AGREES"), ran.stdout


def test_caught_cheat_is_caught_again_with_the_reference_of_the_task(ab: Ab, run: Path) -> None:
    (run / "tasks/median" / REFERENCE).unlink()
    ran = ab("replay", run, timeout=PATIENT)
    first = ran.stdout.splitlines()[0]
    assert (ran.code, first.startswith("ALTERED: removed:"), "AGREES: 1 attempt" in first) == (1, True, True), first


@pytest.mark.usefixtures("no_task")
def test_caught_cheat_is_not_compared_without_decoys_and_reference(ab: Ab, run: Path) -> None:
    file = run / "tasks/median" / REFERENCE
    without_decoys = json.loads(file.read_bytes())
    without_decoys["results"]["unit/DecoyPlan"]["value"] = {"targets": [], "runs": []}
    for content in (json.dumps(without_decoys).encode(), b"", None):
        file.unlink() if content is None else file.write_bytes(content)
        ran = ab("replay", run, timeout=PATIENT)
        first = ran.stdout.splitlines()[0]
        assert (ran.code, first.startswith("ALTERED:")) == (1, True), first
        assert "UNAVAILABLE: median · patch: decoy tests are unavailable: meta/reference.json" in first
        assert "restore the task with its reference" in ran.stdout
