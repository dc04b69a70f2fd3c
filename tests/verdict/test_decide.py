from __future__ import annotations

import itertools
from dataclasses import asdict

import pytest

from agentbench.core.reasons import (
    Attribution,
    Gate,
    InvalidCause,
    Outcome,
    Reason,
    RunStatus,
    TerminationCategory,
    TerminationCode,
)
from agentbench.trace.blobs import excerpt
from agentbench.trace.events import GatesDecided, JudgeResult, Payload, TaskFinished
from agentbench.verdict.decide import decide
from agentbench.verdict.facts import collect_facts
from agentbench.verdict.headline import judged_only
from agentbench.verdict.termination_effects import INVALIDATING, SCORED
from agentbench.verdict.terms import Terms
from tests.verdict.logs import (
    UNIT,
    alerted,
    applied,
    bound,
    briefed,
    built,
    checked,
    ended,
    extracted,
    found,
    graded,
    linted,
    log,
    opened,
    terms,
    verdict,
)

pytestmark = pytest.mark.synthetic

PASS, FAIL, ERROR = Outcome.PASS, Outcome.FAIL, Outcome.ERROR


# --- run status ---------------------------------------------------------------------------------------------------------


@pytest.mark.req("G-01", "G-02")
@pytest.mark.parametrize("outcomes", list(itertools.product(Outcome, repeat=3)))
def test_error_outranks_failure_outranks_success(outcomes: tuple[Outcome, ...]) -> None:
    names = ("a", "b", "c")
    decided = verdict(graded(*(checked(one, name) for one, name in zip(outcomes, names, strict=True))), terms(*names))
    if ERROR in outcomes:
        assert decided.run_status is RunStatus.ACCEPTANCE_ERROR
    elif FAIL in outcomes:
        assert decided.run_status is RunStatus.FAILURE
    else:
        assert decided.run_status is RunStatus.SUCCESS
    assert decided.passed == (set(outcomes) == {PASS})


@pytest.mark.req("G-01")
def test_optional_check_does_not_change_the_verdict() -> None:
    decided = verdict(graded(checked(), checked(FAIL, "lint", mandatory=False)))
    assert decided.passed
    assert decided.run_status is RunStatus.SUCCESS


@pytest.mark.req("G-02", "G-14", "E-08")
def test_missing_acceptance_event_is_invalid_by_the_harness() -> None:
    decided = verdict(graded(checked(PASS, "a")), terms("a", "b"))
    assert (decided.run_status, decided.invalid_cause) == (RunStatus.INVALID, InvalidCause.HARNESS)
    assert decided.reason is Reason.SANDBOX_ERROR
    assert decided.attribution is Attribution.HARNESS
    assert "no acceptance event for b" in decided.why
    assert not decided.passed


@pytest.mark.req("G-02", "G-14")
def test_check_decided_twice_makes_the_attempt_invalid() -> None:
    decided = verdict(graded(checked(FAIL), checked(PASS)))
    assert decided.run_status is RunStatus.INVALID
    assert "decided more than once" in decided.why


@pytest.mark.req("G-02")
def test_decision_about_an_unknown_check_makes_the_attempt_invalid() -> None:
    assert verdict(graded(checked(), checked(PASS, "other"))).run_status is RunStatus.INVALID


@pytest.mark.req("G-02")
@pytest.mark.parametrize(
    "opening",
    [[bound()], [opened()], [opened(), bound("sha256:one"), bound("sha256:two")], []],
    ids=["not opened", "identity not bound", "two identities", "nothing"],
)
def test_unbound_or_contradictory_identity_makes_the_attempt_invalid(opening: list[Payload]) -> None:
    decided = verdict([*opening, briefed(), ended(), extracted(), applied(), checked()])
    assert (decided.run_status, decided.reason) == (RunStatus.INVALID, Reason.SANDBOX_ERROR)
    assert decided.why


@pytest.mark.req("G-14")
def test_empty_log_is_invalid() -> None:
    decided = verdict([])
    assert (decided.run_status, decided.reason) == (RunStatus.INVALID, Reason.SANDBOX_ERROR)
    assert {gate.outcome for gate in decided.gates.values()} == {ERROR}


@pytest.mark.req("G-14")
def test_task_without_mandatory_checks_cannot_pass() -> None:
    decided = verdict(graded(), terms().__class__(checks=()))
    assert (decided.run_status, decided.invalid_cause) == (RunStatus.INVALID, InvalidCause.TASK)


