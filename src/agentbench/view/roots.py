"""The folders that the view serves: finds run directories and pilots in them and names each by a key.

Clients send keys, never paths, so no request can name a file outside of the roots.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from agentbench.core.dataclass import dataclass
from agentbench.core.text import printable
from agentbench.pilot.folder import PILOT_FILE, RUNS
from agentbench.record.naming import RUN_JSON

MAX_DEPTH = 3
"""Levels of folders below a root in which runs and pilots are found."""
MAX_FOLDERS = 50_000
MAX_ENTRIES = 100_000
"""Entries of one folder that are looked at."""


def key_of(path: Path) -> str:
    """Return the key of a folder: the same for the same path, safe in an address."""
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Folder:
    """A run directory or a pilot, and why it is not opened."""

    path: Path
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """The folders of one scan, by key."""

    runs: dict[str, Folder]
    pilots: dict[str, Folder]


@dataclass(frozen=True, slots=True)
class Roots:
    paths: tuple[Path, ...]

    @classmethod
    def of(cls, paths: Sequence[Path]) -> Roots:
        return cls(tuple(dict.fromkeys(path.resolve() for path in paths)))

    def scan(self) -> Found:
        """Find the run directories and pilots below the roots. Symbolic links are not followed."""
        runs: dict[str, Folder] = {}
        pilots: dict[str, Folder] = {}
        waiting = [(str(path), 0) for path in reversed(self.paths)]
        for _ in range(MAX_FOLDERS):
            if not waiting:
                break
            folder, depth = waiting.pop()
            listing = _list(folder)
            path = Path(folder)
            if RUN_JSON in listing.files:
                runs[key_of(path)] = Folder(path, listing.refused)
            elif PILOT_FILE in listing.files:
                pilots[key_of(path)] = Folder(path, listing.refused)
                waiting += [(inner, MAX_DEPTH) for inner in _list(f"{folder}/{RUNS}").folders]
            elif depth < MAX_DEPTH:
                waiting += [(inner, depth + 1) for inner in reversed(listing.folders)]
        return Found(runs, pilots)


@dataclass(frozen=True, slots=True)
class _Listing:
    files: frozenset[str] = frozenset()
    folders: tuple[str, ...] = ()
    refused: str = ""


def _list(folder: str) -> _Listing:
    """List a folder. It is refused if opening its files could block or lead elsewhere."""
    files: set[str] = set()
    folders: list[str] = []
    refused = ""
    try:
        with os.scandir(folder) as entries:
            for entry in islice(entries, MAX_ENTRIES):
                if entry.is_file(follow_symlinks=False):
                    files.add(entry.name)
                elif entry.is_dir(follow_symlinks=False):
                    if not entry.name.startswith("."):
                        folders.append(entry.path)
                else:
                    refused = refused or f"{printable(entry.name)[:200]} is neither a regular file nor a folder"
    except OSError:
        return _Listing()
    return _Listing(frozenset(files), tuple(sorted(folders)), refused)
