"""A problem in a file: its place, its key, and what was expected there."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from agentbench.core.errors import ContractError
from agentbench.core.text import printable

KeyPath: TypeAlias = tuple[str | int, ...]
KeyProblems: TypeAlias = Iterator[tuple[KeyPath, str]]
"""Messages with the key they belong to, before the document adds file and line."""

MAX_SHOWN = 100
"""Problems listed per file; the rest is only counted."""


@dataclass(frozen=True, slots=True, order=True)
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


class InvalidFileError(ContractError):
    """A file with problems. `problems` has them as text, `details` as objects."""

    def __init__(self, message: str, details: tuple[Problem, ...], *, more: int = 0) -> None:
        lines = tuple(str(problem) for problem in details)
        if more:
            lines = (*lines, f"and {more} more problems")
        super().__init__(message, problems=lines)
        self.details = details


def invalid_file(file: str, problems: Sequence[Problem]) -> InvalidFileError:
    """Build the error that lists all problems of a file, ordered by line."""
    ordered = sorted(set(problems))
    count = "1 problem" if len(ordered) == 1 else f"{len(ordered)} problems"
    more = max(0, len(ordered) - MAX_SHOWN)
    return InvalidFileError(printable(f"{file}: {count}"), tuple(ordered[:MAX_SHOWN]), more=more)


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
    close = difflib.get_close_matches(word.lower()[:80], list(known), n=1, cutoff=0.6)
    return close[0] if close else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ` (did you mean `x`?)` for the closest known word, or an empty string."""
    close = nearest(word, known)
    return f" (did you mean `{close}`?)" if close else ""
