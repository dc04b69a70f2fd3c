"""Running one check, once or as often as its rule says, and deciding it."""

from __future__ import annotations

import dataclasses

from agentbench.acceptance import events
from agentbench.acceptance.candidate import NotBuilt, Subject
from agentbench.acceptance.checks.command import observe_exit_code, observe_junit
from agentbench.acceptance.checks.probe import observe_probe
from agentbench.acceptance.checks.pytest.check import PytestCheck
from agentbench.acceptance.checks.pytest.invocation import understand
from agentbench.acceptance.decoys.decoy_check import observe_tests
from agentbench.acceptance.grading_context import CheckResult, Observation, StepResult
from agentbench.contract.schema import Check
from agentbench.core.errors import AgentFault, HarnessError, PatchInvalid, TaskError
from agentbench.core.ids import now_iso
from agentbench.core.reasons import Assurance, Outcome
from agentbench.sandbox.protocol import Sandbox
from agentbench.trace.events import TestsStarted

_RANK = {Outcome.FAIL: 0, Outcome.ERROR: 1, Outcome.PASS: 2}


def run_check(subject: Subject, check: Check) -> CheckResult:
    """All runs that the check's rule asks for; the worst of them decides, and a failure ends them.

    Raises:
        NotBuilt: the build did not pass.
    """
    started_at = now_iso()
    worst: Observation | None = None
    runs = 0
    while runs <= check.reruns and (worst is None or worst.outcome is not Outcome.FAIL):
        runs += 1
        seen = _logged_run(subject, check, runs)
        if worst is None or _RANK[seen.outcome] < _RANK[worst.outcome]:
            worst = seen
    if worst is None:
        raise AssertionError
    if runs > 1:
        counted = f"run {runs} of {check.reruns + 1}"
        worst = dataclasses.replace(worst, why=f"{worst.why} ({counted})" if worst.why else counted)
    return CheckResult(check, worst, started_at, runs)


def _logged_run(subject: Subject, check: Check, number: int) -> Observation:
    step = check.id if number == 1 else f"{check.id}#{number}"
    command = check.command or check.candidate or ""
    started = False

    def build(sandbox: Sandbox) -> StepResult:
        """The test step starts when the first build, a step of its own, is over."""
        nonlocal started
        result = subject.build(sandbox)
        if result.outcome is not Outcome.PASS:
            raise NotBuilt(result)
        if not started:
            events.step_started(subject.bench, TestsStarted, step, command, check.timeout_sec)
        started = True
        return result

    seen = observe(dataclasses.replace(subject, build=build), check, step)
    if not started:
        events.step_started(subject.bench, TestsStarted, step, command, check.timeout_sec)
    events.tests_finished(subject.bench, step, seen)
    return seen


def observe(subject: Subject, check: Check, step: str) -> Observation:
    """One run, in replicas of its own. Our trouble and the task's become `error` here, and nothing else does."""
    try:
        return _observe(subject, check, step)
    except HarnessError as error:
        return Observation(Outcome.ERROR, f"our own trouble: {error.message}", assurance_of(check))
    except TaskError as error:
        return Observation(Outcome.ERROR, error.message, assurance_of(check))
    except PatchInvalid as error:
        return Observation(Outcome.FAIL, f"Δ cannot be written: {error.message}", assurance_of(check))
    except AgentFault as error:
        return Observation(Outcome.FAIL, f"what Δ left behind cannot be read: {error.message}", assurance_of(check))


def _observe(subject: Subject, check: Check, step: str) -> Observation:
    if check.kind == "probe":
        tree = subject.tree if subject.aside is None else subject.aside()
        return observe_probe(subject.bench, check, tree, subject.build)
    if check.parser == "junit":
        return observe_junit(subject, check)
    if check.parser == "exit_code":
        return observe_exit_code(subject, check)
    invocation = understand(check.command or "")
    if invocation is not None:
        return observe_tests(PytestCheck(subject, check, invocation), step)
    seen = observe_exit_code(subject, check)
    note = "only the exit code counts: the command is not a plain call of pytest"
    return dataclasses.replace(seen, why=f"{seen.why}; {note}" if seen.why else note)


def assurance_of(check: Check) -> Assurance:
    """How hard the check's result is to forge."""
    if check.kind == "probe":
        return Assurance.OUT_OF_PROCESS
    if check.parser == "pytest" and understand(check.command or "") is not None:
        return Assurance.PER_TEST
    return Assurance.EXIT_CODE
