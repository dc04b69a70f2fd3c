from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from agentbench.agents import registry
from agentbench.agents.base import AgentSetup
from agentbench.agents.command import AGENT_FILES_TARGET, agent_mounts
from agentbench.agents.noop import NoopAgent
from agentbench.core.errors import InputError

pytestmark = [pytest.mark.req("T-04a"), pytest.mark.component]

SETUP = AgentSetup(task_id="t", task_folder=Path("/nowhere"))


def third_party(setup: AgentSetup) -> NoopAgent:
    return NoopAgent()


not_callable = 3


def install(monkeypatch: pytest.MonkeyPatch, value: str, name: str = "mine") -> None:
    point = EntryPoint(name, value, registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda *, group: [point] if group == registry.GROUP else [])


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


def test_plugin_agent_is_found_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, f"{__name__}:third_party")
    monkeypatch.setattr(EntryPoint, "load", lambda _self: third_party)
    assert "mine" in registry.known_agents()
    assert registry.make_agent("mine", SETUP).name == "noop"


def test_plugin_cannot_replace_a_bundled_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "os:system", name="reference")
    with pytest.raises(InputError, match="no reference"):
        registry.make_agent("reference", SETUP)


@pytest.mark.parametrize("value", ["no_such_module:x", "os:no_such_name", "os:sep"])
def test_broken_entry_point_is_named(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    install(monkeypatch, value)
    with pytest.raises(InputError, match="agent 'mine'"):
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
