from __future__ import annotations

import re

import click
import pytest

from agentbench.cli.option_sections import OTHER
from agentbench.cli.run import command as run
from agentbench.cli.run_task import command as run_task

pytestmark = pytest.mark.component


@pytest.mark.parametrize("command", [run, run_task], ids=["run", "run-task"])
def test_help_lists_every_option_once(command: click.Command) -> None:
    shown = command.get_help(click.Context(command, info_name="ab"))
    options = [option for parameter in command.get_params(click.Context(command)) for option in parameter.opts[-1:]]
    rows = re.findall(r"^  (?:-\w, )?(--[\w-]+)", shown, re.MULTILINE)
    assert sorted(rows) == sorted(options)


def test_only_resume_and_help_have_no_heading() -> None:
    shown = run.get_help(click.Context(run, info_name="ab"))
    _, others = shown.split(f"{OTHER}:\n")
    assert re.findall(r"--[\w-]+", others.split("\n\n")[0]) == ["--resume", "--help"]
