"""Options shared by several commands."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar

import click

from agentbench.cli.notify import notify_option
from agentbench.cli.settings import SANDBOXES, ConfiguredOption, runs_folder

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from agentbench.execution.config import CliChoices
    from agentbench.execution.evidence import StoreOptions

F = TypeVar("F", bound=Callable[..., Any])

FOLDER = click.Path(path_type=Path, file_okay=False)
FILE = click.Path(path_type=Path, dir_okay=False)


def _without_suite_files(_ctx: click.Context, _param: click.Parameter, paths: tuple[Path, ...]) -> tuple[Path, ...]:
    """Leave out the files of a suite, which a shell's `tasks/mine/*` matches too, unless nothing else is given."""
    return tuple(path for path in paths if not (path.is_file() and _is_suite_file(path))) or paths


def _is_suite_file(path: Path) -> bool:
    from agentbench.contract.load import SCENARIO_NAME

    return path.name == SCENARIO_NAME or path.suffix not in {".yaml", ".yml"}


def task_paths_argument(*, required: bool = True) -> Callable[[F], F]:
    """Add the argument `paths`: folders of tasks or suites."""
    return click.argument(
        "paths",
        metavar="PATH…" if required else None,
        nargs=-1,
        required=required,
        type=click.Path(path_type=Path),
        callback=_without_suite_files,
    )


