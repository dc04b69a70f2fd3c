"""Prompts by name and version."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from agentbench.core.canonical import sha256_hex
from agentbench.core.errors import InputError


@dataclass(frozen=True, slots=True)
class Prompt:
    name: str
    text: str

    @property
    def version(self) -> str:
        """`system_v1@sha256:…`: the name, and the digest of what it said."""
        return f"{self.name}@sha256:{sha256_hex(self.text.encode())}"


@cache
def load_prompt(name: str) -> Prompt:
    """
    Raises:
        InputError: no such prompt; names those there are.
    """
    folder = files("agentbench.agents.prompts")
    file = folder / f"{name}.txt"
    if not name.replace("_", "").isalnum() or not file.is_file():
        known = sorted(item.name.removesuffix(".txt") for item in folder.iterdir() if item.name.endswith(".txt"))
        msg = f"there is no prompt '{name}'; there are: {', '.join(known)}"
        raise InputError(msg)
    return Prompt(name, file.read_text(encoding="utf-8"))
