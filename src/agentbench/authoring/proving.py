"""Which tests a fix turns from failing to passing: found by running R with the new tests and the fix, each twice at least."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentbench.authoring.splitting import Unsuitable
from agentbench.contract.load import LoadedTask
from agentbench.core.errors import SetupFailed
from agentbench.core.reasons import Outcome
from agentbench.oracle.acceptance import grade
from agentbench.oracle.bench import Acceptance, GradingBench
from agentbench.oracle.invocation import Invocation, understand
from agentbench.oracle.pristine import OracleTrouble, Pristine, run_pristine
from agentbench.run.lab import Ground, Lab
from agentbench.run.validation import validation_bench
from agentbench.sandbox.protocol import SetupStep

TAIL_LINES = 12
LISTED = 8


@dataclass(frozen=True, slots=True)
class Proof:
    """What the runs came to. `unsteady`: tests that differed between runs and are required by nobody."""

    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    unsteady: tuple[str, ...]
    duration_sec: float
    runs: int


def set_up(task: LoadedTask, lab: Lab) -> Ground:
    """Prepare R.

    Raises:
        Unsuitable: setup failed; with the last lines of its log.
        SandboxError, WorkspaceError: ours.
    """
    steps: list[SetupStep] = []
    lab.require(task)
    try:
        return lab.ground(task, steps.append)
    except SetupFailed as error:
        raise Unsuitable("setup failed", f"setup failed: {error.message}", remedy=log_end(steps)) from error


def log_end(steps: Sequence[SetupStep]) -> str:
    """The last lines of the command that failed, and what to do where they are understood."""
    last = next((step for step in reversed(steps) if step.exit_code != 0 or step.timed_out), None)
    if last is None:
        return ""
    said = (last.stdout + b"\n" + last.stderr).decode("utf-8", "replace").strip().splitlines()
    lines = [line.strip() for line in said if line.strip()][-TAIL_LINES:]
    text = "\n  ".join(lines)
    if any(
        sign in text
        for sign in (
            "command 'gcc' failed",
            "command 'cc' failed",
            "No such file or directory: 'gcc'",
            "unable to execute",
        )
    ):
        text += (
            "\n  it needs a compiler: install one on this machine (setup sees /usr read-only), or choose another commit"
        )
    if any(
        sign in text for sign in ("NewConnectionError", "Could not fetch URL", "Temporary failure in name resolution")
    ):
        text += "\n  the package index could not be reached: check the network and the index settings (ab doctor)"
    return f"the log ends:\n  {text}"


def prove(ground: Ground, lab: Lab, *, repeats: int = 2) -> Proof:
    """Run parent and fix.

    Raises:
        Unsuitable: the tests do not flip, flake, or cannot be run; with the ids.
        SandboxError: ours.
    """
    bench = dataclasses.replace(validation_bench(ground, lab), blobs=None)
    check = bench.loaded.checks[0]
    invocation = understand(check.command or "")
    if invocation is None:
        raise AssertionError(check.command)  # the command is ours
    before = [_parent(bench, invocation) for _ in range(max(2, repeats))]
    patch = (bench.loaded.reference_file or bench.loaded.folder).read_bytes()
    after = [_fixed(grade(patch, bench), check.timeout_sec) for _ in range(max(2, repeats))]
    return compare([one.outcomes for one in before], after, max(one.duration_sec for one in before))


def _parent(bench: GradingBench, invocation: Invocation) -> Pristine:
    check = bench.loaded.checks[0]
    try:
        run = run_pristine(bench, check, invocation)
    except OracleTrouble as error:
        raise Unsuitable("tests cannot run", f"on the parent: {error.message}") from error
    if run.timed_out:
        raise Unsuitable(
            "too slow",
            f"the tests take more than {check.timeout_sec} s on the parent, or hang there",
            remedy="raise --timeout, or choose another commit",
        )
    if run.trouble:
        raise Unsuitable("tests cannot run", f"on the parent: {run.trouble}")
    return run


def _fixed(graded: Acceptance, timeout_sec: int) -> Mapping[str, str]:
    if graded.application.outcome is not Outcome.PASS:
        raise Unsuitable("patch", f"the fix does not apply to its parent as setup left it: {graded.application.why}")
    (check,) = graded.checks
    if check.decided.timed_out:
        raise Unsuitable("too slow", f"the tests take more than {timeout_sec} s with the fix", remedy="raise --timeout")
    if check.outcome is Outcome.ERROR:
        raise Unsuitable("tests cannot run", f"with the fix: {check.decided.why}")
    return check.decided.tests


def compare(before: Sequence[Mapping[str, str]], after: Sequence[Mapping[str, str]], duration_sec: float) -> Proof:
    """What some runs of the parent and of the fix come to. Pure.

    Raises:
        Unsuitable: nothing flips from failing to passing, or not every time.
    """
    tests = list(dict.fromkeys(test for run in after for test in run))
    unsteady = [test for test in tests if _differs(test, before) or _differs(test, after)]
    # A test that the fix is about and that does not do the same every time: whoever solves it would be judged by luck.
    shaky = [test for test in unsteady if any(run.get(test) != "passed" for run in before)]
    if shaky:
        raise _flaky(shaky)
    passing = [test for test in tests if after[0].get(test) == "passed" and test not in unsteady]
    flipped = tuple(test for test in passing if before[0].get(test) != "passed")
    if not flipped:
        raise _no_flip(before[0], after[0])
    kept = tuple(test for test in passing if before[0].get(test) == "passed")
    return Proof(flipped, kept, tuple(unsteady), duration_sec, len(before) + len(after))


def _differs(test: str, runs: Sequence[Mapping[str, str]]) -> bool:
    return len({run.get(test, "missing") for run in runs}) > 1


def _flaky(tests: Sequence[str]) -> Unsuitable:
    more = f" and {len(tests) - LISTED} more" if len(tests) > LISTED else ""
    return Unsuitable(
        "flaky", f"tests give different outcomes under the same conditions: {', '.join(tests[:LISTED])}{more}"
    )


def _no_flip(before: Mapping[str, str], after: Mapping[str, str]) -> Unsuitable:
    passing = [test for test, outcome in after.items() if outcome == "passed"]
    if not after:
        return Unsuitable("tests cannot run", "no test was collected with the fix")
    if not passing:
        failing = [test for test, outcome in after.items() if outcome in {"failed", "broken"}]
        if failing:
            return Unsuitable(
                "fails with the fix",
                f"the tests fail even with the fix: {', '.join(failing[:LISTED])}",
                remedy="dependencies may have moved on since, or the tests need a network",
            )
        return Unsuitable("skipped", "every test is skipped here, with the fix too")
    broken = [test for test, outcome in after.items() if outcome != "passed" and before.get(test) != "passed"]
    if broken and any(after[test] in {"failed", "broken"} for test in broken):
        return Unsuitable(
            "fails with the fix",
            f"what fails on the parent fails with the fix too: {', '.join(broken[:LISTED])}",
            remedy="dependencies may have moved on since, or the tests need a network",
        )
    return Unsuitable(
        "does not fail on parent", f"all {len(passing)} tests that pass with the fix pass on its parent too"
    )
