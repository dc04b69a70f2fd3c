"""Parse a command line that is one plain pytest call.

The pinned runner makes such a call itself and reports every test. It understands

    [cd FOLDER &&] [env] [NAME=VALUE …] pytest ARGUMENTS
    [cd FOLDER &&] [env] [NAME=VALUE …] PYTHON [OPTIONS] -m pytest ARGUMENTS

where FOLDER is inside the workspace and PYTHON is `python`, `python3` or `python3.x`, with or without a path. For every
other command a shell decides what runs, and only its exit code counts.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import field

from agentbench.core.dataclass import dataclass

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_PYTHON = re.compile(r"(?:.*/)?python(?:3(?:\.\d+)?)?")
_ENV = frozenset({"env", "/bin/env", "/usr/bin/env"})
_SAFE_IN_DOUBLE_QUOTES = re.compile(r'[^"$`\\]')
_SPECIAL = frozenset(";&|<>()`$*?{}~#!\n\\")
_FORBIDDEN_VARIABLE = re.compile(r"PATH|PYTHONHOME|PYTHONOPTIMIZE|LD_.*")
"""Variables that choose or change the program that would run the tests, or strip assertions from it."""
_KEPT_OPTIONS = frozenset({"-b", "-bb", "-E"})
"""Interpreter options that the pinned runner is started with."""
_IGNORED_OPTIONS = frozenset({"-B", "-u", "-s"})
"""Interpreter options that the pinned runner has anyway, or that do not matter to tests."""


@dataclass(frozen=True, slots=True)
class PytestCommand:
    """`cd folder && env python options -m pytest arguments`."""

    arguments: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""
    python: str = "python"
    options: tuple[str, ...] = ()
    """Interpreter options."""
    imports_cwd: bool = False
    """True if the current folder is importable, as after `python -m`."""

    @property
    def ignores_python_variables(self) -> bool:
        return "-E" in self.options


def parse_pytest_command(command: str) -> PytestCommand | None:
    """Return the pytest call that a command line consists of, or None if it is anything else."""
    words = _split(command.strip())
    if words is None:
        return None
    folder = ""
    if len(words) > 3 and words[0].text == "cd" and words[2].operator:
        folder, words = words[1].text, words[3:]
    outside = posixpath.normpath(folder or ".").startswith(("/", "..", "-"))
    if outside or any(word.operator for word in words):
        return None
    env, words = _assignments(words)
    if words and words[0].text in _ENV:
        more, words = _assignments(words[1:], quoted=True)
        env |= more
    if any(_FORBIDDEN_VARIABLE.fullmatch(name) for name in env):
        return None
    return _call([word.text for word in words], env, folder)


@dataclass(slots=True)
class _Word:
    text: str = ""
    unquoted: str = ""
    """The part before the first quote."""
    operator: bool = False
    """The word is `&&`, outside quotes."""
    quoted: bool = False
    brackets: bool = False
    """Has brackets outside quotes."""


def _assignments(words: list[_Word], *, quoted: bool = False) -> tuple[dict[str, str], list[_Word]]:
    """Split leading assignments off. To a shell the name must be unquoted; to `env` it may be quoted."""
    env: dict[str, str] = {}
    for at, word in enumerate(words):
        match = _ASSIGNMENT.fullmatch(word.text)
        if match is None or not (quoted or word.unquoted.startswith(f"{match[1]}=")):
            return env, words[at:]
        env[match[1]] = match[2]
    return env, []


def _call(words: list[str], env: dict[str, str], folder: str) -> PytestCommand | None:
    if not words:
        return None
    if words[0] in {"pytest", "py.test"}:
        return PytestCommand(tuple(words[1:]), env, folder)
    if not _PYTHON.fullmatch(words[0]):
        return None
    python, rest = words[0], words[1:]
    options: list[str] = []
    imports_cwd = True
    while rest and rest[0] != "-m":
        option, taken = rest[0], 1
        if option in {"-W", "-X"} and len(rest) > 1:
            taken = 2
            options += rest[:2]
        elif option in _KEPT_OPTIONS or (option.startswith(("-W", "-X")) and len(option) > 2):
            options.append(option)
        elif option in {"-P", "-I"}:
            imports_cwd = False
            options += ["-E"] if option == "-I" else []
        elif option not in _IGNORED_OPTIONS:
            return None
        rest = rest[taken:]
    if rest[:2] != ["-m", "pytest"]:
        return None
    return PytestCommand(tuple(rest[2:]), env, folder, python, tuple(options), imports_cwd)


def _split(command: str) -> list[_Word] | None:
    """Split a command as a shell does; None as soon as the shell would do more than split."""
    words: list[_Word] = []
    word: _Word | None = None
    at = 0
    while at < len(command):
        char = command[at]
        if char in "'\"":
            end = _closing_quote(command, at)
            if end is None:
                return None
            word = word or _Word()
            word.text, word.quoted, at = word.text + command[at + 1 : end], True, end + 1
        elif char in " \t":
            if word is not None:
                words.append(word)
            word, at = None, at + 1
        elif command.startswith("&&", at) and word is None and not command.startswith("&&&", at):
            words.append(_Word("&&", operator=True))
            at += 2
        elif char in _SPECIAL:
            return None
        else:
            word = word or _Word()
            word.text += char
            word.unquoted += "" if word.quoted else char
            word.brackets |= char in "[]"
            at += 1
    if word is not None:
        words.append(word)
    # Unquoted brackets are a glob, except in a test id, which matches no file: a shell passes it on as it is.
    return None if any(word.brackets and "::" not in word.text for word in words) else words


def _closing_quote(command: str, at: int) -> int | None:
    """Return where the quote at `at` closes; None if it does not, or if a shell would expand its content."""
    if command[at] == "'":
        end = command.find("'", at + 1)
        return end if end >= 0 else None
    end = at + 1
    while end < len(command) and _SAFE_IN_DOUBLE_QUOTES.match(command[end]):
        end += 1
    return end if command[end : end + 1] == '"' else None
