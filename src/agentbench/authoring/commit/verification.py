"""Which tests a fix turns from failing to passing: found by running R with the new tests and the fix, each twice at least."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic import BaseModel, ConfigDict

from agentbench.acceptance.cache import key_of, load_or_make
from agentbench.acceptance.checks.exit_status import OUT_OF_MEMORY
from agentbench.acceptance.checks.pytest.base_survey import (
    BaseTestRun,
    BrokenCheck,
    base_test_run,
    check_key,
    run_tests_on_base,
)
from agentbench.acceptance.grade import grade
from agentbench.acceptance.grading_context import CheckOutcome, GradingContext
from agentbench.authoring.commit import failure_causes as symptoms
from agentbench.authoring.commit.split import Unsuitable
from agentbench.authoring.commit.test_comparison import Proof, compare, listed, slowed, timing
from agentbench.contract.load import LoadedTask
from agentbench.contract.pytest_command import PytestCommand, parse_pytest_command
from agentbench.core.errors import SetupFailed
from agentbench.core.reasons import Outcome
from agentbench.run.lab import Lab, PreparedTask
from agentbench.sandbox.protocol import SetupStep

TAIL_LINES = 12
MISSING_MODULE: Final = "missing module"
_UNSEEN = frozenset({"does not fail on parent", "skipped", "tests cannot run"})
"""Refusals that tests which are skipped here might turn."""
PROOF_SCHEMA = 2
"""Raised when what counts as proven changes."""
SLOW_CPUS = 0.25
"""For one more run of tests that look at the clock: who passes only on an idle machine judges by luck."""
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
class Circumstance:
    """What helps to say why a proof failed: the test files, and what of the environment is newer than the commit."""

    sources: Mapping[str, bytes] = field(default_factory=dict)
    newer: tuple[str, ...] = ()
    undated: tuple[str, ...] = ()
    """What of it nobody knows the age of."""


def set_up(task: LoadedTask, lab: Lab) -> PreparedTask:
    """Prepare R.

    Raises:
        Unsuitable: setup failed; with the last lines of its log.
        SandboxError, WorkspaceError: ours.
    """
    steps: list[SetupStep] = []
    lab.require(task)
    try:
        # Who made the same task before may have removed its folder since.
        return dataclasses.replace(lab.prepare(task, steps.append), task=task)
    except SetupFailed as error:
        raise Unsuitable("setup failed", f"setup failed: {_short(error.message)}", remedy=log_end(steps)) from error


def _short(message: str) -> str:
    """Without the whole text of a lock file in it."""
    return message if len(message) <= 600 else f"{message[:200]} … {message[-400:]}"


def telling(message: str) -> str:
    """A message whose first line says most: of a traceback that is the last."""
    lines = [line for line in message.splitlines() if line.strip()]
    last = next((line.strip() for line in reversed(lines) if _ERROR.match(line.strip())), "")
    return message if not last or last in lines[0] else f"{last}\n{message}"


def _begun(run: BaseTestRun) -> list[str]:
    """Tests that were set up and never over."""
    return [test for test, outcome in run.outcomes.items() if outcome == "broken"]


def _first_error(said: str) -> str:
    found = next((line.strip() for line in said.splitlines() if _ERROR.match(line.strip())), "")
    return f": {found.removeprefix('E').strip()}" if found else ""


def log_end(steps: Sequence[SetupStep]) -> str:
    """The last lines of the command that failed, and what to do where they are understood."""
    last = next((step for step in reversed(steps) if step.exit_code != 0 or step.timed_out), None)
    if last is None:
        return ""
    said = (last.stdout + b"\n" + last.stderr).decode("utf-8", "replace").strip()
    lines = [line.strip() for line in said.splitlines() if line.strip()][-TAIL_LINES:]
    text = "\n  ".join(lines)
    if any(sign in said for sign in _COMPILER):
        text += (
            "\n  it needs a compiler: install one on this machine (setup sees /usr read-only), or choose another commit"
        )
    if any(sign in said for sign in _UNREACHABLE):
        text += "\n  the package index could not be reached: check the network and the index settings (ab doctor)"
    elif "(from versions: none)" in said:
        # Without retries pip says no more than this of an index that does not answer.
        text += "\n  no index has it, or none could be reached: check its name, the network and the index settings (ab doctor)"
    return f"the log ends:\n  {text}"


def prove(prepared: PreparedTask, lab: Lab, *, repeats: int = 2, known: Circumstance | None = None) -> Proof:
    """Run parent and fix.

    Raises:
        Unsuitable: the tests do not flip, flake, or cannot be run; with the ids.
        SandboxError: ours.
    """
    context = dataclasses.replace(lab.grading_context(prepared), blobs=None)
    runs = _Runs(context, known or Circumstance())
    times = max(2, repeats)
    # What was proven for this contract in this environment is not run again by the next harvest. Refusals are.
    kept, _ = load_or_make(
        context.cache, runs.key(times), _Kept, lambda: _Kept(**dataclasses.asdict(runs.prove(times)))
    )
    return Proof(**kept.model_dump())


def _requiring(context: GradingContext, test: str) -> GradingContext:
    """The same context, whose check names a test: then one can be graded though R itself has none."""
    loaded = context.loaded
    checks = tuple(check.model_copy(update={"fail_to_pass": (test,)}) for check in loaded.task.oracle.checks)
    oracle = loaded.task.oracle.model_copy(update={"checks": checks})
    task = loaded.task.model_copy(update={"oracle": oracle})
    return dataclasses.replace(context, loaded=dataclasses.replace(loaded, task=task))


class _Kept(BaseModel):
    """A proof on disk."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    unsteady: tuple[str, ...]
    duration_sec: float
    runs: int
    tolerance: float


