"""Third-party programs: layers, profiles, and how they run. The real programs: tests/execution/test_cli_agents.py."""

from __future__ import annotations

import json
import re
import stat
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentbench.agents.base import AgentSetup, run_session
from agentbench.agents.cli import agent as cli
from agentbench.agents.cli.layer import ProgramLayer, install
from agentbench.agents.cli.profiles import PRIVATE, PROFILES, TARGET, Profile, Source
from agentbench.core.command import Command
from agentbench.core.errors import InputError, SandboxUnavailable, SetupFailed
from agentbench.core.reasons import Observability, TerminationCode
from agentbench.models.client.endpoint import Dialect
from agentbench.models.gateway.server import PORT
from agentbench.policy.monitors import PolicyMonitor
from agentbench.sandbox.environments.cache import contents
from agentbench.sandbox.protocol import Limits, Phase, SandboxSpec, SetupPlan, SetupStep
from agentbench.tools.session import Session
from agentbench.trace.events import ProcessStarted, ToolCallFinished
from tests.tools.project_sandboxes import ProjectSandboxes

pytestmark = [pytest.mark.req("T-05"), pytest.mark.component]

LIKE = SandboxSpec(Phase.SETUP, Limits())
FAKE = Profile(
    name="fake",
    package="fake",
    version="1.0",
    source=Source.PYPI,
    install=(
        "mkdir -p bin lib",
        (
            """printf '#!/bin/sh\\ncp "$AB_BRIEFING" told.txt; cat "$FAKE_HOME/task.json" "$0.data"; echo "$2" > model.txt\\n'"""
            " > bin/fake && chmod +x bin/fake"
        ),
        "echo data > lib/data && ln -s ../lib/data bin/fake.data",
    ),
    dialect=Dialect.CHAT,
    line=f"{TARGET}/bin/fake --model @MODEL@",
    env={"FAKE_HOME": PRIVATE},
    files={"task.json": "[@BRIEFING_JSON@]"},
)


class _Named:
    def __init__(self, name: str) -> None:
        self.name = name

    def complete(self, *_: object, **__: object) -> Any:
        raise AssertionError


def no_steps(step: SetupStep) -> None:
    raise AssertionError(step.command)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="module")
def layer(sandboxes: ProjectSandboxes, kept: Path) -> ProgramLayer:
    return install(FAKE, sandboxes.backend, LIKE, kept, on_step=lambda _step: None)


def test_layer_is_installed_once_and_reused(sandboxes: ProjectSandboxes, layer: ProgramLayer, kept: Path) -> None:
    assert install(FAKE, sandboxes.backend, LIKE, kept, on_step=no_steps) == layer
    assert layer.digest.startswith("sha256:")
    assert layer.described() == {
        "profile": "fake",
        "package": "fake",
        "version": "1.0",
        "source": "pypi",
        "digest": layer.digest,
    }
    assert [(item.kind, item.bytes > 0) for item in contents(kept) if item.kind == "agent"] == [("agent", True)]


def test_layer_digest_depends_on_the_files(sandboxes: ProjectSandboxes, layer: ProgramLayer, tmp_path: Path) -> None:
    assert install(FAKE, sandboxes.backend, LIKE, tmp_path, on_step=lambda _step: None).digest == layer.digest
    more = replace(FAKE, install=(*FAKE.install, "echo more > lib/more"))
    assert install(more, sandboxes.backend, LIKE, tmp_path, on_step=lambda _step: None).digest != layer.digest


def test_layer_keeps_files_links_and_modes(layer: ProgramLayer) -> None:
    program = layer.folder / "bin/fake"
    assert stat.S_IMODE(program.stat().st_mode) == 0o755
    assert stat.S_IMODE((layer.folder / "lib/data").stat().st_mode) == 0o644
    assert str((layer.folder / "bin/fake.data").readlink()) == "../lib/data"


