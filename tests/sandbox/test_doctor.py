"""The output of `ab doctor` and `ab cache`, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from agentbench.cli.cache import command as cache
from agentbench.cli.doctor import command as doctor
from agentbench.cli.doctor import headline
from agentbench.core.command import Completed, Stream
from agentbench.sandbox.doctor import BackendHealth, IsolationCheck, _probe_isolation, check_backend
from agentbench.sandbox.protocol import Backend, LimitReport, Prepared
from tests.sandbox.conftest import require_docker

pytestmark = pytest.mark.component

HARD = LimitReport("hard", "hard", "hard", "hard")


Invoke = Callable[..., Result]


@pytest.fixture
def invoke(state: Path, backend: Backend, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    monkeypatch.setenv("AB_STATE", str(state))

    def run(verb: click.Command, *arguments: str) -> Result:
        return CliRunner().invoke(verb, list(arguments), catch_exceptions=False)

    return run


@pytest.mark.req("U-01")
def test_doctor_reports_backends_limits_isolation_and_tools(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "sk-do-not-show")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://me:hidden-word@index.invalid/simple")
    done = invoke(doctor, "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    bwrap = next(item for item in report["backends"] if item["name"] == "bwrap")
    assert bwrap["available"]
    assert bwrap["weak"] == []
    assert set(bwrap["limits"]) == {"cpu", "memory", "pids", "disk"}
    assert bwrap["server"].startswith("python 3.")
    assert (bwrap["observes_programs"], bwrap["observation_problem"]) == (True, None)
    assert {"capabilities", "host user", "network", "mounts", "host files"} <= {i["check"] for i in bwrap["isolation"]}
    assert report["keys"]["OPENROUTER_API_KEY"] == "present"
    assert "sk-do-not-show" not in done.output
    assert "hidden-word" not in done.output
    assert any("index.invalid" in address for address in report["index"]["registries"])
    assert report["pythons"]
    assert report["tools"]["git"]


@pytest.mark.parametrize("name", ["bwrap", "docker"])
def test_doctor_names_the_protection_of_the_command_server(name: str, state: Path) -> None:
    if name == "docker":
        require_docker()
    checks = {check.name: check for check in check_backend(name, state).checks}
    protected = IsolationCheck("command server: control", ok=True, detail="system call rules by argument")
    assert checks[protected.name] == protected


def test_doctor_says_what_of_the_command_server_can_be_changed(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentbench.sandbox.seccomp.MACHINES", {})  # as on a CPU architecture without a filter
    weak = {check.name: check.detail for check in check_backend("bwrap", state).weak}
    assert weak["command server: control"].startswith("its limits, scheduling, processors, priority")


@pytest.mark.req("M-02b")
def test_doctor_says_why_programs_are_not_observed(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "  programs that commands start: observed\n" in invoke(doctor).output
    monkeypatch.setenv("AB_TEST_OBSERVATION_PROBLEM", "no seccomp listener: Device or resource busy")
    done = invoke(doctor)
    assert done.exit_code == 0
    assert "  programs that commands start: not observed: no seccomp listener: Device or resource busy\n" in done.output


def test_doctor_without_a_sandbox_is_not_ready_and_names_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("AB_STATE", str(tmp_path / "state"))
    done = CliRunner().invoke(doctor, [])
    assert done.exit_code == 3
    assert done.output.startswith("NOT READY")
    assert "apt-get install bubblewrap" in done.output
    assert "git: MISSING" in done.output


def test_weak_isolation_is_the_headline() -> None:
    from dataclasses import replace

    from agentbench.sandbox.doctor import Diagnosis

    weak = BackendHealth("bwrap", available=True, limits=HARD, checks=(IsolationCheck("mounts", ok=False, detail="x"),))
    diagnosis = Diagnosis((weak,), (), (), {}, (), (), {}, Path("/"), 1, 1, "root")
    assert headline(diagnosis).startswith("WEAK bwrap")
    assert not diagnosis.usable
    assert headline(replace(diagnosis, backends=(replace(weak, checks=()),))) == "READY bwrap"


def test_crashed_probe_is_a_failed_check(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def run(self, _: object) -> Completed:
            return Completed(
                1, Stream(head=b"ok\tuser\tfine\n", total_bytes=13), Stream(head=b"boom", total_bytes=4), 0
            )

    monkeypatch.setattr(
        "agentbench.sandbox.doctor._host_user", lambda _: IsolationCheck("host user", ok=True, detail="")
    )
    checks = _probe_isolation(Broken(), HARD)  # type: ignore[arg-type]
    assert [check.name for check in checks if not check.ok] == ["probe"]


@pytest.mark.req("R-06")
@pytest.mark.parametrize(
    "message",
    [
        "sandbox start: [Errno 13] mount bind on /: Permission denied",
        "bwrap: setting up uid map: Permission denied",
        "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted",
    ],
)
def test_doctor_recognises_the_apparmor_restriction_of_ubuntu(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, message: str
) -> None:
    """The messages are from Ubuntu 24.04, for an ordinary user's harness and for bubblewrap."""
    (tmp_path / "restricted").write_text("1\n")
    monkeypatch.setattr("agentbench.sandbox.remedies._APPARMOR", tmp_path / "restricted")
    program = tmp_path / "bwrap"
    program.write_text(f"#!/bin/sh\necho '{message}' >&2; exit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    done = invoke(doctor)
    assert done.exit_code == 3
    assert done.output.startswith("NOT READY")
    assert message in done.output
    assert "remedy: AppArmor restricts unprivileged user namespaces (default since Ubuntu 23.10)" in done.output
    assert "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0" in done.output


def test_cache_lists_items_and_keeps_those_in_use(invoke: Invoke, prepared: Prepared) -> None:
    listed = json.loads(invoke(cache, "ls", "--json").stdout)
    kinds = {item["kind"] for item in listed["items"]}
    assert {"python", "prepared"} <= kinds
    # Another backend with the same state folder may have prepared the same environment.
    mine = [item for item in listed["items"] if item["label"] == "conformance" and item["in_use"]]
    # An image counts only what it adds to its base, which may be almost nothing; a layer of files counts whole.
    (own,) = [item for item in mine if prepared.details["layer"] in item["name"]]
    assert own["bytes"] > 1000
    removed = json.loads(invoke(cache, "prune", "--max-gb", "0", "--json").stdout)
    assert not {item["name"] for item in mine} & {item["name"] for item in removed["removed"]}
    assert "conformance" in invoke(cache, "ls").output


def test_cache_of_a_new_state_folder_is_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AB_STATE", str(tmp_path / "none"))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")  # an engine may hold unused images
    assert CliRunner().invoke(cache, ["ls"]).output.startswith("0.0 MB in 0 items")
    assert CliRunner().invoke(cache, ["prune", "--all"]).output.startswith("removed 0.0 MB")


@pytest.mark.parametrize("option", ["--max-gb", "--unused-days"])
@pytest.mark.parametrize("value", ["inf", "nan"])
def test_cache_limits_must_be_finite_numbers(option: str, value: str) -> None:
    done = CliRunner().invoke(cache, ["prune", option, value])
    assert done.exit_code == 2
    assert "not a finite number" in done.output
