"""Decides an attempt: gates, run status, primary reason, attribution. Total, deterministic, pure.

Run status, the first row that holds:

    invalid           ended by setup_failed, baseline_not_failing, check_broken, sandbox_error, safety, operator_abort,
                      interrupted, total_budget or model_unavailable; or the identity was never bound, or bound twice differently; or a mandatory check without exactly one
                      acceptance event; or no mandatory check at all; or no workspace (`repo: none`, judge only)
    acceptance_error  a mandatory check is `error`
    failure           a mandatory check is `fail`
    success           every mandatory check is `pass`

`passed` ⇔ success and all four gates pass. A non-pass has exactly one reason, the first of these that applies:

    reason                applies when                                            status            cause     attribution
    SETUP_FAILED          ended by setup_failed; task without mandatory check      invalid           task      harness
    BASELINE_NOT_FAILING  ended by baseline_not_failing                            invalid           task      harness
    SANDBOX_ERROR         ended by sandbox_error; evidence missing or contradictory
                          and no row below explains it                             invalid           harness   harness
    SAFETY_STOP           ended by safety                                          invalid           safety    agent
    OPERATOR_ABORT        ended by operator_abort                                  invalid           operator  indeterminate
    INTERRUPTED           ended by interrupted or total_budget                     invalid           operator  indeterminate
    PATCH_INVALID         G1 is fail                                               any scorable                agent
    BUILD_FAILED          G2 is fail                                               any scorable                agent
    POLICY_VIOLATION      G4 is fail                                               any scorable                agent
    ACCEPTANCE_ERROR      status acceptance_error; or success and a gate is error  acceptance_error/success    harness; indeterminate
                                                                                                               when a check failed too
                          ended by check_broken                                    invalid           task      harness
                          the task has no workspace, only a judge                  invalid           task      indeterminate
    LLM_ERROR             ended by model_unavailable                               invalid           harness   harness
                          failure, ended by llm_error                              failure                     indeterminate
    BUDGET_EXHAUSTED      failure, ended by token, cost, tool call or failed cycle
                          cap, or dominance                                        failure                     agent
    TIMEOUT               failure, ended by wall_cap; or a failed mandatory check
                          ran out of time                                          failure                     agent
    TOOL_ERROR            failure, ended by agent_crashed                          failure                     agent
    AGENT_GAVE_UP         failure, ended by max_steps, repeated calls or installs,
                          oscillation, no_progress                                 failure                     agent
    TESTS_FAILED          failure                                                  failure                     agent

A safety stop makes the cause `safety` whatever else went wrong, so that an error after an unsafe act cannot take the result
out of the contract rate. The attribution `harness` covers both the harness and the task.
"""

from __future__ import annotations

from collections.abc import Mapping

from agentbench.core.dataclass import dataclass
from agentbench.core.reasons import Assurance, Attribution, Gate, InvalidCause, Outcome, Reason, RunStatus
from agentbench.trace.events import GateResult, GatesDecided, Termination
from agentbench.verdict.facts import Facts, Logged, ProgramCommands, Usage
from agentbench.verdict.gates import Gates, acceptance_problem, decide_gates, identity_problem, mandatory_decisions
from agentbench.verdict.headline import Progress, describe_judgement, explain, headline
from agentbench.verdict.review import review_reasons
from agentbench.verdict.score import (
    Components,
    Score,
    WorkspaceVerdict,
    components,
    decomposed_score,
    graded_score,
    workspace_verdict,
)
from agentbench.verdict.tags import Tag, assign_tags
from agentbench.verdict.termination_effects import INVALIDATING, badge_of, reason_of
from agentbench.verdict.terms import Terms, rubric_id