@pytest.mark.req("G-15")
@pytest.mark.parametrize("gate", [Gate.G1, Gate.G2])
def test_bad_patch_is_a_failure_and_never_invalid(gate: Gate) -> None:
    behind = checked(FAIL, not_run=gate, why=f"not run: {gate} failed")
    if gate is Gate.G1:
        decided = verdict([opened(), bound(), briefed(), ended(), extracted(problem="conflict markers"), behind])
        assert decided.reason is Reason.PATCH_INVALID
        assert decided.why == "conflict markers"
    else:
        decided = verdict(graded(built(FAIL, "exit code 2"), behind), terms("unit", build=True))
        assert decided.reason is Reason.BUILD_FAILED
        assert decided.why == "build: exit code 2"
    assert decided.run_status is RunStatus.FAILURE
    assert decided.attribution is Attribution.AGENT
    assert not decided.gates[gate].passed


# --- gates --------------------------------------------------------------------------------------------------------------


@pytest.mark.req("G-03a")
def test_each_gate_explains_its_outcome() -> None:
    decided = verdict(
        graded(
            built(FAIL, "exit code 2"), checked(FAIL, why="2 of 14 required tests failed"), found(rule="runner.internals"),
        ),
        terms("unit", build=True),
    )  # fmt: skip
    assert decided.gates[Gate.G1].passed
    assert decided.gates[Gate.G2].why == "build: exit code 2"
    assert decided.gates[Gate.G3].why == "unit: 2 of 14 required tests failed"
    assert decided.gates[Gate.G4].why == "runner.internals: touches the runner"


@pytest.mark.req("C-07", "G-03a")
def test_build_gate_without_commands_is_a_declared_no_op() -> None:
    gate = verdict(graded(checked())).gates[Gate.G2]
    assert gate.passed
    assert "no-op" in gate.why


@pytest.mark.req("G-03a", "G-14")
@pytest.mark.parametrize(
    "steps",
    [[], [built()], [built(), linted()], [linted(), linted(step="static-2")]],
    ids=["nothing", "no static", "one static of two", "no build"],
)
def test_declared_step_without_a_result_is_an_error_of_the_build_gate(steps: list[Payload]) -> None:
    decided = verdict(graded(*steps, checked()), terms("unit", build=True, statics=2))
    assert decided.gates[Gate.G2].outcome is ERROR
    assert (decided.passed, decided.reason) == (False, Reason.ACCEPTANCE_ERROR)


@pytest.mark.req("G-03a")
@pytest.mark.parametrize("outcomes", list(itertools.product(Outcome, repeat=3)))
def test_build_gate_fails_on_a_failed_step_else_errors_on_an_undecided_one(outcomes: tuple[Outcome, ...]) -> None:
    first, second, third = outcomes
    decided = verdict(
        graded(built(first), linted(second), linted(third, step="static-2"), checked()),
        terms("unit", build=True, statics=2),
    )
    expected = FAIL if FAIL in outcomes else ERROR if ERROR in outcomes else PASS
    assert decided.gates[Gate.G2].outcome is expected


@pytest.mark.req("G-03a", "G-14")
def test_patch_without_a_recorded_application_does_not_pass() -> None:
    decided = verdict([opened(), bound(), ended(), extracted(), checked()])
    assert decided.gates[Gate.G1].outcome is ERROR
    assert not decided.passed


@pytest.mark.req("G-03a")
def test_empty_patch_is_valid() -> None:
    decided = verdict([opened(), bound(), ended(), extracted(size=0), checked(FAIL)])
    assert decided.gates[Gate.G1].passed
    assert decided.reason is Reason.TESTS_FAILED


@pytest.mark.req("G-03a")
def test_empty_patch_that_was_never_graded_is_undecided() -> None:
    decided = verdict([opened(), bound(), ended(TerminationCode.MODEL_UNAVAILABLE), extracted(size=0)])
    assert decided.gates[Gate.G1] == decided.gates[Gate.G3]
    assert decided.gates[Gate.G1].why == "not evaluated: the attempt ended before grading"


