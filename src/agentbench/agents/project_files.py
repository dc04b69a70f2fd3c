"""The project as the context packer sees it: which files there are, and what is in them, through the session's tools."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from agentbench.tools.session import Session

MAX_READS = 10
"""Each file read is a tool call of the agent, and those are counted."""


@dataclass(frozen=True)
class Project:
    """`paths` are the Python files of the workspace; `read` gives None when there is nothing to be had."""

    paths: frozenset[str]
    read: Callable[[str], str | None]

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for path in sorted(self.paths, key=len, reverse=True):
            found.setdefault(path.rsplit("/", 1)[-1], []).append(path)
        return found

    def find(self, named: str) -> str | None:
        """A file as a program names it, absolute ones included: the longest path of the project that it ends with."""
        if named in self.paths:
            return named
        same = self._by_name.get(named.rsplit("/", 1)[-1], [])
        return next((path for path in same if f"/{named}".endswith(f"/{path}")), None)


def look_at(session: Session) -> Project:
    """One call to see what is there, then at most `MAX_READS` to read."""
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