_ORDER = {reason: rank for rank, reason in enumerate(Reason)}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Every decision about one attempt."""

    gates: Mapping[Gate, GateResult]
    run_status: RunStatus
    invalid_cause: InvalidCause | None
    attribution: Attribution | None
    reason: Reason | None
    passed: bool
    why: str
    """The reason in one line, for the headline."""
    review: tuple[str, ...]
    """Why a person should review the attempt; empty if no review is needed."""
    run_badge: str
    components: Components
    score: Score | None
    decomposed: float | None
    """The decomposed score; None if not every command of a program was observed."""
    rubric: str
    """Identifies the weights and penalties that were used."""
    tags: tuple[Tag, ...]
    termination: Logged[Termination] | None
    progress: Progress
    workspace: WorkspaceVerdict
    assurance: Assurance | None
    """Assurance level of the weakest decided mandatory check."""
    usage: Usage
    commands: ProgramCommands | None = None
    """How completely the commands of a program were observed; None if no program acted as the agent."""

    @property
    def needs_review(self) -> bool:
        return bool(self.review)

    @property
    def headline(self) -> str:
        return headline(self.run_status, self.reason, self.attribution, self.why, passed=self.passed)

    def event(self) -> GatesDecided:
        """Return the event that records the decision."""
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
    gates = decide_gates(facts, terms)
    invalid = _invalidity(facts, terms)
    status = RunStatus.INVALID if invalid else _scored_status(facts, terms)
    passed = status is RunStatus.SUCCESS and all(gate.passed for gate in gates.values())
    reason = None if passed else (invalid.reason if invalid else _scored_reason(facts, terms, gates, status))
    ending = _ending(facts, reason)
    ended = (ending.payload.code, ending.payload.rationale) if ending else None
    progress = _progress(facts, terms)
    parts = components(facts, terms, gates, status)
    return Verdict(
        gates=gates,
        run_status=status,
        invalid_cause=invalid.cause if invalid else None,
        attribution=_attribution(facts, terms, reason, invalid),
        reason=reason,
        passed=passed,
        why=invalid.why if invalid else explain(reason, gates, ended, progress),
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
        commands=facts.commands,
    )


# --- status -----------------------------------------------------------------------------------------------------------


def _invalidity(facts: Facts, terms: Terms) -> _Invalidity | None:
    """Return why the attempt is invalid, or None if it can be scored."""
    causes = [
        _Invalidity(*INVALIDATING[stop.payload.code], stop.payload.rationale)
        for stop in facts.terminations
        if stop.payload.code in INVALIDATING
    ]
    if not terms.mandatory and not terms.judged_only:
        causes.append(_Invalidity(Reason.SETUP_FAILED, InvalidCause.TASK, "the task has no mandatory check"))
    problem = identity_problem(facts) or acceptance_problem(facts, terms)
    if problem and not causes:
        causes.append(_Invalidity(Reason.SANDBOX_ERROR, InvalidCause.HARNESS, problem))
    if terms.judged_only and not causes:
        causes.append(_Invalidity(Reason.ACCEPTANCE_ERROR, InvalidCause.TASK, _judgement(facts)))
    if not causes:
        return None
    first = min(causes, key=lambda cause: _ORDER[cause.reason])
    unsafe = any(cause.cause is InvalidCause.SAFETY for cause in causes)
    return _Invalidity(first.reason, InvalidCause.SAFETY if unsafe else first.cause, first.why)


def _judgement(facts: Facts) -> str:
    if facts.judge is None:
        return describe_judgement(None)
    judge = facts.judge.payload
    return describe_judgement(judge.verdict, judge.failure_mode, judge.reasoning.text)


def _scored_status(facts: Facts, terms: Terms) -> RunStatus:
    outcomes = {check.payload.outcome for check in mandatory_decisions(facts, terms)}
    if Outcome.ERROR in outcomes:
        return RunStatus.ACCEPTANCE_ERROR
    return RunStatus.FAILURE if Outcome.FAIL in outcomes else RunStatus.SUCCESS


# --- reason -----------------------------------------------------------------------------------------------------------


def _scored_reason(facts: Facts, terms: Terms, gates: Gates, status: RunStatus) -> Reason:
    """Return the first reason that applies to a scorable attempt that did not pass."""
    failed_gates = ((Gate.G1, Reason.PATCH_INVALID), (Gate.G2, Reason.BUILD_FAILED), (Gate.G4, Reason.POLICY_VIOLATION))
    reasons = {reason for gate, reason in failed_gates if gates[gate].outcome is Outcome.FAIL}
    if status is RunStatus.FAILURE:
        reasons |= _failure_reasons(facts, terms)
    else:
        # An acceptance error, or a success that a gate could not confirm.
        reasons.add(Reason.ACCEPTANCE_ERROR)
    return min(reasons, key=_ORDER.__getitem__)


def _failure_reasons(facts: Facts, terms: Terms) -> set[Reason]:
    reasons = {Reason.TESTS_FAILED}
    reasons |= {reason for stop in facts.terminations if (reason := reason_of(stop.payload.code)) is not None}
    checks = mandatory_decisions(facts, terms)
    if any(check.payload.timed_out and check.payload.outcome is Outcome.FAIL for check in checks):
        reasons.add(Reason.TIMEOUT)
    return reasons


def _attribution(facts: Facts, terms: Terms, reason: Reason | None, invalid: _Invalidity | None) -> Attribution | None:
    if reason is None:
        return None
    stopped = any(stop.payload.code in INVALIDATING for stop in facts.terminations)
    if reason is Reason.ACCEPTANCE_ERROR and terms.judged_only and not stopped:
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
        failed = any(check.payload.outcome is Outcome.FAIL for check in mandatory_decisions(facts, terms))
        return Attribution.INDETERMINATE if failed else Attribution.HARNESS
    return Attribution.INDETERMINATE if reason is Reason.LLM_ERROR else Attribution.AGENT


# --- details of the verdict ------------------------------------------------------------------------------------------------


def _ending(facts: Facts, reason: Reason | None) -> Logged[Termination] | None:
    """Return the termination that the record shows: the one behind the reason, else the first."""
    matching = (stop for stop in facts.terminations if reason is not None and reason_of(stop.payload.code) is reason)
    return next(matching, facts.terminations[0] if facts.terminations else None)


def _badge(ending: Logged[Termination] | None, status: RunStatus) -> str:
    """Say how the agent phase ended, whatever the verdict."""
    if ending is None:
        return "error" if status is RunStatus.INVALID else "completed"
    return badge_of(ending.payload.code)


def _progress(facts: Facts, terms: Terms) -> Progress:
    checks = [check.payload for check in mandatory_decisions(facts, terms)]
    not_passed = [check for check in checks if check.outcome is not Outcome.PASS]
    return Progress(
        f2p_passed=sum(check.f2p_passed for check in checks),
        f2p_total=sum(check.f2p_total for check in checks),
        p2p_kept=sum(check.p2p_kept for check in checks),
        p2p_total=sum(check.p2p_total for check in checks),
        checks_not_passed=len(not_passed),
        checks_total=len(terms.mandatory),
        first_not_passed=f"{not_passed[0].check_id}: {not_passed[0].why}" if not_passed else "",
    )


def _assurance(facts: Facts, terms: Terms) -> Assurance | None:
    strength = list(Assurance)
    named = [check.payload.assurance for check in mandatory_decisions(facts, terms)]
    known = [Assurance(name) for name in named if name in strength]
    return max(known, key=strength.index) if known else None
