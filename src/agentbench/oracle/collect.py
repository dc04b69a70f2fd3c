"""Test ids of R for the lock file: what must come to pass, and what must go on passing."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from agentbench.contract.lock import LockedCheck
from agentbench.contract.schema import Check
from agentbench.core.errors import TaskError
from agentbench.oracle.acceptance import grade, protection_of
from agentbench.oracle.bench import GradingBench, Unlogged
from agentbench.oracle.invocation import Invocation, understand
from agentbench.oracle.pristine import OracleTrouble, base_entries, pristine
from agentbench.oracle.reference import reference_patch
from agentbench.oracle.requirement import declared, from_outcomes


@dataclass(frozen=True, slots=True)
class Collected:
    """What grading will require and restore."""

    checks: Mapping[str, LockedCheck]
    protected: tuple[str, ...]
    """Files of R that grading restores, as paths in the tree."""


def collect(bench: GradingBench) -> Collected:
    """Find the ids of every pytest check that names none itself. `bench.loaded` is the task without its lock.

    With a reference a test is required when it passes with the reference; without one, whatever R has is.

    Raises:
        TaskError: a check cannot be run on R, or finds nothing to require.
        SandboxError: ours.
    """
    bench = dataclasses.replace(bench, log=Unlogged(), blobs=None)
    wanted = {
        check.id: (check, invocation)
        for check in bench.loaded.checks
        if check.parser == "pytest" and declared(check) is None
        if (invocation := understand(check.command or "")) is not None
    }
    after = _with_reference(bench) if wanted else {}
    checks = {name: _ids(bench, *found, after.get(name)) for name, found in wanted.items()}
    protection = protection_of(bench)
    protected = sorted(path for path in base_entries(bench) if protection.restores(path))
    return Collected(checks, tuple(path.decode("utf-8", "surrogateescape") for path in protected))


def _with_reference(bench: GradingBench) -> dict[str, Mapping[str, str]]:
    patch = reference_patch(bench)
    if patch is None:
        return {}
    graded = grade(patch, bench, twins=False)
    return {one.check.id: one.decided.tests for one in graded.checks if one.not_run is None}


def _ids(bench: GradingBench, check: Check, invocation: Invocation, after: Mapping[str, str] | None) -> LockedCheck:
    before, _ = pristine(bench, check, invocation)
    if before.trouble and not before.outcomes:
        raise OracleTrouble(f"check {check.id} on untouched R: {before.trouble}")
    if after is None:
        found = from_outcomes(before.outcomes, ())
        ids = LockedCheck(fail_to_pass=found.fail_to_pass, pass_to_pass=found.pass_to_pass)
    else:
        passing = [test for test, outcome in after.items() if outcome == "passed"]
        ids = LockedCheck(
            fail_to_pass=tuple(test for test in passing if before.outcomes.get(test) != "passed"),
            pass_to_pass=tuple(test for test in passing if before.outcomes.get(test) == "passed"),
        )
    if not ids.fail_to_pass and not ids.pass_to_pass:
        raise TaskError(f"check {check.id}: `{check.command}` finds no test that could be required")
    return ids
