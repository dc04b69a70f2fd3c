"""What the tools that run a project's tests install for them: tox, nox, Hatch. Pure."""

from __future__ import annotations

import ast
import configparser
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agentbench.authoring.environment.requirements import (
    Read,
    at,
    constants,
    expanded,
    group_requirements,
    ini_of,
    parsed,
    strings,
    toml_of,
    unique,
)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OWN = re.compile(r"(?:-e\s*)?\.\[([\w,. -]+)\]")
"""The project itself with extras, as a requirement."""


@dataclass(frozen=True, slots=True)
class Hints:
    """Requirements, extras of the project, and its dependency groups by what is in them."""

    requirements: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()
    grouped: tuple[str, ...] = ()
    together: bool = False
    """Whether the requirements are meant beside the groups."""


def with_tool_files(project: Mapping[str, object], read: Read) -> Mapping[str, object]:
    """pyproject.toml with what tox.toml and hatch.toml say where it would say it itself."""
    tools = at(project, "tool")
    merged: dict[str, object] = dict(tools) if isinstance(tools, Mapping) else {}
    for tool in ("tox", "hatch"):
        inside, file = merged.get(tool), toml_of(read(f"{tool}.toml"))
        if file and (tool == "hatch" or not inside):  # tox reads one of its files and no other
            merged[tool] = {**(inside if isinstance(inside, Mapping) else {}), **file}
    return {**project, "tool": merged} if merged else project


def hints(read: Read, project: Mapping[str, object], config: configparser.RawConfigParser, python: str = "") -> Hints:
    """What tox says, else nox; and the environment of Hatch for tests, else its usual one where no group is for them."""
    tox = _tox(read("tox.ini"), project, python)
    lines = list(tox.requirements)
    if config.has_option("options", "tests_require"):
        lines += _words(config.get("options", "tests_require").splitlines(), python)
    hatch = _hatch(project, ("hatch-test", "test", "tests", "testing"))
    if hatch == Hints() and not group_requirements(project):
        hatch = _hatch(project, ("default",))
    told = lines or nox_requirements(read("noxfile.py"))
    return Hints(
        requirements=tuple(told),
        extras=tuple(unique([*tox.extras, *hatch.extras])),
        grouped=tuple(unique([*tox.grouped, *hatch.grouped, *hatch.requirements])),
        together=bool(tox.grouped),
    )


# --- tox ---------------------------------------------------------------------------------------------------------


def _tox(text: str | None, project: Mapping[str, object], python: str) -> Hints:
    """What its environments for tests install; its own TOML counts where it is not told in the old form."""
    legacy = at(project, "tool", "tox", "legacy_tox_ini")
    ini = ini_of(text if text is not None else legacy if isinstance(legacy, str) else None)
    found: dict[str, list[str]] = {"deps": [], "extras": [], "dependency_groups": []}
    if ini.has_section("testenv"):
        found = {key: ini.get("testenv", key, fallback="").splitlines() for key in found}
    elif text is None and not legacy:
        tables = [at(project, "tool", "tox", "env_run_base"), at(project, "tool", "tox", "testenv")]
        short = python.replace(".", "")
        names = ("test", "tests", "py", "py3", *((python, f"py{short}") if short else ()))
        tables += [at(project, "tool", "tox", "env", name) for name in names]
        found = {key: [line for table in tables for line in _lines(at(table, key))] for key in found}
    return Hints(
        tuple(_words(found["deps"], python)),
        tuple(unique([*_names(found["extras"], python), *_own_extras(found["deps"], python)])),
        tuple(_of_groups(project, _names(found["dependency_groups"], python))),
    )


def _lines(value: object) -> list[str]:
    return value.splitlines() if isinstance(value, str) else strings(value)


def _told(raw: str, python: str) -> str:
    """A line as it is for `python`: some are for certain environments alone (`py{3,311}: …`)."""
    return _for_python(
        re.sub(r"\{(?:toxinidir|tox_root)\}(/?)", lambda found: "" if found[1] else ".", raw.strip()), python
    )


def _words(lines: Sequence[str], python: str) -> list[str]:
    """Words for pip."""
    words: list[str] = []
    for line in (_told(raw, python) for raw in lines):
        if not line or line.startswith("#") or "{" in line:
            continue
        if line.startswith("-r"):
            words += ["-r", line[2:].strip()]
        elif not line.startswith(("-", ".")):
            words.append(line)
    return words


def _own_extras(lines: Sequence[str], python: str) -> list[str]:
    found = (_OWN.fullmatch(_told(raw, python)) for raw in lines)
    return [name for match in found if match for name in _names([match[1]], python)]


def _names(lines: Sequence[str], python: str) -> list[str]:
    """Names of extras or groups, one to a line or several with commas between."""
    told = [_for_python(line.strip(), python) for line in lines]
    return unique([name for line in told for one in line.split(",") if _NAME.fullmatch(name := one.strip())])


def _of_groups(project: Mapping[str, object], names: Sequence[str]) -> list[str]:
    groups = at(project, "dependency-groups")
    return unique([line for name in names for line in expanded(groups, name)]) if isinstance(groups, Mapping) else []


def _for_python(line: str, python: str) -> str:
    """What a line of tox says to an environment that is called after its interpreter and nothing else; else nothing."""
    match = re.match(r"([\w!,.{}-]+):\s+(?=\S)", line)
    if match is None:
        return line
    short = python.replace(".", "")
    names = {name for factor in re.split(r",(?![^{]*\})", match[1]) for name in _alternatives(factor)}
    return line[match.end() :] if names & {"py", "py3", f"py{short}" if short else "py"} else ""


def _alternatives(factor: str) -> list[str]:
    """`py{3,311}` → `py3`, `py311`."""
    match = re.fullmatch(r"([^{}]*)\{([^{}]*)\}([^{}]*)", factor)
    return [f"{match[1]}{one.strip()}{match[3]}" for one in match[2].split(",")] if match else [factor]


# --- nox ---------------------------------------------------------------------------------------------------------


def nox_requirements(text: str | None) -> list[str]:
    """What a session of nox that is called after tests installs."""
    tree = parsed(text or "")
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.FunctionDef) and "test" in node.name.lower():
            words = [word for call in _installs(node) for word in call]
            if words:
                return unique(words)
    return []


def _installs(function: ast.FunctionDef) -> Iterator[list[str]]:
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "install":
            words = constants(node.args)
            # Files of requirements and the project itself are found where they are.
            yield [word for word in words if re.match(r"[A-Za-z0-9]", word) and not word.endswith((".txt", ".in"))]


# --- hatch -------------------------------------------------------------------------------------------------------


def _hatch(project: Mapping[str, object], names: Sequence[str]) -> Hints:
    """The first of some environments that says something."""
    for name in names:
        table = at(project, "tool", "hatch", "envs", name)
        lines = [*strings(at(table, "dependencies")), *strings(at(table, "extra-dependencies"))]
        features = [one for one in strings(at(table, "features")) if _NAME.fullmatch(one)]
        grouped = _of_groups(project, strings(at(table, "dependency-groups")))
        if lines or features or grouped:
            # What stands between braces is what only Hatch knows.
            return Hints(tuple(line for line in lines if "{" not in line), tuple(features), tuple(grouped))
    return Hints()
