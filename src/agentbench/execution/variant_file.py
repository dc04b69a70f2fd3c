"""Variants: files with the configuration of an agent, which runs name instead of an agent."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

import agentbench
from agentbench.agents.cli.names import is_third_party
from agentbench.contract.problem import InvalidFileError, KeyProblems, did_you_mean
from agentbench.contract.schema_problems import validate_document
from agentbench.contract.yaml_document import read_document
from agentbench.core.errors import InputError
from agentbench.models.presets import Sampling
from agentbench.trace.originals import EvidenceText


class _Closed(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class ModelSettings(Sampling):
    name: str | None = None
    send_seed: bool | None = None
    """False: requests of a built-in agent do not contain the attempt's seed, for services that reject it."""


class VariantLimits(_Closed):
    max_steps: int | None = Field(default=None, ge=1)


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

    def problems(self) -> KeyProblems:
        """Yield how keys contradict each other."""
        given = [name for name in ("agent", "command", "cli") if getattr(self, name) is not None]
        if not given or (len(given) > 1 and not (given == ["agent", "command"] and self.agent == "command")):
            yield (), f"expected exactly one of agent, command and cli; got {', '.join(given) or 'none'}"
        program = self.entrypoint == "command" or is_third_party(self.entrypoint)
        for name in ("files", "env"):
            if getattr(self, name) and not program:
                yield (name,), "only for a program"
        for name in self.env:
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                yield ("env", name), "expected the name of an environment variable (letters, digits, underscores)"


def bundled_variants() -> Path:
    """Return the folder of the bundled variants: in the installed package, or in the checkout."""
    package = Path(agentbench.__file__).parent
    installed = package / "variants"
    return installed if installed.is_dir() else package.parent.parent / "configs" / "variants"


def is_path(name: str) -> bool:
    """Return whether a variant is given by its file instead of its name."""
    return name.endswith((".yaml", ".yml"))


def load_variant(name: str, folder: Path) -> VariantFile:
    """Read `folder/NAME.yaml`, the bundled variant NAME, or the file NAME if it is a path to a YAML file.

    Raises:
        InputError: the file does not exist, cannot be read, or is not a variant.
    """
    path = Path(name) if is_path(name) else folder / f"{name}.yaml"
    if not path.exists() and (bundled := bundled_variants() / f"{name}.yaml").is_file():
        path = bundled
    if not path.exists():
        folders = (folder, bundled_variants())
        names = sorted({file.stem for parent in folders for file in parent.glob("*.yaml")})
        near = names if name == path.stem else [file.name for file in path.parent.glob("*.y*ml")]
        msg = f"variant '{name}' not found: {path} does not exist{did_you_mean(Path(name).name, near)}"
        raise InputError(msg, remedy=f"available variants: {', '.join(names) or 'none'}")
    document = read_document(path)
    validated = validate_document(document, VariantFile)
    variant, problems = validated.model, list(validated.problems)
    if variant is not None:
        contradictions = [] if validated.guessed else variant.problems()
        problems += [document.problem(key, message) for key, message in contradictions]
    if problems or variant is None:
        raise InvalidFileError(document.file, problems)
    files = None if variant.files is None else str((path.parent / variant.files).absolute())
    return variant.model_copy(update={"files": files})
