from __future__ import annotations

import pytest

from agentbench.core.reasons import Gate, Outcome, Reason, TerminationCode
from tests.verdict.logs import bound, checked, ended, extracted, found, graded, opened, verdict

pytestmark = pytest.mark.synthetic


@pytest.mark.req("G-07")
@pytest.mark.parametrize(
    "payloads,expected",
    [
        (graded(checked()), "PASS"),
        (
            graded(checked(Outcome.FAIL, f2p_passed=1, f2p_total=3, p2p_kept=11, p2p_total=11)),
            "FAIL TESTS_FAILED: 2 of 14 required tests",
        ),
        (
            graded(checked(Outcome.FAIL, why="exit code 1")),
            "FAIL TESTS_FAILED: 1 of 1 mandatory checks (unit: exit code 1)",
        ),
        (
            [opened(), ended(TerminationCode.SETUP_FAILED, "pip install x: exit code 1")],
            "INVALID SETUP_FAILED: pip install x: exit code 1",
        ),
        (graded(checked(Outcome.ERROR, why="runner vanished")), "ERROR ACCEPTANCE_ERROR: unit: runner vanished"),
        (
            graded(checked(Outcome.FAIL, f2p_total=3), ending=ended(TerminationCode.WALL_CAP, "900 s used up")),
            "FAIL TIMEOUT: 900 s used up; 3 of 3 required tests",
        ),
        (
            graded(checked(Outcome.FAIL, f2p_total=3, timed_out=True, why="ran 300 s of 300 s")),
            "FAIL TIMEOUT: unit: ran 300 s of 300 s; 3 of 3 required tests",
        ),
        (
            graded(checked(Outcome.FAIL, timed_out=True, why="ran 300 s of 300 s")),
            "FAIL TIMEOUT: unit: ran 300 s of 300 s",
        ),
        (graded(checked(), found()), "FAIL POLICY_VIOLATION: runner.internals: touches the runner"),
        (
            graded(checked(), found(path="src/core.py", line=7), found(path="b.py")),
            "FAIL POLICY_VIOLATION: runner.internals: src/core.py:7: touches the runner (2 findings)",
        ),
        (
            graded(checked(), found(path="d/" * 200 + "last.py")),
            f"FAIL POLICY_VIOLATION: runner.internals: …{'d/' * 36}last.py: touches the runner",
        ),
        (
            [opened(), bound(), ended(), extracted(problem="hunk 1 of a.py"), checked(Outcome.FAIL, not_run=Gate.G1)],
            "FAIL PATCH_INVALID: hunk 1 of a.py",
        ),
        ([], "INVALID SANDBOX_ERROR: evidence incomplete: the log has no attempt_opened event"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_headline_starts_with_the_decision(payloads: list[object], expected: str) -> None:
    assert verdict(payloads).headline == expected  # type: ignore[arg-type]


def test_headline_is_one_short_printable_line() -> None:
    hostile = "\x1b]0;owned\x07\x1b[2J\nPASS\u202e\r" + "x" * 1000
    line = verdict(graded(checked(Outcome.FAIL, why=hostile))).headline
    assert line.startswith(f"FAIL {Reason.TESTS_FAILED}")
    assert line.isprintable()
    assert "\u202e" not in line
    assert len(line) < 300
