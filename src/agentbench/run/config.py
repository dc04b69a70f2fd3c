"""What an attempt runs with, and where each value came from.

Priority: command line > variant file > the task's `agent` section > code default. Every resolved value keeps its origin,
and the manifest records both (R-15).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

import agentbench
from agentbench.contract.load import LoadedTask
from agentbench.core.errors import InputError

Origin = Literal["cli", "variant", "task", "preset", "default"]

PROTOCOL_SEED = 20260307
"""The protocol's base seed; any other is declared as a deviation (R-11)."""


class _Closed(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ModelSettings(_Closed):
    name: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None


class VariantLimits(_Closed):
    max_steps: int | None = None


class VariantFile(_Closed):
    """`configs/variants/NAME.yaml`."""

    name: str
    agent: str
    model: ModelSettings = ModelSettings()
    prompt: str | None = None
    limits: VariantLimits = VariantLimits()
    options: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class CliChoices:
    """What the command line said; None means it said nothing."""

    agent: str | None = None
    model: str | None = None
    temperature: float | None = None
    max_steps: int | None = None
    agent_command: str | None = None
    agent_files: Path | None = None
    script: Path | None = None


@dataclass(frozen=True, slots=True)
class Setting:
    value: str | int | float | None
    origin: Origin


@dataclass(frozen=True, slots=True)
class Configuration:
    """One method under test on one task."""

    variant: str
    agent: str
    max_steps: int
    settings: Mapping[str, Setting]
    agent_command: str | None = None
    agent_files: Path | None = None
    script: Path | None = None
    prompt: str | None = None
    patch: bytes | None = None
    """A patch made elsewhere: nothing runs before acceptance."""
    patch_problem: str = ""
    """Why such a patch was not even read: it is larger than any that can be graded."""
    options: Mapping[str, str] = field(default_factory=dict)

    def described(self) -> dict[str, dict[str, str | int | float | None]]:
        """For the manifest: every value with its origin."""
        return {name: {"value": one.value, "origin": one.origin} for name, one in sorted(self.settings.items())}


def bundled_variants() -> Path:
    """Where our own variants lie: in the package when it was installed, in the checkout otherwise."""
    package = Path(agentbench.__file__).parent
    installed = package / "variants"
    return installed if installed.is_dir() else package.parent.parent / "configs" / "variants"


def load_variant(name: str, folder: Path) -> VariantFile:
    """Read `folder/NAME.yaml`, or ours of that name, or NAME itself when it is a path to a file."""
    path = Path(name) if name.endswith((".yaml", ".yml")) else folder / f"{name}.yaml"
    if not path.exists() and (ours := bundled_variants() / f"{name}.yaml").is_file():
        path = ours
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        known = ", ".join(sorted({p.stem for where in (folder, bundled_variants()) for p in where.glob("*.yaml")}))
        msg = f"variant '{name}' not found: {path} does not exist (there are: {known or 'none'})"
        raise InputError(msg) from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        msg = f"variant file {path} cannot be read: {error}"
        raise InputError(msg) from error
    try:
        return VariantFile.model_validate(data)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'file'}: {e['msg']}" for e in error.errors())
        msg = f"variant file {path}: {problems}"
        raise InputError(msg) from None


def resolve(task: LoadedTask, variant: VariantFile | None, cli: CliChoices) -> Configuration:
    """Settle every value by priority."""
    section = task.task.agent
    given = section.model_fields_set

    def pick(
        said: str | float | None,
        in_variant: str | float | None,
        in_task: str | float | None,
        default: str | float | None,
    ) -> Setting:
        layers: tuple[tuple[str | float | None, Origin], ...] = (
            (said, "cli"),
            (in_variant, "variant"),
            (in_task, "task"),
        )
        for value, origin in layers:
            if value is not None:
                return Setting(value, origin)
        return Setting(default, "default")

    settings = {
        "agent": pick(
            cli.agent,
            variant.agent if variant else None,
            section.entrypoint if "entrypoint" in given else None,
            section.entrypoint,
        ),
        "max_steps": pick(
            cli.max_steps,
            variant.limits.max_steps if variant else None,
            section.max_steps if "max_steps" in given else None,
            section.max_steps,
        ),
        "model": pick(cli.model, variant.model.name if variant else None, None, None),
        "temperature": pick(cli.temperature, variant.model.temperature if variant else None, None, None),
        "top_p": pick(None, variant.model.top_p if variant else None, None, None),
        "max_tokens": pick(None, variant.model.max_tokens if variant else None, None, None),
    }
    agent = str(settings["agent"].value)
    steps = settings["max_steps"].value
    return Configuration(
        variant=variant.name if variant else agent,
        agent=agent,
        max_steps=int(steps) if steps is not None else section.max_steps,
        settings=settings,
        agent_command=cli.agent_command,
        agent_files=cli.agent_files,
        script=cli.script,
        prompt=variant.prompt if variant else None,
        options=variant.options if variant else {},
    )
