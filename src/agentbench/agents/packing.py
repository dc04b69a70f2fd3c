"""The context packer: the files that failing tests point at, and the modules those import, within a budget of tokens."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

from agentbench.agents.conversation import CHARS_PER_TOKEN
from agentbench.agents.failures import Failures

Reader = Callable[[str], str | None]
"""Content of a file of the workspace; None when there is none to be had."""

MAX_FILES = 40


def pack(failures: Failures, read: Reader, tokens: int) -> str:
    """Files in the order of their use: those named in the output, then what they import. Cut where the budget ends."""
    room = tokens * CHARS_PER_TOKEN
    parts: list[str] = []
    for path, text in _files(failures, read):
        head = f"### {path}\n"
        if room <= len(head):
            break
        body = text if len(text) + len(head) <= room else text[: room - len(head)] + "\n[… cut: the budget ends here]"
        parts.append(f"{head}```\n{body}\n```")
        room -= len(head) + len(text)
    return "## Files the failing tests point at\n\n" + "\n\n".join(parts) if parts else ""


def _files(failures: Failures, read: Reader) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    waiting = [*failures.files, *(test.split("::", 1)[0] for test in failures.tests)]
    while waiting and len(seen) < MAX_FILES:
        path = waiting.pop(0)
        if path in seen:
            continue
        seen.add(path)
        text = read(path)
        if text is None:
            continue
        yield path, text
        waiting += [found for found in imported(path, text) if found not in seen]


def imported(path: str, text: str) -> list[str]:
    """Where the modules that a Python file imports could lie in the same project, most likely place first."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    found: list[str] = []
    package = PurePosixPath(path).parent
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [place for alias in node.names for place in _places(alias.name)]
        elif isinstance(node, ast.ImportFrom):
            base = _base(package, node)
            names = [f"{base}.{alias.name}".strip(".") for alias in node.names if alias.name != "*"]
            found += [place for name in (base, *names) if name for place in _places(name)]
    return list(dict.fromkeys(found))


def _base(package: PurePosixPath, node: ast.ImportFrom) -> str:
    """The dotted module an import names, relative ones resolved by the file's own place."""
    if not node.level:
        return node.module or ""
    parts = package.parts[: len(package.parts) - (node.level - 1)]
    return ".".join((*parts, *([node.module] if node.module else [])))


def _places(module: str) -> list[str]:
    path = module.replace(".", "/")
    return [f"{root}{path}{end}" for root in ("", "src/") for end in (".py", "/__init__.py")]