@pytest.mark.req("G-03a")
@pytest.mark.parametrize("violation", [found("gate"), alerted("gate")], ids=["inspection", "monitor"])
def test_gate_finding_fails_the_safety_gate_even_if_all_tests_pass(violation: Payload) -> None:
    decided = verdict(graded(checked(), violation))
    assert decided.run_status is RunStatus.SUCCESS
    assert (decided.passed, decided.reason) == (False, Reason.POLICY_VIOLATION)
    assert decided.attribution is Attribution.AGENT
    assert decided.needs_review


@pytest.mark.req("G-03a", "C-22")
@pytest.mark.parametrize("severity", ["note", "penalty"])
def test_lesser_finding_does_not_fail_the_safety_gate(severity: str) -> None:
    assert verdict(graded(checked(), found(severity), alerted(severity))).passed


@pytest.mark.req("G-03a", "G-14")
def test_undecided_inspection_is_an_error_of_the_safety_gate() -> None:
    decided = verdict(graded(checked(), found("error")))
    assert decided.gates[Gate.G4].outcome is ERROR
    assert (decided.passed, decided.reason) == (False, Reason.ACCEPTANCE_ERROR)
    assert decided.attribution is Attribution.HARNESS


@pytest.mark.req("G-03a")
def test_resource_breaker_is_not_a_violation() -> None:
    decided = verdict(
        graded(checked(), alerted("terminate", "loop.repeated_calls"), ending=ended(TerminationCode.REPEATED_CALLS))
    )
    assert decided.passed


# --- terminations ------------------------------------------------------------------------------------------------------------


@pytest.mark.req("G-16")
def test_safety_stop_is_invalid_and_attributed_to_the_agent() -> None:
    stop = ended(TerminationCode.SAFETY, "wrote to /etc", TerminationCategory.BOUNDARY_VIOLATION)
    decided = verdict([opened(), bound(), briefed(), alerted("terminate"), stop])
    assert (decided.run_status, decided.invalid_cause) == (RunStatus.INVALID, InvalidCause.SAFETY)
    assert (decided.reason, decided.attribution) == (Reason.SAFETY_STOP, Attribution.AGENT)
    assert decided.gates[Gate.G4].outcome is FAIL


@pytest.mark.req("G-16")
@pytest.mark.parametrize(
    "trouble", [TerminationCode.SANDBOX_ERROR, TerminationCode.INTERRUPTED, TerminationCode.OPERATOR_ABORT]
)
def test_error_after_an_unsafe_act_keeps_the_cause_safety(trouble: TerminationCode) -> None:
    decided = verdict([opened(), bound(), ended(TerminationCode.SAFETY), ended(trouble)])
    assert decided.invalid_cause is InvalidCause.SAFETY


@pytest.mark.req("G-07", "G-16")
@pytest.mark.parametrize("code", list(INVALIDATING))
def test_invalidating_termination_wins_over_checks(code: TerminationCode) -> None:
    reason, cause = INVALIDATING[code]
    for outcome in Outcome:
        decided = verdict(graded(checked(outcome), ending=ended(code, "because")))
        assert (decided.run_status, decided.reason, decided.invalid_cause) == (RunStatus.INVALID, reason, cause)
        assert decided.why == "because"


@pytest.mark.req("G-07")
@pytest.mark.parametrize("code", list(SCORED))
def test_termination_is_the_reason_only_of_a_failure(code: TerminationCode) -> None:
    assert verdict(graded(checked(PASS), ending=ended(code))).reason is None
    assert verdict(graded(checked(ERROR), ending=ended(code))).reason is Reason.ACCEPTANCE_ERROR
    assert verdict(graded(checked(FAIL), ending=ended(code))).reason is (SCORED[code] or Reason.TESTS_FAILED)


@pytest.mark.req("G-07")
def test_every_termination_code_has_one_effect() -> None:
    assert set(INVALIDATING) | set(SCORED) == set(TerminationCode)
    assert not set(INVALIDATING) & set(SCORED)


@pytest.mark.req("G-01", "G-07")
def test_check_timeout_is_a_failure_with_reason_timeout() -> None:
    decided = verdict(graded(checked(FAIL, timed_out=True, why="ran 300 s of 300 s")))
    assert (decided.run_status, decided.reason) == (RunStatus.FAILURE, Reason.TIMEOUT)
    assert "ran 300 s of 300 s" in decided.why


@pytest.mark.req("G-01")
def test_harness_timeout_stays_an_error() -> None:
    assert verdict(graded(checked(ERROR, timed_out=True))).reason is Reason.ACCEPTANCE_ERROR


