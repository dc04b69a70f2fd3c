"""A problem in a file: its place, its key, and what was expected there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import TypeAlias

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import ContractError
from agentbench.core.text import printable

KeyPath: TypeAlias = tuple[str | int, ...]
KeyProblems: TypeAlias = Iterator[tuple[KeyPath, str]]
"""Messages with the key they belong to, before the document adds file and line."""

MAX_SHOWN = 100
"""Problems listed per file; the rest is only counted."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem. `line` counts from 1; 0 means the file as a whole."""

    file: str
    line: int
    key: str
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        text = f"{place}: {self.key}: {self.message}" if self.key else f"{place}: {self.message}"
        return printable(text)


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """Sort problems by their place."""
    return sorted(problems, key=attrgetter("file", "line", "key", "message"))


class InvalidFileError(ContractError):
    """A file with problems, ordered by line. `problems` has them as text, `details` as objects."""

    def __init__(self, file: str, problems: Iterable[Problem]) -> None:
        ordered = in_order(set(problems))
        count = "1 problem" if len(ordered) == 1 else f"{len(ordered)} problems"
        self.details = tuple(ordered[:MAX_SHOWN])
        lines = [str(problem) for problem in self.details]
        if len(ordered) > MAX_SHOWN:
            lines.append(f"and {len(ordered) - MAX_SHOWN} more problems")
        super().__init__(printable(f"{file}: {count}"), problems=tuple(lines))


def dotted(path: KeyPath) -> str:
    """Write a key path as `oracle.checks[1].command`; keys with odd characters are quoted."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = part if part.isprintable() and part and " " not in part else repr(part)
            text += f".{name}" if text else name
    return text


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the known word closest to a misspelt one, or an empty string if none is close."""
    import difflib  # noqa: PLC0415 - few files have a misspelt word

    lowered = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower()[:80], list(lowered), n=1, cutoff=0.6)
    return lowered[close[0]] if close else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ` (did you mean `x`?)` for the closest known word, or an empty string."""
    close = nearest(word, known)
    return f" (did you mean `{close}`?)" if close else ""
