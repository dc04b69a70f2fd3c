"""A search on the host: of words, in a small project whose files are at hand. None where ripgrep must be asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentbench.tools.content_cache import MAX_FILE
from agentbench.tools.literal_search import Doubt, Effort, lines_of, understood
from agentbench.tools.search_hits import Hit
from agentbench.tools.workspace_tracker import WorkspaceTracker
from agentbench.tree.entry import Entry

MAX_FILES = 1_000
MAX_BYTES = 4 * 1024 * 1024
MAX_FETCHED = 32
"""Files that may have to be asked of the sandbox: each costs a turn of its own."""


class FarAway(Exception):
    """Too much of it, or in the sandbox alone: ripgrep is there already."""


def at_hand(tracker: WorkspaceTracker, entries: Sequence[Entry]) -> Iterator[tuple[Entry, bytes]]:
    """Every file with what it holds.

    Raises:
        FarAway: not all of them can be had on the host without much ado.
    """
    if len(entries) > MAX_FILES or sum(entry.size for entry in entries) > MAX_BYTES:
        raise FarAway
    left = MAX_FETCHED
    for entry in entries:
        content, fetched = tracker.content(entry) if entry.size <= MAX_FILE else (None, False)
        left -= fetched
        if content is None or left < 0:
            raise FarAway
        yield entry, content


def find_nearby(tracker: WorkspaceTracker, query: str, entries: Sequence[Entry], limit: int) -> list[Hit] | None:
    """The first `limit` lines in the order of `entries`, exactly as ripgrep would find them."""
    wanted = understood(query)
    if wanted is None:
        return None
    hits: list[Hit] = []
    effort = Effort()
    try:
        for entry, content in at_hand(tracker, entries):
            for number, line in lines_of(content, wanted, effort):
                hits.append(Hit.of(entry.path, number, line))
                if len(hits) >= limit:
                    return hits
    except (Doubt, FarAway):
        return None
    return hits
