"""Options that several verbs share, defined once."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

import click

if TYPE_CHECKING:
    from agentbench.run.config import CliChoices

F = TypeVar("F", bound=Callable[..., Any])

FOLDER = click.Path(path_type=Path, file_okay=False)
FILE = click.Path(path_type=Path, dir_okay=False)


class Amount(click.FloatRange):
    """A number from 0 on. Neither `nan` nor `inf`: nothing can be counted against them."""

    def __init__(self) -> None:
        super().__init__(0)

    def convert(self, value: float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = float(super().convert(value, param, ctx))
        if not math.isfinite(found):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return found


def _stack(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    return lambda function: functools.reduce(lambda inner, one: one(inner), reversed(decorators), function)


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
tasks_dir_option = click.option(
    "--tasks-dir", type=FOLDER, default=Path("tasks"), show_default=True, help="Where suites live."
)
workers_option = click.option(
    "--workers", type=click.IntRange(1, 256), default=1, show_default=True, help="Attempts at the same time."
)
executor_option = click.option(
    "--executor", default="local", show_default=True, help="Who carries attempts out: local (threads of this process)."
)
sandbox_option = click.option(
    "--sandbox",
    type=click.Choice(["auto", "bwrap", "docker"]),
    default="auto",
    show_default=True,
    help="auto: docker when the task names an image, else bubblewrap.",
)
fresh_option = click.option("--fresh-setup", is_flag=True, help="Run setup again instead of using what was prepared.")

run_options = _stack(
    click.option(
        "--agent",
        help="noop, reference, scripted, command, llm_v0, context_packer, subagents, cli:NAME (mini-swe-agent, claude-code,"
        " codex, aider), or one installed as a plug-in.",
    ),
    click.option("--agent-command", help="With --agent command: the shell line to run inside the sandbox."),
    click.option(
        "--agent-files",
        type=FOLDER,
        help="With --agent command: a folder seen read-only inside, named by $AB_AGENT_FILES.",
    ),
    click.option(
        "--script",
        type=click.Path(path_type=Path),
        help="With --agent scripted: a YAML of tool calls, or a folder of them.",
    ),
    click.option(
        "--model",
        help="PROVIDER:NAME, NAME@http://host/v1, scripted:FILE or recorded:RUN. With --agent command it is reached through the gateway.",
    ),
    click.option("--temperature", type=float, help="The model's temperature."),
    click.option("--prices", type=FILE, help="A price table (CSV); without one costs are in abstract units."),
    click.option("--lenient", is_flag=True, help="With --model recorded:RUN: go on where a request differs."),
    click.option("--task-usd", type=Amount(), help="Cap on the cost of all attempts at one task together."),
    click.option("--total-usd", type=Amount(), help="Cap on the cost of all attempts together."),
    click.option(
        "--operator", is_flag=True, help="Somebody answers questions (`ab operator`): pause where a rule says so."
    ),
    click.option("--dry-run", is_flag=True, help="Say what would be run, what it may cost and show; run nothing."),
    click.option(
        "--fail-on", metavar="EXPR", help="Exit 1 when this holds afterwards, e.g. 'pass_rate<0.8, invalid>0'."
    ),
    click.option(
        "--judge-model", help="A model that judges each attempt afterwards; it never decides. As --model has it."
    ),
    click.option("--judge-repeats", type=click.IntRange(1, 20), default=1, show_default=True, help="Times to ask it."),
    click.option("--max-steps", type=click.IntRange(1), help="Cap on tool calls."),
    click.option("--repeats", type=click.IntRange(1, 1000), default=1, show_default=True, help="Attempts per task."),
    click.option("--seed", type=int, default=20260307, show_default=True, help="Base seed; another is a deviation."),
    workers_option,
    executor_option,
    sandbox_option,
    fresh_option,
    click.option("--out", type=FOLDER, default=Path("artifacts/runs"), show_default=True, help="Where runs are kept."),
    json_option,
)


class RunOptions(TypedDict):
    """What `run_options` hands to a verb."""

    agent: str | None
    agent_command: str | None
    agent_files: Path | None
    script: Path | None
    model: str | None
    temperature: float | None
    max_steps: int | None
    prices: Path | None
    task_usd: float | None
    total_usd: float | None
    operator: bool
    dry_run: bool
    fail_on: str | None
    lenient: bool
    judge_model: str | None
    judge_repeats: int
    repeats: int
    seed: int
    workers: int
    executor: str
    sandbox: str
    fresh_setup: bool
    out: Path
    as_json: bool


def cli_choices(options: RunOptions) -> CliChoices:
    """What the command line said about the agent.

    Raises:
        InputError: options that do not go together.
    """
    from agentbench.core.errors import InputError
    from agentbench.run.config import CliChoices

    choices = CliChoices(
        agent=options["agent"],
        model=options["model"],
        temperature=options["temperature"],
        max_steps=options["max_steps"],
        agent_command=options["agent_command"],
        agent_files=options["agent_files"] and options["agent_files"].absolute(),
        script=options["script"] and options["script"].absolute(),
    )
    if choices.agent == "command" and not choices.agent_command:
        msg = "--agent command needs --agent-command 'SHELL LINE'"
        raise InputError(msg)
    if choices.agent_command and choices.agent not in {None, "command"}:
        msg = f"--agent-command goes with --agent command, not with --agent {choices.agent}"
        raise InputError(msg)
    if choices.agent_files and not choices.agent_files.is_dir():
        msg = f"--agent-files {choices.agent_files}: no such folder"
        raise InputError(msg)
    return choices
