"""The decision: gates, run status, primary reason, attribution. Total, deterministic, pure.

Run status (P3.1), first row that holds:

    invalid           ended by setup_failed, baseline_not_failing, sandbox_error, safety, operator_abort or interrupted;
                      or identity never bound or bound twice differently; or a mandatory check without exactly one
                      acceptance event; or no mandatory check at all; or no workspace (`repo: none`, judged only)
    acceptance_error  a mandatory check is `error`
    failure           a mandatory check is `fail`
    success           every mandatory check is `pass`

`passed` ⇔ success and all four gates pass. A non-pass has exactly one reason, the first of these that applies:

    reason                applies when                                            status            cause     attribution
    SETUP_FAILED          ended by setup_failed; contract without mandatory check  invalid           task      harness
    BASELINE_NOT_FAILING  ended by baseline_not_failing                            invalid           task      harness
    SANDBOX_ERROR         ended by sandbox_error; evidence missing or contradictory
                          and no row below explains it                             invalid           harness   harness
    SAFETY_STOP           ended by safety                                          invalid           safety    agent
    OPERATOR_ABORT        ended by operator_abort                                  invalid           operator  indeterminate
    INTERRUPTED           ended by interrupted                                     invalid           operator  indeterminate
    PATCH_INVALID         G1 is fail                                               any scorable                agent
    BUILD_FAILED          G2 is fail                                               any scorable                agent
    POLICY_VIOLATION      G4 is fail                                               any scorable                agent
    ACCEPTANCE_ERROR      status acceptance_error; or success and a gate is error  acceptance_error/success    harness; indeterminate
                                                                                                               when a check failed too
                          the task has no workspace: it is only judged             invalid           task      indeterminate
    LLM_ERROR             failure, ended by llm_error                              failure                     indeterminate
    BUDGET_EXHAUSTED      failure, ended by token, cost, tool call or failed cycle
                          cap, or dominance                                        failure                     agent
    TIMEOUT               failure, ended by wall_cap; or a failed mandatory check
                          ran out of time                                          failure                     agent
    TOOL_ERROR            failure, ended by agent_crashed                          failure                     agent
    AGENT_GAVE_UP         failure, ended by max_steps, repeated calls or installs,
                          oscillation, no_progress                                 failure                     agent
    TESTS_FAILED          failure                                                  failure                     agent

A safety stop makes the cause `safety` whatever else went wrong, so that trouble after an unsafe act cannot take the result out
of the contract rate (G-16). `harness` in an attribution means the evaluation's side: ours or the task's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agentbench.core.reasons import Assurance, Attribution, Gate, InvalidCause, Outcome, Reason, RunStatus
from agentbench.trace.events import GateResult, GatesDecided, Termination
from agentbench.verdict.facts import Facts, Seen, Usage
from agentbench.verdict.gates import Gates, judge
from agentbench.verdict.headline import Progress, explain, judged
from agentbench.verdict.required_evidence import acceptance_problem, identity_problem, mandatory_decisions
from agentbench.verdict.review import review_reasons
from agentbench.verdict.score import Components, Score, components, decomposed_score, graded_score
from agentbench.verdict.tags import Tag, assign_tags
from agentbench.verdict.termination_effects import INVALIDATING, badge_of, reason_of
from agentbench.verdict.terms import Terms, rubric_id
from agentbench.verdict.workspace_verdict import WorkspaceVerdict, workspace_verdict

_ORDER = {reason: rank for rank, reason in enumerate(Reason)}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Everything that was decided about one attempt."""

    gates: Mapping[Gate, GateResult]
    run_status: RunStatus
    invalid_cause: InvalidCause | None
    attribution: Attribution | None
    reason: Reason | None
    passed: bool
    why: str
    """One line for the headline: the reason in numbers or words."""
    review: tuple[str, ...]
    """Why a person should look; empty when nobody needs to."""
    run_badge: str
    components: Components
    score: Score | None
    decomposed: float
    """S of P2.4, for every attempt."""
    rubric: str
    """Names the numbers it was graded by."""
    tags: tuple[Tag, ...]
    termination: Seen[Termination] | None
    progress: Progress
    workspace: WorkspaceVerdict
    assurance: Assurance | None
    """Of the weakest mandatory check that was decided."""
    usage: Usage

    @property
    def needs_review(self) -> bool:
        return bool(self.review)

    def event(self) -> GatesDecided:
        """The decision as an event."""
        return GatesDecided(
            gates=dict(self.gates),
            run_status=self.run_status,
            invalid_cause=self.invalid_cause,
            attribution=self.attribution,
            reason=self.reason,
            passed=self.passed,
        )


@dataclass(frozen=True, slots=True)
class _Invalidity:
    reason: Reason
    cause: InvalidCause
    why: str


def decide(facts: Facts, terms: Terms) -> Verdict:
    """Decide an attempt from its facts alone."""
    gates = judge(facts, terms)
    invalid = _invalidity(facts, terms)
    status = RunStatus.INVALID if invalid else _scored_status(facts, terms)
    passed = status is RunStatus.SUCCESS and all(gate.passed for gate in gates.values())
    reason = None if passed else (invalid.reason if invalid else _scored_reason(facts, terms, gates, status))
    ending = _ending(facts, reason)
    progress = _progress(facts, terms)
    parts = components(facts, terms, gates, status)
    return Verdict(
        gates=gates,
        run_status=status,
        invalid_cause=invalid.cause if invalid else None,
        attribution=_attribution(facts, terms, reason, invalid),
        reason=reason,
        passed=passed,
        why=invalid.why if invalid else explain(reason, gates, ending.payload if ending else None, progress),
        review=review_reasons(facts, terms, status, passed=passed),
        run_badge=_badge(ending, status),
        components=parts,
        score=graded_score(facts, terms) if passed else None,
        decomposed=decomposed_score(parts, terms),
        rubric=rubric_id(terms.rubric),
        tags=assign_tags(facts, terms, gates, status),
        termination=ending,
        progress=progress,
        workspace=workspace_verdict(facts),
        assurance=_assurance(facts, terms),
        usage=facts.usage,
    )


