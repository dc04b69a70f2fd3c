"""The first line of a verdict: the decision and the reason, in one line that is safe to print."""

from __future__ import annotations

from collections.abc import Mapping

from agentbench.core.dataclass import dataclass
from agentbench.core.reasons import Attribution, Gate, Outcome, Reason, RunStatus, TerminationCode
from agentbench.core.text import printable
from agentbench.trace.events import GateResult
from agentbench.verdict.termination_effects import INVALIDATING, reason_of

WIDTH = 200
UNPARSEABLE = "unparseable"

_GATE_OF_REASON: Mapping[Reason, Gate] = {
    Reason.PATCH_INVALID: Gate.G1,
    Reason.BUILD_FAILED: Gate.G2,
    Reason.POLICY_VIOLATION: Gate.G4,
}
_UNDECIDED = frozenset({Reason.ACCEPTANCE_ERROR, *(reason for reason, _ in INVALIDATING.values())})
"""Reasons that mean no decision was reached. The number of failed tests never explains them."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Passed and required tests, and mandatory checks that did not pass."""

    f2p_passed: int = 0
    f2p_total: int = 0
    p2p_kept: int = 0
    p2p_total: int = 0
    checks_not_passed: int = 0
    checks_total: int = 0
    first_not_passed: str = ""

    @property
    def required(self) -> int:
        return self.f2p_total + self.p2p_total

    @property
    def missed(self) -> int:
        return self.required - self.f2p_passed - self.p2p_kept

    def __str__(self) -> str:
        if self.missed > 0:
            return f"{self.missed} of {self.required} required tests"
        if self.checks_not_passed:
            return f"{self.checks_not_passed} of {self.checks_total} mandatory checks ({self.first_not_passed})"
        return ""


def explain(
    reason: Reason | None,
    gates: Mapping[Gate, GateResult],
    ended: tuple[TerminationCode, str] | None,
    progress: Progress,
) -> str:
    """Explain a reason in one line, from the gate, the termination (`ended`: code and rationale) or the test counts."""
    if reason is None:
        return ""
    if reason in _GATE_OF_REASON:
        return gates[_GATE_OF_REASON[reason]].why
    # A termination explains the reason only if the reason comes from it.
    rationale = ended[1] if ended is not None and reason_of(ended[0]) is reason else ""
    if reason in _UNDECIDED:
        undecided = (gate.why for gate in gates.values() if gate.outcome is Outcome.ERROR and gate.why)
        return rationale or next(undecided, "")
    counts = str(progress)
    if reason is Reason.TIMEOUT and not rationale:
        rationale = gates[Gate.G3].why
        # Without required tests the gate already names the check and its time.
        counts = counts if progress.missed > 0 else ""
    return f"{rationale}; {counts}" if rationale and counts else rationale or counts


def judged_only(status: RunStatus, reason: Reason | None, attribution: str | None) -> bool:
    """Return whether a judge is the only source of a result: the task has no workspace, so no check can run."""
    undecidable = status is RunStatus.INVALID and reason is Reason.ACCEPTANCE_ERROR
    return undecidable and attribution == Attribution.INDETERMINATE


def describe_judgement(verdict: str | None, failure_mode: str | None = None, reasoning: str = "") -> str:
    """Describe the result of an attempt that has only a judge. `verdict` is None if no judge was asked."""
    if verdict is None:
        return "NOT JUDGED: the task has no workspace, and no judge was asked"
    # An unparseable answer has no failure mode; the first line of its text says what was wrong with it.
    why = reasoning.partition("\n")[0] if verdict == UNPARSEABLE else failure_mode or ""
    shown = printable(" ".join(why.split()))[:WIDTH]
    return f"JUDGED {verdict}: {shown}" if shown else f"JUDGED {verdict}"


def headline(
    status: RunStatus, reason: Reason | None, attribution: Attribution | None, why: str, *, passed: bool
) -> str:
    """Format `PASS`, `FAIL TESTS_FAILED: 2 of 14 required tests`, `ERROR ACCEPTANCE_ERROR: …`, `INVALID SETUP_FAILED: …`.

    For a task without a workspace the line is `why`, see `describe_judgement`.
    """
    if passed:
        return "PASS"
    if judged_only(status, reason, attribution):
        return why
    word = "FAIL"
    if status is RunStatus.INVALID:
        word = "INVALID"
    elif reason is Reason.ACCEPTANCE_ERROR:
        word = "ERROR"
    decision = f"{word} {reason}" if reason else word
    shown = printable(" ".join(why.split()))
    return f"{decision}: {shown[:WIDTH]}{'…' if len(shown) > WIDTH else ''}" if shown else decision
