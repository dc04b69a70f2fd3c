"""Probe checks: a driver in a sandbox of its own talks to the candidate's program and checks its answers.

The driver never shares a process, a file system or a descriptor with candidate code: the host connects stdin and stdout
of the two, and results leave through the driver's side channel only.
"""

from __future__ import annotations

import dataclasses
import json
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import field
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from agentbench.acceptance.cache import load_or_make
from agentbench.acceptance.cache_keys import check_key, reference_key
from agentbench.acceptance.candidate import BaseCandidate, BuildFailed, Candidate, Reference
from agentbench.acceptance.checks.exit_status import CANNOT_START, timed_out
from agentbench.acceptance.checks.required_tests import Requirement, declared_requirement, summarize, tally
from agentbench.acceptance.checks.startup import with_start_problem
from agentbench.acceptance.events import CheckStep
from agentbench.acceptance.grading_context import CheckOutcome, GradingContext
from agentbench.acceptance.replica import ENV, base_entries, grading_spec
from agentbench.contract.schema import Check
from agentbench.core.command import MIB, Command, Completed
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import AgentFault, ContractError, SandboxError, TaskError
from agentbench.core.reasons import Assurance, Outcome
from agentbench.sandbox.protocol import Mount, RunningCommand, Sandbox

DRIVER_FOLDER = "/opt/driver"
GRACE_SEC = 1.0
"""Time that the candidate's program has to exit after the driver ended and its input was closed."""
MAX_BACKLOG = 16 * MIB
MAX_TESTS = 100_000


@dataclass(slots=True)
class DriverReport:
    """The results that the driver reported."""

    outcomes: dict[str, str] = field(default_factory=dict)
    whys: dict[str, str] = field(default_factory=dict)
    problem: str = ""
    """Why the report is incomplete or malformed; empty if it is neither."""
    may_be_caused: bool = False
    """Answers of a candidate can cause the problem in a sound driver: an id comes twice, the report ends early, or a line
    repeats an answer that is nested too deeply, or has a number too long, for the parser of the host."""


def read_driver_report(data: bytes) -> DriverReport:
    """Read the JSON lines of a driver: results with distinct ids, then their number."""
    report = DriverReport()
    lines = [line for line in data.split(b"\n") if line.strip()]
    if not lines:
        report.problem, report.may_be_caused = "the driver reported no results", True
        return report
    for number, line in enumerate(lines[:-1], start=1):
        try:
            value = json.loads(line)
            test, outcome, why = value["id"], value["outcome"], value.get("why", "")
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
            report.problem = f"line {number} of the driver's results cannot be read"
            report.may_be_caused = isinstance(error, ValueError | RecursionError)
            return report
        if not isinstance(test, str) or outcome not in {"pass", "fail"} or test in report.outcomes:
            report.problem = f"line {number} of the driver's results has no new id with outcome pass or fail"
            report.may_be_caused = isinstance(test, str) and test in report.outcomes
            return report
        report.outcomes[test] = "passed" if outcome == "pass" else "failed"
        report.whys[test] = str(why)[:1000]
    report.problem, report.may_be_caused = _end_problem(lines[-1], len(lines) - 1)
    return report


def _end_problem(line: bytes, count: int) -> tuple[str, bool]:
    """Return what is wrong with the last line, and whether answers of a candidate can cause it."""
    try:
        end = json.loads(line)
    except (ValueError, RecursionError):
        end = None
    if not isinstance(end, dict) or end.get("end") is None:
        return "the driver's results have no end line", True
    if end["end"] == count == 0:
        return "the driver reported no results", True
    if end["end"] != count or count > MAX_TESTS:
        return f"the driver's end line counts {end['end']} results, but it reported {count}", False
    return "", False


@dataclass(frozen=True, slots=True)
class Conversation:
    """Results of the candidate's program and of the driver."""

    program: Completed
    driver: Completed
    program_ended_first: bool
    """The program had ended before the driver did.

    The host observes the order of the two ends. Durations do not show it, because the processes start one after the other.
    """


class Pipe:
    """One direction of the conversation: fed by a reader thread that must not block, drained by a thread of its own."""

    def __init__(self, *, on_flood: Callable[[], None]) -> None:
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting = 0
        self._on_flood = on_flood
        self.flooded = False
        self._thread: threading.Thread | None = None

    def feed(self, data: bytes) -> None:
        with self._lock:
            self._waiting += len(data)
            flood = self._waiting > MAX_BACKLOG and not self.flooded
            self.flooded |= flood
        if flood:
            self._on_flood()
        if not self.flooded:
            self._queue.put(data)

    def end(self) -> None:
        self._queue.put(None)

    def pump_to(self, target: RunningCommand) -> None:
        self._thread = threading.Thread(target=self._pump, args=(target,), daemon=True)
        self._thread.start()

    def _pump(self, target: RunningCommand) -> None:
        while (data := self._queue.get()) is not None:
            target.write(data)
            with self._lock:
                self._waiting -= len(data)
        target.close_stdin()

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join(GRACE_SEC)


