"""Recognises behaviour that the base repository already has, judged by the text of its files. Pure.

The same behaviour observed while tests run is then not a finding. A run on the base repository shows most of it, but a
test of something new does not get that far there, so its text decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from agentbench.acceptance.checks.pytest.records import AuditEvent

TELLING_WORDS = {
    "read source": (b"linecache", b"extract_stack", b"format_stack", b"print_stack", b"walk_stack"),
    "search memory": (b"get_objects", b"get_referrers", b"get_referents"),
}
"""Words without which a file does not show this behaviour. Opening files is missing here: every project does that."""
_PATCH_CALL = re.compile(
    rb"\b(?:setattr|delattr|setitem|delitem|patch(?:\.object|\.dict|\.multiple)?)\s*\(.{0,200}?[\"']([\w.]+)[\"']",
    re.DOTALL,
)
_ASSIGNMENT = re.compile(rb"(?m)^[ \t]*(?:builtins|math|operator|unittest[\w.]*|doctest)\.(\w+)\s*=[^=]")


def known_behaviour(events: Iterable[AuditEvent], before: Callable[[str], bytes]) -> frozenset[str]:
    """Return the keys of events whose file in the base repository contains the words for them.

    `before` returns the content of a file in the base repository, empty if it does not exist there.
    """
    return frozenset(
        event.key for event in events if any(word in before(event.file) for word in TELLING_WORDS.get(event.kind, ()))
    )


def monkeypatched_names(sources: Iterable[bytes]) -> tuple[str, ...]:
    """Return the names that tests replace while they run: passed to a patching call, or assigned in a watched module.

    A test that replaces `builtins.input` changes something that the runner monitor watches.
    """
    names = {
        match[1].rpartition(b".")[2].decode()
        for source in sources
        for match in (*_PATCH_CALL.finditer(source), *_ASSIGNMENT.finditer(source))
    }
    return tuple(sorted(names - {""}))
