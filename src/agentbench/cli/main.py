"""Entry point of `ab`: finds the command and maps errors to exit codes."""

from __future__ import annotations

import atexit
import contextlib
import errno
import gc
import importlib
import os
import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import click

import agentbench
from agentbench.cli.installation import DISTRIBUTION, installed_namesake, remedy
from agentbench.cli.output import discard_stdout
from agentbench.cli.repeated_options import refuse_repeated_options

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__version__ = getattr(agentbench, "__version__", "unknown")
"""A foreign distribution may have overwritten the module that states it."""

# Command → (module, line in `ab --help`). Kept as data so that listing the commands imports none of them.
COMMANDS: dict[str, tuple[str, str]] = {
    "adjudicate": ("agentbench.cli.adjudicate", "Record a reviewer's finding about an attempt."),
    "cache": ("agentbench.cli.cache", "List or remove prepared environments and other cached data."),
    "ci": ("agentbench.cli.ci", "Write what a CI system posts about a run."),
    "completion": ("agentbench.cli.completion", "Print the completion script of a shell."),
    "config": ("agentbench.cli.config", "Show the configuration and where it comes from."),
    "demo": ("agentbench.cli.demo", "Run a complete evaluation on bundled tasks."),
    "doctor": ("agentbench.cli.doctor", "Check what works on this machine."),
    "export-run": ("agentbench.cli.export_run", "Write a run as a bundle, or in the format of another tool."),
    "grade": ("agentbench.cli.grade", "Grade existing patches."),
    "import-run": ("agentbench.cli.import_run", "Read results of another tool as a run."),
    "init": ("agentbench.cli.init", "Create a suite with one commented task."),
    "keys": ("agentbench.cli.keys", "Create and list the keys that sign runs."),
    "query": ("agentbench.cli.query", "Query records and events of runs with SQL."),
    "mcp": ("agentbench.cli.mcp", "Serve suites, runs and traces to agents and editors."),
    "operator": ("agentbench.cli.operator", "List or answer questions of paused attempts."),
    "pilot": ("agentbench.cli.pilot", "Plan, register and carry out a staged study."),
    "plugin": ("agentbench.cli.plugin", "Write the package of a new plug-in."),
    "plugins": ("agentbench.cli.plugins", "List installed plug-ins."),
    "replay": ("agentbench.cli.replay", "Grade recorded patches again and compare the outcomes."),
    "report": ("agentbench.cli.report", "Summarise or compare runs."),
    "retain": ("agentbench.cli.retain", "Delete bulky evidence from a finished run."),
    "rescore": ("agentbench.cli.rescore", "Compute a run's results under other weights or caps."),
    "retry": ("agentbench.cli.retry", "Repeat invalid or failed attempts of a run."),
    "run": ("agentbench.cli.run", "Run agents on a suite."),
    "run-task": ("agentbench.cli.run_task", "Run an agent on one task."),
    "runs": ("agentbench.cli.runs", "List runs."),
    "schema": ("agentbench.cli.schema", "Print the JSON Schema of a file that you write."),
    "show": ("agentbench.cli.show", "Show a run or an attempt."),
    "sign": ("agentbench.cli.sign", "Sign finished runs."),
    "suite": ("agentbench.cli.suite", "List suites."),
    "task": ("agentbench.cli.task", "Create, check and measure tasks."),
    "validate-tasks": (
        "agentbench.cli.validate_tasks",
        "Check that baselines fail, references pass and results are stable.",
    ),
    "vault": ("agentbench.cli.vault", "Read, rotate or destroy originals of redacted text."),
    "view": ("agentbench.cli.view", "Watch, explore and decide about runs in the browser."),
    "verify": ("agentbench.cli.verify", "Verify a run's hash chains, digests and verdicts."),
}

EXIT_INTERRUPTED = 130
EXIT_HARNESS = 3
GC_THRESHOLD = 100_000
"""New objects between two garbage collections. Imports make many that all stay; looking at them is a tenth of their time."""


