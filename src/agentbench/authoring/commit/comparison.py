"""Compare test outcomes on a commit's parent with those on the fix. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from agentbench.authoring.commit.split import UnsuitableCommit

LISTED = 8
MAX_UNSTEADY = 25
"""More unsteady tests than this make a commit unsuitable."""


class Verification(BaseModel):
    """Required tests of a commit, established by repeated runs. Cached as JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    unsteady: tuple[str, ...]
    """Tests, or whole test functions, that differed between runs and are not required."""
    duration_sec: float
    runs: int
    tolerance: float = 0.0
    """Share of tests that a flake screen must tolerate because their names change from run to run."""


def compare(
    before: Sequence[Mapping[str, str]], after: Sequence[Mapping[str, str]], duration_sec: float
) -> Verification:
    """Determine fail-to-pass and pass-to-pass tests from runs on the parent and on the fix.

    Raises:
        UnsuitableCommit: no test goes from failing to passing, or not every time.
    """
    collected = list(dict.fromkeys(test for run in after for test in run))
    changing = _changing_functions(before) | _changing_functions(after)
    constant = [test for test in collected if all(test in run for run in after)]
    # A function with changing parameters is left out as a whole, unless some of its constant ones show the defect.
    needed = {_function(test) for test in constant if _function(test) in changing and _flips(test, before, after)}
    renamed = {test for run in (*before, *after) for test in run if _function(test) in needed and test not in constant}
    changing -= needed
    tests = [test for test in collected if _function(test) not in changing and test not in renamed]
    unsteady = [test for test in tests if _differs(test, before) or _differs(test, after)]
    passing = [test for test in tests if after[0].get(test) == "passed" and test not in unsteady]
    fail_to_pass = tuple(test for test in passing if before[0].get(test) != "passed")
    # If a test of the fix itself is unsteady with the fix, a correct solution would pass only by luck. A test that the
    # parent passes now and then is merely left out, as long as others show the defect every time.
    relevant = [test for test in unsteady if any(run.get(test) != "passed" for run in before)]
    never_passed_before = [test for test in relevant if all(run.get(test) != "passed" for run in before)]
    decisive = [test for test in never_passed_before if _differs(test, after)] or ([] if fail_to_pass else relevant)
    if decisive or len(unsteady) > MAX_UNSTEADY:
        flaky = decisive or unsteady
        raise UnsuitableCommit(
            "flaky",
            f"tests give different outcomes under the same conditions: {list_tests(flaky)}",
            remedy="choose another commit",
            tests=flaky,
        )
    if not fail_to_pass:
        raise _no_flip(before[0], after[0])
    pass_to_pass = tuple(test for test in passing if before[0].get(test) == "passed")
    left_out = (*unsteady, *sorted(changing))
    tolerance = _tolerance(max(len([test for test in run if test in renamed]) for run in (*before, *after)), len(tests))
    return Verification(
        fail_to_pass=fail_to_pass,
        pass_to_pass=pass_to_pass,
        unsteady=left_out,
        duration_sec=duration_sec,
        runs=len(before) + len(after),
        tolerance=tolerance,
    )


def with_slow_run(verification: Verification, slow: Mapping[str, str]) -> Verification:
    """Update a verification with one more run of the fix, on a slow processor.

    Raises:
        UnsuitableCommit: a fail-to-pass test depends on the clock.
    """
    timed = [test for test in verification.fail_to_pass if slow.get(test) != "passed"]
    if timed:
        raise timing_dependent(timed, "fail on a slow processor")
    unsteady = tuple(test for test in verification.pass_to_pass if slow.get(test) != "passed")
    return verification.model_copy(
        update={
            "pass_to_pass": tuple(test for test in verification.pass_to_pass if test not in unsteady),
            "unsteady": (*verification.unsteady, *unsteady),
            "runs": verification.runs + 1,
        }
    )


def timing_dependent(tests: Sequence[str], how: str) -> UnsuitableCommit:
    return UnsuitableCommit(
        "timing-dependent",
        f"tests that read the clock {how}: {list_tests(tests)}",
        remedy="choose another commit",
        tests=tests,
    )


def list_tests(tests: Sequence[str]) -> str:
    more = f" and {len(tests) - LISTED} more" if len(tests) > LISTED else ""
    return f"{', '.join(tests[:LISTED])}{more}"


def _function(test: str) -> str:
    return test.partition("[")[0]


def _changing_functions(runs: Sequence[Mapping[str, str]]) -> set[str]:
    """Return test functions whose parameter ids change between runs (a timestamp, for instance)."""
    return {
        _function(test)
        for run in runs
        for test in run
        if "[" in test
        and not all(test in other for other in runs)
        and all(_has(other, _function(test)) for other in runs)
    }


def _flips(test: str, before: Sequence[Mapping[str, str]], after: Sequence[Mapping[str, str]]) -> bool:
    return all(run[test] == "passed" for run in after) and all(run.get(test) != "passed" for run in before)


def _tolerance(renamed: int, tests: int) -> float:
    """Return the share of new names in a flake screen of ten runs, each of which brings `renamed` new ones."""
    return math.ceil(100 * 10 * renamed / (10 * renamed + tests)) / 100 if renamed else 0.0


def _has(run: Mapping[str, str], function: str) -> bool:
    return any(_function(test) == function for test in run)


def _differs(test: str, runs: Sequence[Mapping[str, str]]) -> bool:
    return len({run.get(test, "missing") for run in runs}) > 1


def _no_flip(before: Mapping[str, str], after: Mapping[str, str]) -> UnsuitableCommit:
    passing = [test for test, outcome in after.items() if outcome == "passed"]
    if not after:
        return UnsuitableCommit("tests cannot run", "no test was collected with the fix")
    remedy = "to see the failures, check out the commit and run its tests"
    if not passing:
        failing = [test for test, outcome in after.items() if outcome in {"failed", "broken"}]
        if failing:
            return UnsuitableCommit(
                "fails with the fix", f"tests fail even with the fix: {list_tests(failing)}", remedy=remedy
            )
        return UnsuitableCommit("skipped", "all tests are skipped, even with the fix")
    broken = [test for test, outcome in after.items() if outcome != "passed" and before.get(test) != "passed"]
    if broken and any(after[test] in {"failed", "broken"} for test in broken):
        return UnsuitableCommit(
            "fails with the fix",
            f"tests that fail on the parent also fail with the fix: {list_tests(broken)}",
            remedy=remedy,
        )
    passed_before = f"all {len(passing)} tests that pass with the fix also pass on its parent"
    skipped = [test for test, outcome in after.items() if outcome == "skipped"]
    if skipped:  # possibly those of the fix: they may need compiled translations, an optional package, another platform
        return UnsuitableCommit(
            "does not fail on parent",
            f"{passed_before}; {len(skipped)} more are skipped: {list_tests(skipped)}",
            remedy="run them with `pytest -rs` to see why; a task written by hand can provide what they need",
        )
    return UnsuitableCommit("does not fail on parent", passed_before)
