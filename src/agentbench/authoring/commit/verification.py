"""Verify a commit in the sandbox: run its tests on the parent and with the fix, at least twice each."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Final, TypeVar

from agentbench.acceptance.cache import key_of, load_or_make
from agentbench.acceptance.cache_keys import check_key
from agentbench.acceptance.checks.broken_check import BrokenCheck
from agentbench.acceptance.checks.exit_status import OUT_OF_MEMORY
from agentbench.acceptance.checks.pytest.base_survey import (
    BaseTestRun,
    base_test_run,
    run_tests_on_base,
)
from agentbench.acceptance.grade import grade
from agentbench.acceptance.grading_context import CheckOutcome, GradingContext
from agentbench.authoring.commit import failure_causes
from agentbench.authoring.commit.comparison import Verification, compare, list_tests, timing_dependent, with_slow_run
from agentbench.authoring.commit.split import UnsuitableCommit
from agentbench.contract.load import LoadedTask
from agentbench.contract.pytest_command import PytestCommand, parse_pytest_command
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import SetupFailed
from agentbench.core.reasons import Outcome
from agentbench.execution.lab import Lab, PreparedTask
from agentbench.sandbox.protocol import Prepared, SetupStep

T = TypeVar("T")

TAIL_LINES = 12
MISSING_MODULE: Final = "missing module"
_SKIP_KINDS = frozenset({"does not fail on parent", "skipped", "tests cannot run"})
"""Reasons that may disappear if skipped tests could run."""
PROOF_SCHEMA = 2
"""Increase it when the meaning of a cached verification changes."""
SLOW_CPUS = 0.25
"""CPU limit of one extra run of tests that read the clock: tests that need an idle machine are not reliable."""
_COMPILER = (
    "command 'gcc' failed", "command 'cc' failed", "No such file or directory: 'gcc'", "No such file or directory: 'cc'",
    "unable to execute", "' failed: No such file or directory", "C compiler cannot create executables", "no acceptable C compiler", "Unable to find a compatible compiler",
    "Unknown compiler(s)", "command 'x86_64-linux-gnu-gcc' failed", "can't find Rust compiler", "Cargo, the Rust package manager, is not installed",
)  # fmt: skip
_ERROR = re.compile(r"(?:E\s+)?[\w.]*(?:Error|Exception|Warning|Exit|error)\b:? ")
_UNREACHABLE = (
    "NewConnectionError", "Could not fetch URL", "Temporary failure in name resolution", "Network is unreachable",
    "Connection refused", "Name or service not known", "ProxyError", "ConnectTimeoutError", "ReadTimeoutError",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FailureContext:
    """Facts that help to explain a failed verification."""

    sources: Mapping[str, bytes] = field(default_factory=dict)
    """The hidden test files."""
    newer: tuple[str, ...] = ()
    """Installed distributions that were released after the commit."""
    undated: tuple[str, ...] = ()
    """Installed distributions with unknown release dates."""


def prepare(task: LoadedTask, lab: Lab) -> PreparedTask:
    """Prepare the environment of a task.

    Raises:
        UnsuitableCommit: setup failed; with the last lines of its log.
        SandboxError, WorkspaceError: harness errors.
    """
    # The lab may return the environment of an equal task whose folder no longer exists.
    return dataclasses.replace(_run_setup(lab.prepare, task, lab), task=task)


def set_up(task: LoadedTask, lab: Lab) -> Prepared:
    """Run the setup of a task in which no tests will run.

    Raises:
        UnsuitableCommit, SandboxError, WorkspaceError: as `prepare`.
    """
    return _run_setup(lab.set_up, task, lab)


def _run_setup(run: Callable[[LoadedTask, Callable[[SetupStep], None]], T], task: LoadedTask, lab: Lab) -> T:
    steps: list[SetupStep] = []
    lab.require(task)
    try:
        return run(task, steps.append)
    except SetupFailed as error:
        raise UnsuitableCommit(
            "setup failed", f"setup failed: {_short(error.message)}", remedy=setup_log_tail(steps)
        ) from error


def _short(message: str) -> str:
    """Shorten a message, which may contain a whole lock file."""
    return message if len(message) <= 600 else f"{message[:200]} … {message[-400:]}"


def with_error_first(message: str) -> str:
    """Put the error line of a traceback, usually its last, in front of the message."""
    lines = [line for line in message.splitlines() if line.strip()]
    last = next((line.strip() for line in reversed(lines) if _ERROR.match(line.strip())), "")
    return message if not last or last in lines[0] else f"{last}\n{message}"


def _unfinished_tests(run: BaseTestRun) -> list[str]:
    """Return the tests that started and did not finish."""
    return [test for test, outcome in run.outcomes.items() if outcome == "broken"]


def _first_error(output: str) -> str:
    line = next((line.strip() for line in output.splitlines() if _ERROR.match(line.strip())), "")
    return f": {line.removeprefix('E').strip()}" if line else ""


def setup_log_tail(steps: Sequence[SetupStep]) -> str:
    """Return the last lines of the setup command that failed, with advice for known failures."""
    failed = next((step for step in reversed(steps) if step.exit_code != 0 or step.timed_out), None)
    if failed is None:
        return ""
    output = (failed.stdout + b"\n" + failed.stderr).decode("utf-8", "replace").strip()
    lines = [line.strip() for line in output.splitlines() if line.strip()][-TAIL_LINES:]
    text = "\n  ".join(lines)
    if any(sign in output for sign in _COMPILER):
        text += (
            "\n  setup needs a compiler: install one on the host (setup sees /usr read-only), or choose another commit"
        )
    if any(sign in output for sign in _UNREACHABLE):
        text += "\n  cannot reach the package index: check the network and the index settings (ab doctor)"
    elif "(from versions: none)" in output:
        # Without retries, pip prints only this about an index that does not answer.
        text += (
            "\n  not found on any index, or no index can be reached: check the name, the network and the index settings"
        )
        text += " (ab doctor)"
    return f"last lines of the log:\n  {text}"


def verify(
    prepared: PreparedTask,
    lab: Lab,
    *,
    repeats: int = 2,
    failure_context: FailureContext | None = None,
    notify: Callable[[str], None] = lambda _step: None,
) -> Verification:
    """Run the tests on the parent and with the fix, and determine the required tests.

    Raises:
        UnsuitableCommit: no test goes from failing to passing, tests are flaky, or they cannot be run.
        SandboxError: harness error.
    """
    context = dataclasses.replace(lab.grading_context(prepared), blobs=None)
    runs = _VerificationRuns(context, failure_context or FailureContext(), notify)
    times = max(2, repeats)
    # Successful verifications are cached by contract and environment for the next harvest; failed ones are not.
    verification, _ = load_or_make(context.cache, runs.key(times), Verification, lambda: runs.run(times))
    return verification


def _requiring(context: GradingContext, test: str) -> GradingContext:
    """Return a context whose check names a test, because grading needs one even if the parent collects none."""
    loaded = context.loaded
    checks = tuple(check.model_copy(update={"fail_to_pass": (test,)}) for check in loaded.task.oracle.checks)
    oracle = loaded.task.oracle.model_copy(update={"checks": checks})
    task = loaded.task.model_copy(update={"oracle": oracle})
    return dataclasses.replace(context, loaded=dataclasses.replace(loaded, task=task))


class _VerificationRuns:
    """All runs for one commit."""

    def __init__(self, context: GradingContext, failure_context: FailureContext, notify: Callable[[str], None]) -> None:
        self._context = context
        self._notify = notify
        self._failure_context = failure_context
        self._check = context.loaded.checks[0]
        self._memory_mb = context.spec.limits.memory_mb
        command = parse_pytest_command(self._check.command or "")
        if command is None:
            raise AssertionError(self._check.command)  # `from_commit` wrote the command
        self._command: PytestCommand = command
        self._patch = (context.loaded.reference_file or context.loaded.folder).read_bytes()

    def key(self, repeats: int) -> str:
        """Return the cache key: everything that a verification depends on."""
        patch = hashlib.sha256(self._patch).hexdigest()
        return key_of("proof", PROOF_SCHEMA, check_key(self._context, self._check), patch, repeats)

    def run(self, repeats: int) -> Verification:
        before = [self._run_parent(number, repeats) for number in range(repeats)]
        if not before[0].outcomes and not before[0].uncollected:
            # The parent cannot import the commit's conftest.py, so no test id is known yet.
            self._context = _requiring(
                self._context, f"{next(iter(self._failure_context.sources), self._check.id)}::any"
            )
        after = [self._run_fix(self._context, f"{number + 1} of {repeats}") for number in range(repeats)]
        reasons = {**before[0].whys}
        for run in after:
            reasons |= failure_causes.parse_reasons(run.diagnostics)
        duration = max(run.duration_sec for run in before)
        try:
            verification = compare([run.outcomes for run in before], [run.tests for run in after], duration)
        except UnsuitableCommit as error:
            raise self._explain(error, reasons, after[0]) from None
        if failure_causes.mentions_clock(self._failure_context.sources.values()):
            return self._rerun_slowly(verification)
        return verification

    # --- the parent -------------------------------------------------------------------------------------------

    def _run_parent(self, number: int, repeats: int) -> BaseTestRun:
        self._notify(f"running the tests on the parent ({number + 1} of {repeats})")
        try:
            # The first run is cached: grading and later harvests use it too.
            make = run_tests_on_base if number else base_test_run
            run = make(self._context, self._check, self._command)
        except BrokenCheck as error:
            raise UnsuitableCommit("tests cannot run", f"on the parent: {with_error_first(error.message)}") from error
        if run.oom:
            raise self._out_of_memory("on the parent")
        if run.timed_out:
            raise self._parent_timeout(run)
        if run.problem:
            test = next(iter(_unfinished_tests(run)), "")
            raise UnsuitableCommit(
                "tests cannot run",
                f"on the parent: {with_error_first(run.problem)}{f', in {test}' if test else ''}",
                remedy="the parent kills the test process, so tests have no outcomes; choose another commit, or write "
                "the task by hand with a test that starts its own process (ab task new)"
                if test
                else "",
            )
        return run

    def _parent_timeout(self, run: BaseTestRun) -> UnsuitableCommit:
        """Run the fix to tell a parent that hangs from tests that are slow anyway."""
        limit = self._check.timeout_sec
        missing = (test for test, outcome in run.outcomes.items() if outcome == "missing")
        test = next(iter([*_unfinished_tests(run), *missing]), "")
        where = f", in {test}" if test else ""
        fixed = self._run_fix(self._context, "to compare its time")
        return UnsuitableCommit(
            "hangs on parent",
            f"tests take {fixed.duration_sec:.1f} s with the fix and more than {limit} s on the parent{where}: "
            "every failed attempt would run into the timeout",
            remedy="choose another commit, or write a task by hand whose test has its own timeout (ab task new)",
        )

    # --- the fix ----------------------------------------------------------------------------------------------

    def _run_fix(self, context: GradingContext, which: str) -> CheckOutcome:
        self._notify(f"running the tests with the fix ({which})")
        graded = grade(self._patch, context, decoys=False)
        if graded.application.outcome is not Outcome.PASS:
            why = graded.application.why
            raise UnsuitableCommit("patch", f"the fix does not apply to the parent after setup: {why}")
        decided = graded.checks[0].decided
        if OUT_OF_MEMORY in decided.why:
            raise self._out_of_memory("with the fix")
        if decided.timed_out:
            raise UnsuitableCommit(
                "too slow",
                f"tests take more than {self._check.timeout_sec} s even with the fix",
                remedy="raise --timeout, or choose another commit",
            )
        if decided.outcome is Outcome.ERROR:
            raise UnsuitableCommit("tests cannot run", f"with the fix: {with_error_first(decided.why)}")
        severe = next((finding for finding in graded.findings if finding.severity in {"gate", "error"}), None)
        if severe is not None:
            place = f" ({severe.path}:{severe.line})" if severe.path and severe.line else ""
            raise UnsuitableCommit(
                "refused by the oracle",
                f"grading rejects the fix itself, so no similar solution could pass: {severe.rule}: "
                f"{severe.detail}{place}",
            )
        return decided

    def _rerun_slowly(self, verification: Verification) -> Verification:
        """Run the fix once more with little CPU. Tests that fail only then depend on the clock."""
        spec = self._context.spec
        limits = dataclasses.replace(spec.limits, cpus=min(SLOW_CPUS, spec.limits.cpus))
        try:
            slow = self._run_fix(
                dataclasses.replace(self._context, spec=dataclasses.replace(spec, limits=limits)),
                f"on {limits.cpus:g} CPUs, because they use the clock",
            ).tests
        except UnsuitableCommit as error:
            if error.kind == "too slow":  # a quarter of a CPU may need more time than the limit allows
                return verification
            raise
        return with_slow_run(verification, slow)

    # --- reasons ----------------------------------------------------------------------------------------------

    def _out_of_memory(self, where: str) -> UnsuitableCommit:
        return UnsuitableCommit(
            "out of memory",
            f"tests were killed {where}: they use more than {self._memory_mb} MB of memory",
            remedy="raise --memory, or choose another commit if its parent uses unlimited memory",
        )

    def _explain(self, error: UnsuitableCommit, reasons: Mapping[str, str], fixed: CheckOutcome) -> UnsuitableCommit:
        """Replace an error by its cause if the test messages show one, and attach the reasons of skipped tests."""
        explained = self._find_cause(error, reasons, fixed)
        if explained.kind in _SKIP_KINDS:
            explained.skips = failure_causes.skip_reasons(fixed.tests, reasons, self._failure_context.sources)
        return explained

    def _find_cause(self, error: UnsuitableCommit, reasons: Mapping[str, str], fixed: CheckOutcome) -> UnsuitableCommit:
        if error.kind == "flaky":
            timed = failure_causes.uses_clock(error.tests, self._failure_context.sources, reasons)
            return timing_dependent(timed, "give different outcomes from run to run") if timed else error
        if error.kind not in {"fails with the fix", "tests cannot run"}:
            return error
        failing = {test: reason for test, reason in reasons.items() if fixed.tests.get(test) != "passed"}
        if not fixed.tests:
            failing |= {"": fixed.stdout.kept.decode("utf-8", "replace")}
            error = UnsuitableCommit(error.kind, f"{error.message}{_first_error(failing[''])}", remedy=error.remedy)
        missing = failure_causes.missing_modules(failing.values())
        offline = failure_causes.needs_network(failing)
        if offline:
            return UnsuitableCommit(
                "needs network",
                f"tests need the network, which sandboxes do not have: {list_tests(offline)}",
                remedy="choose another commit: a verdict must not depend on an external server",
            )
        if missing:
            return UnsuitableCommit(
                MISSING_MODULE,
                f"tests import modules that setup does not install: {list_tests(missing)}",
                remedy="the project's test requirements do not include them; choose another commit",
                tests=missing,
            )
        context = self._failure_context
        drifted = failure_causes.drifted_dependencies(failing, context.newer, context.undated)
        if drifted:
            last_line = next((reason.splitlines()[-1] for reason in failing.values() if reason), "")
            return UnsuitableCommit(
                "dependency drift",
                f"tests fail even with the fix, with dependencies newer than the commit ({list_tests(drifted)}): "
                f"{last_line}",
                remedy="use a package index that publishes upload times, so that older versions can be chosen",
            )
        return error
