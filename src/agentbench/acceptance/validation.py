"""Does a task's own oracle hold: the baseline fails, the reference passes, and both do so every time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from agentbench.acceptance.cache import key_of, remembered
from agentbench.acceptance.candidate import BaseCandidate
from agentbench.acceptance.checks.exit_status import missing_program
from agentbench.acceptance.checks.pytest.base_survey import BrokenCheck
from agentbench.acceptance.checks.run_check import run_check
from agentbench.acceptance.grade import grade
from agentbench.acceptance.grading_context import Acceptance, CheckOutcome, GradingContext
from agentbench.acceptance.reference import reference_patch
from agentbench.acceptance.replica import base_entries, base_tree, open_replica, run_build, shell
from agentbench.contract.schema import Check
from agentbench.core.command import Completed
from agentbench.core.errors import PatchInvalid, TaskError
from agentbench.core.reasons import Outcome

PYTEST_WORDS = {2: "collection was interrupted", 3: "internal error", 4: "usage error", 5: "no tests were collected"}
LISTED = 20
KEPT = 64 * 1024


class Baseline(BaseModel):
    """What untouched R does. `fail` is what is wanted."""

    model_config = ConfigDict(frozen=True, ser_json_bytes="base64", val_json_bytes="base64")
    outcome: Outcome
    exit_code: int | None = None
    why: str = ""
    stdout: bytes = b""
    stderr: bytes = b""
    """The beginnings of what it printed."""


@dataclass(frozen=True, slots=True)
class BaselineReport:
    """The baseline for one attempt."""

    failed_as_expected: bool
    exit_code: int | None
    cached: bool
    why: str
    stdout: bytes
    stderr: bytes


def baseline(context: GradingContext) -> BaselineReport:
    """The baseline of a contract in its environment: run once, then remembered.

    Raises:
        BrokenCheck: a check cannot be run on R; the task's own trouble.
        SandboxError: ours.
    """
    key = key_of(context.contract_id, context.prepared.digest, context.backend.name, "baseline")
    found, cached = remembered(context.cache, key, Baseline, lambda: run_baseline(context.unlogged())[0])
    failed = found.outcome is Outcome.FAIL
    return BaselineReport(failed, found.exit_code, cached, found.why, found.stdout, found.stderr)


def run_baseline(context: GradingContext) -> tuple[Baseline, Mapping[str, CheckOutcome]]:
    """Run it now: the failing command of the short form, or every mandatory check.

    Raises:
        TaskError: a check cannot be run on R.
        SandboxError: ours.
    """
    checks = [check for check in context.loaded.checks if check.mandatory]
    command = context.loaded.baseline_command
    if command is not None and command != checks[0].command:
        return _failing_command(context, command), {}
    seen = run_checks_on_base(context, checks)
    broken = next((one for one in seen.items() if one[1].outcome is Outcome.ERROR), None)
    if broken is not None:
        raise BrokenCheck(f"check {broken[0]} on untouched R: {broken[1].why}")
    failed = next((one for one in seen.items() if one[1].outcome is Outcome.FAIL), None)
    if failed is None:
        return Baseline(outcome=Outcome.PASS, exit_code=0, why="every mandatory check passes on R"), seen
    name, one = failed
    return _seen(Outcome.FAIL, f"{name}: {one.why}", one), seen


def _seen(outcome: Outcome, why: str, output: CheckOutcome | Completed) -> Baseline:
    return Baseline(
        outcome=outcome,
        exit_code=output.exit_code,
        why=why,
        stdout=output.stdout.kept[:KEPT],
        stderr=output.stderr.kept[:KEPT],
    )


def _failing_command(context: GradingContext, line: str) -> Baseline:
    timeout = context.loaded.checks[0].timeout_sec
    with open_replica(context, base_tree(context)) as sandbox:
        run_build(context, sandbox)
        completed = sandbox.run(shell(context, line, timeout))
    program = missing_program(context, line, completed)
    if program:
        raise BrokenCheck(f"validation.failing_command: `{program}` is not in the environment")
    if completed.ok:
        return _seen(Outcome.PASS, f"`{line}` passes on R", completed)
    why = f"`{line}` ran out of time" if completed.timed_out else f"`{line}` ends with {completed.exit_code}"
    if "pytest" in line and completed.exit_code in PYTEST_WORDS:
        why += f" ({PYTEST_WORDS[completed.exit_code]})"
    return _seen(Outcome.FAIL, why, completed)


def run_checks_on_base(context: GradingContext, checks: Sequence[Check]) -> dict[str, CheckOutcome]:
    """Run checks on the base repository without a patch."""
    candidate = BaseCandidate(context, base_entries(context))
    return {check.id: run_check(candidate, check).decided for check in checks}


# --- the whole task ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TaskValidation:
    """The state of a task's oracle.

    `baseline`: fail (as it must), pass, error. `reference`: pass (as it must), fail, error, none. `flaky`: what gave
    different outcomes under the same conditions, `check` or `check: test id`.
    """

    task_id: str
    valid: bool
    baseline: str
    reference: str
    flaky: tuple[str, ...]
    why: str


def validate(context: GradingContext, *, repeats: int = 2) -> TaskValidation:
    """Run baseline and reference `repeats` times (at least twice) and compare.

    Raises:
        SandboxError: ours.
    """
    context = context.unlogged()
    times = max(2, repeats)
    try:
        before = [run_baseline(context) for _ in range(times)]
    except TaskError as error:
        return TaskValidation(context.loaded.id, False, "error", "none", (), error.message)
    baselines = [one for one, _ in before]
    screened: list[tuple[str, list[Outcomes]]] = [("baseline", [{"": one.outcome.value} for one in baselines])]
    screened += _by_check(context, [seen for _, seen in before if seen])
    reference, why, after = _reference(context, times)
    screened += _by_check(context, [_mandatory(one) for one in after])
    flaky, blocking = find_flakes(context, screened)
    state = _common([one.outcome.value for one in baselines])
    problems = [
        *([f"the baseline does not fail: {baselines[0].why}"] if state == "pass" else []),
        *(["the baseline fails only sometimes"] if state == "mixed" else []),
        *([f"the reference does not pass: {why}"] if reference not in {"pass", "none"} else []),
        *([f"flaky: {', '.join(blocking[:LISTED])}"] if blocking else []),
    ]
    remark = "; ".join(problems) or (
        why if reference == "pass" else f"{baselines[0].why}; there is no reference to prove it solvable"
    )
    return TaskValidation(context.loaded.id, not problems, state, reference, flaky, remark)


def _reference(context: GradingContext, times: int) -> tuple[str, str, list[Acceptance]]:
    """Outcome, reason and all gradings of the reference."""
    try:
        patch = reference_patch(context)
    except (TaskError, PatchInvalid) as error:
        return "error", error.message, []
    if patch is None:
        return "none", "", []
    graded = [grade(patch, context) for _ in range(times)]
    refused = next((one for one in graded if not one.accepted), None)
    if refused is None:
        return "pass", "baseline fails, reference passes", graded
    why = why_not(refused)
    undecided = any(one.outcome is Outcome.ERROR for one in refused.checks if one.check.mandatory)
    return ("error" if undecided else "fail"), why, graded


def why_not(refused: Acceptance) -> str:
    """What kept a patch from being accepted, in words."""
    for step in (refused.application, *refused.steps):
        if step.outcome is not Outcome.PASS:
            return f"{step.step}: {step.why}"
    for one in refused.checks:
        if one.check.mandatory and one.outcome is not Outcome.PASS:
            failing = f" ({', '.join(one.decided.failing[:5])})" if one.decided.failing else ""
            return f"{one.check.id}: {one.decided.why}{failing}"
    return next((f"{one.rule}: {one.detail}" for one in refused.findings if one.severity in {"gate", "error"}), "")


def _mandatory(graded: Acceptance) -> Mapping[str, CheckOutcome]:
    return {one.check.id: one.decided for one in graded.checks if one.check.mandatory}


def _common(values: Sequence[str]) -> str:
    return values[0] if len(set(values)) == 1 else "mixed"


# --- flakes -----------------------------------------------------------------------------------------------------------

Outcomes = Mapping[str, str]
"""By test id; the check itself under the empty id."""


def _by_check(context: GradingContext, runs: Sequence[Mapping[str, CheckOutcome]]) -> list[tuple[str, list[Outcomes]]]:
    return [
        (check.id, [{**run[check.id].tests, "": run[check.id].outcome.value} for run in runs if check.id in run])
        for check in context.loaded.checks
        if any(check.id in run for run in runs)
    ]


def find_flakes(
    context: GradingContext, screened: Sequence[tuple[str, Sequence[Outcomes]]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What differed between runs beyond the tolerance; and what of it has no multi-run rule to hold it."""
    checks = {check.id: check for check in context.loaded.checks}
    flaky: list[str] = []
    blocking: list[str] = []
    for name, runs in screened:
        check = checks.get(name)
        names = [f"{name}: {test}" if test else name for test in _differing(runs, check)]
        flaky += [one for one in names if one not in flaky]
        if check is None or not check.reruns:
            blocking += [one for one in names if one not in blocking]
    return tuple(flaky), tuple(blocking)


def _differing(runs: Sequence[Outcomes], check: Check | None) -> Iterator[str]:
    tests = sorted({test for run in runs for test in run})
    differing = [test for test in tests if len({run.get(test, "missing") for run in runs}) > 1]
    tolerance = check.flake_tolerance if check is not None else 0.0
    if tests and len(differing) / len(tests) > tolerance:
        yield from differing