def run_probe_check(candidate: Candidate, check: Check, step: CheckStep) -> CheckOutcome:
    """Run the candidate's program and the driver against each other, and decide by the driver's results.

    Raises:
        BuildFailed: the build did not pass.
        SandboxError: a sandbox failed.
    """
    conversation = _run(candidate, check, step)
    driver = conversation.driver
    outcome = _decide_probe(check, conversation)
    started = with_start_problem(candidate, check.candidate or "", conversation.program, outcome)
    if started.not_started or outcome.outcome is not Outcome.ERROR:
        return started
    # Answers of a candidate can crash the driver, make it stop early, flood its side channel or spoil its results.
    caused = driver.exit_code != 0 or driver.side_truncated or read_driver_report(driver.side).may_be_caused
    blame = _reason_to_blame_candidate(candidate, check, conversation) if caused else ""
    if blame:
        return dataclasses.replace(outcome, outcome=Outcome.FAIL, why=f"{blame}: {outcome.why}")
    if driver.exit_code in CANNOT_START and not driver.side:
        problem = driver.stderr.kept.decode("utf-8", "replace").strip()[:200] or f"exit {driver.exit_code}"
        return dataclasses.replace(
            outcome,
            why=f"the driver cannot be started: {problem}",
            not_started=f"driver {check.driver}: {problem}",
            starts_on_base=False,
        )
    return outcome


class ProbeOfBase(BaseModel):
    """The result of the driver on the base repository: `whole` if it finished its report, `starts` if it could start."""

    model_config = ConfigDict(frozen=True, defer_build=True)
    whole: bool
    starts: bool = True


class ProbeOfReference(ProbeOfBase):
    """The result of the driver with the reference."""


def probe_of_base(context: GradingContext, check: Check) -> ProbeOfBase:
    """Run the driver on the base repository; cached.

    Raises:
        SandboxError: a sandbox failed.
    """
    base = BaseCandidate(context.unlogged(), base_entries(context))
    return load_or_make(context.cache, check_key(context, check), ProbeOfBase, lambda: _probe(base, check))[0]


def _reason_to_blame_candidate(candidate: Candidate, check: Check, conversation: Conversation) -> str:
    """Return why the candidate and not the driver is to blame for an incomplete report; empty if the driver is.

    A base repository without the program may be unable to finish any probe, so the reference decides, if there is one.
    Without one the candidate is to blame: its answers are all that differs from a probe that works. Validation rejects
    such a task, because nothing shows that its driver works.
    """
    context = candidate.context
    base = probe_of_base(context, check)
    if base.whole:
        return "the driver finishes on the base repository but not with this candidate"
    if candidate.reference_file is None and not context.reference_evidence.is_recorded(check.id, ProbeOfReference):
        if conversation.program_ended_first and conversation.program.exit_code is not None:
            return f"the candidate's program exited with {conversation.program.exit_code} during the probe"
        is_patch = not isinstance(candidate, BaseCandidate | Reference)
        return "the driver does not finish with this candidate" if is_patch and base.starts else ""
    key = reference_key(context, check, candidate.reference_file)

    def probe_reference() -> ProbeOfReference:
        try:
            reference = candidate.reference()
        except (TaskError, ContractError, AgentFault):
            reference = None  # validation reports it; here it shows nothing
        return ProbeOfReference(whole=reference is not None and _probe(reference, check).whole)

    result = context.reference_evidence.result(context.cache, check.id, key, ProbeOfReference, probe_reference)
    return "the driver finishes with the reference but not with this candidate" if result.whole else ""


def _probe(other: Candidate, check: Check) -> ProbeOfBase:
    """Run the driver against another candidate, outside the attempt's log."""
    try:
        driver = converse_outside_log(other, check).driver
    except BuildFailed:
        return ProbeOfBase(whole=False)
    starts = driver.exit_code not in CANNOT_START or bool(driver.side)
    return ProbeOfBase(whole=driver.exit_code == 0 and not read_driver_report(driver.side).problem, starts=starts)


def converse_outside_log(candidate: Candidate, check: Check) -> Conversation:
    """Run the driver against a candidate whose context has no log.

    Raises:
        BuildFailed: the build did not pass.
        SandboxError: a sandbox failed.
    """
    return _run(candidate, check, CheckStep(candidate.context, check, check.id))


def _run(candidate: Candidate, check: Check, step: CheckStep) -> Conversation:
    """Run the candidate's program and the driver against each other."""
    context = candidate.context
    driver = context.loaded.driver_file(check)
    with (
        _driver_box(context, driver) as driver_box,
        candidate.replica(candidate.tree_without_hidden_tests()) as candidate_box,
    ):
        step.start()
        return _converse(context, check, candidate_box, driver_box(), driver.name)


