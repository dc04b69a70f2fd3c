"""Plans the decoys of a check: determined once, proved with the reference, and cached."""

from __future__ import annotations

import ast
import posixpath
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence

from agentbench.acceptance.cache import key_of
from agentbench.acceptance.cache_keys import reference_key
from agentbench.acceptance.candidate import Candidate
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
from agentbench.acceptance.decoys.mutate import Place, find_mutations
from agentbench.core import python_syntax as syntax
from agentbench.core.canonical import sha256_hex
from agentbench.core.errors import TaskError

MAX_FAIL_TO_PASS, MAX_PASS_TO_PASS = 2000, 50
"""Maximum number of test ids with decoys: fail-to-pass and pass-to-pass."""
VERSION = 11
"""Raise this when tests are mutated differently or the fields of `DecoyPlan` change."""
MAX_PLANS = 5
"""Number of plans to draw, each with fewer tests, until the reference behaves correctly in all runs."""


def decoy_plan(tests: PytestCheck) -> DecoyPlan:
    """Return the decoy plan of a check.

    Raises:
        ContractError: the reference cannot be read.
        BuildFailed, TaskError, PatchInvalid: the reference cannot be applied to the base repository or built.
        SandboxError: the sandbox failed.
    """
    context = tests.candidate.context
    key = key_of(VERSION, reference_key(context, tests.check, context.loaded.reference_file))
    evidence = context.reference_evidence
    return evidence.result(context.cache, tests.check.id, key, DecoyPlan, lambda: _create_plan(tests), version=VERSION)


def _create_plan(tests: PytestCheck) -> DecoyPlan:
    reference = tests.on_reference()
    if reference is None:
        return DecoyPlan()
    seed = secrets.token_hex(16)
    targets = _possible_targets(reference, seed)
    targets, _ = _try_plan(reference, DecoyPlan(targets=targets, seed=seed, runs=((0,) * len(targets),)))
    for _ in range(MAX_PLANS if targets else 0):
        plan = draw_plan(targets, seed)
        targets, disturbed = _try_plan(reference, plan)
        if not disturbed or not targets:
            return plan if targets else DecoyPlan()
    return DecoyPlan()


def _try_plan(reference: PytestCheck, plan: DecoyPlan) -> tuple[tuple[DecoyTarget, ...], bool]:
    """Run a plan with the reference.

    Return the targets that behave correctly and do not disturb other tests, and whether anything did not.
    """
    correct, failed = set(plan.targets), False
    for assignment in plan.assignments() if correct else ():
        run = run_decoys(reference, assignment)
        if not run.run.whole:
            raise TaskError("the tests could not be run with the reference")
        correct &= {target for target in plan.targets if run.holds(target)}
        disturbed, culprits = _find_disturbed(run, reference.requirement)
        correct -= culprits
        failed |= disturbed
    return tuple(target for target in plan.targets if target in correct), failed or len(correct) < len(plan.targets)


def _find_disturbed(run: DecoyRun, requirement: Requirement) -> tuple[bool, set[DecoyTarget]]:
    """Return whether other tests fail next to decoys, and the targets responsible.

    Disturbed tests have the same text under another name, or use state that a decoy left behind. For such state the
    responsible target is unknown, so it is searched only in runs that do not mutate every target.
    """
    if run.assignment.only:
        return False, set()
    transcript, decoy_ids = run.run.transcript, frozenset(run.assignment.plan.ids)
    outcomes = transcript.outcomes()
    counted = tally(requirement, transcript.counted(requirement.neutral), tuple(transcript.uncollected))
    disturbed = [test for test in counted.failing if test not in decoy_ids]
    partial = set(run.assignment.decoys) if len(run.assignment.decoys) < len(run.assignment.plan.targets) else set()
    culprits: set[DecoyTarget] = set()
    for test in disturbed:
        # If a whole file is required, take those of its tests that failed.
        failed = [id_ for id_ in outcomes if id_.startswith(f"{test}::") and outcomes[id_] == "failed"] or [test]
        names = {id_.split("[", 1)[0].rpartition("::")[2] for id_ in failed}
        same_name = {target for target in run.assignment.decoys if target.place[-1] in names}
        file = test.partition("::")[0]
        culprits |= same_name or {target for target in partial if target.file.endswith(file)} or partial
    return bool(disturbed), culprits