@pytest.mark.req("G-17a")
def test_attribution_is_indeterminate_when_errors_and_failures_mix() -> None:
    only_errors = verdict(graded(checked(ERROR, "a"), checked(PASS, "b")), terms("a", "b"))
    mixed = verdict(graded(checked(ERROR, "a"), checked(FAIL, "b")), terms("a", "b"))
    assert only_errors.attribution is Attribution.HARNESS
    assert mixed.attribution is Attribution.INDETERMINATE
    assert (
        verdict(graded(checked(FAIL), ending=ended(TerminationCode.LLM_ERROR))).attribution is Attribution.INDETERMINATE
    )


# --- totality: every combination ----------------------------------------------------------------------------------------

_ENDINGS = [None, *TerminationCode]
_PATCHES = {"none": [], "problem": [extracted(problem="bad")], "empty": [extracted(size=0)]} | {
    f"applied {outcome}": [extracted(), applied(outcome, "why")] for outcome in Outcome
}
_BUILDS: list[Outcome | None] = [None, *Outcome]
_CHECKS: list[tuple[Outcome, bool] | None] = [None, (PASS, False), (FAIL, False), (FAIL, True), (ERROR, False)]
_RULES: dict[str, list[Payload]] = {
    "clean": [],
    "gate": [found("gate")],
    "penalty": [found("penalty")],
    "undecided": [found("error")],
}


@pytest.mark.req("G-02", "G-03a", "G-07", "G-14", "G-15", "G-16", "G-17a", "G-18")
@pytest.mark.parametrize("code", _ENDINGS, ids=str)
def test_every_combination_has_one_consistent_decision(code: TerminationCode | None) -> None:
    on = terms("unit", build=True)
    # Without a bound environment an attempt is invalid whatever the rules found, so one finding represents all.
    bound_or_not = [(True, rules) for rules in _RULES.values()] + [(False, _RULES["gate"])]
    for (bind, rules), patch, build, check in itertools.product(bound_or_not, _PATCHES.values(), _BUILDS, _CHECKS):
        payloads: list[Payload] = [opened(), *([bound()] if bind else []), briefed()]
        payloads += [] if code is None else [ended(code, "ended so")]
        payloads += [*patch]
        payloads += [] if build is None else [built(build)]
        payloads += [] if check is None else [checked(check[0], timed_out=check[1])]
        payloads += rules
        decided = decide(collect_facts(log(*payloads)), on)
        status, gates = decided.run_status, decided.gates

        assert decided.passed == (decided.reason is None)
        assert decided.passed == (status is RunStatus.SUCCESS and all(gate.passed for gate in gates.values()))
        assert (decided.attribution is None) == decided.passed
        assert (status is RunStatus.INVALID) == (decided.invalid_cause is not None)
        assert (decided.score is None) == (not decided.passed)
        assert all(gate.passed == (gate.outcome is PASS) for gate in gates.values())
        assert all(tag.evidence for tag in decided.tags)
        assert all(0 <= part <= 1 for part in asdict(decided.components).values())
        assert (code in INVALIDATING or not bind or check is None) == (status is RunStatus.INVALID)
        if check is not None and check[0] is ERROR:
            assert not decided.passed
            assert status in {RunStatus.ACCEPTANCE_ERROR, RunStatus.INVALID}
        if check is not None and check[0] is FAIL and bind and code not in INVALIDATING:
            assert status is RunStatus.FAILURE
        for gate, result in gates.items():
            tagged = any(tag.id == "evaluation_error" and tag.gate is gate for tag in decided.tags)
            assert tagged == (result.outcome is ERROR)
        assert decided.reason is None or decided.reason is _expected(code, decided.gates, status, check)


