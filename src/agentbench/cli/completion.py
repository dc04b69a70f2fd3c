"""`ab completion`: print the shell completion script."""

from __future__ import annotations

import click

EPILOG = """\b
Examples:
  ab completion bash >> ~/.bashrc
  ab completion zsh >> ~/.zshrc
  ab completion fish > ~/.config/fish/completions/ab.fish

Commands, options, choices and names of runs are completed.
"""


@click.command(epilog=EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.option("--name", default="ab", show_default=True, help="Name of the command, for example agentbench.")
@click.pass_context
def command(ctx: click.Context, shell: str, *, name: str) -> None:
    """Print the completion script of a shell."""
    from click.shell_completion import get_completion_class

    completion = get_completion_class(shell)
    if completion is None:
        raise click.UsageError(f"no completion for {shell}")
    script = completion(ctx.find_root().command, {}, name, "_AB_COMPLETE")
    # Not `source()`: for bash it checks the version of the bash that is installed here.
    click.echo(script.source_template % script.source_vars())
