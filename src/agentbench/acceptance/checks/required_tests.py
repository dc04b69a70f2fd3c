"""The tests that a check requires, and how the outcomes of a run compare with them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from agentbench.acceptance.runner.runner_monitor import is_test
from agentbench.contract.schema import Check
from agentbench.core.dataclass import dataclass

NEUTRAL = frozenset({"skipped", "xfailed", "xpassed"})
"""Neither pass nor failure. A test with such an outcome on the base repository is not required, but must not fail."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """The tests that decide a check.

    `files`: test files that cannot be imported on the base repository, so that the ids of their tests are unknown. Each
    must end up with a passing test and no failing one.
    """

    fail_to_pass: tuple[str, ...] = ()
    pass_to_pass: tuple[str, ...] = ()
    neutral: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        return not (self.fail_to_pass or self.pass_to_pass or self.files)

    @property
    def ids(self) -> tuple[str, ...]:
        return (*self.fail_to_pass, *self.pass_to_pass, *self.neutral)

    @property
    def test_files(self) -> frozenset[str]:
        """Files that contain required tests, as the ids name them."""
        return files_of(self.ids) | frozenset(self.files)


def files_of(tests: Iterable[str]) -> frozenset[str]:
    """Return the files that contain the tests, without modules that only have doctests: a fix changes such modules."""
    holds_tests: dict[str, bool] = {}
    for test in tests:
        file, _, name = test.partition("::")
        holds_tests[file] = holds_tests.get(file, False) or is_test(file) or not _is_doctest(file, name)
    return frozenset(file for file, holds in holds_tests.items() if holds)


def _is_doctest(file: str, name: str) -> bool:
    """Return whether an id is that of a doctest: `src/toy/core.py::toy.core.median` repeats its module."""
    *folders, last = file.removesuffix(".py").split("/")
    parts = folders if last == "__init__" else [*folders, last]
    modules = (".".join(parts[at:]) for at in range(len(parts)))
    return file.endswith(".py") and any(name == module or name.startswith(module + ".") for module in modules)


def declared_requirement(check: Check) -> Requirement | None:
    """Return what the contract or its lock requires, or None if they list no tests."""
    if not check.fail_to_pass and not check.pass_to_pass:
        return None
    return Requirement(check.fail_to_pass, check.pass_to_pass)


def requirement_from_base(outcomes: Mapping[str, str], uncollected: Sequence[str]) -> Requirement:
    """Require every test of the base repository: passing tests must still pass, failing tests must pass."""
    neutral = tuple(test for test, outcome in outcomes.items() if outcome in NEUTRAL)
    passing = tuple(test for test, outcome in outcomes.items() if outcome == "passed")
    failing = tuple(test for test, outcome in outcomes.items() if outcome not in NEUTRAL and outcome != "passed")
    return Requirement(failing, passing, neutral, tuple(uncollected))


def requirement_from_reference(before: Mapping[str, str], after: Mapping[str, str]) -> Requirement:
    """Require every test that passes with the reference (`after`); `before` are the outcomes on the base repository."""
    passing = [test for test, outcome in after.items() if outcome == "passed"]
    return Requirement(
        fail_to_pass=tuple(test for test in passing if before.get(test) != "passed"),
        pass_to_pass=tuple(test for test in passing if before.get(test) == "passed"),
    )


@dataclass(frozen=True, slots=True)
class Tally:
    """Outcomes counted against a requirement."""

    failing: tuple[str, ...]
    """Required tests (or files) that did not pass."""
    required: int
    f2p_passed: int
    p2p_kept: int
    unlisted_failures: int
    """Failed tests that are not required: reported, not counted."""


def tally(requirement: Requirement, outcomes: Mapping[str, str], uncollected: Sequence[str] = ()) -> Tally:
    """Count outcomes. Only `passed` is a pass: missing, skipped and expected failures are not."""
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
    passing = all(outcome == "passed" or outcome in NEUTRAL for outcome in outcomes)
    return not uncollected and "passed" in outcomes and passing


def summarize(counted: Tally) -> str:
    """The `why` of a check with required tests."""
    if not counted.failing:
        return f"{counted.required} required tests passed"
    total = max(counted.required, len(counted.failing))
    return f"{len(counted.failing)} of {total} required tests failed"
