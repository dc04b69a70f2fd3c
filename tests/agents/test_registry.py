from __future__ import annotations

from pathlib import Path

import pytest

from agentbench.agents import registry
from agentbench.agents.base import AgentSetup
from agentbench.agents.command import AGENT_FILES_TARGET, agent_mounts
from agentbench.core.errors import InputError
from agentbench.plugins.kinds import Kind
from tests.plugins.packages import Packages, packages

__all__ = ["packages"]
pytestmark = [pytest.mark.req("T-04a"), pytest.mark.component]

SETUP = AgentSetup(task_id="t", task_folder=Path("/nowhere"))


WORKS = """
from agentbench.agents.noop import NoopAgent


def plugin(setup):
    return NoopAgent()
"""


@pytest.mark.parametrize("name", ["noop", "no-op"])
def test_agent_is_found_by_name_and_alias(name: str) -> None:
    assert registry.make_agent(name, SETUP).name == "noop"


def test_bundled_agents_are_listed() -> None:
    assert set(registry.known_agents()) >= {"noop", "reference", "scripted", "command"}


@pytest.mark.parametrize("name,near", [("nop", "noop"), ("scriptd", "scripted"), ("Command", "command")])
def test_unknown_agent_suggests_the_nearest_name(name: str, near: str) -> None:
    with pytest.raises(InputError) as caught:
        registry.require_agent(name, has_model=True)
    assert f"did you mean `{near}`" in caught.value.message
    assert "noop, reference, scripted, command" in caught.value.remedy


def test_plugin_agent_is_found_by_entry_point(packages: Packages) -> None:
    packages.install("acme", Kind.AGENT, "mine", WORKS)
    assert "mine" in registry.known_agents()
    assert registry.make_agent("mine", SETUP).name == "noop"


def test_plugin_cannot_replace_a_bundled_agent(packages: Packages) -> None:
    packages.install("acme", Kind.AGENT, "reference", WORKS)
    with pytest.raises(InputError, match="no reference"):
        registry.make_agent("reference", SETUP)


def test_broken_plugin_is_named_with_its_package(packages: Packages) -> None:
    packages.install("acme", Kind.AGENT, "mine", "import no_such_module")
    with pytest.raises(InputError, match=r"agent 'mine' of acme 1\.0"):
        registry.require_agent("mine", has_model=False)


def test_agent_files_are_mounted_outside_the_workspace(tmp_path: Path) -> None:
    (mount,) = agent_mounts(AgentSetup("t", tmp_path, files=tmp_path))
    assert (mount.source, mount.target) == (tmp_path.resolve(), AGENT_FILES_TARGET)
    assert agent_mounts(SETUP) == ()


def test_agent_files_must_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for wrong in (tmp_path / "file", tmp_path / "missing"):
        with pytest.raises(InputError) as caught:
            agent_mounts(AgentSetup("t", tmp_path, files=wrong))
        assert "--agent-files" in caught.value.message
