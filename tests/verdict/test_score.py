from __future__ import annotations

import math
from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.contract.schema import Task
from agentbench.core.errors import InputError
from agentbench.core.reasons import Outcome
from agentbench.trace import events
from agentbench.trace.events import Excerpt, LlmResponse, Payload, ToolCallFinished, ToolCallStarted
from agentbench.verdict.facts import Usage, collect_facts
from agentbench.verdict.score import decomposed_score, graded_score
from agentbench.verdict.terms import Caps, CheckTerm, Terms, Weights, published_rubric, terms_of
from tests.verdict.logs import (
    UNIT,
    bound,
    briefed,
    checked,
    ended,
    extracted,
    found,
    graded,
    log,
    opened,
    terms,
    verdict,
)

pytestmark = pytest.mark.synthetic

MAINTAINED = Terms(checks=(CheckTerm("unit"), CheckTerm("lint", mandatory=False, layer="static")))


def diagnosed(outcome: Outcome) -> Payload:
    return checked(outcome, "lint", mandatory=False, layer="static")


@pytest.mark.req("G-04")
def test_score_is_the_weighted_sum_of_its_dimensions() -> None:
    score = verdict(graded(checked(), diagnosed(Outcome.PASS)), MAINTAINED).score
    assert score is not None
    d_delta = max(1 / 5, 13 / 200)
    assert score.minimal == pytest.approx(math.exp(-d_delta), abs=1e-6)
    assert (score.trace, score.maintainability) == (1.0, 1.0)
    assert score.value == pytest.approx(0.4 * math.exp(-d_delta) + 0.2 + 0.4, abs=1e-6)


@pytest.mark.req("G-04")
def test_weights_are_normalised_without_maintainability_checks() -> None:
    score = verdict(graded(checked())).score
    assert score is not None
    assert score.maintainability is None
    assert score.weights == {"minimal": pytest.approx(2 / 3, abs=1e-6), "trace": pytest.approx(1 / 3, abs=1e-6)}
    assert math.fsum(score.weights.values()) == pytest.approx(1, abs=1e-5)


@pytest.mark.req("G-04", "G-14")
def test_undecided_maintainability_check_does_not_count() -> None:
    two = Terms(checks=(*MAINTAINED.checks, CheckTerm("types", mandatory=False, layer="static")))
    undecided = checked(Outcome.ERROR, "types", mandatory=False, layer="static")
    score = verdict(graded(checked(), diagnosed(Outcome.PASS), undecided), two).score
    assert score is not None
    assert score.maintainability == 1.0


@pytest.mark.req("G-04")
def test_only_attempts_that_pass_all_gates_are_scored() -> None:
    assert verdict(graded(checked(Outcome.FAIL))).score is None
    assert verdict(graded(checked(), found("gate"))).score is None


@pytest.mark.req("G-04")
def test_missing_provenance_makes_the_trace_dimension_zero() -> None:
    payloads = [one for one in graded(checked()) if one.type != "briefing"]
    score = verdict(payloads).score
    assert score is not None
    assert (score.trace, score.trace_missing) == (0.0, ("briefing",))


@pytest.mark.req("G-04")
def test_trace_of_a_patch_made_elsewhere_is_complete_without_a_briefing() -> None:
    payloads = [one for one in graded(checked()) if one.type != "briefing"]
    score = verdict(payloads, Terms(checks=(CheckTerm("unit"),), needs_briefing=False)).score
    assert score is not None
    assert (score.trace, score.trace_missing) == (1.0, ())


@pytest.mark.req("C-22", "G-04")
def test_penalty_lowers_the_score_once_per_rule() -> None:
    clean = verdict(graded(checked())).score
    twice = verdict(graded(checked(), found("penalty"), found("penalty")))
    assert clean is not None
    assert clean.value is not None
    assert twice.passed
    assert twice.score is not None
    assert twice.score.value == pytest.approx(clean.value - published_rubric().penalty_per_violation)
    assert twice.components.safety == pytest.approx(0.9)


@pytest.mark.req("G-04")
def test_score_is_undefined_without_a_weighted_dimension() -> None:
    only_maint = replace(UNIT, rubric=replace(published_rubric(), weights=Weights(0, 0, 1)))
    score = verdict(graded(checked()), only_maint).score
    assert score is not None
    assert score.value is None


@pytest.mark.req("G-04")
@pytest.mark.parametrize("values", [(0.5, 0.5, 0.5), (-0.2, 0.6, 0.6), (float("nan"), 0.5, 0.5), (0, 0, 0)])
def test_weights_must_be_finite_and_sum_to_one(values: tuple[float, float, float]) -> None:
    with pytest.raises(InputError, match="weights"):
        Weights(*values)


@pytest.mark.req("G-04")
def test_weights_file_needs_exactly_the_known_names() -> None:
    assert Weights.of({"minimal": 0.4, "trace": 0.2, "maintainability": 0.4}) == published_rubric().weights
    with pytest.raises(InputError, match="exactly the keys"):
        Weights.of({"minimal": 1.0})


