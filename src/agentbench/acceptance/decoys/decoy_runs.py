"""Runs of tests of which some have a false expectation, and what they show."""

from __future__ import annotations

import dataclasses
import posixpath
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from agentbench.acceptance.candidate import Subject
from agentbench.acceptance.checks.pytest.check import PytestCheck, Selected, Taken
from agentbench.acceptance.decoys.mutate import MAX_SOURCE, Place, alterations, altered
from agentbench.acceptance.protected import GradedTree, bytecode_of
from agentbench.tree.entry import FileWrite
from agentbench.tree.limits import TreeTooLarge

_DICE = random.SystemRandom()
RUNS = {1: 4, 2: 3}
"""By how many tests must come to pass: which of two texts of a single one is true could be guessed half of the time."""
USUAL_RUNS = 2


class Function(BaseModel):
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


class Twins(BaseModel):
    """Tests that have twins, and the runs in which each asks for what.

    Runs and false values (which come from `seed`) are drawn once for a task and kept: many gradings show no more than one does,
    and each is a grading that the reference came through.
    """

    model_config = ConfigDict(frozen=True)
    functions: tuple[Function, ...] = ()
    seed: str = ""
    runs: tuple[tuple[int | None, ...], ...] = ()
    """For each run and each function the number of its false expectation; None where it asks for the truth."""

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(test for one in self.functions for test in one.ids)

    def asked(self) -> tuple[Asked, ...]:
        """The first run has all tests, the others those that have twins."""
        return tuple(
            Asked(
                self,
                {one: text for one, text in zip(self.functions, texts, strict=True) if text is not None},
                self.ids if number else (),
            )
            for number, texts in enumerate(self.runs)
        )


@dataclass(frozen=True, slots=True)
class Asked:
    """A run: which tests have a false expectation in it, and which one. `only`: tests to run; empty for all of them."""

    twins: Twins
    false: Mapping[Function, int]
    only: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ran:
    """How each test ended, and where those with a false expectation were altered."""

    taken: Taken
    asked: Asked
    places: Mapping[Function, tuple[int, str]]
    """Line, and what was made of it."""

    def holds(self, function: Function) -> bool:
        """The test did what the truth demands: it failed if its expectation was false, and passed if it was not."""
        wanted = "failed" if function in self.asked.false else "passed"
        outcomes = self.taken.run.transcript.outcomes()
        return self.taken.run.whole and all(outcomes.get(test) == wanted for test in function.ids)

    def fooled(self, true: Mapping[str, str]) -> list[Function]:
        """Tests that passed what is false, and by `true` also the truth. Who passes the first alone is just wrong."""
        outcomes = self.taken.run.transcript.outcomes()
        return [
            one for one in self.asked.false if any(outcomes.get(test) == true.get(test) == "passed" for test in one.ids)
        ]


def plan(functions: Sequence[Function], seed: str) -> Twins:
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
    return Twins(functions=tuple(functions), seed=seed, runs=tuple(zip(*by_function, strict=True)))


def once(tests: PytestCheck, asked: Asked) -> Ran:
    """Run the tests in a replica of their own.

    Raises:
        NotBuilt, TaskError, PatchInvalid: the replica could not be made.
        SandboxError: ours.
    """
    tree, places = _false_tree(tests.subject, asked)
    # Of none of them is told what it is like on R: what is not told of some would be seen in memory.
    untold = _names(tests, asked.twins.functions)
    taken = tests.take(Selected(tree, only=asked.only, untold=untold))
    return Ran(taken, asked, places)


def _false_tree(subject: Subject, asked: Asked) -> tuple[GradedTree, Mapping[Function, tuple[int, str]]]:
    """The replica's tree with false expectations in it. Every file that has twins is written, so that none is newer than others."""
    writes = {write.path: write for write in subject.tree.writes}
    places: dict[Function, tuple[int, str]] = {}
    for file, everybody in by_file(asked.twins.functions).items():
        source = source_of(subject, file)
        there = [one for one in everybody if one in asked.false]
        made = alterations(source, {one.place for one in there}, f"{asked.twins.seed}\0{file}")
        chosen = [(made[one.place], asked.false[one]) for one in there if one.place in made]
        places.update(
            (one, (made[one.place].line, made[one.place].what(asked.false[one]))) for one in there if one.place in made
        )
        path = file.encode("utf-8", "surrogateescape")
        executable = writes[path].executable if path in writes else subject.base[path].executable
        writes[path] = FileWrite(path, content=altered(source, chosen), executable=executable)
        writes |= {cached: FileWrite(cached) for cached in bytecode_of(path, subject.base)}
    # Deletions first, as everywhere: a folder may come where a file was.
    ordered = sorted(writes.values(), key=lambda write: write.content is not None or write.symlink is not None)
    return dataclasses.replace(subject.tree, writes=tuple(ordered)), places


def _names(tests: PytestCheck, functions: Iterable[Function]) -> frozenset[str]:
    """What the survey calls these functions, and whatever has the same code: a test may go by two names."""
    found: set[str] = set()
    workdir = tests.subject.bench.spec.workdir
    for file, there in by_file(functions).items():
        for name, (path, functions_there) in tests.survey.tests.items():
            if path == posixpath.join(workdir, file):
                codes = {functions_there.get(".".join((name, *one.place))) for one in there}
                found |= {key for key, code in functions_there.items() if code in codes}
    return frozenset(found)


def by_file(functions: Iterable[Function]) -> Mapping[str, Sequence[Function]]:
    found: dict[str, list[Function]] = {}
    for one in functions:
        found.setdefault(one.file, []).append(one)
    return found


def source_of(subject: Subject, file: str) -> bytes:
    """A test as it is in the replica: a hidden file, or R's own."""
    path = file.encode("utf-8", "surrogateescape")
    written = {write.path: write.content for write in subject.tree.writes}
    if path in written:
        return written[path] or b""
    try:
        return subject.bench.prepared.base_tree.read(path, max_bytes=MAX_SOURCE) if path in subject.base else b""
    except (OSError, TreeTooLarge):
        return b""
