"""Runs tests with decoys among them, and combines the results of the real tests."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from agentbench.acceptance.candidate import Candidate
from agentbench.acceptance.checks.pytest.check import PytestCheck, SelectedTests
from agentbench.acceptance.checks.pytest.decide import is_trustworthy
from agentbench.acceptance.checks.pytest.records import TestRecord, Transcript
from agentbench.acceptance.checks.pytest.run import PytestRun
from agentbench.acceptance.decoys.assignments import DecoyAssignment, DecoyTarget, by_file
from agentbench.acceptance.decoys.mutation import MAX_SOURCE, apply_mutations
from agentbench.acceptance.protected import GradedTree, bytecode_of
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import TaskError
from agentbench.tree.entry import FileWrite
from agentbench.tree.limits import TreeTooLarge

FAILED, PASSED = 1, 0
"""Exit statuses of pytest."""


@dataclass(frozen=True, slots=True)
class DecoyRun:
    """The result of one run."""

    run: PytestRun
    assignment: DecoyAssignment

    def correct(self, targets: Iterable[DecoyTarget]) -> set[DecoyTarget]:
        """Return the tests that behaved as for a correct solution: failed as a decoy, passed as the real test."""
        if not self.run.whole:
            return set()
        outcomes = self.run.transcript.outcomes()
        expected = {target: "failed" if target in self.assignment.decoys else "passed" for target in targets}
        return {target for target in expected if all(outcomes.get(test) == expected[target] for test in target.ids)}

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


def run_decoys(
    tests: PytestCheck, assignment: DecoyAssignment, on_built: Callable[[], None] = lambda: None
) -> DecoyRun:
    """Run the tests in a replica of their own.

    Raises:
        BuildFailed, TaskError, PatchInvalid: the replica could not be created.
        SandboxError: the sandbox failed.
    """
    plan = assignment.plan
    selected = SelectedTests(
        _tree_with_decoys(tests.candidate, assignment),
        only=assignment.only,
        mutated=True,
        real_ids=plan.real_ids,
        altered=frozenset(test for ids in plan.real_ids.values() for test in ids),
        given=assignment.given,
        named=frozenset(plan.named),
        reference_sec=plan.reference_sec,
    )
    return DecoyRun(tests.run(selected, on_built), assignment)


def _tree_with_decoys(candidate: Candidate, assignment: DecoyAssignment) -> GradedTree:
    """Return the replica's tree with decoys in it.

    Every file that can have decoys is rewritten, so that timestamps do not tell which ones do.
    """
    writes = {write.path: write for write in candidate.tree.writes}
    for file, targets in by_file(assignment.plan.targets).items():
        chosen = [(target.mutation, assignment.decoys[target]) for target in targets if target in assignment.decoys]
        try:
            content = apply_mutations(source_of(candidate, file), chosen)
        except ValueError as error:
            raise TaskError(f"{file} is not the file that its decoys were planned for: {error}") from error
        path = file.encode("utf-8", "surrogateescape")
        executable = writes[path].executable if path in writes else candidate.base[path].executable
        writes[path] = FileWrite(path, content=content, executable=executable)
        writes |= {cached: FileWrite(cached) for cached in bytecode_of(path, candidate.base)}
    # Deletions come first: a folder may take the place of a file.
    ordered = sorted(writes.values(), key=lambda write: write.data is not None)
    return dataclasses.replace(candidate.tree, writes=tuple(ordered))


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
    """Return the first run, which has all tests, with the results of real tests that have decoys from the other runs.

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
