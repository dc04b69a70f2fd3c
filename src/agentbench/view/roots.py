"""The folders that the view serves: finds run directories and pilots in them and names each by a key.

Clients send keys, never paths, so no request can name a file outside of the roots.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentbench.pilot.folder import PILOT_FILE
from agentbench.record.naming import RUN_JSON

MAX_DEPTH = 3
"""Levels of folders below a root in which runs are found: a pilot has its runs one level deeper."""
MAX_FOLDERS = 50_000


def key_of(path: Path) -> str:
    """Return the key of a folder: the same for the same path, safe in an address."""
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Found:
    """The folders of one scan, by key."""

    runs: dict[str, Path]
    pilots: dict[str, Path]


@dataclass(frozen=True, slots=True)
class Roots:
    paths: tuple[Path, ...]

    @classmethod
    def of(cls, paths: Sequence[Path]) -> Roots:
        return cls(tuple(dict.fromkeys(path.resolve() for path in paths)))

    def scan(self) -> Found:
        """Find the run directories and pilots below the roots. Symbolic links are not followed."""
        runs: dict[str, Path] = {}
        pilots: dict[str, Path] = {}
        for folder, names in self._folders():
            if RUN_JSON in names:
                runs[key_of(folder)] = folder
            elif PILOT_FILE in names:
                pilots[key_of(folder)] = folder
        return Found(runs, pilots)

    def _folders(self) -> Iterator[tuple[Path, frozenset[str]]]:
        """Yield folders with the names of their files. Folders inside a run directory are left out."""
        left = MAX_FOLDERS
        waiting = [(str(path), 0) for path in reversed(self.paths)]
        while waiting and left:
            left -= 1
            folder, depth = waiting.pop()
            files: set[str] = set()
            inner: list[str] = []
            try:
                with os.scandir(folder) as entries:
                    for entry in entries:
                        if entry.is_file(follow_symlinks=False):
                            files.add(entry.name)
                        elif entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                            inner.append(entry.path)
            except OSError:
                continue
            yield Path(folder), frozenset(files)
            if RUN_JSON not in files and depth < MAX_DEPTH:
                waiting += [(path, depth + 1) for path in sorted(inner, reverse=True)]
