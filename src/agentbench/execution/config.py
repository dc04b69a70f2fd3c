"""The configuration of an attempt, and where each value comes from.

Priority: command line > variant file > the task's `agent` section > default. Every value keeps its origin, and the manifest
records both.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

import agentbench
from agentbench.agents.cli.names import is_third_party
from agentbench.contract.load import LoadedTask
from agentbench.contract.problem import InvalidFileError
from agentbench.contract.schema_problems import validate_document
from agentbench.contract.yaml_document import read_document
from agentbench.core.errors import InputError
from agentbench.trace.originals import EvidenceText

Origin = Literal["cli", "variant", "task", "preset", "default"]


class _Closed(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class ModelSettings(_Closed):
    name: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    send_seed: bool | None = None
    """False: requests of a built-in agent do not contain the attempt's seed, for services that reject it."""


class VariantLimits(_Closed):
    max_steps: int | None = None


class VariantEvidence(_Closed):
    text: EvidenceText | None = None
    """`full`, `redacted` or `digest`, as with `--evidence`."""


class VariantFile(_Closed):
    """The content of `configs/variants/NAME.yaml`."""

    name: str
    """Name of the variant in records and reports."""
    agent: str | None = None
    """Agent to run, as with `--agent`. Give one of `agent`, `command` and `cli`."""
    command: str | None = None
    """Shell command of an agent that is a program, as with `--agent-command`."""
    files: str | None = None
    """Folder of the program's files, as with `--agent-files`; relative to this file."""
    cli: str | None = None
    """A known CLI agent: `cli: aider` is short for `agent: "cli:aider"`."""
    env: dict[str, str] = {}
    """Environment variables of the program. Values are recorded, so they must not be secrets."""
    model: ModelSettings = ModelSettings.model_construct()
    """Model of the agent."""
    prompt: str | None = None
    """Versioned system prompt."""
    limits: VariantLimits = VariantLimits.model_construct()
    """Caps of the agent."""
    options: dict[str, str] = {}
    """Options of the agent, as text."""
    evidence: VariantEvidence = VariantEvidence.model_construct()
    """How much text the run keeps."""

    @property
    def entrypoint(self) -> str:
        """The agent that this variant runs."""
        return f"cli:{self.cli}" if self.cli else self.agent or "command"

    def problems(self) -> Iterator[str]:
        """Yield how keys contradict each other."""
        given = [name for name in ("agent", "command", "cli") if getattr(self, name) is not None]
        if not given or (len(given) > 1 and not (given == ["agent", "command"] and self.agent == "command")):
            yield f"expected exactly one of agent, command and cli; got {', '.join(given) or 'none'}"
        program = self.entrypoint == "command" or is_third_party(self.entrypoint)
        yield from (f"{name}: only for a program" for name in ("files", "env") if getattr(self, name) and not program)
        yield from (
            f"env: invalid name {name!r}" for name in self.env if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)
        )


@dataclass(frozen=True, slots=True)
class CliChoices:
    """The agent options of the command line; None if not given."""

    name: str | None = None
    agent: str | None = None
    model: str | None = None
    temperature: float | None = None
    max_steps: int | None = None
    agent_command: str | None = None
    agent_files: Path | None = None
    script: Path | None = None
    evidence: EvidenceText | None = None


@dataclass(frozen=True, slots=True)
class Setting:
    value: str | int | float | None
    origin: Origin


