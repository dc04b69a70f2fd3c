"""Try the driver of a probe on the base repository and with the reference, and explain what is wrong with it."""

from __future__ import annotations

from agentbench.acceptance.candidate import BaseCandidate, BuildFailed, Candidate
from agentbench.acceptance.checks.exit_status import CANNOT_START
from agentbench.acceptance.checks.probe import Conversation, converse_outside_log, read_driver_report
from agentbench.acceptance.grade import protection_of
from agentbench.acceptance.grading_context import GradingContext
from agentbench.acceptance.replica import base_entries
from agentbench.contract.schema import Check
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import AgentFault, ContractError, TaskError

_TAIL = 600
_LISTED = 8


@dataclass(frozen=True, slots=True)
class ProbeTrial:
    """One conversation between driver and program."""

    program: str
    """`base repository` or `reference`."""
    problem: str
    """Why the driver did not finish; empty if it did."""
    results: tuple[tuple[str, str, str], ...] = ()
    """Id, outcome and reason of each result."""
    driver_stderr: str = ""
    program_stderr: str = ""

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(test for test, _, _ in self.results)

    @property
    def failed(self) -> list[str]:
        return [test for test, outcome, _ in self.results if outcome != "passed"]


@dataclass(frozen=True, slots=True)
class ProbeTrials:
    """The trials of one check and what is wrong with its driver."""

    check: str
    trials: tuple[ProbeTrial, ...]
    problems: tuple[str, ...]


def try_probe(context: GradingContext, check: Check) -> ProbeTrials:
    """Run the driver of a check on the base repository and with the reference.

    Raises:
        SandboxError: a sandbox failed.
    """
    context = context.unlogged()
    base = _try(BaseCandidate(context, base_entries(context)), check, "base repository")
    whole = Candidate(context, base_entries(context), protection=protection_of(context))
    try:
        reference = whole.reference()
    except (TaskError, ContractError, AgentFault) as error:
        problems = [*find_problems(check, base, None), f"the reference cannot be applied: {error.message}"]
        return ProbeTrials(check.id, (base,), tuple(problems))
    if reference is None:
        return ProbeTrials(check.id, (base,), (*find_problems(check, base, None), _NO_REFERENCE))
    solved = _try(reference, check, "reference")
    return ProbeTrials(check.id, (base, solved), tuple(find_problems(check, base, solved)))


_NO_REFERENCE = "the task has no reference, so nothing shows that the driver accepts a correct program"


def _try(candidate: Candidate, check: Check, program: str) -> ProbeTrial:
    try:
        conversation = converse_outside_log(candidate, check)
    except BuildFailed as failure:
        return ProbeTrial(program, f"the build failed: {failure.step.why}")
    report = read_driver_report(conversation.driver.side)
    results = tuple((test, outcome, report.whys.get(test, "")) for test, outcome in report.outcomes.items())
    return ProbeTrial(
        program,
        _why_unfinished(check, conversation, report.problem),
        results,
        _tail(conversation.driver.stderr.kept),
        _tail(conversation.program.stderr.kept),
    )


def _why_unfinished(check: Check, conversation: Conversation, report_problem: str) -> str:
    driver, program = conversation.driver, conversation.program
    if driver.timed_out:
        return (
            f"the driver did not end within {check.timeout_sec:g} s: it may wait for an answer that the program does not "
            "send (must the program flush its output?), or not notice that the program has ended"
        )
    if driver.exit_code in CANNOT_START and not driver.side:
        return f"the driver cannot be started (exit {driver.exit_code})"
    if driver.exit_code != 0:
        ended = (
            f"; the program had ended before, with exit {program.exit_code}" if conversation.program_ended_first else ""
        )
        return f"the driver failed with exit {driver.exit_code}{ended}"
    if report_problem:
        return f'{report_problem}: write one line {{"id", "outcome", "why"}} per result and {{"end": N}} at the end'
    return ""


def _tail(output: bytes) -> str:
    return output.decode("utf-8", "replace").strip()[-_TAIL:]


def find_problems(check: Check, base: ProbeTrial, solved: ProbeTrial | None) -> list[str]:
    """Return what is wrong with a driver, from its trials on the base repository and with the reference. Pure."""
    problems = []
    if solved is not None and solved.problem:
        problems.append(f"with the reference: {solved.problem}")
    elif base.problem and solved is None:
        problems.append(f"on the base repository: {base.problem}")
    if not base.problem and not base.failed:
        problems.append("every result passes on the base repository: the driver asks nothing that the task changes")
    if solved is None or solved.problem:
        return problems
    if solved.failed:
        reasons = [f"{test} ({why})" if why else test for test, outcome, why in solved.results if outcome != "passed"]
        problems.append(f"results fail with the reference: {_listed(reasons)}")
    if not base.problem and set(base.ids) != set(solved.ids):
        different = sorted(set(base.ids) ^ set(solved.ids))
        problems.append(f"ids depend on the answers, so they cannot be required: {_listed(different)}")
    missing = [test for test in (*check.fail_to_pass, *check.pass_to_pass) if test not in solved.ids]
    if missing:
        problems.append(f"required results are not reported with the reference: {_listed(missing)}")
    return problems


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"{', '.join(names[:_LISTED])}{more}"
