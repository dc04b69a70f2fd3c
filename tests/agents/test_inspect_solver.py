"""Solvers of Inspect AI as agents: their names, and how they are run. The real program: tests/execution/test_cli_agents.py."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from agentbench.agents.base import AgentSetup
from agentbench.agents.cli.agent import profile_of
from agentbench.agents.cli.profiles import HARBOR, INSPECT, PRIVATE, TARGET, Profile
from agentbench.agents.registry import make_agent, require_agent, require_turns
from agentbench.core.errors import InputError
from agentbench.core.reasons import Observability

pytestmark = [pytest.mark.req("T-05"), pytest.mark.component]


class NamedModel:
    name = "vendor/model"

    def complete(self, *_: object, **__: object) -> Any:
        raise AssertionError


def test_solver_runs_with_its_module_and_model(tmp_path: Path) -> None:
    agent = make_agent("inspect:my.solvers:fix", AgentSetup("t", tmp_path, files=tmp_path, model=NamedModel()))
    assert (agent.name, agent.observability) == ("inspect:my.solvers:fix", Observability.GATEWAY)
    assert profile_of(agent.name) is INSPECT
    line = INSPECT.rendered(INSPECT.line, model="vendor/model", argument="my.solvers:fix")
    assert line == f"{TARGET}/venv/bin/python {PRIVATE}/run_inspect_solver.py my.solvers:fix vendor/model"


@pytest.mark.parametrize(
    "name", ["inspect:", "inspect:solvers", "inspect:a:b;reboot", "inspect:../a:b", "inspect:a:b c", "inspect:a:é"]
)
def test_name_that_is_not_a_module_and_function_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="invalid agent") as caught:
        make_agent(name, AgentSetup("t", tmp_path, model=NamedModel()))
    assert "inspect:MODULE:SOLVER" in (caught.value.remedy or "")


def test_solver_needs_a_model_and_has_one_turn() -> None:
    with pytest.raises(InputError, match="needs a model"):
        require_agent("inspect:a:b", has_model=False)
    with pytest.raises(InputError, match="does not support multi-turn tasks"):
        require_turns("inspect:a:b", 1)


@pytest.mark.parametrize("profile", [INSPECT, HARBOR], ids=lambda profile: profile.name)
def test_every_package_of_a_bridge_is_locked_by_digest(profile: Profile) -> None:
    text = profile.lock["requirements.txt"].decode()
    assert f"{profile.package}=={profile.version} \\\n    --hash=sha256:" in text
    entries = text.replace("\\\n", "").splitlines()
    assert all("--hash=sha256:" in entry for entry in entries)


@pytest.mark.parametrize("profile", [INSPECT, HARBOR], ids=lambda profile: profile.name)
def test_runner_is_valid_python(profile: Profile) -> None:
    (source,) = profile.files.values()
    ast.parse(source)
