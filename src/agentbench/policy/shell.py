"""Parses shell lines as far as monitors need: the programs and their arguments.

This is not a full shell grammar, and an agent can always hide a program from it. It tells an honest agent the rules and
records evidence about a careless one; the security boundary is the sandbox.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from agentbench.core.dataclass import dataclass

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
_WRAPPERS = {
    "env", "nice", "time", "timeout", "xargs", "nohup", "exec", "command", "stdbuf", "setsid", "then", "do", "else",
    "elif", "if", "while", "until", "!", "busybox",
}  # fmt: skip
_AS_ROOT = frozenset({"sudo", "doas"})
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash", "ksh"})
_INTERPRETERS = re.compile(r"(?:python[\d.]*|node|perl|ruby|php)$")
_SUBSTITUTION = re.compile(r"\$\(([^()]*)\)|`([^`]*)`")
_GIVEN_SHELL = re.compile(r"-[a-z]*c$")
_SHELL_OPTIONS_WITH_VALUE = frozenset({"-o", "+o", "-O", "+O", "--rcfile", "--init-file"})
_GIVEN_OTHER = re.compile(r"-[a-z]*[er]$|--eval$")
_NUMBER = re.compile(r"[\d.]+[smhd]?$")


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One program and its arguments without quotes. Redirections are words too (`>`, then the file)."""

    words: tuple[str, ...]
    piped_into: bool = False
    """Whether its input comes from a pipe."""


@dataclass(frozen=True, slots=True)
class Script:
    """The commands of a line, and the code or text embedded in it."""

    commands: tuple[SimpleCommand, ...]
    embedded: tuple[str, ...]


def read_script(line: str, depth: int = 0) -> Script:
    """Parse a line. Anything not understood becomes words; nothing is rejected."""
    commands: list[SimpleCommand] = []
    embedded: list[str] = []
    for command in _split(line[:MAX_LINE], embedded):
        for word in command.words:
            # A variable set for one command counts as a command: LD_PRELOAD=x.
            if not _ASSIGNMENT.match(word):
                break
            commands.append(SimpleCommand((word,)))
        unwrapped = _unwrap(command.words)
        commands.append(SimpleCommand(unwrapped, command.piped_into))
        if unwrapped[0] in _AS_ROOT and len(unwrapped) > 1:
            unwrapped = _unwrap(("env", *unwrapped[1:]))
            commands.append(SimpleCommand(unwrapped, command.piped_into))
        inner = _inline_code(unwrapped)
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
    """Yield the commands of a substitution, unless nested too deeply."""
    return _split(line, embedded, depth + 1) if depth < _MAX_DEPTH else iter(())


def _split(line: str, embedded: list[str], depth: int = 0) -> Iterator[SimpleCommand]:
    words: list[str] = []
    tags: list[str] = []
    piped = False
    position = 0
    while position < len(line):
        token = _TOKEN.match(line, position)
        if token is None:
            position += 1
            continue
        position = token.end()
        kind = token.lastgroup
        if kind == "word":
            words.append(_unquoted(token[0]))
            for inside in _quoted_substitutions(token[0]):
                yield from _nested(inside, embedded, depth)
        elif kind == "redirect":
            words.append(token[0].lstrip("0123456789") or token[0])
        elif token["tag"] is not None:
            tags.append(token["tag"])
        elif kind == "substitution":
            stop = _closing(line, position, token[0])
            inside = line[position:stop]
            words.append(f"{token[0]}{inside}{line[stop : stop + 1]}")
            position = stop + 1
            yield from _nested(inside, embedded, depth)
        elif kind == "break":
            if words:
                yield SimpleCommand(tuple(words), piped)
            words, piped = [], token[0] == "|"
            if token[0] == "\n" and tags:
                position = _skip_heredocs(line, position, tags, embedded)
                tags = []
    if words:
        yield SimpleCommand(tuple(words), piped)


def _quoted_substitutions(word: str) -> Iterator[str]:
    """Yield substitutions inside double quotes, which also run."""
    if '"' in word:
        for match in _SUBSTITUTION.finditer(word):
            yield match[1] or match[2] or ""


def _closing(line: str, position: int, opening: str) -> int:
    """Return where a substitution ends. Parentheses inside quotes count too; unbalanced ones are rare."""
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
    return _QUOTED.sub(lambda match: match[1] or match[2] or re.sub(r"\\(.)", r"\1", match[3] or ""), word)


def _unwrap(words: tuple[str, ...]) -> tuple[str, ...]:
    """Drop assignments and programs that only start another program."""
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


def shell_line(words: tuple[str, ...]) -> str | None:
    """Return the line that `sh -c LINE` runs; None if the words are not such a call.

    The line is the first word that is no option: `bash -c -l LINE` runs it too.
    """
    if not words or words[0] not in _SHELLS:
        return None
    runs_line = skip = False
    for word in words[1:]:
        if skip:
            skip = False
        elif word[:1] in {"-", "+"} and len(word) > 1:
            skip = word in _SHELL_OPTIONS_WITH_VALUE
            runs_line |= word.startswith("-") and not word.startswith("--") and "c" in word
        else:
            return word if runs_line else None
    return None


def _inline_code(words: tuple[str, ...]) -> tuple[str, str] | None:
    """Return the code passed to a shell or interpreter on the line, if any."""
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
