"""API keys of model services, from the environment or a `.env` file. They are looked up by name and never shown."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError

_LINE = re.compile(r"\s*(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*=\s*(?P<rest>.*)$")
_DOUBLE_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$", "`": "`"}
MAX_FILE = 1 << 20


@dataclass(frozen=True, slots=True)
class EnvFile:
    """The variables of a `.env` file. `problems` name the lines that could not be read, never a value."""

    values: Mapping[str, str] = field(repr=False)
    problems: tuple[str, ...] = ()


@functools.cache
def preset_key_names() -> tuple[str, ...]:
    """Return the variables that hold the keys of the bundled presets, for the redactor of every run."""
    presets = json.loads(Path(__file__).with_name("presets.json").read_bytes())
    return tuple(sorted({preset["key"] for preset in presets["providers"].values() if preset["key"]}))


class Secret:
    """A value that appears neither in `repr` nor in `str`, and so not in an error."""

    __slots__ = ("_value", "name")

    def __init__(self, name: str, value: str) -> None:
        self.name = name
        self._value = value

    def reveal(self) -> str:
        """Return the value. Only for the code that sends a request to the service."""
        return self._value

    def __repr__(self) -> str:
        return f"<{self.name}>"

    __str__ = __repr__


class Keys:
    """Variables by name. The environment takes precedence over the file."""

    def __init__(self, environment: Mapping[str, str], file: EnvFile | None = None) -> None:
        file = file or EnvFile({})
        self._values = {**file.values, **{name: value for name, value in environment.items() if value}}
        self._problems = file.problems

    @classmethod
    def find(cls, environment: Mapping[str, str], folder: Path) -> Keys:
        """Read the environment and `folder/.env`, if it exists.

        The file may belong to another program, so its problems are reported only if a key is missing.
        """
        path = folder / ".env"
        return cls(environment, read_env_file(path) if path.is_file() else None)

    def get(self, name: str) -> Secret | None:
        value = self._values.get(name, "").strip()
        return Secret(name, value) if value else None

    def require(self, name: str, purpose: str) -> Secret:
        """
        Raises:
            InputError: the variable is not set, or cannot be a key.
        """
        secret = self.get(name)
        if secret is None:
            msg = f"{purpose} needs an API key: {name} is not set"
            problems = "".join(f"; {problem}" for problem in self._problems[:5])
            raise InputError(msg, remedy=f"set {name} in the environment or in .env in the working directory{problems}")
        # A line break in a header would split the request; a key has none.
        if not secret.reveal().isascii() or not secret.reveal().isprintable():
            msg = f"{name} contains characters that no key has, such as line breaks or typographic quotes"
            raise InputError(msg, remedy=f"set {name} again, without quotes")
        return secret

    def values(self, names: Iterable[str]) -> dict[str, str]:
        """Return the values of those `names` that are set, for the redactor."""
        return {name: secret.reveal() for name in names if (secret := self.get(name)) is not None}


def read_env_file(path: Path) -> EnvFile:
    try:
        if path.stat().st_size > MAX_FILE:
            return EnvFile({}, (f"{path} is larger than {MAX_FILE} bytes",))
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        return EnvFile({}, (f"cannot read {path}: {why}",))
    return parse_env(text, str(path))


def parse_env(text: str, name: str) -> EnvFile:
    """Parse `NAME=value` lines like a shell: comments, `export`, single and double quotes, but no expansion."""
    values: dict[str, str] = {}
    problems: list[str] = []
    for number, line in enumerate(text.split("\n"), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        match = _LINE.match(line.rstrip("\r"))
        value = _value(match["rest"].strip()) if match else None
        if match is None or value is None:
            problems.append(f"{name}:{number}: {'unclosed quote' if match else 'expected NAME=value'}")
        else:
            values[match["name"]] = value
    return EnvFile(values, tuple(problems))


def _value(rest: str) -> str | None:
    if rest.startswith("'"):
        end = rest.find("'", 1)
        return rest[1:end] if end > 0 else None
    if rest.startswith('"'):
        quoted = _DOUBLE_QUOTED.match(rest)
        return _ESCAPE.sub(lambda escape: _ESCAPES.get(escape[1], escape[0]), quoted[1]) if quoted else None
    # In an unquoted value, a comment begins after white space.
    return re.split(r"\s#", rest, maxsplit=1)[0].strip() if not rest.startswith("#") else ""
