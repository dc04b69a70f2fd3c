"""Collect the required tests of a task for its lock file: fail-to-pass and pass-to-pass."""

from __future__ import annotations

from collections.abc import Mapping

from agentbench.acceptance.checks.broken_check import BrokenCheck
from agentbench.acceptance.checks.pytest.base_survey import base_test_run
from agentbench.acceptance.checks.required_tests import (
    declared_requirement,
    requirement_from_base,
    requirement_from_reference,
)
from agentbench.acceptance.grade import grade, protection_of
from agentbench.acceptance.grading_context import GradingContext
from agentbench.acceptance.reference import reference_patch
from agentbench.acceptance.replica import base_entries
from agentbench.acceptance.validation import run_checks_on_base
from agentbench.contract.lock import LockedCheck
from agentbench.contract.pytest_command import PytestCommand, parse_pytest_command
from agentbench.contract.schema import Check
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import TaskError


@dataclass(frozen=True, slots=True)
class Collected:
    """The required tests and protected files of a task, as its lock records them."""

    checks: Mapping[str, LockedCheck]
    protected: tuple[str, ...]
    """Files of the base repository that grading restores."""


def collect(context: GradingContext) -> Collected:
    """Find the required tests of every check with results per test that lists none.

    `context.loaded` is the task without its lock.

    With a reference, the tests that pass with it are required; without one, all tests of the base repository. Checks
    with a report need ids as well: it lists only tests that ran, so a patch that keeps tests from running would have
    nothing to fail.

    Raises:
        TaskError: a check cannot be run on the base repository, or finds no test.
        SandboxError: the sandbox failed.
    """
    context = context.unlogged()
    unlisted = [check for check in context.loaded.checks if declared_requirement(check) is None]
    commands = {
        check.id: (check, command)
        for check in unlisted
        if check.parser == "pytest" and (command := parse_pytest_command(check.command or "")) is not None
    }
    parsed = [check for check in unlisted if check.has_parsed_results]
    after = _outcomes_with_reference(context) if commands or parsed else {}
    checks = {
        name: _pytest_ids(context, check, command, after.get(name)) for name, (check, command) in commands.items()
    }
    before = run_checks_on_base(context, parsed)
    reported = {check.id: _required(before[check.id].tests, after.get(check.id)) for check in parsed}
    # The base repository may write no report, for example if it does not compile. Then the tests are found when a patch
    # is graded.
    checks |= {name: ids for name, ids in reported.items() if ids.fail_to_pass or ids.pass_to_pass}
    protection = protection_of(context)
    protected = sorted(path for path in base_entries(context) if protection.restores(path))
    return Collected(checks, tuple(path.decode("utf-8", "surrogateescape") for path in protected))


def _outcomes_with_reference(context: GradingContext) -> dict[str, Mapping[str, str]]:
    patch = reference_patch(context)
    if patch is None:
        return {}
    graded = grade(patch, context, decoys=False)
    return {result.check.id: result.decided.tests for result in graded.checks if result.not_run is None}


def _pytest_ids(
    context: GradingContext, check: Check, command: PytestCommand, after: Mapping[str, str] | None
) -> LockedCheck:
    before = base_test_run(context, check, command)
    if before.problem and not before.outcomes:
        raise BrokenCheck(f"check {check.id} on the base repository: {before.problem}")
    ids = _required(before.outcomes, after)
    if not ids.fail_to_pass and not ids.pass_to_pass:
        raise TaskError(f"check {check.id}: `{check.command}` finds no test to require")
    return ids


def _required(before: Mapping[str, str], after: Mapping[str, str] | None) -> LockedCheck:
    required = requirement_from_base(before, ()) if after is None else requirement_from_reference(before, after)
    return LockedCheck(fail_to_pass=required.fail_to_pass, pass_to_pass=required.pass_to_pass)