def _possible_targets(reference: PytestCheck, seed: str) -> tuple[DecoyTarget, ...]:
    root = posixpath.relpath(reference.survey.rootdir, reference.candidate.context.spec.workdir)
    mutable = _mutable_targets(
        reference.candidate, _group_by_function(reference.candidate, reference.requirement, root), seed
    )
    targets = sorted(mutable, key=_sort_key)
    fail_to_pass, pass_to_pass = (
        [target for target in targets if target.fail_to_pass is is_fail_to_pass] for is_fail_to_pass in (True, False)
    )
    return (*_limit_ids(fail_to_pass, MAX_FAIL_TO_PASS), *_limit_ids(pass_to_pass, MAX_PASS_TO_PASS))


def _limit_ids(targets: Sequence[DecoyTarget], limit: int) -> Iterator[DecoyTarget]:
    """Return targets that together have at most `limit` ids."""
    for target in targets:
        if len(target.ids) <= limit:
            limit -= len(target.ids)
            yield target


def _mutable_targets(candidate: Candidate, targets: Sequence[DecoyTarget], seed: str) -> Iterator[DecoyTarget]:
    for file, in_file in by_file(targets).items():
        mutations = find_mutations(source_of(candidate, file), {target.place for target in in_file}, f"{seed}\0{file}")
        for target in in_file:
            if target.place in mutations:
                yield target.model_copy(update={"values": len(mutations[target.place].replacements)})


def _sort_key(target: DecoyTarget) -> str:
    """Return a sort key that is the same in every process and cannot be influenced."""
    return sha256_hex("\0".join((target.file, *target.place)).encode("utf-8", "surrogatepass"))


def _group_by_function(candidate: Candidate, requirement: Requirement, root: str) -> Sequence[DecoyTarget]:
    """Group test ids by function: a mutation affects all its ids, including those of inheriting classes."""
    files: dict[str, dict[Place, list[str]]] = {}
    for test in (*requirement.fail_to_pass, *requirement.pass_to_pass):
        file, _, name = test.partition("::")
        if name and file.endswith(".py"):
            place = tuple(name.split("[", 1)[0].split("::"))
            path = posixpath.normpath(posixpath.join(root, file))
            files.setdefault(path, {}).setdefault(place, []).append(test)
    fail_to_pass_ids = frozenset(requirement.fail_to_pass)
    targets: list[DecoyTarget] = []
    for file, places in files.items():
        defined: dict[Place, list[str]] = {}
        for place, definition in definition_places(source_of(candidate, file), places).items():
            defined.setdefault(definition, []).extend(places[place])
        targets += [
            DecoyTarget(file=file, place=definition, ids=tuple(ids), fail_to_pass=not fail_to_pass_ids.isdisjoint(ids))
            for definition, ids in defined.items()
        ]
    return targets


# --- inherited tests --------------------------------------------------------------------------------------------------


def definition_places(source: bytes, places: Collection[Place]) -> Mapping[Place, Place]:
    """Map each test to where it is written: in its own class, or in a base class of that class in the same file."""
    try:
        tree = syntax.parse(source)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return {place: place for place in places}
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    return {place: _definition_place(place, classes) for place in places}


def _definition_place(place: Place, classes: Mapping[str, ast.ClassDef]) -> Place:
    if len(place) != 2:
        return place
    name, test = place
    return next(((base.name, test) for base in _class_and_bases(name, classes, set()) if _defines(base, test)), place)


def _class_and_bases(name: str, classes: Mapping[str, ast.ClassDef], seen: set[str]) -> Iterator[ast.ClassDef]:
    """Yield a class and those of its bases that are in the file, roughly in method resolution order."""
    if name in seen or name not in classes:
        return
    seen.add(name)
    yield classes[name]
    for base in classes[name].bases:
        if isinstance(base, ast.Name):
            yield from _class_and_bases(base.id, classes, seen)


def _defines(definition: ast.ClassDef, test: str) -> bool:
    return any(
        isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) and part.name == test for part in definition.body
    )
