"""Which files can hold a match at all: those with the text that every match of the pattern contains.

ripgrep costs by the files it opens, so where they are at hand on the host it is asked only about these. Text is taken from
the pattern with care: in doubt there is none, and nothing is narrowed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentbench.tools.host_search import FarAway, at_hand
from agentbench.tools.workspace_tracker import WorkspaceTracker
from agentbench.tree.entry import Entry

_PART = re.compile(
    r"""
      (?P<text>[A-Za-z0-9_ "'=,:;<>/@%!~`-]|\\[(){}\[\].*+?|^$\\/-])   # stands for itself
    | (?P<class>\[\^?[A-Za-z0-9_ -]+\])                                # one character, whichever
    | (?P<kind>\\[dDwWsSbB]|[.^$])                                     # a kind of character, or a place
    """,
    re.VERBOSE,
)
_TELLING = 2
"""Bytes: a single one is in nearly every file."""
_TIMES = re.compile(r"[*?]|\{[0-9]+(?:,[0-9]*)?\}")


def needed_text(pattern: str) -> str:
    """The longest text that is part of every match; empty where that cannot be told easily."""
    runs, run, at = [], "", 0
    while at < len(pattern):
        part = _PART.match(pattern, at)
        if part is None:
            # Groups, alternatives, flags, Unicode: more than is looked into here.
            return ""
        at = part.end()
        one = part["text"][-1:] if part["text"] else ""
        times = _TIMES.match(pattern, at)
        again = at < len(pattern) and pattern[at] == "+"
        if times or again:
            at = times.end() if times else at + 1
            # May be missing, or come often: what follows is not next to what came before.
            runs.append(run if times else run + one)
            run = ""
        elif one:
            run += one
        else:
            runs.append(run)
            run = ""
    return max((*runs, run), key=len)


def narrowed(tracker: WorkspaceTracker, query: str, entries: Sequence[Entry]) -> Sequence[Entry]:
    """Those of the files that can match, never none: whether the pattern is one at all is for ripgrep to say."""
    text = needed_text(query).encode()
    if len(text) < _TELLING:
        return entries
    try:
        found = [entry for entry, content in at_hand(tracker, entries) if text in content]
    except FarAway:
        return entries
    return found or entries[:1]
