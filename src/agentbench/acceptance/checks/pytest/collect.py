"""Test ids of R for the lock file: what must come to pass, and what must go on passing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agentbench.acceptance.checks.pytest.base_survey import BrokenCheck, pristine
from agentbench.acceptance.checks.required_tests import declared, from_both, from_outcomes
from agentbench.acceptance.grade import grade, protection_of
from agentbench.acceptance.grading_context import GradingContext
from agentbench.acceptance.reference import reference_patch
from agentbench.acceptance.replica import base_entries
from agentbench.acceptance.validation import run_checks_on_base
from agentbench.contract.lock import LockedCheck
from agentbench.contract.pytest_command import PytestCommand, parse_pytest_command
from agentbench.contract.schema import Check
from agentbench.core.errors import TaskError


@dataclass(frozen=True, slots=True)
class Collected:
    """What grading will require and restore."""

    checks: Mapping[str, LockedCheck]
    protected: tuple[str, ...]
    """Files of R that grading restores, as paths in the tree."""


def collect(context: GradingContext) -> Collected:
    """Find the ids of every pytest and junit check that names none itself. `context.loaded` is the task without its lock.

    With a reference a test is required when it passes with the reference; without one, whatever R has is. A report names only
    the tests that were run: without ids, whoever keeps tests from running would be asked for nothing.

    Raises:
        TaskError: a check cannot be run on R, or finds nothing to require.
        SandboxError: ours.
    """
    context = context.unlogged()
    wanted = {
        check.id: (check, command)
        for check in context.loaded.checks
        if check.parser == "pytest" and declared(check) is None
        if (command := parse_pytest_command(check.command or "")) is not None
    }
    reports = [check for check in context.loaded.checks if check.parser == "junit" and declared(check) is None]
    after = _with_reference(context) if wanted or reports else {}
    checks = {name: _ids(context, *asked, after.get(name)) for name, asked in wanted.items()}
    before = run_checks_on_base(context, reports)
    found = {check.id: _required(before[check.id].tests, after.get(check.id)) for check in reports}
    # On R there may be no report at all, as where it does not compile: then only the runs of candidates show what it lists.
    checks |= {name: ids for name, ids in found.items() if ids.fail_to_pass or ids.pass_to_pass}
    protection = protection_of(context)
    protected = sorted(path for path in base_entries(context) if protection.restores(path))
    return Collected(checks, tuple(path.decode("utf-8", "surrogateescape") for path in protected))


def _with_reference(context: GradingContext) -> dict[str, Mapping[str, str]]:
    patch = reference_patch(context)
    if patch is None:
        return {}
    graded = grade(patch, context, decoys=False)
    return {one.check.id: one.decided.tests for one in graded.checks if one.not_run is None}


def _ids(context: GradingContext, check: Check, command: PytestCommand, after: Mapping[str, str] | None) -> LockedCheck:
    before, _ = pristine(context, check, command)
    if before.trouble and not before.outcomes:
        raise BrokenCheck(f"check {check.id} on untouched R: {before.trouble}")
    ids = _required(before.outcomes, after)
    if not ids.fail_to_pass and not ids.pass_to_pass:
        raise TaskError(f"check {check.id}: `{check.command}` finds no test that could be required")
    return ids


def _required(before: Mapping[str, str], after: Mapping[str, str] | None) -> LockedCheck:
    found = from_outcomes(before, ()) if after is None else from_both(before, after)
    return LockedCheck(fail_to_pass=found.fail_to_pass, pass_to_pass=found.pass_to_pass)
