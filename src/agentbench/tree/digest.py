"""The digest of a tree."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from agentbench.tree.entry import Entry

_DOMAIN = b"agentbench tree 1\0"


def tree_digest(entries: Iterable[Entry]) -> str:
    """Return `sha256:…` over kind, executable bit, content and path of every entry, in path order."""
    state = hashlib.sha256(_DOMAIN)
    for entry in sorted(entries, key=lambda entry: entry.path):
        mark = "x" if entry.executable else "-"
        # Paths cannot contain NUL, so the encoding is unambiguous.
        state.update(f"{entry.kind.value} {mark} {entry.sha256} ".encode() + entry.path + b"\0")
    return "sha256:" + state.hexdigest()