class LazyGroup(click.Group):
    """A group that imports a command only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command = importlib.import_module(COMMANDS[name][0]).command
        if not isinstance(command, click.Command):
            raise TypeError(f"{COMMANDS[name][0]}.command is not a click command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            resolved = super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib

            close = difflib.get_close_matches(args[0], COMMANDS, n=1) if args else []
            if not close:
                raise
            message = f"{error.message} Did you mean '{close[0]}'?"
            raise click.UsageError(message, ctx) from None
        name, command, rest = resolved
        if command is not None and not ctx.resilient_parsing:
            refuse_repeated_options(command, name or "", rest, ctx)
        return resolved

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        names = [name for name in sorted(COMMANDS) if name.startswith(incomplete)]
        commands = [CompletionItem(name, help=COMMANDS[name][1]) for name in names]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in sorted(COMMANDS)])


EPILOG = """\b
Examples:
  ab demo
  ab doctor
  ab run-task --task tasks/mine/bug --agent noop
  ab run --suite demo --agent reference --workers 2
"""


@click.command(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog=EPILOG,
)
@click.version_option(__version__, prog_name="ab")
@click.option("--debug", is_flag=True, help="Show tracebacks of errors.")
@click.pass_context
def root(ctx: click.Context, *, debug: bool) -> None:
    """Evaluate AI coding agents on tasks from real repositories.

    Exit codes: 0 success, 1 a requested check failed, 2 invalid usage or input, 3 harness error, 130 interrupted.
    """
    ctx.obj = {"debug": debug}


def main() -> NoReturn:
    """Entry point of `ab` and `agentbench`."""
    codes: list[int] = []
    atexit.register(_end_process, os.getpid(), codes)  # before all others, so called after them
    try:
        run()
    except SystemExit as stop:
        codes.append(stop.code if isinstance(stop.code, int) else 1)
        raise


def _end_process(pid: int, codes: list[int]) -> None:
    """End the process without freeing its objects one by one, which takes a twentieth of a short command."""
    if os.getpid() == pid:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(codes[0] if codes else 1)


def run() -> NoReturn:
    """Run the command of `sys.argv` and exit with its code."""
    gc.set_threshold(GC_THRESHOLD)
    # Looking for plugins of pydantic reads the metadata of every installed package.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    signal.signal(signal.SIGTERM, _as_interrupt)
    debug = "--debug" in sys.argv[1:]
    namesake = installed_namesake()
    if namesake is not None and sys.argv[1:2] != ["doctor"]:
        click.echo(f"error: another package called agentbench overwrites files of {DISTRIBUTION}: {namesake}", err=True)
        click.echo(f"  {remedy()}", err=True)
        sys.exit(EXIT_HARNESS)
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
        discard_stdout()
        code = 0
    except Exception as error:  # noqa: BLE001 - errors become exit codes here
        code = _report(error, debug=debug)
    sys.exit(code if isinstance(code, int) else 0)


def _invoke() -> object:
    """Run the command. click's own `main` would exit with 1 on a closed pipe, which here means a failed check."""
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


_OF_THE_MACHINE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT})
"""Errors of files that are the machine's, and no bug of ours."""


def _report(error: Exception, *, debug: bool) -> int:
    """Print a message for an expected error, or a request to report the bug for any other."""
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
    if isinstance(error, OSError) and error.errno in _OF_THE_MACHINE:
        place = f"{error.filename}: " if error.filename else ""
        click.echo(f"error: {place}{error.strerror}", err=True)
        click.echo("  check permissions and free disk space", err=True)
        return EXIT_HARNESS
    if not debug:
        click.echo(f"internal error: {type(error).__name__}: {error}", err=True)
        click.echo("  This is a bug in ab. Run again with `ab --debug` and report the traceback.", err=True)
    return EXIT_HARNESS
