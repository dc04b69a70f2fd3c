"""Recognising a plain pytest invocation in a shell command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_PYTHON = re.compile(r"python(3(\.\d+)?)?")
_BRACKETS = str.maketrans("", "", "[]")
_SHELL = re.compile(r"[;&|<>()`$*?\[\]{}~#!\n\\]")


@dataclass(frozen=True, slots=True)
class PytestCommand:
    """`env python -m pytest arguments`."""

    arguments: tuple[str, ...]
    env: Mapping[str, str]


def recognise(command: str) -> PytestCommand | None:
    """The pytest call that a command line is, or None when it is anything else.

    Only a single simple command counts: with pipes, lists, redirections, expansions or globs the shell decides what
    runs, and the exit code is all that can be believed.
    """
    if "\n" in command.strip():
        return None
    try:
        bare = shlex.split(_without_quoted(command))
        words = shlex.split(command)
    except ValueError:
        return None
    # A test id with brackets is no glob that could match a file: sh passes it on as it is.
    if any(_SHELL.search(word.translate(_BRACKETS) if "::" in word else word) for word in bare):
        return None
    env: dict[str, str] = {}
    while words and (match := _ASSIGNMENT.fullmatch(words[0])):
        env[match[1]] = match[2]
        words = words[1:]
    if words and words[0] in {"pytest", "py.test"}:
        return PytestCommand(tuple(words[1:]), env)
    if len(words) > 2 and _PYTHON.fullmatch(words[0]) and words[1:3] == ["-m", "pytest"]:
        return PytestCommand(tuple(words[3:]), env)
    return None


def _without_quoted(command: str) -> str:
    """The command with single-quoted parts blanked: what is left there is the shell's to interpret.

    Double quotes still expand `$` and backticks, so they are only blanked when they hold neither.
    """
    command = re.sub(r"'[^']*'", "quoted", command)
    return re.sub(r'"[^"$`\\]*"', "quoted", command)
