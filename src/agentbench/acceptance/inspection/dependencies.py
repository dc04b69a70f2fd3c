"""Finds dependencies that a patch adds to a project's declarations, for contracts that forbid new ones. Pure."""

from __future__ import annotations

import json
import posixpath
import re
import tomllib
from collections.abc import Iterator

_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
_REQUIREMENTS = re.compile(rb"(?:.*[-_.])?requirements(?:[-_.].*)?\.(?:txt|in)")


def is_declaration(path: bytes) -> bool:
    name = posixpath.basename(path)
    return name in {b"pyproject.toml", b"package.json"} or _REQUIREMENTS.fullmatch(name) is not None


def added_dependencies(path: bytes, before: bytes, after: bytes) -> tuple[str, ...]:
    """Return names that `after` declares and `before` does not."""
    return tuple(sorted(_declared(path, after) - _declared(path, before)))


def _declared(path: bytes, content: bytes) -> frozenset[str]:
    text = content.decode("utf-8", "replace")
    name = posixpath.basename(path)
    try:
        if name == b"pyproject.toml":
            declared = _pyproject_dependencies(tomllib.loads(text))
        elif name == b"package.json":
            declared = _package_dependencies(json.loads(text))
        else:
            declared = iter(line for line in text.splitlines() if not line.lstrip().startswith(("#", "-")))
        return frozenset(
            re.sub(r"[-_.]+", "-", match[1]).lower() for line in declared if (match := _NAME.match(line)) is not None
        )
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


def _package_dependencies(data: object) -> Iterator[str]:
    for key in ("dependencies", "devDependencies", "peerDependencies", "optionalDependencies"):
        section = data.get(key) if isinstance(data, dict) else None
        yield from (str(name).lstrip("@") for name in section) if isinstance(section, dict) else ()


def _strings(value: object) -> Iterator[str]:
    yield from (element for element in value if isinstance(element, str)) if isinstance(value, list) else ()
