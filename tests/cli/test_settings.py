"""Defaults of common options come from the environment, the project's file and the user's file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from agentbench.cli.config import command as config
from agentbench.cli.options import out_option, sandbox_option, tasks_dir_option, workers_option
from agentbench.cli.settings import KEYS, read_settings, runs_folder
from agentbench.contract.problem import InvalidFileError
from agentbench.core.errors import InputError


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's file, in the XDG place; the working directory is a project."""
    for key in KEYS.values():
        monkeypatch.delenv(key.variable, raising=False)
    monkeypatch.delenv("AB_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    file = tmp_path / "xdg" / "agentbench" / "config.toml"
    file.parent.mkdir(parents=True)
    return file


@click.command()
@workers_option
@sandbox_option
@out_option
@tasks_dir_option
def show_options(**options: Any) -> None:
    click.echo(json.dumps(options, default=str))


def options(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(show_options, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    value: dict[str, Any] = json.loads(result.output)
    return value


def test_command_line_wins_over_environment_project_and_user(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user.write_text('workers = 2\nsandbox = "bwrap"\nout = "a"\ntasks-dir = "b"\n')
    Path("agentbench.toml").write_text('workers = 3\nsandbox = "docker"\nout = "c"\n')
    monkeypatch.setenv("AB_WORKERS", "4")
    monkeypatch.setenv("AB_SANDBOX", "auto")
    assert options("--workers", "5") == {"workers": 5, "sandbox": "auto", "out": "c", "tasks_dir": "b"}
    assert options()["workers"] == 4


def test_defaults_are_those_of_the_help(user: Path) -> None:
    assert options() == {"workers": 1, "sandbox": "auto", "out": "artifacts/runs", "tasks_dir": "tasks"}
    assert {name: key.default for name, key in KEYS.items() if key.default} == {
        parameter.opts[0].removeprefix("--"): parameter.default
        if isinstance(parameter.default, int)
        else str(parameter.default)
        for parameter in show_options.params
    }


def test_help_does_not_depend_on_the_files(user: Path) -> None:
    user.write_text("workers = 7\n")
    assert "default: 1" in CliRunner().invoke(show_options, ["--help"]).output


def test_runs_are_looked_up_in_the_configured_folder(user: Path) -> None:
    user.write_text('out = "~/runs"\n')
    assert runs_folder() == Path.home() / "runs"


def test_every_problem_of_a_file_has_its_line(user: Path) -> None:
    user.write_text('# mine\nworker = 2\nsandbox = "podman"\nout = 3\nworkers = true\n')
    with pytest.raises(InvalidFileError) as caught:
        read_settings()
    assert [problem.removeprefix(str(user)) for problem in caught.value.problems] == [
        ":2: worker: unknown key (did you mean `workers`?)",
        ":3: sandbox: expected one of auto, bwrap, docker, or a sandbox that `ab plugins` lists",
        ":4: out: expected text in quotes",
        ":5: workers: expected a whole number from 1 to 256",
    ]


def test_invalid_toml_is_reported_with_its_line(user: Path) -> None:
    user.write_text("workers = 2\nout = oops\n")
    with pytest.raises(InvalidFileError) as caught:
        read_settings()
    assert f"{user}:2: not valid TOML" in caught.value.problems[0]


def test_project_cannot_send_notifications(user: Path) -> None:
    Path("agentbench.toml").write_text('notify = "https://collector.example"\n')
    with pytest.raises(InvalidFileError, match="1 problem") as caught:
        read_settings()
    assert "only allowed in the user's file" in caught.value.problems[0]


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package with the sandbox `boxed`."""
    metadata = tmp_path / "site/boxes-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: boxes\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[agentbench.sandboxes]\nboxed = boxes:open\n")
    monkeypatch.syspath_prepend(tmp_path / "site")


@pytest.mark.usefixtures("plugin")
def test_sandbox_of_a_plugin_is_chosen_by_the_user_not_by_the_project(
    user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user.write_text('sandbox = "boxed"\n')
    assert options()["sandbox"] == "boxed"
    monkeypatch.setenv("AB_SANDBOX", "boxed")
    assert read_settings()["sandbox"].origin == "environment"
    Path("agentbench.toml").write_text('sandbox = "boxed"\n')
    with pytest.raises(InvalidFileError) as caught:
        read_settings()
    assert caught.value.problems[0].endswith("sandbox: expected one of auto, bwrap, docker")


@pytest.mark.parametrize("value", ["0", "many", "-1", "257"])
def test_bad_variable_is_named(user: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("AB_WORKERS", value)
    with pytest.raises(InputError, match="AB_WORKERS: expected a whole number"):
        read_settings()


def test_show_names_origins_and_hides_the_secret(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user.write_text('workers = 2\nnotify-secret = "do not show this secret"\n')
    Path("agentbench.toml").write_text('\nout = "here"\n')
    monkeypatch.setenv("AB_SANDBOX", "bwrap")
    shown = CliRunner().invoke(config, ["show", "--json"]).output
    settings = {item["key"]: (item["value"], item["origin"], item["place"]) for item in json.loads(shown)["settings"]}
    assert settings == {
        "workers": (2, "user", f"{user}:1"),
        "sandbox": ("bwrap", "environment", "AB_SANDBOX"),
        "out": ("here", "project", "agentbench.toml:2"),
        "tasks-dir": ("tasks", "default", None),
        "notify": (None, "default", None),
        "notify-secret": ("set", "user", f"{user}:2"),
    }
    assert "do not show" not in shown + CliRunner().invoke(config, ["show"]).output
    assert CliRunner().invoke(config, ["--json"]).output == shown
    assert CliRunner().invoke(config, ["--json", "path"]).exit_code == 2


def test_show_leaves_out_the_password_of_an_address(user: Path) -> None:
    user.write_text('notify = "https://me:hidden@hooks.example/x"\n')
    shown = CliRunner().invoke(config, ["show"]).output
    assert "hooks.example/x" in shown
    assert "hidden" not in shown


def test_file_named_by_the_variable_must_exist(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AB_CONFIG", "missing.toml")
    with pytest.raises(InputError, match=r"AB_CONFIG: missing\.toml does not exist"):
        read_settings()


def test_path_lists_both_files(user: Path) -> None:
    user.touch()
    lines = CliRunner().invoke(config, ["path"]).output.splitlines()
    assert lines[0] == f"user: {user}"
    assert lines[1].endswith("agentbench.toml (does not exist)")
