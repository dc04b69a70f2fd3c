"""Which tests of a check have a twin: found out once, with the reference, and remembered."""

from __future__ import annotations

import dataclasses
import posixpath
from collections.abc import Callable, Iterator, Sequence

from pydantic import BaseModel, ConfigDict

from agentbench.contract.files import read_bytes
from agentbench.contract.schema import Check
from agentbench.core.canonical import sha256_hex
from agentbench.core.errors import TaskError
from agentbench.oracle.bench import GradingBench, Unlogged
from agentbench.oracle.cache import key_of, remembered
from agentbench.oracle.checks import Subject, requirement_of
from agentbench.oracle.invocation import Invocation
from agentbench.oracle.pristine import base_entries, check_key, survey
from agentbench.oracle.protected import GradedTree
from agentbench.oracle.requirement import Requirement
from agentbench.oracle.steps import Builder
from agentbench.oracle.twins.altering import Place, alterations
from agentbench.oracle.twins.running import Altered, Function, by_file, halves, once, source_of

MOST_IDS = 8
"""Parameters of one test."""
MOST, MOST_KEPT = 40, 10
"""Test ids that are given a twin: of those that must come to pass, and of those that must go on passing."""
RULES = 3
"""Raised when expectations are altered in another way."""
TRIALS = 2
"""Pairs of runs with the reference: a test may leave something behind for another one when it fails."""


class Twins(BaseModel):
    """Tests whose twin fails with the reference while they themselves pass, as it has to be."""

    model_config = ConfigDict(frozen=True)
    functions: tuple[Function, ...] = ()


def twins_of(
    bench: GradingBench, check: Check, invocation: Invocation, reference: Callable[[], GradedTree | None]
) -> Twins:
    """The twins of a check.

    Raises:
        ContractError: the reference cannot be read.
        NotBuilt, TaskError, PatchInvalid: the reference is none that can be put on R.
        SandboxError: ours.
    """
    make = _Making(bench, check, invocation, reference)
    file = bench.loaded.reference_file
    key = key_of(RULES, check_key(bench, check), "" if file is None else sha256_hex(read_bytes(file)))
    return remembered(bench.cache, key, Twins, make)[0]


def subject_of(bench: GradingBench, tree: GradedTree) -> Subject:
    """A tree to be run outside of any attempt's log."""
    bench = dataclasses.replace(bench, log=Unlogged(), blobs=None)
    return Subject(bench, tree, base_entries(bench), Builder(bench))


@dataclasses.dataclass(frozen=True, slots=True)
class _Making:
    bench: GradingBench
    check: Check
    invocation: Invocation
    reference: Callable[[], GradedTree | None]

    def __call__(self) -> Twins:
        tree = self.reference()
        if tree is None:
            return Twins()
        subject = subject_of(self.bench, tree)
        functions = self._candidates(subject, requirement_of(subject.bench, self.check))
        for _ in range(TRIALS):
            held = set(functions)
            for part in halves(functions):
                if held:
                    ran = once(subject, self.check, self.invocation, Altered(functions, part))
                    if not ran.run.whole:
                        raise TaskError("with the reference the tests could not be run again")
                    held &= {one for one in functions if ran.holds(one)}
            functions = tuple(one for one in functions if one in held)
        return Twins(functions=functions)

    def _candidates(self, subject: Subject, requirement: Requirement) -> tuple[Function, ...]:
        root = posixpath.relpath(survey(subject.bench, self.check, self.invocation).rootdir, subject.bench.spec.workdir)
        functions = sorted(_alterable(subject, _by_function(requirement, root)), key=_order)
        mending, keeping = ([one for one in functions if one.mends is mends] for mends in (True, False))
        return (*_few(mending, MOST), *_few(keeping, MOST_KEPT))


def _few(functions: Sequence[Function], most: int) -> Iterator[Function]:
    """As many as have no more ids than that together."""
    for one in functions:
        if len(one.ids) <= most:
            most -= len(one.ids)
            yield one


def _alterable(subject: Subject, functions: Sequence[Function]) -> Iterator[Function]:
    for file, there in by_file(functions).items():
        possible = alterations(source_of(subject, file), {one.place for one in there})
        yield from (one for one in there if one.place in possible)


def _order(function: Function) -> str:
    """The same in every process, and no order that a person chose."""
    return sha256_hex("\0".join((function.file, *function.place)).encode("utf-8", "surrogatepass"))


def _by_function(requirement: Requirement, root: str) -> Sequence[Function]:
    """What is altered in a test is altered for all its ids, so they go together: some of them, first those that must come to pass."""
    found: dict[tuple[str, Place], list[str]] = {}
    for test in (*requirement.fail_to_pass, *requirement.pass_to_pass):
        file, _, name = test.partition("::")
        if name and file.endswith(".py"):
            place = tuple(name.split("[", 1)[0].split("::"))
            found.setdefault((posixpath.normpath(posixpath.join(root, file)), place), []).append(test)
    mend = frozenset(requirement.fail_to_pass)
    return [
        Function(file=file, place=place, ids=tuple(ids[:MOST_IDS]), mends=not mend.isdisjoint(ids))
        for (file, place), ids in found.items()
    ]
