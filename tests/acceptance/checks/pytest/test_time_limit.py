"""Limit runs by the proven duration of the reference."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentbench.acceptance.checks.pytest import check
from agentbench.acceptance.checks.pytest.time_limit import TimeLimit, machine_was_busy, time_limit
from agentbench.acceptance.grade import grade
from agentbench.core.cpu_pressure import cpu_wait_sec
from agentbench.core.reasons import Outcome
from tests.acceptance.toy import FIXED, TaskFactory, patch_of

pytestmark = pytest.mark.component


@pytest.mark.parametrize(
    "declared, reference, limit, text",
    [
        (300, None, TimeLimit(300), "limit 300 s"),
        (300, 0.4, TimeLimit(30, 0.4), "limit 30 s, the reference takes 0.4 s"),
        (300, 4.0, TimeLimit(50, 4.0), "limit 50 s, the reference takes 4.0 s"),
        (300, 29.5, TimeLimit(300), "limit 300 s"),
        (20, 0.4, TimeLimit(20), "limit 20 s"),
    ],
)
def test_proven_duration_can_only_lower_the_declared_limit(
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
    monkeypatch.setattr(check, "machine_was_busy", lambda _waited, _took: busy)
    graded = grade(patch_of(context, {"src/toy/core.py": "import time\n\ntime.sleep(2)\n" + FIXED}), context)
    (unit,) = graded.checks
    if busy:
        assert graded.accepted
    else:
        assert unit.outcome is Outcome.FAIL
        assert re.match(r"timed out after .* s \(limit 1 s, the reference takes .* s\)", unit.decided.why)


def test_machine_is_busy_if_processes_waited_half_of_the_time() -> None:
    assert machine_was_busy(15.0, 30.0)
    assert not machine_was_busy(14.9, 30.0)


def test_waiting_for_a_cpu_is_counted_since_the_start_of_the_machine() -> None:
    before = cpu_wait_sec()
    assert 0 <= before <= cpu_wait_sec()