class RunType(click.ParamType[Path]):
    """A run directory: its path, its id, a unique prefix of its name or id, or `latest`."""

    name = "RUN"

    def __init__(self, *, bundles: bool = False) -> None:
        """`bundles`: also accept a share bundle, which is read in a temporary folder until the command ends."""
        self._bundles = bundles

    def convert(self, value: str | Path, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if isinstance(value, Path):
            return value
        from agentbench.record.find_run import find_run

        path = find_run(value, runs_folder())
        if not self._bundles or ctx is None or not path.is_file():
            return path
        from agentbench.record.bundle import open_bundle

        run = ctx.with_resource(open_bundle(path))
        ctx.meta.setdefault(_BUNDLES, {})[run] = path
        return run

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        from agentbench.record.find_run import LATEST, run_directories

        names = [LATEST, *(path.name for path in run_directories(runs_folder()))]
        matches = [CompletionItem(name) for name in names if name.startswith(incomplete)]
        return matches or [CompletionItem(incomplete, type="dir")]


class SandboxType(click.ParamType[str]):
    """The name of a sandbox backend, built in or of a plug-in."""

    name = "NAME"

    def __init__(self, *more: str) -> None:
        """`more`: further values that the command understands."""
        self._known = (*more, *SANDBOXES)

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in self._known:
            from agentbench.sandbox.registry import require_backend

            require_backend(value)
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        from agentbench.plugins.discovery import installed
        from agentbench.plugins.kinds import Kind

        names = [*self._known, *(plugin.name for plugin in installed(Kind.SANDBOX))]
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


RUN = RunType()
RUN_OR_BUNDLE = RunType(bundles=True)
_BUNDLES = "agentbench.bundles"


def given_path(run: Path) -> Path:
    """Return the path that the user gave: the bundle of a run that was read from one."""
    bundles: dict[Path, Path] = click.get_current_context().meta.get(_BUNDLES, {})
    return bundles.get(run, run)


class Amount(click.FloatRange):
    """A finite number from 0, or with `positive` above 0, up to `most`."""

    def __init__(self, *, positive: bool = False, most: float | None = None) -> None:
        super().__init__(0, most, min_open=positive)

    def convert(self, value: float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


def stack(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """Return one decorator for a group of options, listed in the order given."""
    return lambda function: functools.reduce(lambda inner, decorator: decorator(inner), reversed(decorators), function)


def format_option(*more: str, html: str = "") -> Callable[[F], F]:
    """Return --format of a report: md, csv, json, html and `more`. `html` says where the page goes."""
    return click.option(
        "--format",
        "form",
        type=click.Choice(["md", "csv", "json", "html", *more]),
        default="md",
        show_default=True,
        help=f"Output format{html and '; html '}{html}.",
    )


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")


tasks_dir_option = click.option(
    "--tasks-dir", type=FOLDER, default=Path("tasks"), show_default=True, cls=ConfiguredOption, help="Folder of suites."
)
out_option = click.option(
    "--out",
    type=FOLDER,
    default=Path("artifacts/runs"),
    show_default=True,
    cls=ConfiguredOption,
    help="Folder for run directories.",
)
workers_option = click.option(
    "--workers",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    cls=ConfiguredOption,
    help="Number of parallel attempts.",
)
executor_option = stack(
    click.option(
        "--executor",
        default="local",
        show_default=True,
        help="Where attempts run: local (threads of this process), ray (nodes of a Ray cluster), or an installed plug-in.",
    ),
    click.option(
        "--ray-address",
        default="auto",
        show_default=True,
        metavar="ADDRESS",
        help="Ray cluster of --executor ray: HOST:PORT of its head, or auto for the one on this machine.",
    ),
)
sandbox_option = click.option(
    "--sandbox",
    type=SandboxType(),
    default="auto",
    show_default=True,
    cls=ConfiguredOption,
    help="Sandbox backend: bwrap, docker, or an installed plug-in; auto uses docker if the task has an image, else bwrap.",
)
fresh_option = click.option(
    "--fresh-setup", is_flag=True, help="Run setup again instead of using a prepared environment."
)

fail_on_option = click.option(
    "--fail-on", metavar="EXPR", help="Exit 1 if a condition holds, e.g. 'pass_rate<0.8, invalid>0'."
)

evidence_options = stack(
    click.option(
        "--evidence",
        type=click.Choice(["full", "redacted", "digest"]),
        help="Text in the evidence: full (only keys and declared secrets are redacted), redacted (also secrets of "
        "repositories), digest (digests and lengths instead of text) [default: redacted].",
    ),
    click.option(
        "--vault-recipient",
        "vault_recipients",
        multiple=True,
        metavar="AGE",
        help="Keep originals of redacted text, encrypted for this recipient (age1…); can be repeated "
        "[default: $AB_VAULT_RECIPIENTS].",
    ),
    click.option(
        "--vault-passphrase",
        is_flag=True,
        help="Keep originals, encrypted with $AB_VAULT_PASSPHRASE or one to be asked.",
    ),
)

run_options = stack(
    click.option(
        "--agent",
        help="noop, reference, scripted, command, llm_v0, context_packer, subagents, cli:NAME (mini-swe-agent, "
        "claude-code, codex, aider), or an installed plug-in.",
    ),
    click.option(
        "--name", help="Name of the method in records and reports [default: the name of the variant or agent]."
    ),
    click.option("--agent-command", help="Shell command to run in the sandbox (with --agent command)."),
    click.option(
        "--agent-files",
        type=FOLDER,
        help="Folder mounted read-only at $AB_AGENT_FILES (with --agent command).",
    ),
    click.option(
        "--script",
        type=click.Path(path_type=Path),
        help="YAML file of tool calls, or folder with one per task (with --agent scripted).",
    ),
    click.option(
        "--model",
        help="PROVIDER:NAME, NAME@http://host/v1, scripted:FILE or recorded:RUN.",
    ),
    click.option("--temperature", type=Amount(most=2), help="Temperature of the model."),
    click.option(
        "--model-patience",
        type=Amount(most=86_400),
        default=600.0,
        show_default=True,
        metavar="SEC",
        help="How long attempts wait for a model service that is unavailable, once per outage.",
    ),
    click.option(
        "--preflight/--no-preflight",
        default=True,
        help="Ask each model service for one token before the run starts [default: yes].",
    ),
    click.option(
        "--preflight-wait",
        type=Amount(positive=True, most=86_400),
        default=20.0,
        show_default=True,
        metavar="SEC",
        help="How long each service may take to answer that.",
    ),
    click.option("--prices", type=FILE, help="Price table (CSV) [default: costs in abstract units]."),
    click.option("--lenient", is_flag=True, help="Continue if a request differs (with --model recorded:RUN)."),
    click.option("--task-usd", type=Amount(positive=True), help="Cost cap for all attempts at one task."),
    click.option("--total-usd", type=Amount(positive=True), help="Cost cap for all attempts."),
    click.option(
        "--operator", is_flag=True, help="Pause attempts where a rule requires an operator (see `ab operator`)."
    ),
    click.option("--dry-run", is_flag=True, help="Estimate cost, time and detectable effect without running anything."),
    fail_on_option,
    click.option(
        "--judge-model", help="Model that judges each attempt, in the form of --model; never changes a verdict."
    ),
    click.option(
        "--judge-repeats",
        type=click.IntRange(1, 20),
        default=1,
        show_default=True,
        help="Number of judgements per attempt.",
    ),
    click.option(
        "--monitor",
        "monitors",
        multiple=True,
        metavar="NAME",
        help="Installed plug-in that reads the log of each agent and reports findings; can be repeated.",
    ),
    evidence_options,
    click.option("--max-steps", type=click.IntRange(1), help="Maximum number of tool calls."),
    click.option("--repeats", type=click.IntRange(1, 1000), default=1, show_default=True, help="Attempts per task."),
    click.option(
        "--seed",
        type=int,
        default=20260307,
        show_default=True,
        help="Base seed: order of tasks, model requests. Another value is a protocol deviation.",
    ),
    workers_option,
    executor_option,
    sandbox_option,
    fresh_option,
    out_option,
    click.option(
        "--sign",
        metavar="[KEY]",
        is_flag=False,
        flag_value="",
        help="Sign the run when it ends: name of a key, or a key file [default: $AB_SIGNING_KEY].",
    ),
    click.option(
        "--witness",
        type=FOLDER,
        help="Sign the run and append it to this log: a folder, or a git repository.",
    ),
    notify_option,
    json_option,
)


class EvidenceOptions(TypedDict):
    """Parameters of `evidence_options`."""

    evidence: Literal["full", "redacted", "digest"] | None
    vault_recipients: tuple[str, ...]
    vault_passphrase: bool


class RunOptions(EvidenceOptions):
    """Parameters of `run_options`."""

    name: str | None
    agent: str | None
    agent_command: str | None
    agent_files: Path | None
    script: Path | None
    model: str | None
    temperature: float | None
    max_steps: int | None
    prices: Path | None
    model_patience: float
    preflight: bool
    preflight_wait: float
    task_usd: float | None
    total_usd: float | None
    operator: bool
    dry_run: bool
    fail_on: str | None
    lenient: bool
    judge_model: str | None
    judge_repeats: int
    monitors: tuple[str, ...]
    repeats: int
    seed: int
    workers: int
    executor: str
    ray_address: str
    sandbox: str
    fresh_setup: bool
    out: Path
    sign: str | None
    witness: Path | None
    as_json: bool


def cli_choices(options: RunOptions) -> CliChoices:
    """Return the agent's configuration from the command line.

    Raises:
        InputError: options contradict each other.
    """
    from agentbench.core.errors import InputError
    from agentbench.core.problems import Problems
    from agentbench.execution.config import CliChoices

    choices = CliChoices(
        name=options["name"],
        agent=options["agent"],
        model=_with_found_run(options["model"]),
        temperature=options["temperature"],
        max_steps=options["max_steps"],
        agent_command=options["agent_command"],
        agent_files=options["agent_files"] and options["agent_files"].absolute(),
        script=options["script"] and options["script"].absolute(),
        evidence=options["evidence"],
    )
    problems = Problems()
    for mistake in _contradictions(choices):
        problems.add(InputError(mistake))
    problems.raise_all()
    return choices


def _contradictions(choices: CliChoices) -> Iterator[str]:
    agent = choices.agent
    if choices.name is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}", choices.name):
        yield "--name: expected up to 60 letters, digits, dots, dashes and underscores"
    if agent == "command" and not choices.agent_command:
        yield "--agent command needs --agent-command"
    if choices.agent_command and agent not in {None, "command"}:
        yield f"--agent-command needs --agent command, got --agent {agent}"
    if choices.script and agent not in {None, "scripted"}:
        yield f"--script needs --agent scripted, got --agent {agent}"
    if choices.agent_files and not choices.agent_files.is_dir():
        yield f"--agent-files {choices.agent_files} is not a folder"


def store_options(options: EvidenceOptions, out: Path) -> StoreOptions:
    """Return the restricted store of the run.

    Recipients come from the environment if none are given. A passphrase is used only with `--vault-passphrase`.

    Raises:
        InputError: a recipient is invalid.
    """
    import os

    from agentbench.core.errors import InputError
    from agentbench.execution.evidence import PASSPHRASE, StoreOptions

    named = os.environ.get("AB_VAULT_RECIPIENTS", "").replace(",", " ").split()
    recipients = options["vault_recipients"] or (() if options["vault_passphrase"] else tuple(named))
    if recipients and options["vault_passphrase"]:
        raise InputError("--vault-recipient and --vault-passphrase cannot be combined")
    if not recipients and not options["vault_passphrase"]:
        return StoreOptions()
    from agentbench.vault.age import check_recipient
    from agentbench.vault.store import store_folder

    checked = tuple(map(check_recipient, recipients))
    passphrase = "" if checked else os.environ.get(PASSPHRASE, "")
    if not checked and not passphrase:
        passphrase = new_passphrase("Passphrase for the originals", remedy=f"set {PASSPHRASE}")
    return StoreOptions(str(store_folder(out).absolute()), checked, passphrase)


def new_passphrase(name: str, remedy: str) -> str:
    """Ask a terminal twice for a new passphrase.

    Raises:
        InputError: stdin is not a terminal.
    """
    import sys

    from agentbench.core.errors import InputError

    if not sys.stdin.isatty():
        raise InputError(f"no {name[0].lower()}{name[1:]}: stdin is not a terminal", remedy=remedy)
    return str(click.prompt(name, hide_input=True, confirmation_prompt=True, err=True))


def _with_found_run(model: str | None) -> str | None:
    """Replace the run in `recorded:RUN` by its path: `latest` means another run later."""
    prefix = "recorded:"
    if model is None or not model.startswith(prefix):
        return model
    from agentbench.record.find_run import find_run

    return f"{prefix}{find_run(model.removeprefix(prefix), runs_folder())}"
