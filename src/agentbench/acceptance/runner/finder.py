"""Finds packages where setup installed them, whatever else of that name is on the path.

This is a separate file because code under test can reach the finder in `sys.meta_path`, and with it everything in its
module.
"""

from __future__ import annotations

from importlib.machinery import ModuleSpec, PathFinder


class PinnedFinder:
    def __init__(self, names: list[str], absent: list[str], paths: list[str]) -> None:
        self._names = frozenset(names)
        self._absent = frozenset(absent)
        self._paths = paths

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if path is not None:
            return None
        if name in self._names:
            return PathFinder.find_spec(name, self._paths)
        if name in self._absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None
