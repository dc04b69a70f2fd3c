"""Pack the files that failing tests point at, and the modules those import, into a budget of tokens."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import PurePosixPath

from agentbench.agents.conversation import CHARS_PER_TOKEN
from agentbench.agents.visible_tests import Failures
from agentbench.core.dataclass import dataclass
from agentbench.core.python_syntax import parse_or_none
from agentbench.tools.session import Session

TITLE = "## Files the failing tests point at\n"
ISSUE_TITLE = "## Files the issue names\n"
_CUT = "\n[… cut: the budget ends here]"
_LEAST = 80
"""A file is left out if fewer characters of it would fit."""
MAX_READS = 10
"""Limit of file reads: each is a tool call that counts against the agent's budget."""


@dataclass(frozen=True)
class Project:
    """The Python files of the workspace. `read` returns None for a file that cannot be read."""

    paths: frozenset[str]
    read: Callable[[str], str | None]

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        by_name: dict[str, list[str]] = {}
        for path in sorted(self.paths, key=len, reverse=True):
            by_name.setdefault(path.rsplit("/", 1)[-1], []).append(path)
        return by_name

    def find(self, name: str) -> str | None:
        """Find the file that test output names: the longest path of the project that the name ends with."""
        if name in self.paths:
            return name
        same = self._by_name.get(name.rsplit("/", 1)[-1], [])
        return next((path for path in same if f"/{name}".endswith(f"/{path}")), None)


def list_project(session: Session) -> Project:
    """List the workspace with one tool call. Later, at most `MAX_READS` files can be read."""
    listed = session.list_files(glob="**/*.py")
    left = MAX_READS

    def read(path: str) -> str | None:
        nonlocal left
        if left <= 0:
            return None
        left -= 1
        result = session.read_file(path)
        return result.stdout if result.ok else None

    return Project(frozenset(listed.stdout.splitlines()) if listed.ok else frozenset(), read)


def pack(failures: Failures, project: Project, tokens: int, title: str = TITLE) -> str:
    """Pack the files named in the test output first, then what they import. The result never exceeds the budget."""
    room = tokens * CHARS_PER_TOKEN - len(title)
    parts: list[str] = []
    for path, text in _files(failures, project):
        fence = _fence(text)
        frame = len(f"\n### {path}\n{fence}\n\n{fence}\n")
        fits = frame + len(text) <= room
        left = len(text) if fits else room - frame - len(_CUT)
        if left < min(_LEAST, len(text)):
            break
        body = text if fits else text[:left] + _CUT
        parts.append(f"\n### {path}\n{fence}\n{body}\n{fence}\n")
        room -= len(parts[-1])
        if not fits:
            break
    return title + "".join(parts) if parts else ""


def _fence(text: str) -> str:
    """Return a fence that is longer than any run of backticks in the text."""
    return "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))


def _files(failures: Failures, project: Project) -> Iterator[tuple[str, str]]:
    visited: set[str] = set()
    queue = [*failures.files, *(test.split("::", 1)[0] for test in failures.tests)]
    while queue:
        path = project.find(queue.pop(0))
        if path is None or path in visited:
            continue
        visited.add(path)
        text = project.read(path)
        if text is None:
            continue
        yield path, text
        queue += [module for module in imported(path, text) if module in project.paths]


def imported(path: str, text: str) -> list[str]:
    """List the files where the imports of a Python file could be in the same project, most likely first."""
    tree = parse_or_none(text)
    candidates: list[str] = []
    package = PurePosixPath(path).parent
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Import):
            candidates += [path for alias in node.names for path in _candidates(alias.name, package)]
        elif isinstance(node, ast.ImportFrom):
            base = _base(package, node)
            names = [f"{base}.{alias.name}".strip(".") for alias in node.names if alias.name != "*"]
            candidates += [path for name in (base, *names) if name for path in _candidates(name, package)]
    return list(dict.fromkeys(candidates))


def _base(package: PurePosixPath, node: ast.ImportFrom) -> str:
    """Return the module that an import names; a relative one is resolved against the file's package."""
    if not node.level:
        return node.module or ""
    parts = package.parts[: max(len(package.parts) - (node.level - 1), 0)]
    return ".".join((*parts, *([node.module] if node.module else [])))


def _candidates(module: str, package: PurePosixPath) -> list[str]:
    path = module.replace(".", "/")
    beside = "" if str(package) == "." else f"{package}/"
    roots = dict.fromkeys(("", "src/", beside))
    return [f"{root}{path}{end}" for root in roots for end in (".py", "/__init__.py")]