@dataclass(frozen=True, slots=True)
class Configuration:
    """A variant on one task, with every value resolved."""

    variant: str
    agent: str
    max_steps: int
    settings: Mapping[str, Setting]
    agent_command: str | None = None
    agent_files: Path | None = None
    script: Path | None = None
    prompt: str | None = None
    patch: bytes | None = None
    """A patch made elsewhere, to be graded instead of running an agent."""
    patch_problem: str = ""
    """Why the given patch was not read: it is too large to be graded."""
    options: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of an agent that is a program."""
    evidence: EvidenceText = "redacted"

    def value(self, name: str) -> str | float | None:
        """Return the value of a setting, or None if it has none."""
        setting = self.settings.get(name)
        return None if setting is None else setting.value

    def described(self) -> dict[str, dict[str, str | int | float | None]]:
        """Return every value with its origin, for the manifest."""
        return {
            name: {"value": setting.value, "origin": setting.origin} for name, setting in sorted(self.settings.items())
        }


def bundled_variants() -> Path:
    """Return the folder of the bundled variants: in the installed package, or in the checkout."""
    package = Path(agentbench.__file__).parent
    installed = package / "variants"
    return installed if installed.is_dir() else package.parent.parent / "configs" / "variants"


def load_variant(name: str, folder: Path) -> VariantFile:
    """Read `folder/NAME.yaml`, the bundled variant NAME, or the file NAME if it is a path to a YAML file.

    Raises:
        InputError: the file does not exist, cannot be read, or is not a variant.
    """
    path = Path(name) if name.endswith((".yaml", ".yml")) else folder / f"{name}.yaml"
    if not path.exists() and (bundled := bundled_variants() / f"{name}.yaml").is_file():
        path = bundled
    if not path.exists():
        folders = (folder, bundled_variants())
        known = ", ".join(sorted({file.stem for parent in folders for file in parent.glob("*.yaml")}))
        msg = f"variant '{name}' not found: {path} does not exist"
        raise InputError(msg, remedy=f"available variants: {known or 'none'}")
    document = read_document(path)
    validated = validate_document(document, VariantFile)
    variant = validated.model
    if validated.problems or variant is None:
        raise InvalidFileError(document.file, list(validated.problems))
    if problems := "; ".join(variant.problems()):
        raise InputError(f"variant file {path}: {problems}")
    files = None if variant.files is None else str((path.parent / variant.files).absolute())
    return variant.model_copy(update={"files": files})


def resolve(task: LoadedTask, variant: VariantFile | None, cli: CliChoices) -> Configuration:
    """Resolve every value by priority."""
    section = task.task.agent
    in_task = {name: getattr(section, name) for name in section.model_fields_set}
    model = variant.model if variant else ModelSettings()
    settings = {
        "agent": _pick(
            cli.agent, variant.entrypoint if variant else None, in_task.get("entrypoint"), default=section.entrypoint
        ),
        "max_steps": _pick(
            cli.max_steps,
            variant.limits.max_steps if variant else None,
            in_task.get("max_steps"),
            default=section.max_steps,
        ),
        "model": _pick(cli.model, model.name),
        "temperature": _pick(cli.temperature, model.temperature),
        "top_p": _pick(None, model.top_p),
        "max_tokens": _pick(None, model.max_tokens),
        "send_seed": _pick(None, model.send_seed, default=True),
    }
    settings |= _program_settings(variant, cli)
    agent = str(settings["agent"].value)
    steps = settings["max_steps"].value
    return Configuration(
        variant=cli.name or (variant.name if variant else agent),
        agent=agent,
        max_steps=int(steps) if steps is not None else section.max_steps,
        settings=settings,
        agent_command=cli.agent_command or (variant.command if variant else None),
        agent_files=cli.agent_files or (Path(variant.files) if variant and variant.files else None),
        script=cli.script,
        prompt=variant.prompt if variant else None,
        options=variant.options if variant else {},
        env=variant.env if variant else {},
        evidence=cli.evidence or (variant.evidence.text if variant else None) or "redacted",
    )


def _program_settings(variant: VariantFile | None, cli: CliChoices) -> dict[str, Setting]:
    """Return the settings of an agent that is a program; empty for any other."""
    command = _pick(cli.agent_command, variant.command if variant else None)
    env = " ".join(f"{name}={shlex.quote(value)}" for name, value in sorted(variant.env.items())) if variant else ""
    settings = {"command": command, "env": Setting(env or None, "variant")}
    return {name: setting for name, setting in settings.items() if setting.value is not None}


def _pick(
    cli: str | float | None,
    variant: str | float | None,
    task: str | float | None = None,
    default: str | float | None = None,
) -> Setting:
    layers: tuple[tuple[str | float | None, Origin], ...] = ((cli, "cli"), (variant, "variant"), (task, "task"))
    return next((Setting(value, origin) for value, origin in layers if value is not None), Setting(default, "default"))
