"""Runs of tests of which some have a false expectation, and what they show."""

from __future__ import annotations

import dataclasses
import posixpath
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from agentbench.acceptance.candidate import Candidate
from agentbench.acceptance.checks.pytest.check import PytestCheck, SelectedTests
from agentbench.acceptance.checks.pytest.run import PytestRun
from agentbench.acceptance.decoys.mutate import MAX_SOURCE, Place, alterations, altered
from agentbench.acceptance.protected import GradedTree, bytecode_of
from agentbench.tree.entry import FileWrite
from agentbench.tree.limits import TreeTooLarge

_DICE = random.SystemRandom()
RUNS = {1: 4, 2: 3}
"""By how many tests must come to pass: which of two texts of a single one is true could be guessed half of the time."""
USUAL_RUNS = 2


class DecoyTarget(BaseModel):
    """A test in a file, and the ids it has there."""

    model_config = ConfigDict(frozen=True)
    file: str
    """Relative to the workspace."""
    place: Place
    ids: tuple[str, ...]
    mends: bool = True
    """Whether one of them has to come to pass: others an impostor can do honestly."""
    values: int = 1
    """False expectations that it can be given."""


class DecoyPlan(BaseModel):
    """Tests that have twins, and the runs in which each asks for what.

    Runs and false values (which come from `seed`) are drawn once for a task and kept: many gradings show no more than one does,
    and each is a grading that the reference came through.
    """

    model_config = ConfigDict(frozen=True)
    targets: tuple[DecoyTarget, ...] = ()
    seed: str = ""
    runs: tuple[tuple[int | None, ...], ...] = ()
    """For each run and each function the number of its false expectation; None where it asks for the truth."""

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(test for one in self.targets for test in one.ids)

    def assignments(self) -> tuple[DecoyAssignment, ...]:
        """The first run has all tests, the others those that have twins."""
        return tuple(
            DecoyAssignment(
                self,
                {one: text for one, text in zip(self.targets, texts, strict=True) if text is not None},
                self.ids if number else (),
            )
            for number, texts in enumerate(self.runs)
        )


@dataclass(frozen=True, slots=True)
class DecoyAssignment:
    """A run: which tests have a false expectation in it, and which one. `only`: tests to run; empty for all of them."""

    plan: DecoyPlan
    false: Mapping[DecoyTarget, int]
    only: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DecoyRun:
    """How each test ended, and where those with a false expectation were altered."""

    run: PytestRun
    assignment: DecoyAssignment
    places: Mapping[DecoyTarget, tuple[int, str]]
    """Line, and what was made of it."""

    def holds(self, function: DecoyTarget) -> bool:
        """The test did what the truth demands: it failed if its expectation was false, and passed if it was not."""
        wanted = "failed" if function in self.assignment.false else "passed"
        outcomes = self.run.transcript.outcomes()
        return self.run.whole and all(outcomes.get(test) == wanted for test in function.ids)

    def passed_decoys(self, true: Mapping[str, str]) -> list[DecoyTarget]:
        """Tests that passed what is false, and by `true` also the truth. Who passes the first alone is just wrong."""
        outcomes = self.run.transcript.outcomes()
        return [
            one
            for one in self.assignment.false
            if any(outcomes.get(test) == true.get(test) == "passed" for test in one.ids)
        ]


def draw_plan(functions: Sequence[DecoyTarget], seed: str) -> DecoyPlan:
    """Runs side by side. Each test asks for the truth in one of them and for something false in every other.

    No run is known to be a true one, and each text of a test is seen as often as any other: whoever sees them all still does not
    know which is which. A condition has only two texts: then chance says in how many of the runs it is which.
    """
    count = RUNS.get(sum(one.mends for one in functions), USUAL_RUNS)
    by_function: list[list[int | None]] = []
    for one in functions:
        texts: list[int | None] = [None, *range(count - 1)]
        if one.values < count - 1:
            true = _DICE.randrange(1, count)
            texts = [None] * true + [0] * (count - true)
        _DICE.shuffle(texts)
        by_function.append(texts)
    return DecoyPlan(targets=tuple(functions), seed=seed, runs=tuple(zip(*by_function, strict=True)))


def run_decoys(
    tests: PytestCheck, assignment: DecoyAssignment, on_built: Callable[[], None] = lambda: None
) -> DecoyRun:
    """Run the tests in a replica of their own.

    Raises:
        BuildFailed, TaskError, PatchInvalid: the replica could not be made.
        SandboxError: ours.
    """
    tree, places = _false_tree(tests.candidate, assignment)
    # Of none of them is told what it is like on R: what is not told of some would be seen in memory.
    mutated = _names(tests, assignment.plan.targets)
    run = tests.run(SelectedTests(tree, only=assignment.only, mutated=mutated), on_built)
    return DecoyRun(run, assignment, places)


def _false_tree(
    candidate: Candidate, assignment: DecoyAssignment
) -> tuple[GradedTree, Mapping[DecoyTarget, tuple[int, str]]]:
    """The replica's tree with false expectations in it. Every file that has twins is written, so that none is newer than others."""
    writes = {write.path: write for write in candidate.tree.writes}
    places: dict[DecoyTarget, tuple[int, str]] = {}
    for file, everybody in by_file(assignment.plan.targets).items():
        source = source_of(candidate, file)
        there = [one for one in everybody if one in assignment.false]
        made = alterations(source, {one.place for one in there}, f"{assignment.plan.seed}\0{file}")
        chosen = [(made[one.place], assignment.false[one]) for one in there if one.place in made]
        places.update(
            (one, (made[one.place].line, made[one.place].what(assignment.false[one])))
            for one in there
            if one.place in made
        )
        path = file.encode("utf-8", "surrogateescape")
        executable = writes[path].executable if path in writes else candidate.base[path].executable
        writes[path] = FileWrite(path, content=altered(source, chosen), executable=executable)
        writes |= {cached: FileWrite(cached) for cached in bytecode_of(path, candidate.base)}
    # Deletions first, as everywhere: a folder may come where a file was.
    ordered = sorted(writes.values(), key=lambda write: write.content is not None or write.symlink is not None)
    return dataclasses.replace(candidate.tree, writes=tuple(ordered)), places


def _names(tests: PytestCheck, functions: Iterable[DecoyTarget]) -> frozenset[str]:
    """What the survey calls these functions, and whatever has the same code: a test may go by two names."""
    found: set[str] = set()
    workdir = tests.candidate.context.spec.workdir
    for file, there in by_file(functions).items():
        for name, (path, functions_there) in tests.survey.tests.items():
            if path == posixpath.join(workdir, file):
                codes = {functions_there.get(".".join((name, *one.place))) for one in there}
                found |= {key for key, code in functions_there.items() if code in codes}
    return frozenset(found)


def by_file(functions: Iterable[DecoyTarget]) -> Mapping[str, Sequence[DecoyTarget]]:
    found: dict[str, list[DecoyTarget]] = {}
    for one in functions:
        found.setdefault(one.file, []).append(one)
    return found


def source_of(candidate: Candidate, file: str) -> bytes:
    """A test as it is in the replica: a hidden file, or R's own."""
    path = file.encode("utf-8", "surrogateescape")
    written = {write.path: write.content for write in candidate.tree.writes}
    if path in written:
        return written[path] or b""
    try:
        return candidate.context.prepared.base_tree.read(path, max_bytes=MAX_SOURCE) if path in candidate.base else b""
    except (OSError, TreeTooLarge):
        return b""