class _Runs:
    """All runs of one parent and its fix."""

    def __init__(self, context: GradingContext, known: Circumstance) -> None:
        self._context = context
        self._known = known
        self._check = context.loaded.checks[0]
        self._memory_mb = context.spec.limits.memory_mb
        command = parse_pytest_command(self._check.command or "")
        if command is None:
            raise AssertionError(self._check.command)  # the command is ours
        self._command: PytestCommand = command
        self._patch = (context.loaded.reference_file or context.loaded.folder).read_bytes()

    def key(self, repeats: int) -> str:
        """What a proof depends on."""
        patch = hashlib.sha256(self._patch).hexdigest()
        return key_of("proof", PROOF_SCHEMA, check_key(self._context, self._check), patch, repeats)

    def prove(self, repeats: int) -> Proof:
        before = [self._parent(number) for number in range(repeats)]
        if not before[0].outcomes and not before[0].uncollected:
            # A conftest of the commit's own that the parent cannot import: no test is known by name yet.
            self._context = _requiring(self._context, f"{next(iter(self._known.sources), self._check.id)}::any")
        after = [self._fixed(self._context) for _ in range(repeats)]
        whys = {**before[0].whys, **{k: v for one in after for k, v in symptoms.whys_of(one.diagnostics).items()}}
        duration = max(one.duration_sec for one in before)
        try:
            proof = compare([one.outcomes for one in before], [one.tests for one in after], duration)
        except Unsuitable as error:
            raise self._explained(error, whys, after[0]) from None
        return self._slowly(proof) if symptoms.mentions_clock(self._known.sources.values()) else proof

    # --- the parent -------------------------------------------------------------------------------------------

    def _parent(self, number: int) -> BaseTestRun:
        try:
            # The first is cached: grading asks for it too, and so does a second harvest.
            make = run_tests_on_base if number else base_test_run
            run = make(self._context, self._check, self._command)
        except BrokenCheck as error:
            raise Unsuitable("tests cannot run", f"on the parent: {telling(error.message)}") from error
        if run.oom:
            raise self._out_of_memory("on the parent")
        if run.timed_out:
            raise self._hanging(run)
        if run.problem:
            at = next(iter(_begun(run)), "")
            raise Unsuitable(
                "tests cannot run",
                f"on the parent: {telling(run.problem)}{f', at {at}' if at else ''}",
                remedy="a parent that ends the process of its tests leaves no outcome for each; choose another commit, or write "
                "the task by hand with a test that starts a process of its own (ab task new)"
                if at
                else "",
            )
        return run

    def _hanging(self, run: BaseTestRun) -> Unsuitable:
        """Whether the parent hangs or everything is slow: the fix tells."""
        limit = self._check.timeout_sec
        missing = (test for test, outcome in run.outcomes.items() if outcome == "missing")
        at = next(iter([*_begun(run), *missing]), "")
        where = f", at {at}" if at else ""
        fixed = self._fixed(self._context)
        return Unsuitable(
            "hangs on parent",
            f"the tests end in {fixed.duration_sec:.1f} s with the fix and not in {limit} s on its parent{where}: "
            "every attempt that leaves the defect would take that long",
            remedy="choose another commit, or write the task by hand with a test that gives up by itself (ab task new)",
        )

    # --- the fix ----------------------------------------------------------------------------------------------

    def _fixed(self, context: GradingContext) -> CheckOutcome:
        graded = grade(self._patch, context)
        if graded.application.outcome is not Outcome.PASS:
            why = graded.application.why
            raise Unsuitable("patch", f"the fix does not apply to its parent as setup left it: {why}")
        seen = graded.checks[0].decided
        if OUT_OF_MEMORY in seen.why:
            raise self._out_of_memory("with the fix")
        if seen.timed_out:
            raise Unsuitable(
                "too slow",
                f"the tests take more than {self._check.timeout_sec} s, with the fix too",
                remedy="raise --timeout, or choose another commit",
            )
        if seen.outcome is Outcome.ERROR:
            raise Unsuitable("tests cannot run", f"with the fix: {telling(seen.why)}")
        grave = next((one for one in graded.findings if one.severity in {"gate", "error"}), None)
        if grave is not None:
            at = f" ({grave.path}:{grave.line})" if grave.path and grave.line else ""
            raise Unsuitable(
                "refused by the oracle",
                f"grading refuses the fix itself, so no solution like it could pass: {grave.rule}: {grave.detail}{at}",
            )
        return seen

    def _slowly(self, proof: Proof) -> Proof:
        """The fix once more on a slow machine; what fails there only is decided by the clock."""
        spec = self._context.spec
        limits = dataclasses.replace(spec.limits, cpus=min(SLOW_CPUS, spec.limits.cpus))
        try:
            slow = self._fixed(dataclasses.replace(self._context, spec=dataclasses.replace(spec, limits=limits))).tests
        except Unsuitable as error:
            if error.kind == "too slow":  # a quarter of the processor may need more time than is given
                return proof
            raise
        return slowed(proof, slow)

    # --- reasons ----------------------------------------------------------------------------------------------

    def _out_of_memory(self, where: str) -> Unsuitable:
        return Unsuitable(
            "out of memory",
            f"the tests use more than {self._memory_mb} MB {where} and were killed",
            remedy="raise --memory; a parent that eats all there is has to be left out, every failed attempt would do the same",
        )

    def _explained(self, error: Unsuitable, whys: Mapping[str, str], fixed: CheckOutcome) -> Unsuitable:
        """The same refusal, by its cause where what the tests said tells it; and with what tests are skipped for."""
        found = self._by_cause(error, whys, fixed)
        if found.kind in _UNSEEN:
            found.skips = symptoms.skip_reasons(fixed.tests, whys, self._known.sources)
        return found

    def _by_cause(self, error: Unsuitable, whys: Mapping[str, str], fixed: CheckOutcome) -> Unsuitable:
        if error.kind == "flaky":
            timed = symptoms.uses_clock(error.tests, self._known.sources, whys)
            return timing(timed, "give different outcomes from run to run") if timed else error
        if error.kind not in {"fails with the fix", "tests cannot run"}:
            return error
        failing = {test: why for test, why in whys.items() if fixed.tests.get(test) != "passed"}
        if not fixed.tests:
            failing |= {"": fixed.stdout.kept.decode("utf-8", "replace")}
            error = Unsuitable(error.kind, f"{error.message}{_first_error(failing[''])}", remedy=error.remedy)
        lacking = symptoms.missing_modules(failing.values())
        offline = symptoms.needs_network(failing)
        if offline:
            return Unsuitable(
                "needs network",
                f"tests reach for the network, which they do not get: {listed(offline)}",
                remedy="choose another commit: a verdict must not depend on somebody else's server",
            )
        if lacking:
            return Unsuitable(
                MISSING_MODULE,
                f"tests need modules that setup does not install: {listed(lacking)}",
                remedy="what the project declares for its tests does not bring them; choose another commit",
                tests=lacking,
            )
        moved = symptoms.moved_on(failing, self._known.newer, self._known.undated)
        if moved:
            said = next((why.splitlines()[-1] for why in failing.values() if why), "")
            return Unsuitable(
                "dependency drift",
                f"the tests fail even with the fix, on dependencies that have moved on since ({listed(moved)}): {said}",
                remedy="an index that tells when releases came out lets ab go back to that day",
            )
        return error
