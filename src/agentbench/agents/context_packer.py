"""The context packer: the files that failing tests point at, and the modules those import, within a budget of tokens."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from agentbench.agents.conversation import CHARS_PER_TOKEN
from agentbench.agents.project_files import Project
from agentbench.agents.test_output import Failures
from agentbench.core.python_syntax import parse as parse_python

_TITLE = "## Files the failing tests point at\n"
_CUT = "\n[… cut: the budget ends here]"
_LEAST = 80
"""Fewer characters of a file than this tell nothing."""


def pack(failures: Failures, project: Project, tokens: int) -> str:
    """Files in the order of their use: those named in the output, then what they import. Never longer than the budget."""
    room = tokens * CHARS_PER_TOKEN - len(_TITLE)
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
    return _TITLE + "".join(parts) if parts else ""


def _fence(text: str) -> str:
    """Longer than any run of backticks inside, so that a file cannot end its own fence."""
    return "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))


def _files(failures: Failures, project: Project) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    waiting = [*failures.files, *(test.split("::", 1)[0] for test in failures.tests)]
    while waiting:
        path = project.find(waiting.pop(0))
        if path is None or path in seen:
            continue
        seen.add(path)
        text = project.read(path)
        if text is None:
            continue
        yield path, text
        waiting += [found for found in imported(path, text) if found in project.paths]


def imported(path: str, text: str) -> list[str]:
    """Where the modules that a Python file imports could lie in the same project, most likely place first."""
    try:
        tree = parse_python(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    found: list[str] = []
    package = PurePosixPath(path).parent
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [place for alias in node.names for place in _places(alias.name, package)]
        elif isinstance(node, ast.ImportFrom):
            base = _base(package, node)
            names = [f"{base}.{alias.name}".strip(".") for alias in node.names if alias.name != "*"]
            found += [place for name in (base, *names) if name for place in _places(name, package)]
    return list(dict.fromkeys(found))


def _base(package: PurePosixPath, node: ast.ImportFrom) -> str:
    """The dotted module an import names, relative ones resolved by the file's own place."""
    if not node.level:
        return node.module or ""
    parts = package.parts[: max(len(package.parts) - (node.level - 1), 0)]
    return ".".join((*parts, *([node.module] if node.module else [])))


def _places(module: str, package: PurePosixPath) -> list[str]:
    path = module.replace(".", "/")
    beside = "" if str(package) == "." else f"{package}/"
    roots = dict.fromkeys(("", "src/", beside))
    return [f"{root}{path}{end}" for root in roots for end in (".py", "/__init__.py")]
