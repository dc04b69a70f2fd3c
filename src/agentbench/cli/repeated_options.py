"""Refuses options that are given more often than they can be, or that exclude each other, and values without their option.

click would take the last value of an option, and would not say which option a value belongs to.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

VARIANTS = "to compare several, name variants: --variant A --variant B"
ALTERNATIVES = {
    "agent": VARIANTS,
    "agent_command": VARIANTS,
    "model": VARIANTS,
    "max_steps": VARIANTS,
    "temperature": VARIANTS,
    "patch": "to grade several patches, use --predictions FILE",
    "tasks_dir": "to run several tasks folders, call the command once for each",
    "suite": "to use several suites, call the command once for each",
    "fail_on": "to name several conditions, separate them by commas",
}
"""Parameter -> what people want who repeat its option."""
SELECTIONS = {"--task": "name a task with --task", "--suite": "name a suite with --suite"}
"""Option -> what people want who give its value alone."""


def refuse_repeated_options(command: click.Command, name: str, args: Sequence[str], parent: click.Context) -> None:
    """Check the arguments of a command and of its subcommands.

    Raises:
        UsageError: an option that takes one value is given twice, options exclude each other, a task or suite is
            given without its option, or the arguments cannot be parsed.
    """
    ctx = command.context_class(command, info_name=name, parent=parent, **command.context_settings)
    _, rest, order = command.make_parser(ctx).parse_args(list(args))
    options = [parameter for parameter in order if isinstance(parameter, click.Option)]
    if any(option.is_eager for option in options):
        return  # --help prints its page and ignores other options
    for option in options:
        if options.count(option) > 1 and _takes_one_value(option):
            raise click.UsageError(_message(option, options.count(option)), ctx)
        other = next((each for each in options if each.name == option.name and each is not option), None)
        if other is not None:
            raise click.UsageError(f"Options '{option.opts[-1]}' and '{other.opts[-1]}' exclude each other.", ctx)
    if isinstance(command, click.Group) and rest:
        subcommand = command.get_command(ctx, rest[0])
        if subcommand is not None:
            refuse_repeated_options(subcommand, rest[0], rest[1:], ctx)
    elif rest and all(isinstance(parameter, click.Option) for parameter in command.params):
        hints = [hint for option, hint in SELECTIONS.items() if any(option in each.opts for each in command.params)]
        if hints:
            raise click.UsageError(f"Unexpected argument '{rest[0]}': {' or '.join(hints)}.", ctx)


def _takes_one_value(option: click.Option) -> bool:
    """Return whether a repetition could change the value: a flag such as --json means the same twice."""
    return not option.multiple and not option.count and (not option.is_flag or bool(option.secondary_opts))


def _message(option: click.Option, count: int) -> str:
    names = "/".join([option.opts[-1], *option.secondary_opts])
    times = "twice" if count == 2 else f"{count} times"
    alternative = ALTERNATIVES.get(option.name or "")
    return f"Option '{names}' is given {times}, but can be given once" + (f"; {alternative}." if alternative else ".")
