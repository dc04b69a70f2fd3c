"""Reads the dependencies that a project declares, and finds those that a patch adds. Pure."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator

from agentbench.core.package_name import normal_name

_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
_REQUIREMENTS = re.compile(rb"(?:.*[-_.])?requirements(?:[-_.].*)?\.(?:txt|in)")


def is_declaration(path: bytes) -> bool:
    name = posixpath.basename(path)
    return name == b"package.json" or is_python_declaration(path)


def is_python_declaration(path: bytes) -> bool:
    name = posixpath.basename(path)
    return name in {b"pyproject.toml", b"setup.cfg"} or _REQUIREMENTS.fullmatch(name) is not None


def added_dependencies(path: bytes, before: bytes, after: bytes) -> tuple[str, ...]:
    """Return names that `after` declares and `before` does not."""
    return tuple(sorted(declared_dependencies(path, after) - declared_dependencies(path, before)))


def declared_dependencies(path: bytes, content: bytes) -> frozenset[str]:
    """Return the normalised names that a file declares; none if it cannot be parsed."""
    text = content.decode("utf-8", "replace")
    name = posixpath.basename(path)
    try:
        if name == b"pyproject.toml":
            import tomllib  # noqa: PLC0415 - slow to load and rarely needed

            declared = _pyproject_dependencies(tomllib.loads(text))
        elif name == b"package.json":
            declared = _package_dependencies(json.loads(text))
        elif name == b"setup.cfg":
            declared = _setup_cfg_dependencies(text)
        else:
            declared = iter(line for line in text.splitlines() if not line.lstrip().startswith(("#", "-")))
        return frozenset(normal_name(match[1]) for line in declared if (match := _NAME.match(line)) is not None)
    except (ValueError, RecursionError):
        return frozenset()


def _pyproject_dependencies(data: dict[str, object]) -> Iterator[str]:
    project = data.get("project")
    build = data.get("build-system")
    if isinstance(project, dict):
        yield from _strings(project.get("dependencies"))
        optional = project.get("optional-dependencies")
        for group in optional.values() if isinstance(optional, dict) else ():
            yield from _strings(group)
    if isinstance(build, dict):
        yield from _strings(build.get("requires"))
    groups = data.get("dependency-groups")
    for group in groups.values() if isinstance(groups, dict) else ():
        yield from _strings(group)
    yield from _poetry_dependencies(data)


def _poetry_dependencies(data: dict[str, object]) -> Iterator[str]:
    tool = data.get("tool")
    poetry = tool.get("poetry") if isinstance(tool, dict) else None
    if not isinstance(poetry, dict):
        return
    groups = poetry.get("group")
    sections = [poetry, *(groups.values() if isinstance(groups, dict) else ())]
    for section in sections:
        for key in ("dependencies", "dev-dependencies"):
            names = section.get(key) if isinstance(section, dict) else None
            yield from (str(name) for name in names if name != "python") if isinstance(names, dict) else ()


def _setup_cfg_dependencies(text: str) -> Iterator[str]:
    import configparser  # noqa: PLC0415 - slow to load and rarely needed

    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        return
    for section, option in (
        ("options", "install_requires"),
        ("options", "setup_requires"),
        ("options", "tests_require"),
    ):
        yield from parser.get(section, option, fallback="").splitlines()
    if parser.has_section("options.extras_require"):
        for _, lines in parser.items("options.extras_require"):
            yield from lines.splitlines()


def _package_dependencies(data: object) -> Iterator[str]:
    for key in ("dependencies", "devDependencies", "peerDependencies", "optionalDependencies"):
        section = data.get(key) if isinstance(data, dict) else None
        yield from (str(name).lstrip("@") for name in section) if isinstance(section, dict) else ()


def _strings(value: object) -> Iterator[str]:
    yield from (element for element in value if isinstance(element, str)) if isinstance(value, list) else ()
