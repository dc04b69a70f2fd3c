"""Run one check as often as its rule says, and decide it."""

from __future__ import annotations

import dataclasses

from agentbench.acceptance.candidate import Candidate
from agentbench.acceptance.checks.command import run_exit_code_check, run_junit_check
from agentbench.acceptance.checks.probe import run_probe_check
from agentbench.acceptance.checks.pytest.check import PytestCheck, run_plain
from agentbench.acceptance.decoys.decoy_check import run_with_decoys
from agentbench.acceptance.events import CheckStep
from agentbench.acceptance.grading_context import CheckOutcome, CheckResult
from agentbench.contract.pytest_command import parse_pytest_command
from agentbench.contract.schema import Check
from agentbench.core.errors import AgentFault, HarnessError, PatchInvalid, TaskError
from agentbench.core.ids import now_iso
from agentbench.core.reasons import Assurance, Outcome

_RANK = {Outcome.FAIL: 0, Outcome.ERROR: 1, Outcome.PASS: 2}


def run_check(candidate: Candidate, check: Check) -> CheckResult:
    """Run the check and its reruns. The worst run decides; the first failure ends them.

    Raises:
        BuildFailed: the build did not pass.
        RecordError: the log could not be written.
    """
    started_at = now_iso()
    worst: CheckOutcome | None = None
    runs = 0
    while runs <= check.reruns and (worst is None or worst.outcome is not Outcome.FAIL):
        runs += 1
        step = CheckStep(candidate.context, check, check.id if runs == 1 else f"{check.id}#{runs}")
        outcome = _run_once(candidate, check, step)
        step.finish(outcome)
        if worst is None or _RANK[outcome.outcome] < _RANK[worst.outcome]:
            worst = outcome
    if worst is None:
        raise AssertionError
    if runs > 1:
        counted = f"run {runs} of {check.reruns + 1}"
        worst = dataclasses.replace(worst, why=f"{worst.why} ({counted})" if worst.why else counted)
    return CheckResult(check, worst, started_at, runs)


def _run_once(candidate: Candidate, check: Check, step: CheckStep) -> CheckOutcome:
    """Run the check once, in replicas of its own. Only harness errors and faults of the task become `error`."""
    try:
        return _run_by_kind(candidate, check, step)
    except HarnessError as error:
        return CheckOutcome(Outcome.ERROR, f"harness error: {error.message}", assurance_of(check))
    except TaskError as error:
        return CheckOutcome(Outcome.ERROR, error.message, assurance_of(check))
    except PatchInvalid as error:
        return CheckOutcome(Outcome.FAIL, f"the patch cannot be written: {error.message}", assurance_of(check))
    except AgentFault as error:
        why = f"the files the patch left behind cannot be read: {error.message}"
        return CheckOutcome(Outcome.FAIL, why, assurance_of(check))


def _run_by_kind(candidate: Candidate, check: Check, step: CheckStep) -> CheckOutcome:
    if check.kind == "probe":
        return run_probe_check(candidate, check, step)
    if check.parser == "junit":
        return run_junit_check(candidate, check, step)
    if check.parser == "exit_code":
        return run_exit_code_check(candidate, check, step)
    command = parse_pytest_command(check.command or "")
    if command is not None:
        tests = PytestCheck(candidate, check, command)
        return run_with_decoys(tests, step) if candidate.decoys else run_plain(tests, step)
    outcome = run_exit_code_check(candidate, check, step)
    note = "only the exit code counts: the command is not a plain pytest call"
    return dataclasses.replace(outcome, why=f"{outcome.why}; {note}" if outcome.why else note)


def assurance_of(check: Check) -> Assurance:
    """Return how hard the check's result is to forge."""
    if check.kind == "probe":
        return Assurance.OUT_OF_PROCESS
    if check.parser == "pytest" and parse_pytest_command(check.command or "") is not None:
        return Assurance.PER_TEST
    return Assurance.EXIT_CODE
