"""What some runs of a parent and of its fix come to. Pure."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentbench.authoring.commit.split import Unsuitable

LISTED = 8
MAX_UNSTEADY = 25
"""So many tests are left out of a task at most: with more of them its suite is no judge."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What the runs came to. `unsteady`: tests, or test functions as a whole, that differed between runs: left out."""

    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    unsteady: tuple[str, ...]
    duration_sec: float
    runs: int
    tolerance: float = 0.0
    """Share of tests that a flake screen must bear with: their names change from run to run."""


def compare(before: Sequence[Mapping[str, str]], after: Sequence[Mapping[str, str]], duration_sec: float) -> Proof:
    """Hold runs of the parent against runs of the fix.

    Raises:
        Unsuitable: nothing flips from failing to passing, or not every time.
    """
    seen = list(dict.fromkeys(test for run in after for test in run))
    changing = _changing(before) | _changing(after)
    lasting = [test for test in seen if all(test in run for run in after)]
    # A function with such parameters is left out as a whole, unless others of its parameters show the defect.
    needed = {_function(test) for test in lasting if _function(test) in changing and _flips(test, before, after)}
    unnamed = {test for run in (*before, *after) for test in run if _function(test) in needed and test not in lasting}
    changing -= needed
    tests = [test for test in seen if _function(test) not in changing and test not in unnamed]
    unsteady = [test for test in tests if _differs(test, before) or _differs(test, after)]
    passing = [test for test in tests if after[0].get(test) == "passed" and test not in unsteady]
    flipped = tuple(test for test in passing if before[0].get(test) != "passed")
    # A test that the fix is about and that does not do the same every time with it: whoever solves it would be judged by
    # luck. One that the parent passes now and then is left out, where others show the defect every time.
    about = [test for test in unsteady if any(run.get(test) != "passed" for run in before)]
    never = [test for test in about if all(run.get(test) != "passed" for run in before)]
    shaky = [test for test in never if _differs(test, after)] or ([] if flipped else about)
    if shaky or len(unsteady) > MAX_UNSTEADY:
        named = shaky or unsteady
        raise Unsuitable(
            "flaky",
            f"tests give different outcomes under the same conditions: {listed(named)}",
            remedy="choose another commit",
            tests=named,
        )
    if not flipped:
        raise _no_flip(before[0], after[0])
    kept = tuple(test for test in passing if before[0].get(test) == "passed")
    left_out = (*unsteady, *sorted(changing))
    tolerance = _tolerance(max(len([test for test in run if test in unnamed]) for run in (*before, *after)), len(tests))
    return Proof(flipped, kept, left_out, duration_sec, len(before) + len(after), tolerance)


def slowed(proof: Proof, slow: Mapping[str, str]) -> Proof:
    """Hold a proof against one more run of the fix, on a slow processor.

    Raises:
        Unsuitable: what the fix is about is decided by the clock.
    """
    shaken = [test for test in proof.fail_to_pass if slow.get(test) != "passed"]
    if shaken:
        raise timing(shaken, "fail when the processor is slow")
    unsteady = tuple(test for test in proof.pass_to_pass if slow.get(test) != "passed")
    return dataclasses.replace(
        proof,
        pass_to_pass=tuple(test for test in proof.pass_to_pass if test not in unsteady),
        unsteady=(*proof.unsteady, *unsteady),
        runs=proof.runs + 1,
    )


def timing(tests: Sequence[str], how: str) -> Unsuitable:
    return Unsuitable(
        "timing-dependent",
        f"tests that look at the clock {how}: {listed(tests)}",
        remedy="choose another commit",
        tests=tests,
    )


def listed(tests: Sequence[str]) -> str:
    more = f" and {len(tests) - LISTED} more" if len(tests) > LISTED else ""
    return f"{', '.join(tests[:LISTED])}{more}"


def _function(test: str) -> str:
    return test.partition("[")[0]


def _changing(runs: Sequence[Mapping[str, str]]) -> set[str]:
    """Test functions whose parameters are called otherwise in every run (by the time of day, say): none can be required."""
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


def _tolerance(unnamed: int, named: int) -> float:
    """So many names are new in every run; a screen of ten runs sees ten times as many."""
    return math.ceil(100 * 10 * unnamed / (10 * unnamed + named)) / 100 if unnamed else 0.0


def _has(run: Mapping[str, str], function: str) -> bool:
    return any(_function(test) == function for test in run)


def _differs(test: str, runs: Sequence[Mapping[str, str]]) -> bool:
    return len({run.get(test, "missing") for run in runs}) > 1


def _no_flip(before: Mapping[str, str], after: Mapping[str, str]) -> Unsuitable:
    passing = [test for test, outcome in after.items() if outcome == "passed"]
    if not after:
        return Unsuitable("tests cannot run", "no test was collected with the fix")
    remedy = "look at what they say: `git checkout` the commit and run them"
    if not passing:
        failing = [test for test, outcome in after.items() if outcome in {"failed", "broken"}]
        if failing:
            return Unsuitable(
                "fails with the fix", f"the tests fail even with the fix: {listed(failing)}", remedy=remedy
            )
        return Unsuitable("skipped", "every test is skipped here, with the fix too")
    broken = [test for test, outcome in after.items() if outcome != "passed" and before.get(test) != "passed"]
    if broken and any(after[test] in {"failed", "broken"} for test in broken):
        return Unsuitable(
            "fails with the fix", f"what fails on the parent fails with the fix too: {listed(broken)}", remedy=remedy
        )
    skipped = [test for test, outcome in after.items() if outcome == "skipped"]
    if skipped:  # perhaps what the commit is about: compiled translations, an optional package, another platform
        return Unsuitable(
            "does not fail on parent",
            f"all {len(passing)} tests that pass with the fix pass on its parent too; "
            f"{len(skipped)} more are skipped here: {listed(skipped)}",
            remedy="run them with `-rs` to see what they want; what setup does not make can be made by a task written by hand",
        )
    return Unsuitable(
        "does not fail on parent", f"all {len(passing)} tests that pass with the fix pass on its parent too"
    )
