"""Lines that a search found, as they are shown."""

from __future__ import annotations

from dataclasses import dataclass

from agentbench.core.text import printable
from agentbench.tools.paths import show

LINE_CHARS = 400


@dataclass(frozen=True, slots=True)
class Hit:
    path: bytes
    line: int
    text: str

    @classmethod
    def of(cls, path: bytes, number: int, line: bytes) -> Hit:
        text = printable(line.decode("utf-8", "replace").rstrip("\r\n"), keep="\t")
        return cls(path, number, text if len(text) <= LINE_CHARS else text[:LINE_CHARS] + "[...]")

    def __str__(self) -> str:
        return f"{show(self.path)}:{self.line}:{self.text}"
