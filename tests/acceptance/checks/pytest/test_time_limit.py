"""Limit runs by the proven duration of the reference."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentbench.acceptance.checks.pytest import check, patient_run
from agentbench.acceptance.checks.pytest import time_limit as time_limit_module
from agentbench.acceptance.checks.pytest.time_limit import TimeLimit, machine_was_busy, more_time, time_limit
from agentbench.acceptance.grade import grade
from agentbench.core.cpu_pressure import cpu_wait_sec
from agentbench.core.reasons import Outcome
from tests.acceptance.toy import FIXED, REPO, UNIT, TaskFactory, patch_of

pytestmark = pytest.mark.component


@pytest.mark.parametrize(
    "declared, reference, limit, text",
    [
        (300, None, TimeLimit(300), "limit 300 s"),
        (300, 0.4, TimeLimit(30, 0.4), "limit 30 s, the reference takes 0.4 s"),
        (300, 4.0, TimeLimit(50, 4.0), "limit 50 s, the reference takes 4.0 s"),
        (300, 29.5, TimeLimit(300), "limit 300 s"),
        (20, 0.4, TimeLimit(20), "limit 20 s"),
        (2, 5.0, TimeLimit(60, 5.0), "limit 60 s, the reference takes 5.0 s"),
    ],
)
def test_proven_duration_lowers_the_limit_unless_the_reference_needed_more(
    declared: float, reference: float | None, limit: TimeLimit, text: str
) -> None:
    assert time_limit(declared, reference) == limit
    assert str(limit) == text


@pytest.mark.parametrize("busy", [False, True])
def test_run_beyond_the_proven_limit_is_repeated_if_the_machine_was_busy(
    busy: bool, tasks: TaskFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = tasks.context(tmp_path / "bare")
    fix = patch_of(bare, {"src/toy/core.py": FIXED})
    context = tasks.context(tmp_path, files={"reference.patch": fix.decode()}, reference="reference.patch")
    assert grade(fix, context).accepted  # proves the reference's duration
    monkeypatch.setattr(check, "time_limit", lambda _declared, reference: TimeLimit(1, reference))
    monkeypatch.setattr(patient_run, "machine_was_busy", lambda _waited, _took: busy)
    graded = grade(patch_of(context, {"src/toy/core.py": "import time\n\ntime.sleep(2)\n" + FIXED}), context)
    (unit,) = graded.checks
    if busy:
        assert graded.accepted
    else:
        assert unit.outcome is Outcome.FAIL
        assert re.match(r"timed out after .* s \(limit 1 s, the reference takes .* s\)", unit.decided.why)


@pytest.mark.req("G-14")
def test_run_that_keeps_the_machine_busy_itself_is_not_repeated(
    tasks: TaskFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would cost the declared limit on top of the one that the reference proves."""
    bare = tasks.context(tmp_path / "bare")
    fix = patch_of(bare, {"src/toy/core.py": FIXED})
    context = tasks.context(tmp_path, files={"reference.patch": fix.decode()}, reference="reference.patch")
    assert grade(fix, context).accepted
    monkeypatch.setattr(check, "time_limit", lambda _declared, reference: TimeLimit(2, reference))
    monkeypatch.setattr(patient_run, "machine_was_busy", lambda _waited, _took: True)
    monkeypatch.setattr(patient_run, "HAD_CPU_SHARE", 0.05)  # other tests keep the machine busy too
    spin = "import os\n\nfor _ in range(4):\n    if os.fork() == 0:\n        while True:\n            pass\nos.wait()\n"
    (unit,) = grade(patch_of(context, {"src/toy/core.py": spin + FIXED}), context).checks
    assert unit.outcome is Outcome.FAIL
    assert re.match(r"timed out after .* s \(limit 2 s", unit.decided.why)


@pytest.mark.parametrize("declared, limit", [(8, 68), (60, 240), (300, 900)])
def test_base_and_reference_have_more_time_on_a_busy_machine(declared: float, limit: float) -> None:
    assert more_time(declared) == TimeLimit(limit)


SLOW_TESTS = {"conftest.py": "import time\n\ntime.sleep(2)\n"}
HANG = "import time\n\ntime.sleep(600)\n"


@pytest.mark.req("G-14")
def test_hang_fails_where_base_and_reference_need_more_than_the_limit(
    tasks: TaskFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine is too busy to collect the tests in the declared time. Otherwise the task is at fault."""
    monkeypatch.setattr(patient_run, "machine_was_busy", lambda _waited, _took: True)
    monkeypatch.setattr(time_limit_module, "MIN_SEC", 3.0)
    monkeypatch.setattr(time_limit_module, "FACTOR", 1)
    monkeypatch.setattr(time_limit_module, "MARGIN_SEC", 1.0)
    repo, oracle = {**REPO, **SLOW_TESTS}, {"checks": [{**UNIT, "timeout_sec": 1}]}
    fix = patch_of(tasks.context(tmp_path / "bare", repo=repo, oracle=oracle), {"src/toy/core.py": FIXED})
    files = {"reference.patch": fix.decode()}
    context = tasks.context(tmp_path / "task", repo=repo, oracle=oracle, files=files, reference="reference.patch")
    (unit,) = grade(patch_of(context, {"src/toy/core.py": HANG}), context).checks
    assert unit.outcome is Outcome.FAIL
    assert re.match(r"timed out after .* s \(limit \d+ s, the reference takes .* s\)", unit.decided.why)


@pytest.mark.req("G-14")
def test_base_that_hangs_on_an_idle_machine_is_an_error_of_the_task(
    tasks: TaskFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patient_run, "machine_was_busy", lambda _waited, _took: False)
    oracle = {"checks": [{**UNIT, "timeout_sec": 2}]}
    context = tasks.context(tmp_path, repo={**REPO, "conftest.py": HANG}, oracle=oracle)
    (unit,) = grade(patch_of(context, {"src/toy/core.py": FIXED}), context).checks
    assert unit.outcome is Outcome.ERROR
    assert "collecting the tests of the base repository took longer than 2 s" in unit.decided.why


def test_machine_is_busy_if_processes_waited_half_of_the_time() -> None:
    assert machine_was_busy(15.0, 30.0)
    assert not machine_was_busy(14.9, 30.0)


def test_waiting_for_a_cpu_is_counted_since_the_start_of_the_machine() -> None:
    before = cpu_wait_sec()
    assert 0 <= before <= cpu_wait_sec()
