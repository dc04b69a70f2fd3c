"""Which tests of a check have a twin: found out once, with the reference, and remembered."""

from __future__ import annotations

import posixpath
import secrets
from collections.abc import Iterator, Sequence

from agentbench.acceptance.cache import key_of, remembered
from agentbench.acceptance.candidate import Candidate
from agentbench.acceptance.checks.pytest.base_survey import check_key
from agentbench.acceptance.checks.pytest.check import PytestCheck
from agentbench.acceptance.checks.required_tests import Requirement, tally
from agentbench.acceptance.decoys.decoy_runs import (
    DecoyPlan,
    DecoyRun,
    DecoyTarget,
    by_file,
    draw_plan,
    run_decoys,
    source_of,
)
from agentbench.acceptance.decoys.inherited_tests import homes
from agentbench.acceptance.decoys.mutate import Place, alterations
from agentbench.contract.task_files import read_bytes
from agentbench.core.canonical import sha256_hex
from agentbench.core.errors import TaskError

MOST, MOST_KEPT = 2000, 50
"""Test ids that are given a twin: of those that must come to pass, and of those that must go on passing."""
RULES = 10
"""Raised when expectations are altered in another way."""
PLANS = 5
"""Runs that are drawn until the reference comes through them, with fewer tests each time."""


def decoy_plan(tests: PytestCheck) -> DecoyPlan:
    """The twins of a check.

    Raises:
        ContractError: the reference cannot be read.
        BuildFailed, TaskError, PatchInvalid: the reference is none that can be put on R.
        SandboxError: ours.
    """
    context = tests.candidate.context
    file = context.loaded.reference_file
    key = key_of(RULES, check_key(context, tests.check), "" if file is None else sha256_hex(read_bytes(file)))
    return remembered(context.cache, key, DecoyPlan, lambda: _make(tests))[0]


def _make(tests: PytestCheck) -> DecoyPlan:
    reference = tests.on_reference()
    if reference is None:
        return DecoyPlan()
    seed = secrets.token_hex(16)
    functions = _candidates(reference, seed)
    functions, _ = _tried(reference, DecoyPlan(targets=functions, seed=seed, runs=((0,) * len(functions),)))
    for _ in range(PLANS if functions else 0):
        plan = draw_plan(functions, seed)
        functions, lost = _tried(reference, plan)
        if not lost or not functions:
            return plan if functions else DecoyPlan()
    return DecoyPlan()


def _tried(reference: PytestCheck, plan: DecoyPlan) -> tuple[tuple[DecoyTarget, ...], bool]:
    """Tests that hold with the reference in these runs, beside which others pass; and whether something did not."""
    held, lost = set(plan.targets), False
    for one in plan.assignments() if held else ():
        ran = run_decoys(reference, one)
        if not ran.run.whole:
            raise TaskError("with the reference the tests could not be run again")
        held &= {function for function in plan.targets if ran.holds(function)}
        disturbed, culprits = _disturbing(ran, reference.requirement)
        held -= culprits
        lost |= disturbed
    return tuple(one for one in plan.targets if one in held), lost or len(held) < len(plan.targets)


def _disturbing(ran: DecoyRun, requirement: Requirement) -> tuple[bool, set[DecoyTarget]]:
    """Whether others do not pass beside tests that are altered, and beside which.

    Those have the same text under another name, or use what was left. Of the latter nobody knows whose it was, so it is looked
    for only where not everything is false.
    """
    if ran.assignment.only:
        return False, set()
    told, own = ran.run.transcript, frozenset(ran.assignment.plan.ids)
    outcomes = told.outcomes()
    counted = tally(requirement, told.counted(requirement.neutral), tuple(told.uncollected))
    lost = [test for test in counted.failing if test not in own]
    some = set(ran.assignment.false) if len(ran.assignment.false) < len(ran.assignment.plan.targets) else set()
    found: set[DecoyTarget] = set()
    for test in lost:
        # A whole file may be what is required: then those of its tests that failed.
        failed = [one for one in outcomes if one.startswith(f"{test}::") and outcomes[one] == "failed"] or [test]
        names = {one.split("[", 1)[0].rpartition("::")[2] for one in failed}
        alike = {one for one in ran.assignment.false if one.place[-1] in names}
        file = test.partition("::")[0]
        found |= alike or {one for one in some if one.file.endswith(file)} or some
    return bool(lost), found


def _candidates(reference: PytestCheck, seed: str) -> tuple[DecoyTarget, ...]:
    root = posixpath.relpath(reference.survey.rootdir, reference.candidate.context.spec.workdir)
    possible = _alterable(reference.candidate, _by_function(reference.candidate, reference.requirement, root), seed)
    functions = sorted(possible, key=_order)
    mending, keeping = ([one for one in functions if one.mends is mends] for mends in (True, False))
    return (*_few(mending, MOST), *_few(keeping, MOST_KEPT))


def _few(functions: Sequence[DecoyTarget], most: int) -> Iterator[DecoyTarget]:
    """As many as have no more ids than that together."""
    for one in functions:
        if len(one.ids) <= most:
            most -= len(one.ids)
            yield one


def _alterable(candidate: Candidate, functions: Sequence[DecoyTarget], seed: str) -> Iterator[DecoyTarget]:
    for file, there in by_file(functions).items():
        possible = alterations(source_of(candidate, file), {one.place for one in there}, f"{seed}\0{file}")
        for one in there:
            if one.place in possible:
                yield one.model_copy(update={"values": len(possible[one.place].texts)})


def _order(function: DecoyTarget) -> str:
    """The same in every process, and no order that a person chose."""
    return sha256_hex("\0".join((function.file, *function.place)).encode("utf-8", "surrogatepass"))


def _by_function(candidate: Candidate, requirement: Requirement, root: str) -> Sequence[DecoyTarget]:
    """What is altered in a test is altered for all its ids, so they go together, also those of classes that inherit it."""
    files: dict[str, dict[Place, list[str]]] = {}
    for test in (*requirement.fail_to_pass, *requirement.pass_to_pass):
        file, _, name = test.partition("::")
        if name and file.endswith(".py"):
            place = tuple(name.split("[", 1)[0].split("::"))
            path = posixpath.normpath(posixpath.join(root, file))
            files.setdefault(path, {}).setdefault(place, []).append(test)
    mend = frozenset(requirement.fail_to_pass)
    found: list[DecoyTarget] = []
    for file, places in files.items():
        written: dict[Place, list[str]] = {}
        for place, home in homes(source_of(candidate, file), places).items():
            written.setdefault(home, []).extend(places[place])
        found += [
            DecoyTarget(file=file, place=home, ids=tuple(ids), mends=not mend.isdisjoint(ids))
            for home, ids in written.items()
        ]
    return found
