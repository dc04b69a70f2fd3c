from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from agentbench.cli.main import root
from agentbench.core.errors import ContractError

pytestmark = pytest.mark.component


def commands(group: click.Group, ctx: click.Context) -> Iterator[tuple[list[str], click.Command]]:
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from (([name, *path], leaf) for path, leaf in commands(command, ctx))
        else:
            yield [name], command


def refusal(args: list[str]) -> str:
    with pytest.raises(click.UsageError) as caught:
        root.main(args, standalone_mode=False)
    assert caught.value.exit_code == 2
    return caught.value.message


def test_repeated_agent_is_refused_with_the_alternative() -> None:
    message = refusal(["run", "--suite", "demo", "--agent", "noop", "--agent", "reference"])
    assert message == (
        "Option '--agent' is given twice, but can be given once; to compare several, name variants: --variant A --variant B."
    )


def test_repeated_option_is_refused_on_every_command() -> None:
    """Before anything else is checked, so the values need not be valid."""
    tried = 0
    for path, command in commands(root, click.Context(root)):
        for option in command.params:
            once = isinstance(option, click.Option) and not option.multiple and not option.is_flag and not option.count
            if once and option.nargs == 1:
                message = refusal([*path, f"{option.opts[-1]}=1", f"{option.opts[-1]}=2"])
                assert f"'{option.opts[-1]}' is given twice" in message
                tried += 1
    assert tried > 100


def test_flags_and_repeatable_options_may_be_repeated() -> None:
    """The command gets as far as its input."""
    with pytest.raises(ContractError) as caught:
        root.main(["run", "--suite=demo", "--json", "--json", "--task=a", "--task=b"], standalone_mode=False)
    assert [problem[:8] for problem in caught.value.problems] == ["--task a", "--task b"]


def test_contradicting_flags_are_refused() -> None:
    assert "--preflight/--no-preflight" in refusal(["run", "--preflight", "--no-preflight"])


def test_options_that_choose_the_same_thing_exclude_each_other() -> None:
    assert (
        refusal(["retry", "latest", "--errors", "--failed"]) == "Options '--errors' and '--failed' exclude each other."
    )


@pytest.mark.parametrize(
    "args, hint",
    [
        (["run", "demo"], "name a task with --task or name a suite with --suite"),
        (["run-task", "tasks/bug"], "name a task with --task"),
        (["grade", "tasks/bug", "--patch", "fix.patch"], "name a task with --task or name a suite with --suite"),
    ],
)
def test_task_or_suite_without_its_option_is_refused_with_the_option(args: list[str], hint: str) -> None:
    assert refusal(args) == f"Unexpected argument '{args[1]}': {hint}."
