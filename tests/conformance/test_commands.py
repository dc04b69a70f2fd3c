"""Every command can be found out about, from the command itself and from the pages."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from agentbench.cli.main import VERBS, root

ROOT = Path(__file__).parents[2]
EXIT_OK = 0


@pytest.mark.req("U-01")
def test_commands_of_the_interface_exist() -> None:
    wanted = {
        "demo",
        "doctor",
        "init",
        "run",
        "run-task",
        "validate-tasks",
        "grade",
        "show",
        "verify",
        "task",
        "report",
        "cache",
    }
    assert wanted <= set(VERBS)


def leaves(command: click.Command, path: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The commands below a verb that do something: itself, or the members of a group."""
    if not isinstance(command, click.Group):
        return [path]
    return [leaf for name, member in command.commands.items() for leaf in leaves(member, (*path, name))]


@pytest.mark.req("U-01")
@pytest.mark.parametrize("verb", sorted(VERBS))
def test_help_has_a_summary_and_an_example(verb: str) -> None:
    command = root.get_command(click.Context(root), verb)
    assert command is not None
    for path in leaves(command, (verb,)):
        result = CliRunner().invoke(root, [*path, "--help"])
        assert result.exit_code == EXIT_OK, result.output
        words = "ab " + " ".join(path)
        assert re.search(rf"^\s+{words}\b", result.output, re.MULTILINE), f"{words} --help shows no example"


@pytest.mark.req("U-01", "U-02")
@pytest.mark.parametrize("verb", sorted(VERBS))
def test_command_is_documented(verb: str) -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert any(f"ab {verb}" in page.read_text(encoding="utf-8") for page in pages), f"no page speaks of `ab {verb}`"


@pytest.mark.req("U-02")
def test_readme_covers_what_a_newcomer_needs() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for part in ("make demo", "make test", "## Add a task", "## Read the results", "ab doctor"):
        assert part in text
    assert (ROOT / ".env.example").exists()
