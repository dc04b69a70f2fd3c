"""The suites of this repository follow the rules in tasks/README.md, as far as can be checked without running them."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbench.acceptance.checks.run_check import assurance_of
from agentbench.contract.load import LoadedTask
from agentbench.contract.schema import Repo
from agentbench.contract.suite import load_suite
from agentbench.core.reasons import Assurance

TASKS = Path(__file__).parent.parent.parent / "tasks"
KINDS = {"bugfix", "refactor", "feature", "dependency", "migration", "docs", "hardening"}


@pytest.fixture(scope="module")
def dev() -> tuple[LoadedTask, ...]:
    return load_suite("custom-dev", TASKS).tasks


@pytest.fixture(scope="module")
def heldout() -> tuple[LoadedTask, ...]:
    return load_suite("custom-heldout", TASKS).tasks


@pytest.fixture(scope="module")
def both(dev: tuple[LoadedTask, ...], heldout: tuple[LoadedTask, ...]) -> tuple[LoadedTask, ...]:
    return dev + heldout


def repo_of(task: LoadedTask) -> Repo:
    repo = task.task.repo
    assert isinstance(repo, Repo)
    return repo


@pytest.mark.req("C-14")
def test_suites_have_enough_tasks(dev: tuple[LoadedTask, ...], heldout: tuple[LoadedTask, ...]) -> None:
    assert len(dev) >= 8
    assert len(heldout) >= 4
    assert not {one.id for one in dev} & {one.id for one in heldout}


@pytest.mark.req("C-13")
def test_every_kind_occurs_and_every_task_has_strata(both: tuple[LoadedTask, ...]) -> None:
    strata = [one.task.strata for one in both]
    assert {one.kind for one in strata} == KINDS
    assert {one.ecosystem for one in strata} == {"python", "javascript"}
    assert all(one.test_runtime and one.dependencies for one in strata)


@pytest.mark.req("C-14")
def test_half_of_the_tasks_are_pinned_releases(both: tuple[LoadedTask, ...]) -> None:
    releases = [repo_of(one) for one in both if repo_of(one).archive]
    assert len(releases) >= 6
    assert all((one.archive or "").startswith("pypi:") and len(one.sha256 or "") == 64 for one in releases)


@pytest.mark.req("C-14")
def test_no_task_relies_on_an_exit_code_alone(both: tuple[LoadedTask, ...]) -> None:
    probed = 0
    for one in both:
        levels = {assurance_of(check) for check in one.task.oracle.checks if check.mandatory}
        probed += Assurance.OUT_OF_PROCESS in levels
        # A patch can forge the report of a Node test run, so a probe checks the same behaviour.
        assert Assurance.EXIT_CODE not in levels or Assurance.OUT_OF_PROCESS in levels, one.id
        assert one.task.reference, one.id
        wanted = [check for check in one.task.oracle.checks if check.id == "wanted"]
        assert wanted[0].fail_to_pass, one.id
    assert probed >= 3
    assert any(check.parser == "junit" for one in both for check in one.task.oracle.checks)


@pytest.mark.req("C-14")
def test_readme_lists_exactly_the_tasks(both: tuple[LoadedTask, ...]) -> None:
    rows = [line.split("|") for line in (TASKS / "README.md").read_text(encoding="utf-8").splitlines()]
    listed = {(row[1].strip(), row[2].strip()) for row in rows if len(row) > 3 and row[1].strip().startswith("custom-")}
    assert listed == {(one.task.suite, one.id) for one in both}
