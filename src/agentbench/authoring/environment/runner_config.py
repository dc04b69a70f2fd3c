"""Read what tox, nox and Hatch install for a project's tests. Pure."""

from __future__ import annotations

import ast
import configparser
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agentbench.authoring.environment.requirements import (
    Read,
    at,
    expand_group,
    group_requirements,
    ini_of,
    string_constants,
    strings,
    toml_of,
    unique,
)
from agentbench.core.python_syntax import parse_or_none

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OWN = re.compile(r"(?:-e\s*)?\.\[([\w,. -]+)\]")
"""The project itself with extras, written as a requirement."""


@dataclass(frozen=True, slots=True)
class Hints:
    """What a test runner installs."""

    requirements: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()
    """Extras of the project."""
    grouped: tuple[str, ...] = ()
    """Requirements from dependency groups."""
    with_groups: bool = False
    """True if the requirements are installed in addition to the groups."""


def with_tool_files(project: Mapping[str, object], read: Read) -> Mapping[str, object]:
    """Merge tox.toml and hatch.toml into pyproject.toml's `tool` table."""
    tools = at(project, "tool")
    merged: dict[str, object] = dict(tools) if isinstance(tools, Mapping) else {}
    for tool in ("tox", "hatch"):
        inside, file = merged.get(tool), toml_of(read(f"{tool}.toml"))
        if file and (tool == "hatch" or not inside):  # tox reads only one of its files
            merged[tool] = {**(inside if isinstance(inside, Mapping) else {}), **file}
    return {**project, "tool": merged} if merged else project


def hints(read: Read, project: Mapping[str, object], config: configparser.RawConfigParser, python: str = "") -> Hints:
    """Read requirements from tox, else nox, and from Hatch's test environment.

    Hatch's default environment counts if it has no test environment and the project has no group for tests.
    """
    tox = _tox(read("tox.ini"), project, python)
    lines = list(tox.requirements)
    if config.has_option("options", "tests_require"):
        lines += _words(config.get("options", "tests_require").splitlines(), python)
    hatch = _hatch(project, ("hatch-test", "test", "tests", "testing"))
    if hatch == Hints() and not group_requirements(project):
        hatch = _hatch(project, ("default",))
    return Hints(
        requirements=tuple(lines or nox_requirements(read("noxfile.py"))),
        extras=tuple(unique([*tox.extras, *hatch.extras])),
        grouped=tuple(unique([*tox.grouped, *hatch.grouped, *hatch.requirements])),
        with_groups=bool(tox.grouped),
    )


# --- tox ---------------------------------------------------------------------------------------------------------


def _tox(text: str | None, project: Mapping[str, object], python: str) -> Hints:
    """Read what tox's test environments install, from its INI form or else from its TOML form."""
    legacy = at(project, "tool", "tox", "legacy_tox_ini")
    ini = ini_of(text if text is not None else legacy if isinstance(legacy, str) else None)
    settings: dict[str, list[str]] = {"deps": [], "extras": [], "dependency_groups": []}
    if ini.has_section("testenv"):
        settings = {key: ini.get("testenv", key, fallback="").splitlines() for key in settings}
    elif text is None and not legacy:
        tables = [at(project, "tool", "tox", "env_run_base"), at(project, "tool", "tox", "testenv")]
        short = python.replace(".", "")
        names = ("test", "tests", "py", "py3", *((python, f"py{short}") if short else ()))
        tables += [at(project, "tool", "tox", "env", name) for name in names]
        settings = {key: [line for table in tables for line in _lines(at(table, key))] for key in settings}
    return Hints(
        tuple(_words(settings["deps"], python)),
        tuple(unique([*_names(settings["extras"], python), *_own_extras(settings["deps"], python)])),
        tuple(_group_requirements(project, _names(settings["dependency_groups"], python))),
    )


def _lines(value: object) -> list[str]:
    return value.splitlines() if isinstance(value, str) else strings(value)


def _expand(raw: str, python: str) -> str:
    """Expand a line of tox for `python`; empty if it is only for other environments (`py{3,311}: …`)."""
    return _for_python(
        re.sub(r"\{(?:toxinidir|tox_root)\}(/?)", lambda match: "" if match[1] else ".", raw.strip()), python
    )


def _words(lines: Sequence[str], python: str) -> list[str]:
    """Return the lines as arguments of `pip install`."""
    words: list[str] = []
    for line in (_expand(raw, python) for raw in lines):
        if not line or line.startswith("#") or "{" in line:
            continue
        if line.startswith("-r"):
            words += ["-r", line[2:].strip()]
        elif not line.startswith(("-", ".")):
            words.append(line)
    return words


def _own_extras(lines: Sequence[str], python: str) -> list[str]:
    matches = (_OWN.fullmatch(_expand(raw, python)) for raw in lines)
    return [name for match in matches if match for name in _names([match[1]], python)]


def _names(lines: Sequence[str], python: str) -> list[str]:
    """Return names of extras or groups, which may be separated by commas."""
    applicable = [_for_python(line.strip(), python) for line in lines]
    return unique([name for line in applicable for part in line.split(",") if _NAME.fullmatch(name := part.strip())])


def _group_requirements(project: Mapping[str, object], names: Sequence[str]) -> list[str]:
    groups = at(project, "dependency-groups")
    return (
        unique([line for name in names for line in expand_group(groups, name)]) if isinstance(groups, Mapping) else []
    )


def _for_python(line: str, python: str) -> str:
    """Return a tox line without its factor condition if it applies to an environment such as `py311`, else empty."""
    match = re.match(r"([\w!,.{}-]+):\s+(?=\S)", line)
    if match is None:
        return line
    short = python.replace(".", "")
    names = {name for factor in re.split(r",(?![^{]*\})", match[1]) for name in _alternatives(factor)}
    return line[match.end() :] if names & {"py", "py3", f"py{short}" if short else "py"} else ""


def _alternatives(factor: str) -> list[str]:
    """Expand `py{3,311}` to `py3` and `py311`."""
    match = re.fullmatch(r"([^{}]*)\{([^{}]*)\}([^{}]*)", factor)
    return [f"{match[1]}{part.strip()}{match[3]}" for part in match[2].split(",")] if match else [factor]


# --- nox ---------------------------------------------------------------------------------------------------------


def nox_requirements(text: str | None) -> list[str]:
    """Return what the first nox session with "test" in its name installs."""
    tree = parse_or_none(text or "")
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.FunctionDef) and "test" in node.name.lower():
            words = [word for call in _installs(node) for word in call]
            if words:
                return unique(words)
    return []


def _installs(function: ast.FunctionDef) -> Iterator[list[str]]:
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "install":
            words = string_constants(node.args)
            # Requirement files and the project itself are handled elsewhere.
            yield [word for word in words if re.match(r"[A-Za-z0-9]", word) and not word.endswith((".txt", ".in"))]


# --- hatch -------------------------------------------------------------------------------------------------------


def _hatch(project: Mapping[str, object], names: Sequence[str]) -> Hints:
    """Read the first of some environments that installs anything."""
    for name in names:
        table = at(project, "tool", "hatch", "envs", name)
        lines = [*strings(at(table, "dependencies")), *strings(at(table, "extra-dependencies"))]
        features = [name for name in strings(at(table, "features")) if _NAME.fullmatch(name)]
        grouped = _group_requirements(project, strings(at(table, "dependency-groups")))
        if lines or features or grouped:
            # Only Hatch can expand braces.
            return Hints(tuple(line for line in lines if "{" not in line), tuple(features), tuple(grouped))
    return Hints()
