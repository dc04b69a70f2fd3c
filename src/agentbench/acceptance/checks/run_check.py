"""Run one check as often as its rule says, and decide it."""

from __future__ import annotations

import dataclasses

from agentbench.acceptance.candidate import Candidate
from agentbench.acceptance.checks.pytest.check import PytestCheck, run_plain
from agentbench.acceptance.decoys.decoy_check import run_with_decoys
from agentbench.acceptance.events import CheckStep
from agentbench.acceptance.grading_context import CheckOutcome, CheckResult
from agentbench.contract.pytest_command import PytestCommand, parse_pytest_command
from agentbench.contract.schema import Check
from agentbench.core.errors import AgentFault, HarnessError, PatchInvalid, SandboxBroken, SandboxLost, TaskError
from agentbench.core.ids import now_iso
from agentbench.core.reasons import Assurance, Outcome

HARNESS_ERROR = "harness error: "
"""How the explanation of a check begins that has no decision because of the harness."""
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
        outcome = _run_or_retry(candidate, check, check.id if runs == 1 else f"{check.id}#{runs}")
        if worst is None or _RANK[outcome.outcome] < _RANK[worst.outcome]:
            worst = outcome
    if worst is None:
        raise AssertionError
    if runs > 1:
        counted = f"run {runs} of {check.reruns + 1}"
        worst = dataclasses.replace(worst, why=f"{worst.why} ({counted})" if worst.why else counted)
    return CheckResult(check, worst, started_at, runs)


def _run_or_retry(candidate: Candidate, check: Check, name: str) -> CheckOutcome:
    """Run the check once, and once more if a sandbox was lost through no fault of the candidate."""
    outcome = _run_step(candidate, check, name)
    return _run_step(candidate, check, f"{name}-retried") if outcome.host_trouble else outcome


def _run_step(candidate: Candidate, check: Check, name: str) -> CheckOutcome:
    step = CheckStep(candidate.context, check, name)
    outcome = _run_once(candidate, check, step)
    step.finish(outcome)
    return outcome


def _run_once(candidate: Candidate, check: Check, step: CheckStep) -> CheckOutcome:
    """Run the check once, in replicas of its own. Only harness errors and faults of the task become `error`."""
    lost = False
    try:
        return _run_by_kind(candidate, check, step)
    except (HarnessError, TaskError) as error:
        outcome, lost = Outcome.ERROR, isinstance(error, SandboxLost)
        why = error.message if isinstance(error, TaskError) else f"{HARNESS_ERROR}{error.message}"
    except AgentFault as error:
        outcome, why = Outcome.FAIL, f"{_describe_fault(error)}: {error.message}"
    return CheckOutcome(outcome, why, assurance_of(check), host_trouble=lost)


def _describe_fault(error: AgentFault) -> str:
    if isinstance(error, SandboxBroken):
        return "the code under test broke its sandbox"
    if isinstance(error, PatchInvalid):
        return "the patch cannot be written"
    return "the files the patch left behind cannot be read"


def _run_by_kind(candidate: Candidate, check: Check, step: CheckStep) -> CheckOutcome:
    command = _pytest_call(check)
    if command is not None:
        tests = PytestCheck(candidate, check, command)
        return run_with_decoys(tests, step) if candidate.decoys else run_plain(tests, step)
    # Most checks are plain pytest calls; what the other kinds need is imported for them only.
    if check.kind == "probe":
        from agentbench.acceptance.checks.probe import run_probe_check  # noqa: PLC0415

        return run_probe_check(candidate, check, step)
    from agentbench.acceptance.checks.command import run_exit_code_check, run_parsed_check  # noqa: PLC0415

    if check.has_parsed_results:
        return run_parsed_check(candidate, check, step)
    outcome = run_exit_code_check(candidate, check, step)
    if check.parser == "exit_code":
        return outcome
    note = "only the exit code counts: the command is not a plain pytest call"
    return dataclasses.replace(outcome, why=f"{outcome.why}; {note}" if outcome.why else note)


def _pytest_call(check: Check) -> PytestCommand | None:
    """Return the parsed command of a check that is a plain pytest call, or None."""
    if check.kind == "probe" or check.parser != "pytest":
        return None
    return parse_pytest_command(check.command or "")


def assurance_of(check: Check) -> Assurance:
    """Return how hard the check's result is to forge."""
    if check.kind == "probe":
        return Assurance.OUT_OF_PROCESS
    return Assurance.EXIT_CODE if _pytest_call(check) is None else Assurance.PER_TEST
