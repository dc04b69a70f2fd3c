"""One run of tests of which some have a false expectation, and what it shows."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from agentbench.contract.schema import Check
from agentbench.core.reasons import Outcome
from agentbench.oracle.checks import NotBuilt, Subject
from agentbench.oracle.invocation import Invocation
from agentbench.oracle.kit import packed
from agentbench.oracle.pristine import configuration_file, pins_of, survey
from agentbench.oracle.protected import GradedTree, bytecode_of
from agentbench.oracle.pytest_runner import PytestRun, run_pytest
from agentbench.oracle.replica import open_replica
from agentbench.oracle.twins.altering import MAX_SOURCE, Alteration, Place, alterations, altered
from agentbench.tree.entry import FileWrite
from agentbench.tree.limits import TreeTooLarge


class Function(BaseModel):
    """A test in a file, and the ids it has there."""

    model_config = ConfigDict(frozen=True)
    file: str
    """Relative to the workspace."""
    place: Place
    ids: tuple[str, ...]
    mends: bool = True
    """Whether one of them has to come to pass: others an impostor can do honestly."""


@dataclass(frozen=True, slots=True)
class Altered:
    """Tests that are run together, and those of them that have a false expectation."""

    functions: tuple[Function, ...]
    false: frozenset[Function]


@dataclass(frozen=True, slots=True)
class Ran:
    """How each test ended, which of them had a false expectation, and where."""

    run: PytestRun
    asked: Altered
    places: Mapping[Function, Alteration]

    def holds(self, function: Function) -> bool:
        """The test did what the truth demands: it failed if its expectation was false, and passed if it was not."""
        wanted = "failed" if function in self.asked.false else "passed"
        outcomes = self.run.transcript.outcomes()
        return self.run.whole and all(outcomes.get(test) == wanted for test in function.ids)

    @property
    def held(self) -> bool:
        """Every test did."""
        return all(self.holds(one) for one in self.asked.functions)

    def fooled(self) -> list[Function]:
        """Tests that passed though nothing right could make them."""
        outcomes = self.run.transcript.outcomes()
        return [
            one
            for one in self.asked.functions
            if one in self.asked.false and any(outcomes.get(test) == "passed" for test in one.ids)
        ]


def halves(functions: Sequence[Function]) -> tuple[frozenset[Function], frozenset[Function]]:
    """Two parts by chance. Each test is false in one of two runs, and nobody in there knows in which."""
    first = frozenset(one for one in functions if secrets.randbits(1))
    return first, frozenset(functions) - first


def once(subject: Subject, check: Check, invocation: Invocation, asked: Altered) -> Ran:
    """Run the tests in a replica of their own.

    Raises:
        NotBuilt, TaskError, PatchInvalid: the replica could not be made.
        SandboxError: ours.
    """
    bench = subject.bench
    found = survey(bench, check, invocation)
    wanted = tuple(test for one in asked.functions for test in one.ids)
    pins = dataclasses.replace(pins_of(bench, found, subject.base), tests={}, only=wanted)
    tree, places = _false_tree(subject, asked.false)
    with packed(configuration_file(bench, found)) as kit, open_replica(bench, tree, [kit.mount]) as sandbox:
        built = subject.build(sandbox)
        if built.outcome is not Outcome.PASS:
            raise NotBuilt(built)
        # Half of them fail, and nobody reads at which line: that is what takes pytest longest.
        briefly = dataclasses.replace(invocation, arguments=(*invocation.arguments, "--tb=native"))
        run = run_pytest(sandbox, bench.spec, briefly, kit, pins=pins, timeout_sec=check.timeout_sec)
    return Ran(run, asked, places)


def _false_tree(subject: Subject, false: Collection[Function]) -> tuple[GradedTree, Mapping[Function, Alteration]]:
    """The replica's tree with false expectations in it."""
    writes = {write.path: write for write in subject.tree.writes}
    places: dict[Function, Alteration] = {}
    for file, there in by_file(false).items():
        source = source_of(subject, file)
        made = alterations(source, {one.place for one in there})
        places.update({one: made[one.place] for one in there if one.place in made})
        path = file.encode("utf-8", "surrogateescape")
        executable = writes[path].executable if path in writes else subject.base[path].executable
        writes[path] = FileWrite(path, content=altered(source, made.values()), executable=executable)
        writes |= {cached: FileWrite(cached) for cached in bytecode_of(path, subject.base)}
    # Deletions first, as everywhere: a folder may come where a file was.
    ordered = sorted(writes.values(), key=lambda write: write.content is not None or write.symlink is not None)
    return dataclasses.replace(subject.tree, writes=tuple(ordered)), places


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
