"""Runs tests with decoys among them, and combines the results of the real tests."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from agentbench.acceptance.candidate import Candidate
from agentbench.acceptance.checks.pytest.check import PytestCheck, SelectedTests
from agentbench.acceptance.checks.pytest.decide import is_trustworthy
from agentbench.acceptance.checks.pytest.records import TestRecord, Transcript
from agentbench.acceptance.checks.pytest.run import PytestRun
from agentbench.acceptance.decoys.mutate import MAX_SOURCE, Place, apply_mutations, find_mutations
from agentbench.acceptance.protected import GradedTree, bytecode_of
from agentbench.tree.entry import FileWrite
from agentbench.tree.limits import TreeTooLarge

_RNG = random.SystemRandom()
RUNS_BY_TESTS = {1: 4, 2: 3}
"""Runs by number of fail-to-pass tests: of two versions of a single test, the real one is guessed half of the time."""
DEFAULT_RUNS = 2
FAILED, PASSED = 1, 0
"""Exit statuses of pytest."""


class DecoyTarget(BaseModel):
    """A test function that has a decoy, and the test ids that it has."""

    model_config = ConfigDict(frozen=True)
    file: str
    """Relative to the workspace."""
    place: Place
    ids: tuple[str, ...]
    fail_to_pass: bool = True
    """Whether one of its ids is fail-to-pass. The unchanged code may pass tests whose ids are all pass-to-pass."""
    values: int = 1
    """Number of wrong expected values available."""


class DecoyPlan(BaseModel):
    """The tests that have decoys, and the version of each test in each run.

    Runs and wrong values (which derive from `seed`) are drawn once per task and kept. So many gradings reveal no more
    than one, and the reference passed every run of the plan.
    """

    model_config = ConfigDict(frozen=True)
    targets: tuple[DecoyTarget, ...] = ()
    seed: str = ""
    runs: tuple[tuple[int | None, ...], ...] = ()
    """For each run and target, the number of its wrong value, or None for the real test."""

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(test for target in self.targets for test in target.ids)

    def assignments(self) -> tuple[DecoyAssignment, ...]:
        """Return the runs. The first one has all tests, the others only those with decoys."""
        return tuple(
            DecoyAssignment(
                self,
                {target: value for target, value in zip(self.targets, values, strict=True) if value is not None},
                self.ids if number else (),
            )
            for number, values in enumerate(self.runs)
        )


@dataclass(frozen=True, slots=True)
class DecoyAssignment:
    """One run: the targets that are decoys in it, with the number of their wrong value."""

    plan: DecoyPlan
    decoys: Mapping[DecoyTarget, int]
    only: tuple[str, ...] = ()
    """Tests to run; empty for all."""


@dataclass(frozen=True, slots=True)
class DecoyRun:
    """The result of one run, and where its decoys were mutated."""

    run: PytestRun
    assignment: DecoyAssignment
    places: Mapping[DecoyTarget, tuple[int, str]]
    """Line and description of each mutation."""

    def holds(self, target: DecoyTarget) -> bool:
        """Return whether a test behaved as for a correct solution: failed as a decoy, passed as the real test."""
        expected = "failed" if target in self.assignment.decoys else "passed"
        outcomes = self.run.transcript.outcomes()
        return self.run.whole and all(outcomes.get(test) == expected for test in target.ids)

    def passed_decoys(self, real: Mapping[str, str]) -> list[DecoyTarget]:
        """Return decoys that passed although the real test passed too.

        Code that passes only the decoy is just wrong.
        """
        outcomes = self.run.transcript.outcomes()
        return [
            target
            for target in self.assignment.decoys
            if any(outcomes.get(test) == real.get(test) == "passed" for test in target.ids)
        ]


def draw_plan(targets: Sequence[DecoyTarget], seed: str) -> DecoyPlan:
    """Draw the runs of a plan. Each test is real in one of them and a decoy with another wrong value in every other.

    No run is known to be real, and every version of a test is seen equally often, so that even code that sees all runs
    does not know which is which. A condition has only two versions: then chance decides in how many runs it is which.
    """
    count = RUNS_BY_TESTS.get(sum(target.fail_to_pass for target in targets), DEFAULT_RUNS)
    by_target: list[list[int | None]] = []
    for target in targets:
        versions: list[int | None] = [None, *range(count - 1)]
        if target.values < count - 1:
            real_runs = _RNG.randrange(1, count)
            versions = [None] * real_runs + [0] * (count - real_runs)
        _RNG.shuffle(versions)
        by_target.append(versions)
    return DecoyPlan(targets=tuple(targets), seed=seed, runs=tuple(zip(*by_target, strict=True)))


def run_decoys(
    tests: PytestCheck, assignment: DecoyAssignment, on_built: Callable[[], None] = lambda: None
) -> DecoyRun:
    """Run the tests in a replica of their own.

    Raises:
        BuildFailed, TaskError, PatchInvalid: the replica could not be created.
        SandboxError: the sandbox failed.
    """
    tree, places = _tree_with_decoys(tests.candidate, assignment)
    run = tests.run(SelectedTests(tree, only=assignment.only, mutated=True), on_built)
    return DecoyRun(run, assignment, places)


def _tree_with_decoys(
    candidate: Candidate, assignment: DecoyAssignment
) -> tuple[GradedTree, Mapping[DecoyTarget, tuple[int, str]]]:
    """Return the replica's tree with decoys in it.

    Every file that can have decoys is rewritten, so that timestamps do not tell which ones do.
    """
    writes = {write.path: write for write in candidate.tree.writes}
    places: dict[DecoyTarget, tuple[int, str]] = {}
    for file, targets in by_file(assignment.plan.targets).items():
        source = source_of(candidate, file)
        in_file = [target for target in targets if target in assignment.decoys]
        mutations = find_mutations(source, {target.place for target in in_file}, f"{assignment.plan.seed}\0{file}")
        chosen = [
            (mutations[target.place], assignment.decoys[target]) for target in in_file if target.place in mutations
        ]
        places.update(
            (target, (mutations[target.place].line, mutations[target.place].describe(assignment.decoys[target])))
            for target in in_file
            if target.place in mutations
        )
        path = file.encode("utf-8", "surrogateescape")
        executable = writes[path].executable if path in writes else candidate.base[path].executable
        writes[path] = FileWrite(path, content=apply_mutations(source, chosen), executable=executable)
        writes |= {cached: FileWrite(cached) for cached in bytecode_of(path, candidate.base)}
    # Deletions come first: a folder may take the place of a file.
    ordered = sorted(writes.values(), key=lambda write: write.data is not None)
    return dataclasses.replace(candidate.tree, writes=tuple(ordered)), places


def by_file(targets: Iterable[DecoyTarget]) -> Mapping[str, Sequence[DecoyTarget]]:
    grouped: dict[str, list[DecoyTarget]] = {}
    for target in targets:
        grouped.setdefault(target.file, []).append(target)
    return grouped


def source_of(candidate: Candidate, file: str) -> bytes:
    """Return the source of a test file in the replica: a hidden file or one of the base repository."""
    path = file.encode("utf-8", "surrogateescape")
    written = {write.path: write.content for write in candidate.tree.writes}
    if path in written:
        return written[path] or b""
    try:
        return candidate.context.prepared.base_tree.read(path, max_bytes=MAX_SOURCE) if path in candidate.base else b""
    except (OSError, TreeTooLarge):
        return b""


# --- combining runs ---------------------------------------------------------------------------------------------------


def combine_runs(runs: Sequence[DecoyRun], *, passing_canary: bool) -> PytestRun:
    """Return the first run, which has all tests, with the results of real tests from the other runs.

    A run that cannot be trusted contributes no results. If a real test ran more than once, its worst result counts.
    """
    first, *others = runs
    decoys = {test for target in first.assignment.decoys for test in target.ids}
    records: dict[str, TestRecord] = {
        test: record for test, record in first.run.transcript.tests.items() if test not in decoys
    }
    for other in others:
        if not is_trustworthy(other.run, passing_canary=passing_canary):
            continue
        results = other.run.transcript.tests
        for target in other.assignment.plan.targets:
            for test in () if target in other.assignment.decoys else target.ids:
                if test in results and _worse(results[test], records.get(test)):
                    records[test] = results[test]
    return _with_tests(first.run, records)


def _worse(record: TestRecord, other: TestRecord | None) -> bool:
    return other is None or (record.outcome != "passed" and other.outcome == "passed")


def _with_tests(run: PytestRun, records: Mapping[str, TestRecord]) -> PytestRun:
    before = run.transcript
    transcript = dataclasses.replace(before, tests=dict(records))
    transcript.status = _status(before, transcript.outcomes().values())
    return dataclasses.replace(run, transcript=transcript)


def _status(before: Transcript, outcomes: Collection[str]) -> int | None:
    """Return the status that pytest would have with these outcomes."""
    if before.status not in {PASSED, FAILED}:
        return before.status
    return FAILED if before.uncollected or "failed" in outcomes or "broken" in outcomes else PASSED
