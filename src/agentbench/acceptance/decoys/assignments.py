"""The plan of a check's decoys: which tests have one, and the version of each test in each run. Pure."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from agentbench.acceptance.decoys.mutation import Mutation, Place, Row
from agentbench.core.dataclass import dataclass

_RNG = random.SystemRandom()
RUNS, RUNS_WITH_FEW_TESTS = 2, 3
FEW_TESTS = 3
"""With so few fail-to-pass tests, too little would be left to guess if one of two runs can be recognised."""
MAX_ALIKE_SEC = 2.0
"""Tests that take longer than this with the reference are not all run twice."""


class DecoyTarget(BaseModel):
    """A test function, or one row of its parameters, that has a decoy, and the test ids that it has."""

    model_config = ConfigDict(frozen=True, defer_build=True)
    file: str
    """Relative to the workspace."""
    place: Place
    row: Row | None = None
    ids: tuple[str, ...]
    fail_to_pass: bool = True
    """Whether one of its ids is fail-to-pass. The unchanged code may pass tests whose ids are all pass-to-pass."""
    mutation: Mutation


class DecoyPlan(BaseModel):
    """The tests that have decoys, and the version of each test in each run.

    Runs and wrong values are drawn once per task and kept. So many gradings reveal no more than one, and the reference
    passed every run of the plan.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)
    targets: tuple[DecoyTarget, ...] = ()
    runs: tuple[tuple[int | None, ...], ...] = ()
    """For each run and target, the number of its wrong value, or None for the real test."""
    real_ids: Mapping[str, tuple[str, ...]] = {}
    """Functions with decoys of single rows, and the ids of all their tests in order."""
    given: tuple[Mapping[str, str], ...] = ()
    """For each run, the opaque ids of their tests and the ids that pytest gave them with the reference."""
    named: tuple[str, ...] = ()
    """Functions that pass with the reference only if their tests keep their ids."""
    reference_ms: int | None = None
    """How long the tests took with the reference; None if they were not run."""
    seed: str = ""
    """The wrong values derive from it. It also keeps the digest of the plan from being guessed."""

    @property
    def reference_sec(self) -> float | None:
        return None if self.reference_ms is None else self.reference_ms / 1000

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(test for target in self.targets for test in target.ids))

    @property
    def alike(self) -> bool:
        """Whether every run has all tests, so that code under test cannot tell which run it is in."""
        return len(self.runs) == RUNS and _are_few(self.targets)

    def assignments(self) -> tuple[DecoyAssignment, ...]:
        """Return the runs. The first one has all tests, the others only those with decoys unless the runs are alike."""
        return tuple(
            DecoyAssignment(
                self,
                {target: value for target, value in zip(self.targets, values, strict=True) if value is not None},
                self.ids if number and not self.alike else (),
                self.given[number] if self.given else None,
            )
            for number, values in enumerate(self.runs)
        )

    def covered(self, tests: Collection[str]) -> int:
        """Return how many of the tests have a decoy with a wrong value. Others are easier to recognise."""
        ids = {test for target in self.targets if target.mutation.is_conclusive for test in target.ids}
        return len(ids.intersection(tests))


@dataclass(frozen=True, slots=True)
class DecoyAssignment:
    """One run: the targets that are decoys in it, with the number of their wrong value."""

    plan: DecoyPlan
    decoys: Mapping[DecoyTarget, int]
    only: tuple[str, ...] = ()
    """Tests to run; empty for all."""
    given: Mapping[str, str] | None = None
    """Opaque ids, and the ids that pytest gave with the reference; None while the plan is tried with it."""


def without_recognisable(targets: Sequence[DecoyTarget]) -> tuple[DecoyTarget, ...]:
    """Return the targets that may have decoys in one plan: if few are fail-to-pass, no others.

    Code under test can know the results of pass-to-pass tests. So it sees which of them are decoys, and knows which of the
    runs that look alike it is in. A single guess then decides all runs.
    """
    return tuple(target for target in targets if target.fail_to_pass or not _are_few(targets))


def draw_runs(targets: Sequence[DecoyTarget], reference_sec: float) -> tuple[tuple[int | None, ...], ...]:
    """Draw the runs of a plan. Each test is real in one and a decoy in another.

    If only the first of two runs has all tests, code under test can recognise it, and code may work in one run only. So
    neither run has all fail-to-pass tests as they are. If these are few, both runs have all tests and every draw is
    equally likely, or, if the tests take long, there are three runs: each of the few is real or a decoy in the first, and
    real in one of two others that look alike. `reference_sec`: CPU time of the reference's run.
    """
    if _are_few(targets):
        are_alike = reference_sec <= MAX_ALIKE_SEC
        return _by_run([_draw() if are_alike else _draw_of_few() for _ in targets])
    while True:
        versions = [_draw() for _ in targets]
        runs = zip(
            *(drawn for drawn, target in zip(versions, targets, strict=True) if target.fail_to_pass), strict=True
        )
        if all(None in run and set(run) != {None} for run in runs):
            return _by_run(versions)


def _are_few(targets: Sequence[DecoyTarget]) -> bool:
    return 0 < sum(target.fail_to_pass for target in targets) <= FEW_TESTS


def _draw() -> list[int | None]:
    """Draw in which of two runs a test is a decoy."""
    versions: list[int | None] = [None, 0]
    _RNG.shuffle(versions)
    return versions


def _draw_of_few() -> list[int | None]:
    """Draw the versions of a test in three runs, with one wrong value: runs can tell each other which values they have.

    If the test were always a decoy in the first run, or had two wrong values, the value that the others have beside it
    would be the real one, or the one from which both wrong ones were made.
    """
    return [_RNG.choice((None, 0)), *_draw()]


def _by_run(versions: Sequence[Sequence[int | None]]) -> tuple[tuple[int | None, ...], ...]:
    return tuple(zip(*versions, strict=True))


def by_file(targets: Iterable[DecoyTarget]) -> Mapping[str, Sequence[DecoyTarget]]:
    grouped: dict[str, list[DecoyTarget]] = {}
    for target in targets:
        grouped.setdefault(target.file, []).append(target)
    return grouped
