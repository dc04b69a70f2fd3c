from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.statistics.paired import Method, compare, mcnemar_exact, mcnemar_mid_p, pair, sign_flip
from agentbench.statistics.trials import Rate
from tests.statistics.trials import side, trial

pytestmark = pytest.mark.component

# --- tests
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.req("A-02")
@pytest.mark.parametrize(
    "only_a,only_b,exact,mid",
    [
        (0, 0, 1.0, 1.0),
        (6, 0, 0.03125, 0.015625),
        (5, 0, 0.0625, 0.03125),
        (0, 5, 0.0625, 0.03125),
        (1, 7, 0.0703125, 0.0390625),
        (6, 16, 0.0525, 0.0347),
    ],
)
def test_mcnemar_reproduces_published_values(only_a: int, only_b: int, exact: float, mid: float) -> None:
    """(1, 7) and (6, 16) are worked examples in Fagerland, Lydersen and Laake 2013 and in chapter 8 of their book."""
    assert mcnemar_exact(only_a, only_b) == pytest.approx(exact, abs=5e-5)
    assert mcnemar_mid_p(only_a, only_b) == pytest.approx(mid, abs=5e-5)


@pytest.mark.req("A-02")
@pytest.mark.parametrize("total", range(1, 13))
def test_mcnemar_matches_enumerated_coin_tosses(total: int) -> None:
    tosses = [sum(toss) for toss in itertools.product((0, 1), repeat=total)]
    for only_a in range(total + 1):
        extreme = sum(abs(2 * heads - total) >= abs(2 * only_a - total) for heads in tosses)
        equal = sum(abs(2 * heads - total) == abs(2 * only_a - total) for heads in tosses)
        assert mcnemar_exact(only_a, total - only_a) == pytest.approx(extreme / 2**total)
        assert mcnemar_mid_p(only_a, total - only_a) == pytest.approx((extreme - equal / 2) / 2**total)


@pytest.mark.req("A-02")
@given(st.integers(0, 400), st.integers(0, 400))
def test_mcnemar_is_symmetric_and_mid_p_is_not_larger(a: int, b: int) -> None:
    assert mcnemar_exact(a, b) == mcnemar_exact(b, a)
    assert 0 < mcnemar_mid_p(a, b) <= mcnemar_exact(a, b) <= 1


@pytest.mark.req("A-02")
@given(st.lists(st.sampled_from([-1, 0, 1]), max_size=40))
def test_sign_flip_with_single_attempts_equals_exact_mcnemar(signs: list[int]) -> None:
    flipped = sign_flip([Fraction(one) for one in signs])
    assert flipped.exact
    assert flipped.p_value == pytest.approx(mcnemar_exact(signs.count(-1), signs.count(1)))


