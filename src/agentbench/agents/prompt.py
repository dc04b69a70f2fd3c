"""Load the versioned prompts of built-in agents."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from agentbench.core.canonical import sha256_hex
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError


@dataclass(frozen=True, slots=True)
class Prompt:
    name: str
    text: str

    @property
    def version(self) -> str:
        """The name and the digest of the text: `system_v1@sha256:…`."""
        return f"{self.name}@sha256:{sha256_hex(self.text.encode())}"


@cache
def load_prompt(name: str) -> Prompt:
    """Load a bundled prompt.

    Raises:
        InputError: unknown prompt.
    """
    folder = files("agentbench.agents.prompts")
    file = folder / f"{name}.txt"
    if not name.replace("_", "").isalnum() or not file.is_file():
        names = sorted(item.name.removesuffix(".txt") for item in folder.iterdir() if item.name.endswith(".txt"))
        raise InputError(f"unknown prompt '{name}'", remedy=f"available prompts: {', '.join(names)}")
    return Prompt(name, file.read_text(encoding="utf-8"))