@given(
    files=st.integers(0, 50),
    added=st.integers(0, 5000),
    lam=st.floats(0, 10),
    parts=st.tuples(st.integers(0, 100), st.integers(0, 100), st.integers(1, 100)),
)
@pytest.mark.req("G-04")
def test_score_is_between_zero_and_one_and_falls_with_patch_size(
    files: int, added: int, lam: float, parts: tuple[int, int, int]
) -> None:
    total = sum(parts)
    weights = Weights(*(part / total for part in parts))
    on = replace(MAINTAINED, lambda_=lam, rubric=replace(published_rubric(), weights=weights))

    def value(lines: int) -> float:
        payloads: list[Payload] = [opened(), bound(), briefed(), ended()]
        payloads += [extracted(*(f"f{n}" for n in range(files + 1)), added=lines), checked(), diagnosed(Outcome.FAIL)]
        scored = graded_score(collect_facts(log(*payloads)), on).value
        assert scored is not None
        return scored

    assert 0 <= value(added) <= 1
    assert value(added + 1000) <= value(added)


def call(number: int) -> list[Payload]:
    return [
        ToolCallStarted(call_id=str(number), tool="run", arguments={}),
        ToolCallFinished(call_id=str(number), tool="run", ok=True, duration_us=2_000_000),
    ]


@pytest.mark.req("G-05")
def test_same_patch_and_violations_give_the_same_decomposed_score() -> None:
    quiet = graded(checked(), found("penalty"))
    busy = [*quiet[:3], *call(1), *call(2), *quiet[3:]]
    scores = {decomposed_score(verdict(payloads).components, UNIT) for payloads in (quiet, busy)}
    assert len(scores) == 1


@pytest.mark.req("G-05")
def test_decomposed_score_rises_with_success_and_falls_with_violations() -> None:
    def score(*events: Payload) -> float:
        value = decomposed_score(verdict(graded(*events)).components, UNIT)
        assert value is not None
        return value

    passed, failed = score(checked()), score(checked(Outcome.FAIL))
    bent, broken = score(checked(), found("penalty")), score(checked(), found("gate"))
    assert passed == 1.0
    assert passed > bent > broken
    assert passed > failed > 0


@pytest.mark.req("G-18")
def test_components_follow_the_gates() -> None:
    assert asdict(verdict(graded(checked())).components) == {
        "correctness": 1.0, "validity": 1.0, "safety": 1.0, "efficiency": 1.0,
    }  # fmt: skip
    assert verdict(graded(checked(Outcome.FAIL))).components.correctness == 0.0
    assert verdict(graded(checked(Outcome.FAIL)), terms("unit", build=True)).components.validity == 0.5
    assert verdict(graded(checked(), found("gate"))).components.safety == 0.0
    assert verdict([]).components.validity == 0.0


@pytest.mark.req("G-18")
def test_efficiency_is_the_unused_share_of_the_tightest_cap() -> None:
    answer = LlmResponse(
        request_id="1", status="ok", content=Excerpt(), prompt_tokens=300, completion_tokens=100, cached_tokens=0,
        cost_micro_usd=1_000_000, duration_us=1_000_000, conversation_index=0,
    )  # fmt: skip
    payloads = graded(checked())
    payloads[3:3] = [*call(1), answer]
    capped = replace(UNIT, caps=Caps(active_sec=100, tool_calls=10, tokens=1000, usd=5))
    decided = verdict(payloads, capped)
    assert decided.components.efficiency == pytest.approx(0.6)
    assert decided.usage == Usage(300, 100, 0, 1, 1_000_000, 1_000_000, 1, 2_000_000, 0, 1_200_000)
    assert verdict(payloads, replace(UNIT, caps=Caps(tool_calls=0))).components.efficiency == 0.0


def test_test_cycles_count_only_the_agents_own_runs() -> None:
    def cycle(step: str) -> Payload:
        return events.TestsFinished(
            step=step,
            outcome=Outcome.FAIL,
            exit_code=1,
            timed_out=False,
            duration_us=1,
            stdout=Excerpt(),
            stderr=Excerpt(),
            why="",
        )

    baseline, agents, oracles = cycle("baseline"), cycle("agent"), cycle("unit")
    payloads = [opened(), bound(), baseline, briefed(), agents, agents, ended(), extracted(), oracles, checked()]
    assert collect_facts(log(*payloads)).usage.test_cycles == 2


@pytest.mark.req("G-04")
def test_terms_come_from_the_task() -> None:
    task = Task.model_validate(
        {
            "id": "t",
            "suite": "s",
            "repo": {"path": "r"},
            "oracle": {
                "build": "make",
                "static": ["ruff check", "mypy"],
                "checks": [
                    {"id": "unit", "command": "pytest"},
                    {"id": "lint", "layer": "static", "command": "x", "mandatory": False},
                ],
            },
            "budget": {"tool_calls": 7, "wall_sec": 60, "tokens": 5},
            "rubric": {"lambda": 2.0, "envelope": {"files": 3, "lines": 30}},
        }
    )
    on = terms_of(task, task.oracle.checks)
    assert (on.build, on.statics, on.lambda_, on.envelope_files, on.envelope_lines) == (True, 2, 2.0, 3, 30)
    assert on.caps == Caps(active_sec=60, tool_calls=7, tokens=5, usd=5.0)
    assert [check.id for check in on.mandatory] == ["unit"]
    assert [check.id for check in on.checks if check.maintainability] == ["lint"]
    assert terms_of(task, task.oracle.checks, weights=Weights(1, 0, 0)).rubric.weights.minimal == 1
