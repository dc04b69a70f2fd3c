"""Every command has help with an example, and is documented."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from agentbench.cli.main import COMMANDS, root

pytestmark = pytest.mark.component

ROOT = Path(__file__).parents[2]
EXIT_OK = 0


@pytest.mark.req("U-01")
def test_documented_commands_exist() -> None:
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
    assert wanted <= set(COMMANDS)


def paths(command: click.Command, path: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the path of the command and of all members below it."""
    found = [path]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            member = command.get_command(context, name)
            assert member is not None
            found += paths(member, (*path, name))
    return found


@pytest.mark.req("U-01")
@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_has_an_example(name: str) -> None:
    command = root.get_command(click.Context(root), name)
    assert command is not None
    for path in paths(command, (name,)):
        result = CliRunner().invoke(root, [*path, "--help"])
        assert result.exit_code == EXIT_OK, result.output
        line = "ab " + " ".join(path)
        assert re.search(rf"^\s+{line}\b", result.output, re.MULTILINE), f"{line} --help shows no example"


@pytest.mark.req("U-01", "U-02")
@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_command_is_documented(name: str) -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert any(f"ab {name}" in page.read_text(encoding="utf-8") for page in pages), f"no page mentions `ab {name}`"


@pytest.mark.req("U-02")
def test_readme_has_the_essential_sections() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for part in (
        "make demo",
        "make test",
        "ab doctor",
        "docs/quickstart.md",
        "docs/how-to/write-a-task.md",
        "docs/index.md",
    ):
        assert part in text
    assert (ROOT / ".env.example").exists()


@pytest.mark.req("U-02")
@pytest.mark.parametrize(
    "page, parts",
    [
        ("quickstart.md", ("ab doctor", "ab init", "## Run an agent", "## Read the verdict")),
        ("how-to/write-a-task.md", ("## The shortest task", "ab task check", "ab validate-tasks")),
        ("how-to/audit-a-verdict.md", ("ab show", "ab verify", "ab replay", "ab query")),
    ],
)
def test_guides_cover_adding_a_task_and_reading_results(page: str, parts: tuple[str, ...]) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    for part in parts:
        assert part in text
