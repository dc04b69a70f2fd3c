"""Keys of model services: from the environment, or from a file `.env`. They are asked for by name and never shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentbench.core.errors import InputError

_LINE = re.compile(r"\s*(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*=\s*(?P<rest>.*)$")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$", "`": "`"}
MAX_FILE = 1 << 20


@dataclass(frozen=True, slots=True)
class EnvFile:
    """A file of variables. `problems` say with the place, and never with a value, what could not be read."""

    values: Mapping[str, str] = field(repr=False)
    problems: tuple[str, ...] = ()


class Secret:
    """A value that does not show itself: not in `repr`, not in `str`, not in an error."""

    __slots__ = ("_value", "name")

    def __init__(self, name: str, value: str) -> None:
        self.name = name
        self._value = value

    def reveal(self) -> str:
        """The value. Only what sends a request to the service itself asks for it."""
        return self._value

    def __repr__(self) -> str:
        return f"<{self.name}>"

    __str__ = __repr__


class Keys:
    """What variables hold. The environment goes before the file."""

    def __init__(self, environment: Mapping[str, str], file: EnvFile | None = None) -> None:
        found = file or EnvFile({})
        self._values = {**found.values, **{name: value for name, value in environment.items() if value}}
        self._problems = found.problems

    @classmethod
    def find(cls, environment: Mapping[str, str], folder: Path) -> Keys:
        """From the environment and, where there is one, `folder/.env`.

        The file may be another program's: what cannot be read in it is only told when a key is missing.
        """
        path = folder / ".env"
        return cls(environment, read_env_file(path) if path.is_file() else None)

    def get(self, name: str) -> Secret | None:
        value = self._values.get(name, "").strip()
        return Secret(name, value) if value else None

    def require(self, name: str, why: str) -> Secret:
        """
        Raises:
            InputError: it is not set; names the variable.
        """
        found = self.get(name)
        if found is None:
            msg = f"{why} needs a key: the variable {name} is not set"
            told = "".join(f"; {problem}" for problem in self._problems[:5])
            raise InputError(
                msg, remedy=f"set {name} in the environment, or in a file .env in the working directory{told}"
            )
        # A line break in a header would split the request; a key has none.
        if not found.reveal().isascii() or not found.reveal().isprintable():
            msg = f"the variable {name} holds characters that no key has (line breaks, quotes of another kind, …)"
            raise InputError(msg, remedy=f"set {name} again, without quotes around it")
        return found

    def values(self, names: Iterable[str]) -> dict[str, str]:
        """Those of `names` that are set, for the redactor."""
        found = {name: self.get(name) for name in names}
        return {name: secret.reveal() for name, secret in found.items() if secret is not None}


def read_env_file(path: Path) -> EnvFile:
    try:
        if path.stat().st_size > MAX_FILE:
            return EnvFile({}, (f"{path} is too large for a file of variables",))
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        return EnvFile({}, (f"{path} cannot be read: {why}",))
    return parse_env(text, str(path))


def parse_env(text: str, name: str) -> EnvFile:
    """`NAME=value` lines as shells read them: comments, `export`, single and double quotes (no expansion)."""
    found: dict[str, str] = {}
    problems: list[str] = []
    for number, line in enumerate(text.split("\n"), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        match = _LINE.match(line.rstrip("\r"))
        value = _value(match["rest"].strip()) if match else None
        if match is None or value is None:
            problems.append(f"{name}:{number}: {'a quote is not closed' if match else 'expected NAME=value'}")
        else:
            found[match["name"]] = value
    return EnvFile(found, tuple(problems))


def _value(rest: str) -> str | None:
    if rest.startswith("'"):
        end = rest.find("'", 1)
        return rest[1:end] if end > 0 else None
    if rest.startswith('"'):
        return _double_quoted(rest)
    # An unquoted comment begins after white space.
    return re.split(r"\s#", rest, maxsplit=1)[0].strip() if not rest.startswith("#") else ""


def _double_quoted(rest: str) -> str | None:
    value: list[str] = []
    position = 1
    while position < len(rest):
        char = rest[position]
        if char == '"':
            return "".join(value)
        if char == "\\" and position + 1 < len(rest):
            position += 1
            escaped = rest[position]
            char = _ESCAPES.get(escaped, "\\" + escaped)
        value.append(char)
        position += 1
    return None