@contextmanager
def _driver_box(context: GradingContext, driver: Path) -> Iterator[Callable[[], Sandbox]]:
    """Open a sandbox with the base repository and nothing of the candidate, while the candidate's replica opens."""
    spec = grading_spec(context, [Mount(driver, f"{DRIVER_FOLDER}/{driver.name}")])
    with ExitStack() as opened, ThreadPoolExecutor(1, thread_name_prefix="driver") as aside:
        yield aside.submit(lambda: opened.enter_context(context.backend.open(spec, context.prepared))).result


def _converse(
    context: GradingContext, check: Check, candidate_box: Sandbox, driver_box: Sandbox, name: str
) -> Conversation:
    candidate: RunningCommand | None = None

    def stop_flood() -> None:
        if candidate is not None:
            candidate.kill()

    to_driver, to_candidate = Pipe(on_flood=stop_flood), Pipe(on_flood=lambda: None)
    line = check.candidate or ""
    candidate_command = Command(line=line, cwd=context.spec.workdir, env=ENV, timeout_sec=check.timeout_sec + GRACE_SEC)
    candidate = candidate_box.start(candidate_command, on_stdout=to_driver.feed)
    driver = driver_box.start(_driver_command(check, name), on_stdout=to_candidate.feed)
    to_driver.pump_to(driver)
    to_candidate.pump_to(candidate)
    ended: list[Completed] = []

    def wait_for_candidate() -> None:
        # If its sandbox was lost, the last line below gets the error again.
        with suppress(SandboxError):
            ended.append(candidate.wait())
        to_driver.end()

    waiting = threading.Thread(target=wait_for_candidate, daemon=True)
    waiting.start()
    try:
        driver_completed = driver.wait()
        # The driver's input ends only after the program's result is in `ended`, so an exit that stopped the driver is seen here.
        program_ended_first = bool(ended)
    finally:
        to_candidate.end()
        waiting.join(GRACE_SEC)
        if waiting.is_alive():
            candidate.kill()
            waiting.join(GRACE_SEC)
        to_driver.join()
        to_candidate.join()
    return Conversation(ended[0] if ended else candidate.wait(), driver_completed, program_ended_first)


def _driver_command(check: Check, name: str) -> Command:
    path = f"{DRIVER_FOLDER}/{name}"
    argv = ("python", "-I", path) if name.endswith(".py") else ("sh", path)
    return Command(argv=argv, cwd="/tmp", env=ENV, timeout_sec=check.timeout_sec, side_channel=True)


def _decide_probe(check: Check, conversation: Conversation) -> CheckOutcome:
    program, driver = conversation.program, conversation.driver
    report = read_driver_report(driver.side)
    outcome, why = Outcome.PASS, ""
    if driver.timed_out:
        outcome, why = Outcome.FAIL, timed_out(driver, f"limit {check.timeout_sec:g} s")
    elif driver.exit_code != 0 or report.problem:
        outcome, why = _decide_without_report(conversation, report)
    requirement = declared_requirement(check) or Requirement(pass_to_pass=tuple(report.outcomes))
    counted = tally(requirement, report.outcomes)
    if outcome is Outcome.PASS:
        outcome, why = (Outcome.FAIL if counted.failing else Outcome.PASS), summarize(counted)
    return CheckOutcome(
        outcome=outcome,
        why=why,
        assurance=Assurance.OUT_OF_PROCESS,
        exit_code=driver.exit_code,
        duration_sec=driver.duration_sec,
        timed_out=driver.timed_out,
        stdout=program.stdout,
        stderr=driver.stderr if driver.exit_code else program.stderr,
        tests=report.outcomes,
        failing=counted.failing,
        diagnostics="\n".join(f"{test}: {report.whys.get(test, 'not reported')}" for test in counted.failing[:20]),
        f2p_passed=counted.f2p_passed,
        f2p_total=len(requirement.fail_to_pass),
        p2p_kept=counted.p2p_kept,
        p2p_total=len(requirement.pass_to_pass),
    )


def _decide_without_report(conversation: Conversation, report: DriverReport) -> tuple[Outcome, str]:
    """Decide a probe whose driver did not finish: its own fault, unless the candidate's program crashed first."""
    program, driver = conversation.program, conversation.driver
    problem = report.problem or f"the driver failed with exit {driver.exit_code}"
    crashed = program.exit_code not in {0, None} and conversation.program_ended_first
    if crashed or program.oom:
        return Outcome.FAIL, f"the candidate's program exited with {program.exit_code} during the probe; {problem}"
    tail = driver.stderr.kept.decode("utf-8", "replace").strip()[-200:]
    return Outcome.ERROR, f"{problem}: {tail}" if tail else problem
