"""A fast path for searches in small workspaces, whose files the host can read without the sandbox.

A query of plain text, or of alternatives of plain text, is answered here; that is several times faster than starting ripgrep in
the sandbox. For any other regular expression, ripgrep gets only the files that contain the text every match needs. What is
found is exactly what ripgrep would find. Must not evaluate a regular expression: one that never ends would stop the harness.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Sequence

from agentbench.core.dataclass import dataclass
from agentbench.tools.step_diffs import MAX_DIFFED_FILE
from agentbench.tools.workspace_tracker import WorkspaceTracker
from agentbench.tree.entry import Entry

MAX_FILES = 1_000
MAX_BYTES = 4 * 1024 * 1024
MAX_FETCHED = 32
"""Files to read from the sandbox at most: each costs a round trip."""
MAX_ALTERNATIVES = 8
MAX_CACHED = 32 * 1024 * 1024
_MIN_TEXT = 2
"""Bytes. A shorter text is in nearly every file, so it excludes nothing."""

_PART = re.compile(
    r"""
      (?P<text>[^\\.+*?()|\[\]{}^$]|\\[\\.+*?()|\[\]{}^$\#&~-])   # a character that stands for itself
    | (?P<alternative>\|)
    | \[\^?[A-Za-z0-9_ -]+\]                                      # a character class
    | \\[dDwWsSbB] | [.^$]                                        # a kind of character, or a position
    """,
    re.VERBOSE,
)
_OPTIONAL = re.compile(r"[*?]|\{[0-9]+(?:,[0-9]*)?\}")

Match = tuple[bytes, int, bytes]
"""Path, line number and line."""


@dataclass(frozen=True, slots=True)
class Query:
    """A text for each alternative of a pattern. `exact`: the pattern is these texts; else each match contains one of them."""

    texts: tuple[bytes, ...]
    exact: bool

    def may_match(self, content: bytes) -> bool:
        return any(text in content for text in self.texts)


def parse_query(pattern: str) -> Query | None:
    """Return the text that matches of a pattern contain, or None if that is not certain.

    Groups, flags, escapes of Unicode classes and the like give None: ripgrep then searches all files.
    """
    runs: list[list[str]] = [[""]]
    exact, position = True, 0
    while position < len(pattern):
        part = _PART.match(pattern, position)
        if part is None:
            return None
        position = part.end()
        if part["alternative"]:
            runs.append([""])
            continue
        char = part["text"][-1] if part["text"] else ""
        optional = _OPTIONAL.match(pattern, position)
        repeated = pattern.startswith("+", position)
        if char and not optional:
            runs[-1][-1] += char
        if optional or repeated or not char:
            # What follows need not be next to what came before.
            exact = False
            position = optional.end() if optional else position + repeated
            runs[-1].append("")
    texts = tuple(max(alternative, key=len).encode() for alternative in runs)
    shortest = min(map(len, texts))
    if len(texts) > MAX_ALTERNATIVES or shortest < (1 if exact else _MIN_TEXT):
        return None
    return Query(texts, exact)


def search_on_host(
    tracker: WorkspaceTracker, pattern: str, entries: Sequence[Entry], limit: int
) -> tuple[list[Match] | None, Sequence[Entry]]:
    """Return the first `limit` matches in the order of `entries`; or None, and the files that ripgrep must search.

    These are never none of several: ripgrep also decides whether the pattern is valid.
    """
    query = parse_query(pattern)
    if query is None or len(entries) > MAX_FILES or sum(entry.size for entry in entries) > MAX_BYTES:
        return None, entries
    matches: list[Match] = []
    candidates: list[Entry] = []
    exact, fetched = query.exact, 0
    for entry in entries:
        content, live = _content(tracker, entry)
        fetched += live
        if content is None or fetched > MAX_FETCHED:
            return None, entries
        if not query.may_match(content):
            continue
        candidates.append(entry)
        exact = exact and b"\0" not in content  # ripgrep's rules for binary files are more than one NUL
        if exact:
            lines = enumerate(content.split(b"\n"), start=1)
            matches += [(entry.path, number, line) for number, line in lines if query.may_match(line)]
            if len(matches) >= limit:
                return matches[:limit], ()
    return (matches, ()) if exact else (None, candidates or entries[:1])


class ContentCache:
    """Contents of small files by digest, the least recently used dropped first.

    Shared by all sessions of the process, because attempts at one task share most files.
    """

    def __init__(self, max_bytes: int = MAX_CACHED) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._contents: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0

    def get(self, digest: str) -> bytes | None:
        with self._lock:
            content = self._contents.get(digest)
            if content is not None:
                self._contents.move_to_end(digest)
            return content

    def put(self, digest: str, content: bytes) -> None:
        with self._lock:
            if digest in self._contents:
                return
            self._contents[digest] = content
            self._bytes += len(content)
            while self._bytes > self._max_bytes:
                _, oldest = self._contents.popitem(last=False)
                self._bytes -= len(oldest)


_CACHE = ContentCache()


def _content(tracker: WorkspaceTracker, entry: Entry) -> tuple[bytes | None, bool]:
    """Return the content of a small file, or None, and whether it was read from the live workspace."""
    if entry.size > MAX_DIFFED_FILE:
        return None, False
    content = _CACHE.get(entry.sha256)
    if content is not None:
        return content, False
    content, live = tracker.content(entry)
    if content is not None:
        _CACHE.put(entry.sha256, content)
    return content, live