def test_failed_installation_shows_the_installer_output(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    broken = replace(FAKE, name="broken", install=("echo no such package >&2; exit 3",))
    with pytest.raises(SandboxUnavailable, match=r"cannot install agent program fake 1\.0 \(pypi\).*no such package"):
        install(broken, sandboxes.backend, LIKE, tmp_path, on_step=lambda _step: None)
    assert not list(tmp_path.glob("agents/*"))


def test_incomplete_layer_is_installed_again(sandboxes: ProjectSandboxes, layer: ProgramLayer, tmp_path: Path) -> None:
    first = install(FAKE, sandboxes.backend, LIKE, tmp_path, on_step=lambda _step: None)
    (first.folder.parent / "layer.json").unlink()
    (first.folder / "lib/data").unlink()
    again = install(FAKE, sandboxes.backend, LIKE, tmp_path, on_step=lambda _step: None)
    assert again == first
    assert (again.folder / "lib/data").read_text() == "data\n"
    assert again.digest == layer.digest


def test_concurrent_installations_make_one_layer(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    slow = replace(FAKE, name="slow", install=("sleep 0.2", *FAKE.install))
    steps: list[str] = []
    layers: list[ProgramLayer] = []

    def work() -> None:
        layers.append(install(slow, sandboxes.backend, LIKE, tmp_path, on_step=lambda step: steps.append(step.command)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(layers) == 4
    assert len({layer.folder for layer in layers}) == 1
    assert len(steps) == len(slow.install)


def test_program_gets_briefing_model_and_configuration(
    sandboxes: ProjectSandboxes, layer: ProgramLayer, tmp_path: Path
) -> None:
    agent = cli.make(FAKE, AgentSetup("t", tmp_path, model=_Named("vendor/model:free")))
    assert (agent.name, agent.observability) == ("cli:fake", Observability.GATEWAY)
    with sandboxes.open(tmp_path, mounts=(layer.mount,)) as recorded:
        ended = run_session(agent, recorded.session)
        assert ended.code is TerminationCode.AGENT_STOPPED, ended
        (finished,) = recorded.of(ToolCallFinished)
        assert finished.stdout.text == '["do it\\n"]data\n'
        assert sorted(finished.changed_files) == ["model.txt", "told.txt"]
        assert _in(recorded.session, "cat model.txt told.txt") == "vendor/model:free\ndo it\n"
        assert _in(recorded.session, f"touch {TARGET}/x 2>/dev/null || echo refused") == "refused\n"


def test_other_sandboxes_do_not_have_the_layer(
    sandboxes: ProjectSandboxes, layer: ProgramLayer, tmp_path: Path
) -> None:
    assert layer.folder.exists()
    with sandboxes.open(tmp_path) as recorded:
        assert _in(recorded.session, f"ls {TARGET} 2>/dev/null || echo none") == "none\n"


@pytest.mark.parametrize("model", ["", "a b", "a;rm -rf /", "$(id)", "a'b", 'a"b', "naïve", "a\nb"])
def test_unsafe_model_names_are_rejected(model: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="invalid model name"):
        cli.make(FAKE, AgentSetup("t", tmp_path, model=_Named(model)))


@pytest.mark.parametrize("name", list(PROFILES))
def test_every_profile_is_pinned_and_complete(name: str) -> None:
    profile = PROFILES[name]
    _require_lock(profile)
    assert TARGET in profile.line
    assert "$AB_BRIEFING" in profile.line or any("@BRIEFING_JSON@" in text for text in profile.files.values())
    filled = profile.rendered(" ".join([profile.line, *profile.env.values(), *profile.files.values()]), model="m")
    assert "@MODEL@" not in filled
    assert "@BRIEFING_JSON@" not in filled
    assert "http" not in filled.replace(f"http://127.0.0.1:{PORT}", "")
    assert cli.profile_of(f"cli:{name}") is profile


def _require_lock(profile: Profile) -> None:
    """Check that the lock pins every package, the program included, by version and digest."""
    pinned = profile.lock["requirements.txt"].decode()
    assert all(
        re.match(r"[\w.-]+==[^\s;]+( ; .+)? \\\n(    --hash=sha256:[0-9a-f]{64}( \\)?\n)+", block)
        for block in _blocks(pinned)
    )
    if profile.source is Source.PYPI:
        assert f"\n{profile.package}=={profile.version} " in f"\n{pinned}"
        return
    packages = json.loads(profile.lock["package-lock.json"])["packages"]
    assert packages[f"node_modules/{profile.package}"]["version"] == profile.version
    assert all(package["integrity"].startswith("sha512-") for name, package in packages.items() if name)
    assert json.loads(profile.lock["package.json"])["dependencies"] == {profile.package: profile.version}


def _blocks(lock: str) -> list[str]:
    return [f"{block}\n" for block in re.split(r"\n(?=\S)", lock.strip())]


@pytest.mark.parametrize("name", list(PROFILES))
def test_changed_lock_makes_a_new_layer(
    sandboxes: ProjectSandboxes, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans: list[SetupPlan] = []

    def stop(plan: SetupPlan, *_: object, **__: object) -> object:
        plans.append(plan)
        assert {path.name: path.read_bytes() for path in plan.source.iterdir()} == PROFILES[name].lock
        raise SetupFailed("enough")

    monkeypatch.setattr(sandboxes.backend, "prepare", stop)
    for lock in (PROFILES[name].lock, {"requirements.txt": b"other==1\n"}):
        monkeypatch.setitem(PROFILES[name].__dict__, "lock", lock)
        with pytest.raises(SandboxUnavailable, match="enough"):
            install(PROFILES[name], sandboxes.backend, LIKE, tmp_path, on_step=no_steps)
    assert len({plan.key for plan in plans}) == 2


def test_other_agent_names_have_no_profile() -> None:
    assert [cli.profile_of(name) for name in ("noop", "aider", "cli:", "cli:unknown")] == [None] * 4


def _in(session: Session, line: str) -> str:
    return session._context.sandbox.run(Command(line=line)).stdout.kept.decode()


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_command_line_of_a_profile_violates_no_rule(name: str) -> None:
    argv = ["/bin/sh", "-c", PROFILES[name].line]
    started = ProcessStarted(
        call_id="h1", number=1, pid=5, parent=1, program="/bin/sh", argv=argv, cwd="/workspace", elapsed_us=1
    )
    assert PolicyMonitor()(1, started) == ()
