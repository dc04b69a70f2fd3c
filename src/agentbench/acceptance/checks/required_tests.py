"""Which tests a check requires, and what the outcomes of a run come to against them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agentbench.acceptance.runner.runner_monitor import is_test
from agentbench.contract.schema import Check

NEUTRAL = frozenset({"skipped", "xfailed", "xpassed"})
"""Outcomes that are neither a pass nor a failure. A test with one of them on R is not required, only not to fail."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """The tests that decide.

    `files`: test files that could not be imported on R, so that their tests have no ids yet: each must come to hold a
    passing test, and none that fails.
    """

    fail_to_pass: tuple[str, ...] = ()
    pass_to_pass: tuple[str, ...] = ()
    neutral: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        return not (self.fail_to_pass or self.pass_to_pass or self.files)

    @property
    def test_files(self) -> frozenset[str]:
        """Files that hold required tests, as the ids name them."""
        return files_of((*self.fail_to_pass, *self.pass_to_pass, *self.neutral)) | frozenset(self.files)


def files_of(tests: Iterable[str]) -> frozenset[str]:
    """Files that hold tests. A module that only has examples in its docstrings is not one: it is what a fix changes."""
    found: dict[str, bool] = {}
    for test in tests:
        file, _, name = test.partition("::")
        found[file] = found.get(file, False) or is_test(file) or not _is_example(file, name)
    return frozenset(file for file, holds in found.items() if holds)


def _is_example(file: str, name: str) -> bool:
    """Whether an id is that of a doctest: `src/toy/core.py::toy.core.median` says its module."""
    *folders, last = file.removesuffix(".py").split("/")
    parts = folders if last == "__init__" else [*folders, last]
    modules = (".".join(parts[at:]) for at in range(len(parts)))
    return file.endswith(".py") and any(name == module or name.startswith(module + ".") for module in modules)


def declared(check: Check) -> Requirement | None:
    """What the contract or its lock lists; None when they list nothing."""
    if not check.fail_to_pass and not check.pass_to_pass:
        return None
    return Requirement(check.fail_to_pass, check.pass_to_pass)


def from_outcomes(outcomes: Mapping[str, str], uncollected: Sequence[str]) -> Requirement:
    """Require whatever R has: what passes must go on passing, what fails must pass."""
    neutral = tuple(test for test, outcome in outcomes.items() if outcome in NEUTRAL)
    kept = tuple(test for test, outcome in outcomes.items() if outcome == "passed")
    others = tuple(test for test, outcome in outcomes.items() if outcome not in NEUTRAL and outcome != "passed")
    return Requirement(others, kept, neutral, tuple(uncollected))


def from_both(before: Mapping[str, str], after: Mapping[str, str]) -> Requirement:
    """Require whatever passes with the reference."""
    passing = [test for test, outcome in after.items() if outcome == "passed"]
    return Requirement(
        fail_to_pass=tuple(test for test in passing if before.get(test) != "passed"),
        pass_to_pass=tuple(test for test in passing if before.get(test) == "passed"),
    )


@dataclass(frozen=True, slots=True)
class Tally:
    """Outcomes held against a requirement."""

    failing: tuple[str, ...]
    """Required tests (or files) that did not pass."""
    required: int
    f2p_passed: int
    p2p_kept: int
    unlisted_failures: int
    """Tests outside the requirement that failed: told, not counted."""


def tally(requirement: Requirement, outcomes: Mapping[str, str], uncollected: Sequence[str] = ()) -> Tally:
    """Count. A required test passes only when it is reported as passed; missing, skipped or expected to fail is not."""
    by_file: dict[str, list[str]] = {}
    for test, outcome in outcomes.items():
        by_file.setdefault(test.split("::")[0], []).append(outcome)
    failing = [
        test for test in (*requirement.fail_to_pass, *requirement.pass_to_pass) if outcomes.get(test) != "passed"
    ]
    failing += [test for test in requirement.neutral if outcomes.get(test, "skipped") in {"failed", "broken"}]
    broken = [file for file in requirement.files if not _file_passes(by_file.get(file, []), file in uncollected)]
    failing += broken
    listed = {*requirement.fail_to_pass, *requirement.pass_to_pass, *requirement.neutral}
    return Tally(
        failing=tuple(failing),
        required=len(requirement.fail_to_pass) + len(requirement.pass_to_pass) + len(requirement.files),
        f2p_passed=sum(outcomes.get(test) == "passed" for test in requirement.fail_to_pass)
        + len(requirement.files)
        - len(broken),
        p2p_kept=sum(outcomes.get(test) == "passed" for test in requirement.pass_to_pass),
        unlisted_failures=sum(
            outcome in {"failed", "broken"}
            for test, outcome in outcomes.items()
            if test not in listed and test.split("::")[0] not in requirement.files
        ),
    )


def _file_passes(outcomes: Sequence[str], uncollected: bool) -> bool:  # noqa: FBT001
    return not uncollected and "passed" in outcomes and all(one == "passed" or one in NEUTRAL for one in outcomes)


def words(counted: Tally) -> str:
    """The `why` of a check with required tests."""
    if not counted.failing:
        return f"{counted.required} required tests passed"
    total = max(counted.required, len(counted.failing))
    return f"{len(counted.failing)} of {total} required tests failed"
