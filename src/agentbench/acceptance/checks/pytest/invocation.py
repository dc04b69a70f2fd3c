"""Reading a check's command as one call of pytest, so that the pinned runner can make that call itself.

Understood: `pytest …`, `py.test …`, `python -m pytest …` (any python3.x, any path to it, with -W and -X options),
assignments before it, `cd folder &&` in front. Everything else is the shell's business: the command is then run as it
stands and only its exit code counts.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_PYTHON = re.compile(r"(?:.*/)?python(?:3(?:\.\d+)?)?")
_SAFE_IN_DOUBLE_QUOTES = re.compile(r'[^"$`\\]')
_SPECIAL = frozenset(";&|<>()`$*?{}~#!\n\\")
_IGNORED_OPTIONS = frozenset({"-B", "-u", "-s", "-E", "-I", "-P"})
"""Interpreter options whose effect the pinned runner has anyway, or which do not matter to tests."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """`cd folder && env python options -m pytest arguments`."""

    arguments: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""
    python: str = "python"
    options: tuple[str, ...] = ()
    module: bool = False
    """Called with `python -m`: the current folder is importable."""


def understand(command: str) -> Invocation | None:
    """The call of pytest that a command line is, or None when it is anything else."""
    words = _split(command)
    if words is None:
        return None
    folder = ""
    if len(words) > 3 and words[0] == "cd" and words[2] == "&&":
        folder, words = words[1], words[3:]
    if "&&" in words or not words:
        return None
    env: dict[str, str] = {}
    if words[0] == "env":
        words = words[1:]
    while words and (match := _ASSIGNMENT.fullmatch(words[0])):
        env[match[1]] = match[2]
        words = words[1:]
    if posixpath.normpath(folder or ".").startswith(("/", "..")):
        return None
    return _call(words, env, folder)


def _call(words: list[str], env: dict[str, str], folder: str) -> Invocation | None:
    if words and words[0] in {"pytest", "py.test"}:
        return Invocation(tuple(words[1:]), env, folder)
    if not words or not _PYTHON.fullmatch(words[0]):
        return None
    python, rest, options = words[0], words[1:], []
    while rest and rest[0] != "-m":
        if rest[0] in _IGNORED_OPTIONS:
            rest = rest[1:]
        elif rest[0] in {"-W", "-X"} and len(rest) > 1:
            options += rest[:2]
            rest = rest[2:]
        elif rest[0].startswith(("-W", "-X")) and len(rest[0]) > 2:
            options.append(rest[0])
            rest = rest[1:]
        else:
            return None
    if rest[:2] != ["-m", "pytest"]:
        return None
    return Invocation(tuple(rest[2:]), env, folder, python, tuple(options), module=True)


def _split(command: str) -> list[str] | None:
    """The words a shell would see, with `&&` as a word; None as soon as the shell would do more than split."""
    words: list[str] = []
    word: str | None = None
    at = 0
    while at < len(command):
        char = command[at]
        if char == "'":
            end = command.find("'", at + 1)
            if end < 0:
                return None
            word, at = (word or "") + command[at + 1 : end], end + 1
        elif char == '"':
            end = at + 1
            while end < len(command) and _SAFE_IN_DOUBLE_QUOTES.match(command[end]):
                end += 1
            if command[end : end + 1] != '"':
                return None
            word, at = (word or "") + command[at + 1 : end], end + 1
        elif char in " \t":
            if word is not None:
                words.append(word)
            word, at = None, at + 1
        elif command.startswith("&&", at) and word is None and not command.startswith("&&&", at):
            words.append("&&")
            at += 2
        elif char in _SPECIAL:
            return None
        else:
            word, at = (word or "") + char, at + 1
    return words if word is None else [*words, word]
