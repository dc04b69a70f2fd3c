"""Defaults of common options, from the environment, the project's file and the user's file, in this order.

    AB_WORKERS=4                                  environment
    agentbench.toml                               project: in the working directory
    ~/.config/agentbench/config.toml              user: $AB_CONFIG, or in $XDG_CONFIG_HOME

Options on the command line override all of them. A project's file may be written by a stranger, so it cannot set notifications and
cannot choose a sandbox of a plug-in, which may isolate less.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from agentbench.core.dataclass import dataclass

if TYPE_CHECKING:
    from agentbench.contract.problem import Problem

PROJECT_FILE = "agentbench.toml"
MAX_WORKERS = 256
SANDBOXES = ("auto", "bwrap", "docker")
Origin = Literal["environment", "project", "user", "default"]


def _workers(value: object) -> str:
    valid = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_WORKERS
    return "" if valid else f"a whole number from 1 to {MAX_WORKERS}"


def _built_in_sandbox(value: object) -> str:
    return "" if value in SANDBOXES else f"one of {', '.join(SANDBOXES)}"


def _sandbox(value: object) -> str:
    expected = _built_in_sandbox(value)
    if not expected:
        return ""
    from agentbench.plugins.discovery import installed
    from agentbench.plugins.kinds import Kind

    known = any(plugin.name == value for plugin in installed(Kind.SANDBOX))
    return "" if known else f"{expected}, or a sandbox that `ab plugins` lists"


def _text(value: object) -> str:
    return "" if isinstance(value, str) and value.strip() else "text in quotes"


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the files, and the option or variable that it stands for."""

    name: str
    default: str | int | None
    expected: Callable[[object], str]
    """Returns what the value should be, or an empty string if it is valid."""
    in_project: Callable[[object], str] | None = None
    """The same for a project's file, if less is allowed there."""
    user_only: bool = False
    secret: bool = False

    @property
    def variable(self) -> str:
        return "AB_" + self.name.replace("-", "_").upper()


KEYS = {
    key.name: key
    for key in (
        Key("workers", 1, _workers),
        Key("sandbox", "auto", _sandbox, in_project=_built_in_sandbox),
        Key("out", "artifacts/runs", _text),
        Key("tasks-dir", "tasks", _text),
        Key("notify", None, _text, user_only=True),
        Key("notify-secret", None, _text, user_only=True, secret=True),
    )
}


@dataclass(frozen=True, slots=True)
class Setting:
    """The value of a key and where it comes from."""

    key: Key
    value: str | int | None
    origin: Origin
    place: str = ""
    """The variable, or file and line; empty for a default."""


def user_file(env: Mapping[str, str] | None = None) -> Path:
    """Return $AB_CONFIG, $XDG_CONFIG_HOME/agentbench/config.toml or ~/.config/agentbench/config.toml."""
    env = os.environ if env is None else env
    if env.get("AB_CONFIG"):
        return Path(env["AB_CONFIG"])
    config = Path(env["XDG_CONFIG_HOME"]) if env.get("XDG_CONFIG_HOME") else Path.home() / ".config"
    return config / "agentbench" / "config.toml"


def read_settings() -> dict[str, Setting]:
    """Resolve every key.

    Raises:
        InputError: a file or a variable has a problem.
    """
    settings = {key.name: Setting(key, key.default, "default") for key in KEYS.values()}
    settings |= _from_file(user_file(), "user")
    settings |= _from_file(Path(PROJECT_FILE), "project")
    return settings | _from_environment()


def runs_folder() -> Path:
    """Return the folder in which runs are looked up by name."""
    return Path(str(read_settings()["out"].value))


class ConfiguredOption(click.Option):
    """An option whose default can be configured under its own name. Its help shows the default without a configuration."""

    def get_default(self, ctx: click.Context, call: bool = True) -> Any:  # noqa: ANN401, FBT002 - as the base class
        # While the shell completes a line, a broken file must not get in the way.
        if not call or ctx.resilient_parsing:
            return super().get_default(ctx, call=call)
        return read_settings()[self.opts[0].removeprefix("--")].value


def _from_environment() -> dict[str, Setting]:
    settings = {}
    for key in KEYS.values():
        text = os.environ.get(key.variable, "")
        if not text:
            continue
        value = int(text) if isinstance(key.default, int) and text.isascii() and text.isdigit() else text
        if expected := key.expected(value):
            from agentbench.core.errors import InputError

            raise InputError(f"{key.variable}: expected {expected}, got {text!r}")
        settings[key.name] = Setting(key, value, "environment", key.variable)
    return settings


def _from_file(path: Path, origin: Origin) -> dict[str, Setting]:
    """
    Raises:
        InputError: the file cannot be read, is not TOML, or has an unknown key or a wrong value.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        if origin == "user" and os.environ.get("AB_CONFIG"):
            from agentbench.core.errors import InputError

            raise InputError(f"AB_CONFIG: {path} does not exist") from None
        return {}
    except (OSError, UnicodeDecodeError) as error:
        from agentbench.core.errors import InputError

        raise InputError(f"cannot read {path}: {error}") from None
    import tomllib

    from agentbench.contract.problem import InvalidFileError, Problem

    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        match = re.search(r"\(at line (\d+), column \d+\)", str(error))
        raise InvalidFileError(
            str(path), [Problem(str(path), int(match[1]) if match else 0, "", f"not valid TOML: {error}")]
        ) from None
    problems = [problem for name, value in table.items() if (problem := _problem(path, text, name, value, origin))]
    if problems:
        raise InvalidFileError(str(path), problems)
    return {
        name: Setting(KEYS[name], _expanded(value), origin, f"{path}:{_line(text, name)}")
        for name, value in table.items()
    }


def _problem(path: Path, text: str, name: str, value: object, origin: Origin) -> Problem | None:
    from agentbench.contract.problem import Problem, did_you_mean

    line = _line(text, name)
    key = KEYS.get(name)
    if key is None:
        return Problem(str(path), line, name, f"unknown key{did_you_mean(name, KEYS)}")
    if key.user_only and origin == "project":
        return Problem(str(path), line, name, f"only allowed in the user's file, {user_file()}, and as ${key.variable}")
    check = key.in_project if key.in_project and origin == "project" else key.expected
    expected = check(value)
    return Problem(str(path), line, name, f"expected {expected}") if expected else None


def _expanded(value: str | int) -> str | int:
    return str(Path(value).expanduser()) if isinstance(value, str) and value.startswith("~") else value


def _line(text: str, name: str) -> int:
    """Return the line of a key at the top level; TOML has no positions after parsing."""
    pattern = re.compile(rf"\s*(?:\[\s*)?[\"']?{re.escape(name)}[\"']?\s*[=.\]]")
    return next((number for number, line in enumerate(text.splitlines(), start=1) if pattern.match(line)), 0)
