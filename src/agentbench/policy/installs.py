"""Recognises commands that install or resolve dependencies."""

from __future__ import annotations

import re
from collections.abc import Collection

from agentbench.core.package_name import normal_name
from agentbench.policy.shell import read_script

_HINT = re.compile(r"install| i |sync|lock|update|upgrade|\badd\b|\bget\b|fetch|ci\b|resolve|restore|tidy|require")

_INSTALLS = re.compile(
    r"""
    (?:python[\d.]*\ +-m\ +)?pip[\d.]*\ +(?:install|download|wheel)\b
    | uv\ +(?:pip\ +(?:install|sync|compile)|sync|add|lock)\b
    | poetry\ +(?:install|add|update|lock)\b
    | pdm\ +(?:install|add|update|lock|sync)\b
    | pipenv\ +(?:install|update|lock|sync)\b
    | pipx\ +install\b
    | conda\ +(?:install|update|env\ +(?:create|update))\b
    | (?:npm|pnpm)\ +(?:install|i|ci|add|update)\b
    | yarn(?:$|\ +(?:install|add|upgrade)\b)
    | bun\ +(?:install|add)\b
    | cargo\ +(?:add|install|update|fetch)\b
    | go\ +(?:get|install|mod\ +(?:download|tidy))\b
    | (?:gem|bundle)\ +(?:install|update)\b
    | composer\ +(?:install|update|require)\b
    | (?:apt|apt-get|dnf|yum|apk|brew)\ +(?:-\S+\ +)*(?:install|add|update|upgrade)\b
    | mvn\ .*dependency:resolve
    | dotnet\ +(?:restore|add\ +package)
    """,
    re.VERBOSE,
)


def installs_of(line: str) -> tuple[str, ...]:
    """Return the commands of a line that install or resolve dependencies, normalised."""
    if not _HINT.search(line):
        # A bare `yarn` installs too.
        return ("yarn",) if line.strip() == "yarn" else ()
    commands = (" ".join(command.words) for command in read_script(line).commands)
    return tuple(command for command in commands if _INSTALLS.match(command))


_NOT_NEW = re.compile(r"-|\.|/|~|.*\.(?:txt|in|toml|cfg|whl|tar\.gz|lock)$|.*==.*\{")
_ADDS = re.compile(r"(?:install|add|get|i|require|download|package)$")
_TAKES_VALUE = {
    "-r", "--requirement", "-c", "--constraint", "-t", "--target", "-i", "--index-url", "--extra-index-url", "-f",
    "--find-links", "--prefix", "--group", "-G", "-E", "--extras", "--extra",
}  # fmt: skip
_PYTHON_INSTALL = re.compile(r"(?:python[\d.]*\ +-m\ +)?(?:pip[\d.]*|uv|poetry|pdm|pipenv|pipx)\ ")
_PACKAGE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?=$|[\[<>=!~;@ ])")


def unknown_packages(line: str, known: Collection[str] | None) -> tuple[str, ...]:
    """Return Python packages that a line installs by name and that are not `known`; none if that is None."""
    if known is None:
        return ()
    installs = (install for install in installs_of(line) if _PYTHON_INSTALL.match(install))
    names = (_PACKAGE.match(package) for install in installs for package in _named(install))
    return tuple(dict.fromkeys(match[0] for match in names if match and normal_name(match[0]) not in known))


def new_packages(line: str) -> tuple[str, ...]:
    """Return packages that a line installs by name, not what a project declares (`-r`, `.`, a lock file)."""
    return tuple(package for install in installs_of(line) for package in _named(install))


def _named(install: str) -> tuple[str, ...]:
    """Return the packages that one command installs by name."""
    words = install.split(" ")
    start = next((at for at, word in enumerate(words) if _ADDS.match(word)), len(words))
    packages: list[str] = []
    skip = False
    for word in words[start + 1 :]:
        if word in {">", ">>", "<", "|"}:
            break
        if skip or word.startswith("-"):
            skip = word in _TAKES_VALUE
        elif not _NOT_NEW.match(word):
            packages.append(word)
    return tuple(packages)
