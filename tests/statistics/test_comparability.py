from __future__ import annotations

from dataclasses import replace

import pytest

from agentbench.statistics.comparability import Identity, hold_against, seed_deviations

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
def test_the_same_task_and_configuration_are_comparable() -> None:
    assert hold_against([BASE], [BASE]).comparable


@pytest.mark.req("E-14", "C-11")
def test_another_contract_version_is_named_by_task() -> None:
    found = hold_against([BASE, replace(BASE, task="u")], [replace(BASE, contract_id="c2"), replace(BASE, task="u")])
    assert found.across_versions == ("t",)
    assert not found.comparable


@pytest.mark.req("E-14")
@pytest.mark.parametrize(
    "name,words",
    [
        ("acceptance_id", "mandatory checks"),
        ("task_digest", "statement"),
        ("env_digest", "environment"),
        ("config_class", "configuration class"),
        ("harness_version", "1 against 2"),
        ("observability", "trace metrics"),
    ],
)
def test_every_other_difference_is_declared(name: str, words: str) -> None:
    changed: dict[str, str] = {name: "2"}
    found = hold_against([BASE], [replace(BASE, **changed)])  # type: ignore[arg-type]
    assert any(words in difference for difference in found.differences)
    assert not found.comparable


@pytest.mark.req("E-14", "R-11")
def test_other_or_mixed_seeds_are_deviations() -> None:
    assert seed_deviations([BASE, replace(BASE, repeat=2, seed=99)], "A") == ()
    other = replace(BASE, seed=1337)
    found = hold_against([BASE], [other])
    assert any("1337" in deviation for deviation in found.deviations)
    assert any("provisional" in deviation for deviation in found.deviations)


@pytest.mark.req("U-04")
def test_results_without_identity_are_said_to_be_unknown_and_not_different() -> None:
    found = hold_against([BASE], [Identity(task="t")])
    assert found.unknown
    assert found.differences == ()
    assert found.across_versions == ()


@pytest.mark.req("E-14")
def test_only_shared_tasks_are_held_against_each_other() -> None:
    assert hold_against([BASE, replace(BASE, task="x", config_class="other")], [BASE]).comparable
