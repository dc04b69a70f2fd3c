"""Plans the decoys of a check: determined once, proved with the reference, and cached."""

from __future__ import annotations

import posixpath
import secrets
from collections.abc import Iterator, Mapping, Sequence

from agentbench.acceptance.cache import key_of
from agentbench.acceptance.cache_keys import reference_key
from agentbench.acceptance.checks.pytest.check import PytestCheck, SelectedTests
from agentbench.acceptance.checks.pytest.item_ids import CollectedItem, function_id, ids_by_position
from agentbench.acceptance.checks.pytest.run import PytestRun
from agentbench.acceptance.checks.required_tests import Requirement, tally
from agentbench.acceptance.decoys.assignments import DecoyPlan, DecoyTarget, draw_runs, without_recognisable
from agentbench.acceptance.decoys.decoy_runs import DecoyRun, run_decoys, source_of
from agentbench.acceptance.decoys.mutation import Place
from agentbench.core.canonical import sha256_hex
from agentbench.core.errors import TaskError
from agentbench.workspace.diff.line_diff import LineDiff, split_lines

MAX_FAIL_TO_PASS, MAX_DECOYS_WITH_PASS_TO_PASS = 2000, 20
"""Maximum number of fail-to-pass ids with decoys. If they are fewer than the second number, pass-to-pass ids are added."""
VERSION = 15
"""Raise this when the fields of `DecoyPlan` change."""
METHOD = 9
"""Raise this when tests are mutated or runs are drawn differently. Recorded plans stay valid, cached ones are made again."""
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
    key = key_of(VERSION, METHOD, reference_key(context, tests.check, context.loaded.reference_file))
    evidence = context.reference_evidence
    return evidence.result(context.cache, tests.check.id, key, DecoyPlan, lambda: _create_plan(tests), version=VERSION)


def _create_plan(tests: PytestCheck) -> DecoyPlan:
    reference = tests.on_reference()
    if reference is None:
        return DecoyPlan()
    run = _whole(reference.run())
    named = _named_functions(reference, run)
    seed = secrets.token_hex(16)
    proved = DecoyPlan(seed=seed, named=tuple(sorted(named)), reference_ms=round(run.completed.duration_sec * 1000))
    items = [item for item in run.transcript.items if function_id(item.id) not in named]
    passed = {test for test, outcome in run.transcript.outcomes().items() if outcome == "passed"}
    targets = _possible_targets(reference, [item for item in items if item.id in passed], seed)
    for _ in range(MAX_PLANS):
        targets = without_recognisable(targets)
        if not targets:
            break
        functions = {function_id(test) for target in targets if target.row is not None for test in target.ids}
        real_ids = ids_by_position(items, functions)
        # On a busy machine a run takes much longer than its CPU time.
        runs = draw_runs(targets, run.completed.duration_sec if run.cpu_sec is None else run.cpu_sec)
        plan = proved.model_copy(update={"targets": targets, "runs": runs, "real_ids": real_ids})
        plan, targets, disturbed = _try_plan(reference, plan)
        if not disturbed:
            return plan
    return proved


def _whole(run: PytestRun) -> PytestRun:
    if not run.whole:
        raise TaskError("the tests could not be run with the reference")
    return run


def _named_functions(reference: PytestCheck, run: PytestRun) -> frozenset[str]:
    """Return functions whose required tests pass only with their real ids, because they use them."""
    outcomes = run.transcript.outcomes()
    required = (*reference.requirement.fail_to_pass, *reference.requirement.pass_to_pass)
    failed = tuple(test for test in required if "[" in test and outcomes.get(test) in {"failed", "broken"})
    if not failed:
        return frozenset()
    functions = frozenset(function_id(test) for test in failed)
    again = _whole(reference.run(SelectedTests(reference.candidate.tree, only=failed, named=functions)))
    renamed = again.transcript.outcomes()
    return frozenset(function_id(test) for test in failed if renamed.get(test) == "passed")


# --- proof with the reference -----------------------------------------------------------------------------------------


def _try_plan(reference: PytestCheck, plan: DecoyPlan) -> tuple[DecoyPlan, tuple[DecoyTarget, ...], bool]:
    """Run a plan with the reference.

    Return the plan with the ids that pytest gives, the targets that behave correctly and do not disturb other tests,
    and whether anything did not.
    """
    correct, failed = set(plan.targets), False
    given: list[Mapping[str, str]] = []
    for assignment in plan.assignments():
        run = run_decoys(reference, assignment)
        _whole(run.run)
        given.append(
            {item.opaque: item.given for item in run.run.transcript.items if function_id(item.id) in plan.real_ids}
        )
        correct &= run.correct(plan.targets)
        disturbed, culprits = _find_disturbed(run, reference.requirement)
        correct -= culprits
        failed |= disturbed
    targets = tuple(target for target in plan.targets if target in correct)
    return plan.model_copy(update={"given": tuple(given)}), targets, failed or len(correct) < len(plan.targets)