# --- status -----------------------------------------------------------------------------------------------------------


def _invalidity(facts: Facts, terms: Terms) -> _Invalidity | None:
    """What makes the run invalid, or None when it is scorable."""
    ended = [
        _Invalidity(*INVALIDATING[stop.payload.code], stop.payload.rationale)
        for stop in facts.terminations
        if stop.payload.code in INVALIDATING
    ]
    if not terms.mandatory and not terms.judged_only:
        ended.append(_Invalidity(Reason.SETUP_FAILED, InvalidCause.TASK, "the contract has no mandatory check"))
    problem = identity_problem(facts) or acceptance_problem(facts, terms)
    if problem and not ended:
        ended.append(_Invalidity(Reason.SANDBOX_ERROR, InvalidCause.HARNESS, problem))
    if terms.judged_only:
        said = facts.judge.payload if facts.judge else None
        ended.append(_Invalidity(Reason.ACCEPTANCE_ERROR, InvalidCause.TASK, judged(said)))
    if not ended:
        return None
    first = min(ended, key=lambda one: _ORDER[one.reason])
    unsafe = any(one.cause is InvalidCause.SAFETY for one in ended)
    return _Invalidity(first.reason, InvalidCause.SAFETY if unsafe else first.cause, first.why)


def _scored_status(facts: Facts, terms: Terms) -> RunStatus:
    outcomes = {one.payload.outcome for one in mandatory_decisions(facts, terms)}
    if Outcome.ERROR in outcomes:
        return RunStatus.ACCEPTANCE_ERROR
    return RunStatus.FAILURE if Outcome.FAIL in outcomes else RunStatus.SUCCESS


# --- reason -----------------------------------------------------------------------------------------------------------


def _scored_reason(facts: Facts, terms: Terms, gates: Gates, status: RunStatus) -> Reason:
    """The first reason that applies to a scorable run that did not pass."""
    failed_gates = ((Gate.G1, Reason.PATCH_INVALID), (Gate.G2, Reason.BUILD_FAILED), (Gate.G4, Reason.POLICY_VIOLATION))
    apply = {reason for gate, reason in failed_gates if gates[gate].outcome is Outcome.FAIL}
    if status is RunStatus.FAILURE:
        apply |= _failure_reasons(facts, terms)
    else:
        # An acceptance error, or a success that some gate could not confirm.
        apply.add(Reason.ACCEPTANCE_ERROR)
    return min(apply, key=_ORDER.__getitem__)


def _failure_reasons(facts: Facts, terms: Terms) -> set[Reason]:
    apply = {Reason.TESTS_FAILED}
    apply |= {reason for stop in facts.terminations if (reason := reason_of(stop.payload.code)) is not None}
    if any(one.payload.timed_out and one.payload.outcome is Outcome.FAIL for one in mandatory_decisions(facts, terms)):
        apply.add(Reason.TIMEOUT)
    return apply


def _attribution(facts: Facts, terms: Terms, reason: Reason | None, invalid: _Invalidity | None) -> Attribution | None:
    if reason is None:
        return None
    if reason is Reason.ACCEPTANCE_ERROR and invalid is not None:
        return Attribution.INDETERMINATE
    if invalid is not None:
        by_cause = {
            InvalidCause.HARNESS: Attribution.HARNESS,
            InvalidCause.TASK: Attribution.HARNESS,
            InvalidCause.SAFETY: Attribution.AGENT,
            InvalidCause.OPERATOR: Attribution.INDETERMINATE,
        }
        return by_cause[invalid.cause]
    if reason is Reason.ACCEPTANCE_ERROR:
        failed = any(one.payload.outcome is Outcome.FAIL for one in mandatory_decisions(facts, terms))
        return Attribution.INDETERMINATE if failed else Attribution.HARNESS
    return Attribution.INDETERMINATE if reason is Reason.LLM_ERROR else Attribution.AGENT


# --- what goes with it ------------------------------------------------------------------------------------------------


def _ending(facts: Facts, reason: Reason | None) -> Seen[Termination] | None:
    """The termination the record shows: the one that made the reason, else the first."""
    made = (stop for stop in facts.terminations if reason is not None and reason_of(stop.payload.code) is reason)
    return next(made, facts.terminations[0] if facts.terminations else None)


def _badge(ending: Seen[Termination] | None, status: RunStatus) -> str:
    """How the run itself went, whatever the verdict."""
    if ending is None:
        return "error" if status is RunStatus.INVALID else "completed"
    return badge_of(ending.payload.code)


def _progress(facts: Facts, terms: Terms) -> Progress:
    decided = [one.payload for one in mandatory_decisions(facts, terms)]
    short = [one for one in decided if one.outcome is not Outcome.PASS]
    return Progress(
        f2p_passed=sum(one.f2p_passed for one in decided),
        f2p_total=sum(one.f2p_total for one in decided),
        p2p_kept=sum(one.p2p_kept for one in decided),
        p2p_total=sum(one.p2p_total for one in decided),
        checks_short=len(short),
        checks_total=len(terms.mandatory),
        first_short=f"{short[0].check_id}: {short[0].why}" if short else "",
    )


def _assurance(facts: Facts, terms: Terms) -> Assurance | None:
    strength = list(Assurance)
    named = [one.payload.assurance for one in mandatory_decisions(facts, terms)]
    known = [Assurance(name) for name in named if name in strength]
    return max(known, key=strength.index) if known else None
