"""Validate a task: the baseline must fail, the reference must pass, and results must be stable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from agentbench.acceptance.build import run_base_build
from agentbench.acceptance.cache import key_of, load_or_make
from agentbench.acceptance.cache_keys import check_key, replica_key
from agentbench.acceptance.candidate import BaseCandidate
from agentbench.acceptance.checks.broken_check import BrokenCheck, BrokenDriver
from agentbench.acceptance.checks.exit_status import missing_program
from agentbench.acceptance.checks.pytest.base_survey import KEPT, base_test_run
from agentbench.acceptance.checks.pytest.check import requirement_of
from agentbench.acceptance.checks.required_tests import summarize, tally
from agentbench.acceptance.checks.run_check import run_check
from agentbench.acceptance.events import microseconds
from agentbench.acceptance.grade import grade
from agentbench.acceptance.grading_context import Acceptance, CheckOutcome, GradingContext
from agentbench.acceptance.reference import reference_patch
from agentbench.acceptance.replica import base_entries, base_tree, open_replica, shell
from agentbench.contract.pytest_command import parse_pytest_command
from agentbench.contract.schema import Check
from agentbench.core.canonical import Json
from agentbench.core.command import Completed
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import PatchInvalid, TaskError
from agentbench.core.reasons import Outcome

PYTEST_EXIT_CODES = {
    2: "collection was interrupted",
    3: "internal error",
    4: "usage error",
    5: "no tests were collected",
}
LISTED = 20
NO_DECOYS = "oracle.min_decoy_coverage needs a reference: without one no test has a decoy"


class Baseline(BaseModel):
    """The checks on the base repository. A valid task has outcome `fail`."""

    model_config = ConfigDict(frozen=True, ser_json_bytes="base64", val_json_bytes="base64", defer_build=True)
    outcome: Outcome
    exit_code: int | None = None
    why: str = ""
    stdout: bytes = b""
    stderr: bytes = b""
    """The start of the output."""
    check_us: dict[str, int]
    """Duration of each check that ran, from which the cost of acceptance is expected."""
    cached: bool = False

    @property
    def failed_as_expected(self) -> bool:
        return self.outcome is Outcome.FAIL


def baseline(context: GradingContext) -> Baseline:
    """Run the baseline of a contract in its environment; cached.

    Raises:
        BrokenCheck: a check cannot be run on the base repository.
        SandboxError: the sandbox failed.
    """
    result, cached = load_or_make(
        context.cache,
        _baseline_key(context),
        Baseline,
        lambda: _baseline_from_test_run(context) or run_baseline(context.unlogged())[0],
    )
    return result.model_copy(update={"cached": cached})


def _baseline_key(context: GradingContext) -> str:
    checks = [check for check in context.loaded.checks if check.mandatory]
    keys: list[Json] = [[check_key(context, check), check.reruns] for check in checks]
    return key_of("baseline", replica_key(context), context.loaded.baseline_command, keys)


def _baseline_from_test_run(context: GradingContext) -> Baseline | None:
    """Derive the baseline of a single pytest check from the cached run of all tests.

    Return None unless that run finished and a required test did not pass: everything else is worth a run of its own.
    """
    check, *others = [check for check in context.loaded.checks if check.mandatory]
    command = parse_pytest_command(check.command or "") if check.parser == "pytest" else None
    if others or context.loaded.baseline_command is not None or command is None:
        return None
    run = base_test_run(context, check, command)
    counted = tally(requirement_of(context, check), run.outcomes, tuple(run.uncollected))
    if run.problem or run.timed_out or not counted.failing:
        return None
    return Baseline(
        outcome=Outcome.FAIL,
        exit_code=run.status,
        why=f"{check.id}: {summarize(counted)}",
        stdout=run.stdout,
        stderr=run.stderr,
        check_us={check.id: microseconds(run.duration_sec)},
    )


def run_baseline(context: GradingContext) -> tuple[Baseline, Mapping[str, CheckOutcome]]:
    """Run the baseline now: the failing command of the short form, or every mandatory check.

    Raises:
        TaskError: a check cannot be run on the base repository.
        SandboxError: the sandbox failed.
    """
    checks = [check for check in context.loaded.checks if check.mandatory]
    command = context.loaded.baseline_command
    if command is not None and command != checks[0].command:
        return _run_failing_command(context, command), {}
    outcomes = run_checks_on_base(context, checks)
    for check in checks:
        outcome = outcomes[check.id]
        if outcome.outcome is Outcome.ERROR:
            raise _broken(check, outcome.why)
    check_us = {name: microseconds(outcome.duration_sec) for name, outcome in outcomes.items()}
    for name, outcome in outcomes.items():
        if outcome.outcome is Outcome.FAIL:
            return _baseline(Outcome.FAIL, f"{name}: {outcome.why}", outcome, check_us), outcomes
    why = "every mandatory check passes on the base repository"
    return Baseline(outcome=Outcome.PASS, exit_code=0, why=why, check_us=check_us), outcomes


def _broken(check: Check, why: str) -> TaskError:
    msg = f"check {check.id} on the base repository: {why}"
    if check.kind != "probe":
        return BrokenCheck(msg)
    return BrokenDriver(msg, remedy="run `ab task check-probe TASK` to see what the driver does")


def _baseline(outcome: Outcome, why: str, output: CheckOutcome | Completed, check_us: dict[str, int]) -> Baseline:
    return Baseline(
        outcome=outcome,
        exit_code=output.exit_code,
        why=why,
        stdout=output.stdout.kept[:KEPT],
        stderr=output.stderr.kept[:KEPT],
        check_us=check_us,
    )


def _run_failing_command(context: GradingContext, line: str) -> Baseline:
    timeout = context.loaded.checks[0].timeout_sec
    with open_replica(context, base_tree(context)) as sandbox:
        run_base_build(context, sandbox)
        completed = sandbox.run(shell(context, line, timeout))
    program = missing_program(context, line, completed)
    if program:
        raise BrokenCheck(f"validation.failing_command: `{program}` is not in the environment")
    check_us = {context.loaded.checks[0].id: microseconds(completed.duration_sec)}
    if completed.ok:
        return _baseline(Outcome.PASS, f"`{line}` passes on the base repository", completed, check_us)
    how = f"timed out after {timeout} s" if completed.timed_out else f"exits with {completed.exit_code}"
    why = f"`{line}` {how}"
    if "pytest" in line and completed.exit_code in PYTEST_EXIT_CODES:
        why += f" ({PYTEST_EXIT_CODES[completed.exit_code]})"
    return _baseline(Outcome.FAIL, why, completed, check_us)


def run_checks_on_base(context: GradingContext, checks: Sequence[Check]) -> dict[str, CheckOutcome]:
    """Run checks on the base repository without a patch."""
    candidate = BaseCandidate(context, base_entries(context))
    return {check.id: run_check(candidate, check).decided for check in checks}


# --- validation of a task ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TaskValidation:
    """The result of validating a task.

    `baseline`: fail (as required), pass, mixed or error. `reference`: pass (as required), fail, error or none. `flaky`:
    checks and tests with different outcomes under the same conditions, as `check` or `check: test id`.
    """

    task_id: str
    valid: bool
    baseline: str
    reference: str
    flaky: tuple[str, ...]
    why: str
    decoy_coverage: float | None = None
    """Share of fail-to-pass tests with a decoy test; None without a reference that was graded."""
    unpinned: str = ""
    """Why the environment is not pinned by digest; empty if it is."""


def validate(context: GradingContext, *, repeats: int = 2) -> TaskValidation:
    """Run baseline and reference `repeats` times (at least twice) and compare the outcomes.

    Raises:
        SandboxError: the sandbox failed.
    """
    context = context.unlogged()
    times = max(2, repeats)
    try:
        baseline_runs = [run_baseline(context) for _ in range(times)]
    except TaskError as error:
        return TaskValidation(context.loaded.id, False, "error", "none", (), error.message)
    baselines = [result for result, _ in baseline_runs]
    repeated: list[tuple[str, list[Outcomes]]] = [("baseline", [{"": result.outcome.value} for result in baselines])]
    repeated += _by_check(context, [outcomes for _, outcomes in baseline_runs if outcomes])
    reference, why, gradings = _grade_reference(context, times)
    repeated += _by_check(
        context,
        [
            {result.check.id: result.decided for result in graded.checks if result.check.mandatory}
            for graded in gradings
        ],
    )
    flaky, blocking = find_flakes(context, repeated)
    stable = len({result.outcome for result in baselines}) == 1
    if stable:  # the first attempt at this task need not run it again
        load_or_make(context.cache, _baseline_key(context), Baseline, lambda: baselines[0])
    state = baselines[0].outcome.value if stable else "mixed"
    problems = [
        *([f"the baseline must fail but passes: {baselines[0].why}"] if state == "pass" else []),
        *(["the baseline fails in some runs and passes in others"] if state == "mixed" else []),
        *([f"the reference does not pass: {why}"] if reference not in {"pass", "none"} else []),
        *_misplaced_tests(context, [outcomes for _, outcomes in baseline_runs if outcomes]),
        *([f"flaky: {', '.join(blocking[:LISTED])}"] if blocking else []),
        *(_unproved_drivers(context) if reference == "none" else []),
        *([NO_DECOYS] if reference == "none" and context.loaded.task.oracle.min_decoy_coverage else []),
    ]
    remark = "; ".join(problems) or (
        why if reference == "pass" else f"{baselines[0].why}; no reference proves that the task can be solved"
    )
    coverage = gradings[0].decoy_coverage if gradings else None
    return TaskValidation(context.loaded.id, not problems, state, reference, flaky, remark, coverage)


def _misplaced_tests(context: GradingContext, runs: Sequence[Mapping[str, CheckOutcome]]) -> Iterator[str]:
    """Yield required tests whose outcome in every run on the base repository contradicts the list they are in."""
    for check in context.loaded.checks if runs else ():
        if not check.mandatory:
            continue
        for key, tests, outcome in (
            ("fail_to_pass", check.fail_to_pass, "passed"),
            ("pass_to_pass", check.pass_to_pass, "failed"),
        ):
            wrong = [test for test in tests if all(run[check.id].tests.get(test) == outcome for run in runs)]
            if wrong:
                verb = {"passed": "pass", "failed": "fail"}[outcome]
                more = f" and {len(wrong) - LISTED} more" if len(wrong) > LISTED else ""
                yield f"{check.id}: tests of {key} {verb} on the base repository: {', '.join(wrong[:LISTED])}{more}"


def _unproved_drivers(context: GradingContext) -> list[str]:
    """Return probes whose driver does not finish on the base repository, for a task without a reference."""
    from agentbench.acceptance.checks.probe import probe_of_base  # noqa: PLC0415 - few checks are probes

    probes = [check for check in context.loaded.checks if check.mandatory and check.kind == "probe"]
    return [
        f"{check.id}: the driver does not finish on the base repository; add a reference that shows that it works"
        for check in probes
        if not probe_of_base(context, check).whole
    ]


def _grade_reference(context: GradingContext, times: int) -> tuple[str, str, list[Acceptance]]:
    """Return outcome, reason and all gradings of the reference."""
    try:
        patch = reference_patch(context)
    except (TaskError, PatchInvalid) as error:
        return "error", error.message, []
    if patch is None:
        return "none", "", []
    gradings = [grade(patch, context) for _ in range(times)]
    refused = next((graded for graded in gradings if not graded.accepted), None)
    if refused is None:
        return "pass", "baseline fails, reference passes", gradings
    undecided = any(result.outcome is Outcome.ERROR for result in refused.checks if result.check.mandatory)
    return ("error" if undecided else "fail"), why_not(refused), gradings


def why_not(refused: Acceptance) -> str:
    """Explain why a patch was not accepted."""
    for step in (refused.application, *refused.steps):
        if step.outcome is not Outcome.PASS:
            return f"{step.step}: {step.why}"
    for result in refused.checks:
        if result.check.mandatory and result.outcome is not Outcome.PASS:
            failing = f" ({', '.join(result.decided.failing[:5])})" if result.decided.failing else ""
            return f"{result.check.id}: {result.decided.why}{failing}"
    severe = (finding for finding in refused.findings if finding.severity in {"gate", "error"})
    return next((f"{finding.rule}: {finding.detail}" for finding in severe), "")


# --- flakes -----------------------------------------------------------------------------------------------------------

Outcomes = Mapping[str, str]
"""Outcome by test id; the check itself has the empty id."""


def _by_check(context: GradingContext, runs: Sequence[Mapping[str, CheckOutcome]]) -> list[tuple[str, list[Outcomes]]]:
    return [
        (check.id, [{**run[check.id].tests, "": run[check.id].outcome.value} for run in runs if check.id in run])
        for check in context.loaded.checks
        if any(check.id in run for run in runs)
    ]


def find_flakes(
    context: GradingContext, repeated: Sequence[tuple[str, Sequence[Outcomes]]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what differed between runs beyond the tolerance, and the part of it that no rerun rule covers."""
    checks = {check.id: check for check in context.loaded.checks}
    flaky: list[str] = []
    blocking: list[str] = []
    for name, runs in repeated:
        check = checks.get(name)
        labels = [f"{name}: {test}" if test else name for test in _differing(runs, check)]
        flaky += [label for label in labels if label not in flaky]
        if check is None or not check.reruns:
            blocking += [label for label in labels if label not in blocking]
    return tuple(flaky), tuple(blocking)


def _differing(runs: Sequence[Outcomes], check: Check | None) -> Iterator[str]:
    tests = sorted({test for run in runs for test in run})
    differing = [test for test in tests if len({run.get(test, "missing") for run in runs}) > 1]
    tolerance = check.flake_tolerance if check is not None else 0.0
    if tests and len(differing) / len(tests) > tolerance:
        yield from differing