def _find_disturbed(run: DecoyRun, requirement: Requirement) -> tuple[bool, set[DecoyTarget]]:
    """Return whether other tests fail next to decoys, and the targets responsible.

    Disturbed tests have the same text under another name, or use state that a decoy left behind. For such state the
    responsible target is unknown, so every decoy of the file, or else every decoy, may be responsible.
    """
    if run.assignment.only:
        return False, set()
    transcript, decoy_ids = run.run.transcript, frozenset(run.assignment.plan.ids)
    outcomes = transcript.outcomes()
    counted = tally(requirement, transcript.counted(requirement.neutral), tuple(transcript.uncollected))
    disturbed = [test for test in counted.failing if test not in decoy_ids]
    decoys = set(run.assignment.decoys)
    culprits: set[DecoyTarget] = set()
    for test in disturbed:
        # If a whole file is required, take those of its tests that failed.
        failed = [id_ for id_ in outcomes if id_.startswith(f"{test}::") and outcomes[id_] == "failed"] or [test]
        names = {id_.split("[", 1)[0].rpartition("::")[2] for id_ in failed}
        same_name = {target for target in decoys if target.place[-1] in names}
        file = test.partition("::")[0]
        culprits |= same_name or {target for target in decoys if target.file.endswith(file)} or decoys
    return bool(disturbed), culprits


# --- possible targets -------------------------------------------------------------------------------------------------


def _possible_targets(reference: PytestCheck, items: Sequence[CollectedItem], seed: str) -> tuple[DecoyTarget, ...]:
    """Return the targets among required tests that pass: fail-to-pass ones, and some pass-to-pass ones beside them."""
    targets = sorted(_mutable_targets(reference, items, seed), key=_sort_key)
    fail_to_pass = list(_limit_ids([target for target in targets if target.fail_to_pass], MAX_FAIL_TO_PASS))
    files = {target.file for target in fail_to_pass}
    others = [target for target in targets if not target.fail_to_pass and (not files or target.file in files)]
    missing = MAX_DECOYS_WITH_PASS_TO_PASS - sum(len(target.ids) for target in fail_to_pass)
    return (*fail_to_pass, *_limit_ids(others, missing))


def _limit_ids(targets: Sequence[DecoyTarget], limit: int) -> Iterator[DecoyTarget]:
    """Return targets that together have at most `limit` ids."""
    for target in targets:
        if len(target.ids) <= limit:
            limit -= len(target.ids)
            yield target


def _sort_key(target: DecoyTarget) -> str:
    """Return a sort key that is the same in every process and cannot be influenced."""
    return sha256_hex("\0".join((target.file, *target.place, str(target.row))).encode("utf-8", "surrogatepass"))


def _mutable_targets(reference: PytestCheck, items: Sequence[CollectedItem], seed: str) -> Iterator[DecoyTarget]:
    from agentbench.acceptance.decoys.mutate import find_mutations  # noqa: PLC0415 - a plan is made once per task

    requirement = reference.requirement
    fail_to_pass, required = frozenset(requirement.fail_to_pass), {*requirement.fail_to_pass, *requirement.pass_to_pass}
    new_names = _new_names(reference)
    for file, places in _group_by_function(reference, [item for item in items if item.id in required]).items():
        source = source_of(reference.candidate, file)
        new_lines = _new_lines(reference.before(file), source)
        mutations_by_place = find_mutations(source, set(places), f"{seed}\0{file}", new_names, new_lines)
        for place, mutations in mutations_by_place.items():
            for row, mutation in mutations.items():
                tests = places[place]
                ids = tuple(test.id for test in tests if row is None or test.indices.get(row[0]) == row[1])
                if ids:
                    yield DecoyTarget(
                        file=file,
                        place=place,
                        row=row,
                        ids=ids,
                        fail_to_pass=not fail_to_pass.isdisjoint(ids),
                        mutation=mutation,
                    )


def _new_lines(before: bytes, source: bytes) -> frozenset[int]:
    regions = LineDiff().regions(split_lines(before), split_lines(source))
    return frozenset(line for _, _, first, end in regions for line in range(first + 1, end + 1))


def _new_names(reference: PytestCheck) -> frozenset[str]:
    """Return the names of classes and the like that the reference adds to the files that it changes."""
    from agentbench.acceptance.decoys.source_file import defined_names  # noqa: PLC0415 - plans are cached

    candidate, before, after = reference.candidate, set[str](), set[str]()
    hidden = candidate.context.loaded.hidden_files()
    for write in candidate.tree.writes:
        if write.path.endswith(b".py") and write.path not in hidden:
            after |= defined_names(write.content or b"")
            before |= defined_names(reference.before(write.path.decode(errors="surrogateescape")))
    return frozenset(after - before)


def _group_by_function(
    reference: PytestCheck, items: Sequence[CollectedItem]
) -> Mapping[str, Mapping[Place, list[CollectedItem]]]:
    """Group tests by file and function: a mutation affects all tests of it, including those of inheriting classes."""
    from agentbench.acceptance.decoys.inherited_tests import definition_places  # noqa: PLC0415 - plans are cached

    root = posixpath.relpath(reference.survey.rootdir, reference.candidate.context.spec.workdir)
    files: dict[str, dict[Place, list[CollectedItem]]] = {}
    for item in items:
        file, _, name = function_id(item.id).partition("::")
        if name and file.endswith(".py"):
            path = posixpath.normpath(posixpath.join(root, file))
            files.setdefault(path, {}).setdefault(tuple(name.split("::")), []).append(item)
    grouped: dict[str, dict[Place, list[CollectedItem]]] = {}
    for file, places in files.items():
        for place, definition in definition_places(source_of(reference.candidate, file), places).items():
            grouped.setdefault(file, {}).setdefault(definition, []).extend(places[place])
    return grouped
