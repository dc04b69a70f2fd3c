"""What decides one sandbox beyond its spec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentbench.sandbox.environments.interpreter import Interpreter
from agentbench.tree.entry import Entry


@dataclass(frozen=True, slots=True)
class Birth:
    layers: tuple[Path, ...]
    known: Mapping[bytes, Entry] | None = None
    """Entries of the workspace in those layers, when they are known."""
    folders: tuple[str, ...] = ("workspace", "home", "env")
    binds: list[tuple[Path, str]] = field(default_factory=list)
    env: Mapping[str, str] = field(default_factory=dict)
    python: Interpreter | None = None
    """None: the one that fits the spec."""
