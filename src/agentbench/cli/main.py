"""The `ab` command: finds the verb, maps errors to exit codes, and nothing else."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from types import FrameType
from typing import NoReturn

import click

from agentbench import __version__

# verb → (module, one line for `ab --help`). Kept as data so that listing the verbs imports none of them.
VERBS: dict[str, tuple[str, str]] = {
    "adjudicate": ("agentbench.cli.adjudicate", "Note what a person found out about an attempt."),
    "cache": ("agentbench.cli.cache", "List or prune prepared environments and mirrors."),
    "demo": ("agentbench.cli.demo", "The main job end to end on bundled tasks: no key, no daemon."),
    "doctor": ("agentbench.cli.doctor", "What works on this machine, and a remedy for what does not."),
    "grade": ("agentbench.cli.grade", "Grade patches made elsewhere."),
    "init": ("agentbench.cli.init", "Make a new suite with one commented task."),
    "query": ("agentbench.cli.query", "SQL over the records and events of runs (DuckDB)."),
    "operator": ("agentbench.cli.operator", "Decide about attempts that wait for a person."),
    "replay": ("agentbench.cli.replay", "Run acceptance again on recorded patches and compare."),
    "report": ("agentbench.cli.report", "Summaries and paired comparisons of runs."),
    "retain": ("agentbench.cli.retain", "Keep no more than minimal evidence of a run."),
    "rescore": ("agentbench.cli.rescore", "What a run would have been under other weights or caps."),
    "run": ("agentbench.cli.run", "Run agents on a suite."),
    "run-task": ("agentbench.cli.run_task", "Run an agent on one task."),
    "show": ("agentbench.cli.show", "A run or an attempt as a card."),
    "task": ("agentbench.cli.task", "Author tasks: check, new, lock, stats."),
    "validate-tasks": ("agentbench.cli.validate_tasks", "Baseline fails, reference passes, nothing flakes."),
    "verify": ("agentbench.cli.verify", "Recompute a run's chains, digests and verdicts."),
}

EXIT_INTERRUPTED = 130
EXIT_HARNESS = 3


class Verbs(click.Group):
    """A group that imports a verb only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        command = importlib.import_module(VERBS[name][0]).command
        if not isinstance(command, click.Command):
            msg = f"{VERBS[name][0]}.command is not a click command"
            raise TypeError(msg)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib

            close = difflib.get_close_matches(args[0], VERBS, n=1) if args else []
            if not close:
                raise
            message = f"{error.message} Did you mean '{close[0]}'?"
            raise click.UsageError(message, ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, VERBS[name][1]) for name in sorted(VERBS)])


EPILOG = """\b
Examples:
  ab demo                                        see everything work once
  ab doctor                                      what works on this machine
  ab run-task --task tasks/mine/bug --agent noop
  ab run --suite demo --agent reference --workers 2
"""


@click.command(
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog=EPILOG,
)
@click.version_option(__version__, prog_name="ab")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def root(ctx: click.Context, *, debug: bool) -> None:
    """Evaluate AI coding agents on tasks made from real repositories.

    Exit codes: 0 done; 1 a gate you asked for did not hold; 2 bad usage or input; 3 our infrastructure failed;
    130 interrupted.
    """
    ctx.obj = {"debug": debug}


def main() -> NoReturn:
    """Entry point of `ab` and `agentbench`."""
    signal.signal(signal.SIGTERM, _as_interrupt)
    debug = "--debug" in sys.argv[1:]
    try:
        code = _invoke()
        sys.stdout.flush()
    except click.exceptions.Exit as error:
        code = error.exit_code
    except click.Abort:
        code = _interrupted()
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except KeyboardInterrupt:
        code = _interrupted()
    except BrokenPipeError:
        # The reader of our output went away (`ab show … | head`): not an error of anybody.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as error:  # noqa: BLE001 - the one place where errors become exit codes
        code = _report(error, debug=debug)
    sys.exit(code if isinstance(code, int) else 0)


def _invoke() -> object:
    """Run the verb. click's own `main` would turn a closed pipe into exit 1, which here means that a gate did not hold."""
    if "_AB_COMPLETE" in os.environ:
        return root.main(prog_name="ab")
    try:
        with root.make_context("ab", sys.argv[1:]) as ctx:
            return root.invoke(ctx)
    except SystemExit as stop:
        return stop.code


def _as_interrupt(_signum: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _interrupted() -> int:
    click.echo("interrupted", err=True)
    return EXIT_INTERRUPTED


def _report(error: Exception, *, debug: bool) -> int:
    """One clear message for an expected error; an unexpected one is a bug of ours and says so."""
    from agentbench.core.errors import AgentBenchError, ContractError

    if debug:
        import traceback

        traceback.print_exception(error)
    if isinstance(error, AgentBenchError):
        click.echo(f"error: {error.message}", err=True)
        if isinstance(error, ContractError):
            for problem in error.problems:
                click.echo(f"  {problem}", err=True)
        if error.remedy:
            click.echo(f"  {error.remedy}", err=True)
        return error.exit_code
    if not debug:
        click.echo(f"internal error: {type(error).__name__}: {error}", err=True)
        click.echo("  this is a bug in ab; run again with `ab --debug …` and report the traceback", err=True)
    return EXIT_HARNESS
