"""The configuration of an attempt, and where each value comes from.

Priority: command line > variant file > the task's `agent` section > default. Every value keeps its origin, and the manifest
records both.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agentbench.contract.load import LoadedTask
from agentbench.core.dataclass import dataclass
from agentbench.trace.originals import EvidenceText

if TYPE_CHECKING:
    from agentbench.execution.variant_file import VariantFile

Origin = Literal["cli", "variant", "task", "preset", "default"]


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


def resolve(task: LoadedTask, variant: VariantFile | None, cli: CliChoices) -> Configuration:
    """Resolve every value by priority."""
    section = task.task.agent
    in_task = {name: getattr(section, name) for name in section.model_fields_set}
    model = variant.model if variant else None
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
        "model": _pick(cli.model, model.name if model else None),
        "temperature": _pick(cli.temperature, model.temperature if model else None),
        "top_p": _pick(None, model.top_p if model else None),
        "max_tokens": _pick(None, model.max_tokens if model else None),
        "send_seed": _pick(None, model.send_seed if model else None, default=True),
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