@pytest.mark.req("A-02")
@given(st.lists(st.fractions(-1, 1, max_denominator=6), max_size=9))
def test_sign_flip_matches_enumerated_signs(differences: list[Fraction]) -> None:
    observed = abs(sum(differences, Fraction(0)))
    extreme = [
        abs(sum((sign * difference for sign, difference in zip(signs, differences, strict=True)), Fraction(0)))
        >= observed
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    assert sign_flip(differences).p_value == pytest.approx(sum(extreme) / len(extreme))


@pytest.mark.req("A-02")
def test_large_sign_flip_is_approximated_and_flagged(monkeypatch: pytest.MonkeyPatch) -> None:
    differences = [Fraction((7 * n) % 13 - 5, 12) for n in range(300)]
    counted = sign_flip(differences)
    monkeypatch.setattr("agentbench.statistics.paired.MAX_EXACT_WORK", 10)
    approximated = sign_flip(differences)
    assert (counted.exact, approximated.exact) == (True, False)
    assert approximated.p_value == pytest.approx(counted.p_value, abs=0.01)
    many_denominators = [Fraction(n % k, k) for n in range(3000) for k in (7, 8, 9, 10, 11, 13)]
    assert 0 <= sign_flip(many_denominators).p_value <= 1


# --- pairing
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.req("A-02")
def test_single_attempts_give_table_both_tests_and_interval() -> None:
    result = compare(pair(side("++++----"), side("+++-++++"), Rate.CONTRACT), Rate.CONTRACT)
    assert result is not None
    assert result.contingency is not None
    table = result.contingency
    assert (table.both, table.only_a, table.only_b, table.neither) == (3, 1, 4, 0)
    assert (result.share_a, result.share_b, result.difference) == (0.5, 0.875, 0.375)
    assert result.mcnemar_exact == pytest.approx(0.375)
    assert result.mcnemar_mid_p == pytest.approx(0.21875)
    assert result.interval is not None
    assert result.interval.low < 0.375 < result.interval.high
    assert result.sign_flip is None
    assert result.better is None


@pytest.mark.req("A-02")
@pytest.mark.parametrize("tasks,better", [(4, None), (5, "B"), (6, "B")])
def test_five_discordant_tasks_are_the_minimum_for_significance(tasks: int, better: str | None) -> None:
    for a, b, winner in (("-" * tasks, "+" * tasks, better), ("+" * tasks, "-" * tasks, better and "A")):
        result = compare(pair(side(a), side(b), Rate.CONTRACT), Rate.CONTRACT)
        assert result is not None
        assert result.better == winner
        assert any("must differ" in note for note in result.notes) == (tasks < 5)


def _disagreeing(notes: list[str]) -> list[str]:
    return [note for note in notes if "significant" in note]


@pytest.mark.req("A-02")
def test_note_says_what_decides_if_interval_and_test_disagree() -> None:
    """Student's interval of one large and six small differences includes 0; the signs of all agree."""
    new = [trial(f"t{n}", "fail" if n and k else "pass", k + 1) for n in range(7) for k in range(10)]
    old = [trial(f"t{n}", "fail", k + 1) for n in range(7) for k in range(10)]
    skewed = compare(pair(old, new, Rate.CONTRACT), Rate.CONTRACT)
    assert skewed is not None
    assert skewed.better == "B"
    assert _disagreeing(skewed.notes) == ["The interval includes 0, but the test is significant. The test decides."]


@pytest.mark.req("A-02")
def test_note_does_not_name_the_test_if_the_bootstrap_decides() -> None:
    pairing = pair(side("++---"), side("+++++"), Rate.CONTRACT)
    by_test = compare(pairing, Rate.CONTRACT)
    by_bootstrap = compare(pairing, Rate.CONTRACT, method=Method.BOOTSTRAP)
    assert by_test is not None
    assert by_bootstrap is not None
    assert (by_test.better, by_bootstrap.better) == (None, "B")
    assert _disagreeing(by_bootstrap.notes) == [
        "The bootstrap interval decides, as requested; the test is not significant."
    ]
    assert "The test decides" in _disagreeing(by_test.notes)[0]


@pytest.mark.req("A-02")
def test_repeats_compare_task_means_without_mcnemar() -> None:
    a = [
        trial(f"t{n}", outcome, repeat) for n in range(6) for repeat, outcome in enumerate(["pass", "fail", "fail"], 1)
    ]
    b = [
        trial(f"t{n}", outcome, repeat)
        for n in range(6)
        for repeat, outcome in enumerate(["pass", "pass", "pass" if n else "fail"], 1)
    ]
    result = compare(pair(a, b, Rate.CONTRACT), Rate.CONTRACT)
    assert result is not None
    assert (result.contingency, result.mcnemar_exact, result.mcnemar_mid_p) == (None, None, None)
    assert result.sign_flip == pytest.approx(2 / 64)
    assert result.difference == pytest.approx((5 * 2 / 3 + 1 / 3) / 6)
    assert result.better == "B"
    assert any("one attempt per task" in note for note in result.notes)


@pytest.mark.req("A-02")
@pytest.mark.parametrize("tasks,better", [(5, None), (6, "B")])
def test_repeats_need_six_discordant_tasks(tasks: int, better: str | None) -> None:
    a = [trial(f"t{n}", "fail", repeat) for n in range(tasks) for repeat in (1, 2)]
    b = [trial(f"t{n}", "pass", repeat) for n in range(tasks) for repeat in (1, 2)]
    result = compare(pair(a, b, Rate.CONTRACT), Rate.CONTRACT)
    assert result is not None
    assert result.better == better
    assert any("must differ" in note for note in result.notes) == (better is None)


@pytest.mark.req("A-02")
def test_unequal_repeats_are_noted() -> None:
    result = compare(
        pair([trial("t", "pass"), trial("t", "pass", 2)], [trial("t", "fail")], Rate.CONTRACT), Rate.CONTRACT
    )
    assert result is not None
    assert any("different numbers" in note for note in result.notes)


@pytest.mark.req("A-02")
def test_tasks_that_cannot_be_paired_are_listed() -> None:
    pairing = pair(
        [trial("x", "pass"), trial("y", "harness"), trial("z", "pass")],
        [trial("y", "pass"), trial("w", "fail")],
        Rate.CONTRACT,
    )
    assert pairing.only_a == ("x", "z")
    assert pairing.only_b == ("w",)
    assert pairing.uncounted == ("y",)
    assert compare(pairing, Rate.CONTRACT) is None