def _expected(
    code: TerminationCode | None,
    gates: object,
    status: RunStatus,
    check: tuple[Outcome, bool] | None,
) -> Reason:
    """Independent implementation of the documented precedence: return the first reason that applies."""
    assert isinstance(gates, dict)
    if code == "model_unavailable":
        # Makes the attempt invalid, so reasons of scorable attempts do not apply.
        return Reason.LLM_ERROR
    if code == "check_broken":
        return Reason.ACCEPTANCE_ERROR
    failed = {gate for gate, result in gates.items() if result.outcome is FAIL}
    fails = status is RunStatus.FAILURE
    budget = {"token_cap", "cost_cap", "tool_call_cap", "failed_cycle_cap", "dominance"}
    gave_up = {"max_steps", "repeated_calls", "repeated_installs", "oscillation", "no_progress"}
    rows = [
        (Reason.SETUP_FAILED, code == "setup_failed"),
        (Reason.BASELINE_NOT_FAILING, code == "baseline_not_failing"),
        (Reason.SANDBOX_ERROR, code == "sandbox_error" or (status is RunStatus.INVALID and code not in INVALIDATING)),
        (Reason.SAFETY_STOP, code == "safety"),
        (Reason.OPERATOR_ABORT, code == "operator_abort"),
        (Reason.INTERRUPTED, code in {"interrupted", "total_budget"}),
        (Reason.PATCH_INVALID, Gate.G1 in failed),
        (Reason.BUILD_FAILED, Gate.G2 in failed),
        (Reason.POLICY_VIOLATION, Gate.G4 in failed),
        (Reason.ACCEPTANCE_ERROR, not fails),
        (Reason.LLM_ERROR, code == "llm_error"),
        (Reason.BUDGET_EXHAUSTED, code in budget),
        (Reason.TIMEOUT, code == "wall_cap" or (check is not None and check[1])),
        (Reason.TOOL_ERROR, code == "agent_crashed"),
        (Reason.AGENT_GAVE_UP, code in gave_up),
        (Reason.TESTS_FAILED, True),
    ]
    assert [reason for reason, _ in rows] == list(Reason)
    return next(reason for reason, holds in rows if holds)


@pytest.mark.req("G-07")
def test_finished_log_gives_the_same_verdict_again() -> None:
    before = graded(checked(FAIL), found("penalty"))
    first = verdict(before)
    after = verdict(
        [*before, first.event(), TaskFinished(ended_at="t", passed=False, reason=first.reason, duration_us=1)]
    )
    assert after == first
    assert isinstance(first.event(), GatesDecided)
    assert first.event().reason is first.reason


def test_assurance_is_that_of_the_weakest_mandatory_check() -> None:
    decided = verdict(
        graded(checked(PASS, "a", assurance="out_of_process"), checked(PASS, "b", assurance="exit_code")),
        terms("a", "b"),
    )
    assert decided.assurance == "exit_code"
    assert verdict([], UNIT).assurance is None


# --- tasks without a workspace ----------------------------------------------------------------------------------------


@pytest.mark.req("G-13", "G-14", "G-16")
@pytest.mark.parametrize("code", [None, *TerminationCode])
@pytest.mark.parametrize("said", [None, "PASS", "FAIL", "unparseable"])
def test_attempt_with_only_a_judge_neither_passes_nor_fails(code: TerminationCode | None, said: str | None) -> None:
    payloads: list[Payload] = [opened(), bound(), briefed()]
    payloads += [] if code is None else [ended(code)]
    if said is not None:
        opinion: dict[str, object] = {
            "verdict": said,
            "scores": {},
            "failure_mode": "incomplete" if said == "FAIL" else None,
            "model": "m",
        }
        reasoning = excerpt(b"no JSON object\nIt said: \x1b[31mPASS")
        payloads.append(JudgeResult.model_validate({**opinion, "reasoning": reasoning}))
    decided = verdict(payloads, Terms(checks=(), judged_only=True))
    assert (decided.passed, decided.run_status, decided.score) == (False, RunStatus.INVALID, None)
    # The cause is the task, unless a termination made the attempt invalid.
    ordinary = code is None or code not in INVALIDATING
    assert judged_only(decided.run_status, decided.reason, decided.attribution) is ordinary
    if ordinary:
        assert (decided.invalid_cause, decided.attribution) == (InvalidCause.TASK, Attribution.INDETERMINATE)
        expected = {
            None: "NOT JUDGED: ",
            "FAIL": "JUDGED FAIL: incomplete",
            "unparseable": "JUDGED unparseable: no JSON object",
        }.get(said, f"JUDGED {said}")
        assert decided.headline.startswith(expected)
        assert "It said" not in decided.headline
    elif code is not None:
        assert decided.reason is INVALIDATING[code][0]
        assert decided.headline.startswith("INVALID ")


@pytest.mark.req("G-14")
def test_missing_evidence_is_reported_before_the_missing_workspace() -> None:
    decided = verdict([opened(), ended()], Terms(checks=(), judged_only=True))
    assert (decided.reason, decided.invalid_cause) == (Reason.SANDBOX_ERROR, InvalidCause.HARNESS)
