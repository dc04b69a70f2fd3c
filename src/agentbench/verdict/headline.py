"""The first line of any verdict: the decision, then why, in one line that is safe to print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from agentbench.core.reasons import Gate, Outcome, Reason, RunStatus, TerminationCode
from agentbench.core.text import printable
from agentbench.verdict.termination_effects import INVALIDATING, reason_of

WIDTH = 200
UNPARSEABLE = "unparseable"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the required tests and mandatory checks got."""

    f2p_passed: int = 0
    f2p_total: int = 0
    p2p_kept: int = 0
    p2p_total: int = 0
    checks_short: int = 0
    """Mandatory checks that did not pass."""
    checks_total: int = 0
    first_short: str = ""

    @property
    def required(self) -> int:
        return self.f2p_total + self.p2p_total

    @property
    def missed(self) -> int:
        return self.required - self.f2p_passed - self.p2p_kept

    def __str__(self) -> str:
        if self.missed > 0:
            return f"{self.missed} of {self.required} required tests"
        if self.checks_short:
            return f"{self.checks_short} of {self.checks_total} mandatory checks ({self.first_short})"
        return ""


class Whying(Protocol):
    """A gate's words."""

    @property
    def outcome(self) -> Outcome: ...

    @property
    def why(self) -> str: ...


class _Result(Protocol):
    @property
    def passed(self) -> bool: ...

    @property
    def failure_reason(self) -> Reason | None: ...


class _Progress(Protocol):
    @property
    def f2p_passed(self) -> int: ...

    @property
    def f2p_total(self) -> int: ...

    @property
    def p2p_kept(self) -> int: ...

    @property
    def p2p_total(self) -> int: ...


class _Check(Protocol):
    @property
    def id(self) -> str: ...

    @property
    def mandatory(self) -> bool: ...

    @property
    def outcome(self) -> Outcome: ...

    @property
    def why(self) -> str: ...


class Ending(Protocol):
    """Why the agent's phase ended."""

    @property
    def code(self) -> TerminationCode: ...

    @property
    def rationale(self) -> str: ...


class _Excerpt(Protocol):
    @property
    def text(self) -> str: ...


class Opinion(Protocol):
    """What a judge said."""

    @property
    def verdict(self) -> str: ...

    @property
    def failure_mode(self) -> str | None: ...

    @property
    def reasoning(self) -> str | _Excerpt: ...


class VerdictLike(Protocol):
    @property
    def passed(self) -> bool: ...

    @property
    def run_status(self) -> RunStatus: ...

    @property
    def reason(self) -> Reason | None: ...

    @property
    def why(self) -> str: ...


@runtime_checkable
class _Judged(Protocol):
    @property
    def judge(self) -> Opinion | None: ...


@runtime_checkable
class RecordLike(Protocol):
    """The parts of an attempt record that its headline is made of."""

    @property
    def run_status(self) -> RunStatus: ...

    @property
    def result(self) -> _Result: ...

    @property
    def gates(self) -> Mapping[Gate, Whying]: ...

    @property
    def checks(self) -> Sequence[_Check]: ...

    @property
    def progress(self) -> _Progress: ...

    @property
    def termination(self) -> Ending | None: ...


_BY_GATE: Mapping[Reason, Gate] = {
    Reason.PATCH_INVALID: Gate.G1,
    Reason.BUILD_FAILED: Gate.G2,
    Reason.POLICY_VIOLATION: Gate.G4,
}


def explain(reason: Reason | None, gates: Mapping[Gate, Whying], ending: Ending | None, progress: Progress) -> str:
    """Why, in one line, from the part of the evidence that the reason points at."""
    if reason is None:
        return ""
    if reason in _BY_GATE:
        return gates[_BY_GATE[reason]].why
    # The words of an ending count only when that ending is what the reason names.
    said = ending.rationale if ending is not None and reason_of(ending.code) is reason else ""
    if reason in _UNDECIDED:
        return said or next((gate.why for gate in gates.values() if gate.outcome is Outcome.ERROR and gate.why), "")
    shortfall = str(progress)
    if reason is Reason.TIMEOUT and not said:
        said = gates[Gate.G3].why
        # Without tests the gate names the check and its time already.
        shortfall = shortfall if progress.missed > 0 else ""
    return f"{said}; {shortfall}" if said and shortfall else said or shortfall


_UNDECIDED = frozenset({Reason.ACCEPTANCE_ERROR, *(reason for reason, _ in INVALIDATING.values())})
"""Reasons that say a decision was not reached: never explained by how many tests failed."""


def judged_only(status: RunStatus, reason: Reason | None) -> bool:
    """Whether nothing but a judge could say anything: of all invalid attempts, only those of tasks without a workspace."""
    return status is RunStatus.INVALID and reason is Reason.ACCEPTANCE_ERROR


def judged(said: Opinion | None) -> str:
    """The decision about an attempt that is only judged."""
    if said is None:
        return "NOT JUDGED: the task has no workspace, and no judge was asked"
    why = said.failure_mode or ""
    if said.verdict == UNPARSEABLE:
        # There is no opinion; the first line of what stands in its place says why.
        text = said.reasoning if isinstance(said.reasoning, str) else said.reasoning.text
        why = text.partition("\n")[0]
    shown = printable(" ".join(why.split()))[:WIDTH]
    return f"JUDGED {said.verdict}: {shown}" if shown else f"JUDGED {said.verdict}"


def headline(subject: VerdictLike | RecordLike) -> str:
    """`PASS`, `FAIL TESTS_FAILED: 2 of 14 required tests`, `ERROR ACCEPTANCE_ERROR: …`, `INVALID SETUP_FAILED: …`.

    A task without a workspace has no gates to pass: `JUDGED PASS`, `JUDGED FAIL: …`, `NOT JUDGED: …`.
    """
    if isinstance(subject, RecordLike):
        passed, reason, why = subject.result.passed, subject.result.failure_reason, _record_why(subject)
    else:
        passed, reason, why = subject.passed, subject.reason, subject.why
    if passed:
        return "PASS"
    if judged_only(subject.run_status, reason):
        return judged(subject.judge) if isinstance(subject, _Judged) else why
    word = "FAIL"
    if subject.run_status is RunStatus.INVALID:
        word = "INVALID"
    elif reason is Reason.ACCEPTANCE_ERROR:
        word = "ERROR"
    line = " ".join(f"{word} {reason or ''}".split())
    said = printable(" ".join(why.split()))
    return f"{line}: {said[:WIDTH]}{'…' if len(said) > WIDTH else ''}" if said else line


def _record_why(record: RecordLike) -> str:
    short = [one for one in record.checks if one.mandatory and one.outcome is not Outcome.PASS]
    progress = Progress(
        f2p_passed=record.progress.f2p_passed,
        f2p_total=record.progress.f2p_total,
        p2p_kept=record.progress.p2p_kept,
        p2p_total=record.progress.p2p_total,
        checks_short=len(short),
        checks_total=sum(one.mandatory for one in record.checks),
        first_short=f"{short[0].id}: {short[0].why}" if short else "",
    )
    return explain(record.result.failure_reason, record.gates, record.termination, progress)
