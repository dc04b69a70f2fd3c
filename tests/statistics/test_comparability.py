from __future__ import annotations

from dataclasses import replace

import pytest

from agentbench.statistics.comparability import Identity, compare_identities, seed_deviations

pytestmark = pytest.mark.component

BASE = Identity(
    task="t",
    repeat=1,
    contract_id="c",
    task_digest="d",
    acceptance_id="a",
    env_digest="e",
    config_class="k",
    harness_version="1",
    observability="tools",
    seed=20260307,
)


@pytest.mark.req("E-14")
def test_equal_identities_are_comparable() -> None:
    assert compare_identities([BASE], [BASE]).comparable


@pytest.mark.req("E-14", "C-11")
def test_changed_contract_is_listed_by_task() -> None:
    comparison = compare_identities(
        [BASE, replace(BASE, task="u")], [replace(BASE, contract_id="c2"), replace(BASE, task="u")]
    )
    assert comparison.across_versions == ("t",)
    assert not comparison.comparable


@pytest.mark.req("E-14")
@pytest.mark.parametrize(
    "name,text",
    [
        ("acceptance_id", "mandatory checks"),
        ("task_digest", "statement"),
        ("env_digest", "environment"),
        ("config_class", "configuration class"),
        ("harness_version", "1 and 2"),
    ],
)
def test_every_other_difference_is_listed(name: str, text: str) -> None:
    changed: dict[str, str] = {name: "2"}
    comparison = compare_identities([BASE], [replace(BASE, **changed)])  # type: ignore[arg-type]
    assert any(text in difference for difference in comparison.differences)
    assert not comparison.comparable


@pytest.mark.req("E-14")
def test_observability_is_a_remark_because_no_rate_depends_on_it() -> None:
    comparison = compare_identities([BASE], [replace(BASE, observability="process")])
    assert "trace metrics are not comparable" in comparison.remarks[0]
    assert (comparison.differences, comparison.comparable) == ((), False)


@pytest.mark.req("E-14", "R-11c")
def test_other_or_different_seeds_are_deviations() -> None:
    assert seed_deviations([BASE, replace(BASE, repeat=2, seed=99)], "A") == ()
    other = replace(BASE, seed=1337)
    comparison = compare_identities([BASE], [other])
    assert any("1337" in deviation for deviation in comparison.deviations)
    assert any("different seeds" in deviation for deviation in comparison.deviations)


@pytest.mark.req("E-14", "R-11b")
def test_more_repeats_from_the_same_base_seed_are_no_deviation() -> None:
    second = replace(BASE, repeat=2, seed=99)
    assert compare_identities([BASE, second], [BASE]).deviations == ()
    assert compare_identities([BASE, second], [BASE, replace(second, seed=98)]).deviations != ()


@pytest.mark.req("U-04")
def test_results_without_identity_are_unknown_not_different() -> None:
    comparison = compare_identities([BASE], [Identity(task="t")])
    assert comparison.unknown
    assert (comparison.differences, comparison.deviations) == ((), ())
    assert comparison.across_versions == ()


@pytest.mark.req("E-14")
def test_only_common_tasks_are_compared() -> None:
    assert compare_identities([BASE, replace(BASE, task="x", config_class="other")], [BASE]).comparable
