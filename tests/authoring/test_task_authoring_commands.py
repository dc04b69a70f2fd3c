"""Exit codes and messages of the task authoring commands."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentbench.authoring.commit.from_commit import why_not_portable
from agentbench.cli.progress import LiveLine
from agentbench.cli.task import command
from agentbench.cli.task_authoring import _day
from agentbench.core.errors import InputError
from tests.authoring.conftest import FIX, git, put

pytestmark = [pytest.mark.req("C-18"), pytest.mark.component]


def run(*arguments: str) -> object:
    """Return the exception that a command raised, or its output."""
    done = CliRunner().invoke(command, arguments)
    return done.exception if done.exception is not None and not isinstance(done.exception, SystemExit) else done.output


@pytest.mark.parametrize("verb", ["from-commit", "harvest", "import", "export", "screen"])
def test_every_command_has_help(verb: str) -> None:
    assert "Usage:" in str(run(verb, "--help"))
    assert verb in str(run("--help"))


@pytest.mark.parametrize("arguments", [("from-commit", "/nonexistent", "abc123"), ("harvest", "/nonexistent")])
def test_missing_repository_is_an_input_error(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AB_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    error = run(*arguments)
    assert isinstance(error, InputError)
    assert "/nonexistent" in error.message
    assert "REPO" in error.remedy


def test_interrupted_harvest_says_what_it_does_and_how_to_continue(repo: Path, tmp_path: Path) -> None:
    put(repo, FIX, "Fix half")
    command = [sys.executable, "-m", "agentbench.cli", "task", "harvest", str(repo), "--max", "1", "--name", "a-b"]
    environment = {**os.environ, "AB_STATE": str(tmp_path / "state")}
    # Tests started in the background ignore SIGINT; `ab` must not.
    command = ["env", "--default-signal=INT", *command]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        assert first.startswith(f"reading the history of {repo} (")
        assert process.stderr.readline().startswith("looking for candidates among 2 commits (")
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert process.returncode == 130
    assert f"There are no results yet. To continue: ab task harvest {repo} --max 1 --name a-b\n" in rest
    assert not (tmp_path / "tasks/a-b.harvest.json").exists()


def test_clone_of_a_local_repository_is_not_portable(repo: Path, tmp_path: Path) -> None:
    assert "it has no remote `origin`" in why_not_portable(str(repo))
    git(tmp_path, "clone", "-q", str(repo), "clone")
    assert f"its remote `origin` is the local path {repo}" in why_not_portable(str(tmp_path / "clone"))
    git(repo, "config", "remote.origin.url", "https://example.org/calc.git")
    assert why_not_portable(str(tmp_path / "clone")) == ""


def test_empty_statement_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "issue.md").write_text("  \n")
    error = run("from-commit", "x", "y", "--statement-file", str(tmp_path / "issue.md"))
    assert isinstance(error, InputError)
    assert "is empty" in error.message


@pytest.mark.parametrize(
    "arguments, said",
    [
        (("harvest", "x", "--since", "gibberish"), "--since: expected a date"),
        (("harvest", "x", "--name", "../evil"), "--name: expected letters"),
    ],
)
def test_invalid_options_are_input_errors(arguments: tuple[str, ...], said: str) -> None:
    error = run(*arguments)
    assert isinstance(error, InputError)
    assert said in error.message


@pytest.mark.parametrize(
    "given, meant",
    [
        ("2024-01-31", "2024-01-31T00:00:00"),
        ("2024-01-31T10:00:00+02:00", "2024-01-31T10:00:00+02:00"),
        ("2 years ago", "2 years ago"),
        (None, None),
    ],
)
def test_since_starts_at_midnight(given: str | None, meant: str | None) -> None:
    assert _day(given) == meant


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("watched", [True, False])
def test_running_candidates_are_shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch, watched: bool) -> None:
    stream = Terminal() if watched else io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.delenv("CI", raising=False)
    line = LiveLine()
    line.show("running: abc a\x1b[2J commit with a long subject")
    line.print("abc accepted")
    line.show("")
    if not watched:
        assert stream.getvalue() == "abc accepted\n"
        return
    before, shown, cleared, again, end = stream.getvalue().split("\r\x1b[2K")
    assert (before, cleared, end) == ("", "abc accepted\n", "")
    assert shown == again
    assert shown.startswith("running: abc a")
    assert "\x1b" not in shown
    assert len(shown) == 29
