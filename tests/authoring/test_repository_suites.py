"""The suites of this repository follow the rules in tasks/README.md, as far as can be checked without running them."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbench.acceptance.checks.run_check import assurance_of
from agentbench.contract.load import LoadedTask
from agentbench.contract.schema import Repo
from agentbench.contract.suite import load_suite
from agentbench.core.reasons import Assurance

pytestmark = pytest.mark.component

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
    assert not {task.id for task in dev} & {task.id for task in heldout}


@pytest.mark.req("C-13")
def test_every_kind_occurs_and_every_task_has_strata(both: tuple[LoadedTask, ...]) -> None:
    strata = [loaded.task.strata for loaded in both]
    assert {stratum.kind for stratum in strata} == KINDS
    assert {stratum.ecosystem for stratum in strata} == {"python", "javascript"}
    assert all(stratum.test_runtime and stratum.dependencies for stratum in strata)


@pytest.mark.req("C-14")
def test_half_of_the_tasks_are_pinned_releases(both: tuple[LoadedTask, ...]) -> None:
    releases = [repo_of(loaded) for loaded in both if repo_of(loaded).archive]
    assert len(releases) >= 6
    assert all((release.archive or "").startswith("pypi:") and len(release.sha256 or "") == 64 for release in releases)


@pytest.mark.req("C-14")
def test_no_task_relies_on_an_exit_code_alone(both: tuple[LoadedTask, ...]) -> None:
    probed = 0
    for loaded in both:
        levels = {assurance_of(check) for check in loaded.task.oracle.checks if check.mandatory}
        probed += Assurance.OUT_OF_PROCESS in levels
        # A patch can forge the report of a Node test run, so a probe checks the same behaviour.
        assert Assurance.EXIT_CODE not in levels or Assurance.OUT_OF_PROCESS in levels, loaded.id
        assert loaded.task.reference, loaded.id
        required = [check for check in loaded.task.oracle.checks if check.id == "wanted"]
        assert required[0].fail_to_pass, loaded.id
    assert probed >= 3
    assert any(check.parser == "junit" for loaded in both for check in loaded.task.oracle.checks)


@pytest.mark.req("C-14")
def test_readme_lists_exactly_the_tasks(both: tuple[LoadedTask, ...]) -> None:
    rows = [line.split("|") for line in (TASKS / "README.md").read_text(encoding="utf-8").splitlines()]
    listed = {(row[1].strip(), row[2].strip()) for row in rows if len(row) > 3 and row[1].strip().startswith("custom-")}
    assert listed == {(loaded.task.suite, loaded.id) for loaded in both}
