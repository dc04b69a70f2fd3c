"""Lists the Python packages that a prepared task knows: those it installed, declares or locks.

An agent that requires another package may have made it up. Names are compared, not versions.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from agentbench.acceptance.cache import key_of, load_or_make
from agentbench.acceptance.inspection.dependencies import declared_dependencies, is_python_declaration
from agentbench.contract.load import LoadedTask
from agentbench.core.canonical import sha256_hex
from agentbench.core.package_name import normal_name
from agentbench.execution.environment_facts import EnvironmentFacts
from agentbench.sandbox.protocol import Prepared
from agentbench.tree.limits import TreeTooLarge

VERSION = 1
"""Raise this when other names are found."""
MAX_FILE = 8 * 1024 * 1024
MAX_NAMES = 5_000
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:\[[^\]]*\])?\s*(?:==|@|[<>~!]=?|;|$)")
_QUOTED = re.compile(r"""["']([A-Za-z0-9][^"'\n]{0,200})["']""")
_DISTRIBUTION = re.compile(rb"([A-Za-z0-9][A-Za-z0-9._]*)-[^-/]+\.(?:dist|egg)-info")
_LOCKED_NAME = re.compile(r'^\[\[package\]\]\s+name\s*=\s*"([^"\n]+)"', re.MULTILINE)
"""A package in `uv.lock`, `poetry.lock` and `pdm.lock`. Parsing such a file as TOML can take half a second."""
_OWN_NAME = re.compile(r"""^\s*name\s*=\s*["']?([A-Za-z0-9][A-Za-z0-9._-]*)["']?\s*$""", re.MULTILINE)


class KnownPackages(BaseModel):
    """The normalised names, sorted; None if they cannot be known."""

    model_config = ConfigDict(frozen=True, defer_build=True)
    names: tuple[str, ...] | None


def cached_packages(
    task: LoadedTask, prepared: Prepared, facts: EnvironmentFacts, base_digest: str, cache: Path
) -> tuple[str, ...] | None:
    """Return what `known_packages` returns, from the cache if the task was prepared before.

    Raises:
        WorkspaceError: the cache cannot be used.
    """
    key = key_of(
        VERSION,
        base_digest,
        task.task.environment.network_policy,
        list(task.task.setup.commands),
        list(facts.packages),
        [sha256_hex(step.stdout) for step in prepared.steps if step.capture],
    )
    packages, _ = load_or_make(
        cache, key, KnownPackages, lambda: KnownPackages(names=known_packages(task, prepared, facts))
    )
    return packages.names


def known_packages(task: LoadedTask, prepared: Prepared, facts: EnvironmentFacts) -> tuple[str, ...] | None:
    """Return the normalised names, sorted; None if they cannot be known.

    They cannot if the agent has network access, because an index may have any package, or if setup installed no package.
    """
    if task.task.environment.network_policy == "always":
        return None
    from agentbench.policy.installs import new_packages  # noqa: PLC0415 - needed once per environment

    installed = {*facts.packages, *_installed_in_workspace(prepared)}
    if not installed:
        return None
    names = {
        *installed,
        *_declared(prepared),
        *(package for command in task.task.setup.commands for package in new_packages(command)),
        *(
            name
            for step in prepared.steps
            if step.capture
            for name in _requirements(step.stdout.decode("utf-8", "replace"))
        ),
    }
    matches = (_REQUIREMENT.match(name) for name in names)
    normal = sorted({normal_name(match[1]) for match in matches if match is not None})
    return tuple(normal) if len(normal) <= MAX_NAMES else None


def _installed_in_workspace(prepared: Prepared) -> Iterator[str]:
    """Yield packages of virtual environments that setup created in the workspace."""
    for entry in prepared.base_tree.entries():
        match = _DISTRIBUTION.fullmatch(posixpath.basename(posixpath.dirname(entry.path)))
        if match is not None:
            yield match[1].decode()


def _declared(prepared: Prepared) -> Iterator[str]:
    """Yield the names in declarations and lock files of the base repository, and its own name."""
    for entry in prepared.base_tree.entries():
        name = posixpath.basename(entry.path)
        is_lock = name in {b"uv.lock", b"poetry.lock", b"pdm.lock", b"Pipfile.lock"}
        if not (is_lock or is_python_declaration(entry.path) or name == b"setup.py"):
            continue
        try:
            content = prepared.base_tree.read(entry.path, max_bytes=MAX_FILE)
        except (OSError, TreeTooLarge):
            continue
        text = content.decode("utf-8", "replace")
        if is_lock:
            yield from _locked(text, as_json=name == b"Pipfile.lock")
        elif name == b"setup.py":
            # Its requirements are the result of running it; any text of that form may be one.
            yield from _QUOTED.findall(text)
        else:
            yield from declared_dependencies(entry.path, content)
            yield from _OWN_NAME.findall(text)


def _locked(text: str, *, as_json: bool) -> Iterator[str]:
    if not as_json:
        yield from _LOCKED_NAME.findall(text)
        return
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return
    sections = [data.get(key) for key in ("default", "develop")] if isinstance(data, dict) else []
    yield from (str(name) for section in sections if isinstance(section, dict) for name in section)


def _requirements(text: str) -> Iterator[str]:
    """Yield the names in the output of a capture command such as `pip freeze`."""
    yield from (line for line in text.splitlines() if "==" in line or " @ " in line)
