"""A shell line taken apart as far as monitors need it: which programs it names, with which words.

No shell is this simple, and a program may be named in endless ways: what is read here tells an honest agent the rules and
leaves evidence of a careless one. The boundary is the sandbox.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

MAX_LINE = 20_000
_MAX_DEPTH = 3

_TOKEN = re.compile(
    r"""
      (?P<space>[ \t\r]+)
    | (?P<comment>(?<![^\s;&|()])\#[^\n]*)
    | (?P<heredoc><<-?[ \t]*(?P<quote>["']?)(?P<tag>[A-Za-z_][A-Za-z0-9_]*)(?P=quote))
    | (?P<substitution>[$<>]\(|`)
    | (?P<redirect>\d*(?:>>|>\||>&|<<<|<>|>|<))
    | (?P<break>\|\||&&|;;|[;|&\n()]|\{(?=\s)|\}(?=[\s;)]|$))
    | (?P<word>(?:\\.|'[^']*'|"(?:\\.|[^"\\])*"|[^\s;|&()<>`'"\\$]|\$(?!\()|['"\\])+)
    """,
    re.VERBOSE | re.DOTALL,
)

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_WRAPPERS = frozenset(
    [
        "env",
        "nice",
        "time",
        "timeout",
        "xargs",
        "nohup",
        "exec",
        "command",
        "stdbuf",
        "setsid",
        "then",
        "do",
        "else",
        "elif",
        "if",
        "while",
        "until",
        "!",
        "busybox",
    ]
)
_AS_ROOT = frozenset({"sudo", "doas"})
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash", "ksh"})
_INTERPRETERS = re.compile(r"(?:python[\d.]*|node|perl|ruby|php)$")
_SUBSTITUTION = re.compile(r"\$\(([^()]*)\)|`([^`]*)`")
_GIVEN_SHELL = re.compile(r"-[a-z]*c$")
_GIVEN_OTHER = re.compile(r"-[a-z]*[er]$|--eval$")
_NUMBER = re.compile(r"[\d.]+[smhd]?$")


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One program with its words, quotes taken off; redirections are words too (`>` then the file)."""

    words: tuple[str, ...]
    piped_into: bool = False
    """Its input is another command's output."""


@dataclass(slots=True)
class _Reading:
    words: list[str] = field(default_factory=list)
    piped: bool = False
    tags: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Script:
    """A line as commands, and the pieces of code or text that are embedded in it."""

    commands: tuple[SimpleCommand, ...]
    embedded: tuple[str, ...]


def simple_commands(line: str) -> tuple[SimpleCommand, ...]:
    return read_script(line).commands


def read_script(line: str, depth: int = 0) -> Script:
    """Take a line apart. What cannot be understood is still words: nothing is refused."""
    commands: list[SimpleCommand] = []
    embedded: list[str] = []
    for command in _split(line[:MAX_LINE], embedded):
        for word in command.words:
            # A variable set for one command is an act of its own: LD_PRELOAD=x.
            if not _ASSIGNMENT.match(word):
                break
            commands.append(SimpleCommand((word,)))
        stripped = _unwrapped(command.words)
        commands.append(SimpleCommand(stripped, command.piped_into))
        if stripped[0] in _AS_ROOT and len(stripped) > 1:
            stripped = _unwrapped(("env", *stripped[1:]))
            commands.append(SimpleCommand(stripped, command.piped_into))
        inner = _inner(stripped)
        if inner is None or depth >= _MAX_DEPTH:
            continue
        kind, text = inner
        if kind == "shell":
            deeper = read_script(text, depth + 1)
            commands += deeper.commands
            embedded += deeper.embedded
        else:
            embedded.append(text)
    return Script(tuple(commands), tuple(embedded))


def _nested(line: str, embedded: list[str], depth: int) -> Iterator[SimpleCommand]:
    """What a substitution runs; too deep ones are left alone."""
    return _split(line, embedded, depth + 1) if depth < _MAX_DEPTH else iter(())


def _split(line: str, embedded: list[str], depth: int = 0) -> Iterator[SimpleCommand]:
    reading = _Reading()
    position = 0
    while position < len(line):
        found = _TOKEN.match(line, position)
        if found is None:
            position += 1
            continue
        position = found.end()
        kind = found.lastgroup
        if kind == "word":
            reading.words.append(_unquoted(found[0]))
            for inside in _quoted_substitutions(found[0]):
                yield from _nested(inside, embedded, depth)
        elif kind == "redirect":
            reading.words.append(found[0].lstrip("0123456789") or found[0])
        elif found["tag"] is not None:
            reading.tags.append(found["tag"])
        elif kind == "substitution":
            stop = _closing(line, position, found[0])
            inside = line[position:stop]
            reading.words.append(f"{found[0]}{inside}{line[stop : stop + 1]}")
            position = stop + 1
            yield from _nested(inside, embedded, depth)
        elif kind == "break":
            if reading.words:
                yield SimpleCommand(tuple(reading.words), reading.piped)
            reading.words, reading.piped = [], found[0] == "|"
            if found[0] == "\n" and reading.tags:
                position = _skip_heredocs(line, position, reading.tags, embedded)
                reading.tags = []
    if reading.words:
        yield SimpleCommand(tuple(reading.words), reading.piped)


def _quoted_substitutions(word: str) -> Iterator[str]:
    """A substitution inside double quotes runs all the same."""
    if '"' in word:
        for one in _SUBSTITUTION.finditer(word):
            yield one[1] or one[2] or ""


def _closing(line: str, position: int, opening: str) -> int:
    """Where a substitution ends. Parentheses inside quotes are counted too: an honest line hardly has odd ones."""
    if opening == "`":
        end = line.find("`", position)
        return len(line) if end < 0 else end
    depth = 1
    for at in range(position, len(line)):
        depth += {"(": 1, ")": -1}.get(line[at], 0)
        if not depth:
            return at
    return len(line)


def _skip_heredocs(line: str, position: int, tags: list[str], embedded: list[str]) -> int:
    for tag in tags:
        end = re.compile(rf"^[ \t]*{tag}[ \t\r]*$", re.MULTILINE).search(line, position)
        stop = end.start() if end else len(line)
        embedded.append(line[position:stop])
        position = end.end() if end else len(line)
    return position


_QUOTED = re.compile(r"\\(.)|'([^']*)'|\"((?:\\.|[^\"\\])*)\"", re.DOTALL)


def _unquoted(word: str) -> str:
    if not any(char in word for char in "\\'\""):
        return word
    return _QUOTED.sub(lambda found: found[1] or found[2] or re.sub(r"\\(.)", r"\1", found[3] or ""), word)


def _unwrapped(words: tuple[str, ...]) -> tuple[str, ...]:
    """Without assignments and programs that only start another one."""
    at = 0
    wrapped = False
    while at < len(words):
        word = words[at]
        if _ASSIGNMENT.match(word) or word in _WRAPPERS:
            wrapped = True
        elif not (wrapped and (word.startswith("-") or _NUMBER.match(word))):
            break
        at += 1
    # `env` alone lists the environment; `/usr/bin/sudo` is sudo.
    first, *rest = words[at:] or words
    return (first.rsplit("/", 1)[-1] or first, *rest)


def _inner(words: tuple[str, ...]) -> tuple[str, str] | None:
    """What a shell or an interpreter is given to run, when it is on the line."""
    if words[0] == "eval":
        return "shell", " ".join(words[1:])
    shell = words[0] in _SHELLS
    if not shell and not _INTERPRETERS.match(words[0]):
        return None
    flag = _GIVEN_SHELL if shell or words[0].startswith("python") else _GIVEN_OTHER
    for at, word in enumerate(words[1:-1], start=1):
        if flag.match(word):
            return ("shell" if shell else "code"), words[at + 1]
        if not word.startswith("-"):
            return None
    return None
