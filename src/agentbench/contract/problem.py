"""One thing that is wrong with a file: where, at which key, what was expected."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from agentbench.core.errors import ContractError
from agentbench.core.text import printable

KeyPath: TypeAlias = tuple[str | int, ...]

MAX_SHOWN = 100
"""More problems than this in one file help nobody; the rest is counted."""


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """`line` counts from 1; 0 means the file as a whole."""

    file: str
    line: int
    key: str
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        text = f"{place}: {self.key}: {self.message}" if self.key else f"{place}: {self.message}"
        return printable(text)


class Refused(ContractError):
    """A file that was refused, with its problems also in parts."""

    def __init__(self, message: str, found: tuple[Problem, ...], *, more: int = 0) -> None:
        shown = tuple(str(problem) for problem in found)
        if more:
            shown = (*shown, f"and {more} more problems")
        super().__init__(message, problems=shown)
        self.found = found


def dotted(path: KeyPath) -> str:
    """`oracle.checks[1].command`; keys that hold odd characters are shown quoted."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            shown = part if part.isprintable() and part and " " not in part else repr(part)
            text += f".{shown}" if text else shown
    return text


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that was probably meant; empty when none is near."""
    close = difflib.get_close_matches(word.lower()[:80], list(known), n=1, cutoff=0.6)
    return close[0] if close else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` (did you mean `x`?)` for the nearest known word, or nothing."""
    close = nearest(word, known)
    return f" (did you mean `{close}`?)" if close else ""


def refuse(file: str, problems: Sequence[Problem]) -> Refused:
    """The error that carries all problems of a file, in the order of its lines."""
    ordered = sorted(set(problems))
    count = "1 problem" if len(ordered) == 1 else f"{len(ordered)} problems"
    more = max(0, len(ordered) - MAX_SHOWN)
    return Refused(printable(f"{file}: {count}"), tuple(ordered[:MAX_SHOWN]), more=more)
