"""Choosing, pinning and installing the environment of a commit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentbench.authoring.commit.split import UnsuitableCommit
from agentbench.authoring.commit.task_draft import TaskDraft
from agentbench.authoring.environment import dry_run
from agentbench.authoring.environment.detection import DetectedSetup, InstallPlan
from agentbench.authoring.environment.dry_run import find_releases, freeze
from agentbench.authoring.environment.resolver import EnvironmentRequest, EnvironmentResolver, PreparedEnvironment
from agentbench.execution.lab import Lab
from tests.authoring.conftest import git
from tests.authoring.package_index import PackageIndex

pytestmark = [pytest.mark.req("C-17", "C-18"), pytest.mark.component]


@pytest.fixture
def setups(monkeypatch: pytest.MonkeyPatch, index: PackageIndex, lab: Lab) -> list[str]:
    """The setups that the lab runs, as `asked` (pip was only asked) or `installed`; pip uses `index` alone."""
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", index.url)
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    ran: list[str] = []

    def counted(label: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def count(*arguments: object) -> Any:
            ran.append(label)
            return call(*arguments)

        return count

    monkeypatch.setattr(lab, "set_up", counted("asked", lab.set_up))
    monkeypatch.setattr(lab, "prepare", counted("installed", lab.prepare))
    return ran


def request_for(repo: Path, *, pin: bool = True) -> EnvironmentRequest:
    commit = git(repo, "rev-parse", "HEAD").decode().strip()
    plan = InstallPlan("all", ("python -m pip install app",))
    folder = repo.parent / "tasks/mine/calc-1"
    hidden = {"tests/test_calc.py": (b"", False)}
    draft = TaskDraft(
        "calc-1", "mine", "Fix", "Fix it.", str(repo), commit, None, {}, (), "python -m pytest", hidden, b""
    )
    detected = DetectedSetup((plan,), "", (), (), (), named=frozenset({"app"}))
    return EnvironmentRequest(draft, detected, "2023-06-01", "", folder, pin)


def first_environment(request: EnvironmentRequest, lab: Lab) -> PreparedEnvironment:
    return next(EnvironmentResolver().candidates(request, lab))


def test_releases_are_chosen_first_and_installed_once(
    repo: Path, index: PackageIndex, lab: Lab, setups: list[str]
) -> None:
    index.put("dep", "1.0", "2023-01-01")
    index.put("app", "1.0", "2023-01-01", requires="dep")
    index.put("app", "2.0", "2024-01-01", requires="dep")
    environment = first_environment(request_for(repo), lab)
    assert setups == ["asked", "installed"]
    assert freeze(environment.prepared.environment) == ["app==1.0", "dep==1.0"]
    (install,) = environment.draft.setup
    assert "--require-hashes" in install
    assert [line.split()[0] for line in install.splitlines() if "--hash" in line] == ["app==1.0", "dep==1.0"]
    assert environment.unpinned == ""


def test_later_command_installs_the_known_lock_without_asking(
    repo: Path, index: PackageIndex, lab: Lab, setups: list[str]
) -> None:
    index.put("app", "1.0", "2023-01-01")
    first = first_environment(request_for(repo), lab)
    again = first_environment(request_for(repo), lab)
    assert setups == ["asked", "installed", "installed"]
    assert (again.draft.setup, again.remark, again.unpinned) == (first.draft.setup, first.remark, "")
    index.put("app", "1.1", "2023-06-02")
    first_environment(dataclasses.replace(request_for(repo), date="2023-06-03"), lab)
    assert setups[3:] == ["asked", "installed"]  # other releases on that day


def test_known_lock_of_a_later_commit_is_dated_by_this_one(
    repo: Path, index: PackageIndex, lab: Lab, setups: list[str]
) -> None:
    index.put("app", "1.0", "2023-01-01")
    first_environment(dataclasses.replace(request_for(repo), date="2023-06-03"), lab)
    earlier = first_environment(request_for(repo), lab)
    assert setups == ["asked", "installed", "installed"]
    assert earlier.remark == "Dependencies as of 2023-06-01."


def test_lock_that_does_not_install_is_reported(
    repo: Path, index: PackageIndex, lab: Lab, setups: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    index.put("app", "1.0", "2023-01-01")
    resolver = EnvironmentResolver()
    lock = ("echo 'ERROR: no wheel of app can be used' >&2; exit 1",)
    monkeypatch.setattr(resolver.pinner, "commands", lambda *_arguments, **_options: lock)
    environment = next(resolver.candidates(request_for(repo), lab))
    assert setups == ["asked", "installed", "installed"]
    assert environment.unpinned == "the lock did not install: ERROR: no wheel of app can be used"
    assert freeze(environment.prepared.environment) == ["app==1.0"]


def test_newer_release_of_an_unnamed_dependency_is_replaced(
    repo: Path, index: PackageIndex, lab: Lab, setups: list[str]
) -> None:
    index.put("app", "1.0", "2023-01-01", requires="dep")
    index.put("dep", "1.0", "2023-01-01")
    index.put("dep", "2.0", "2024-01-01")
    environment = first_environment(request_for(repo), lab)
    assert setups == ["asked", "asked", "installed"]
    assert freeze(environment.prepared.environment) == ["app==1.0", "dep==1.0"]
    assert environment.remark == "Dependencies as of 2023-06-01."


def test_environment_without_pins_is_installed_once(
    repo: Path, index: PackageIndex, lab: Lab, setups: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    installed: list[object] = []
    prepare = lab._prepare

    def count_and_prepare(*arguments: Any) -> Any:
        installed.append(arguments)
        return prepare(*arguments)

    monkeypatch.setattr(lab, "_prepare", count_and_prepare)
    index.put("app", "1.0", "2023-01-01")
    first_environment(request_for(repo, pin=False), lab)
    assert set(setups) == {"installed"}
    assert len(installed) == 1


def test_pip_without_dry_runs_installs_to_find_releases(
    repo: Path, index: PackageIndex, lab: Lab, setups: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_old(*_arguments: object) -> None:
        raise UnsuitableCommit("setup failed", "setup failed", remedy="no such option: --dry-run")

    monkeypatch.setattr(dry_run, "set_up", too_old)
    index.put("app", "1.0", "2023-01-01")
    request = request_for(repo)
    draft = dataclasses.replace(request.draft, setup=request.detected.plans[0].commands)
    assert find_releases(draft, request.folder, lab) == ["app==1.0"]
    assert setups == ["installed"]
