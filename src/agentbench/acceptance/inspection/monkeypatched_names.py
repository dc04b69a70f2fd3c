"""Finds names that tests themselves replace while they run, judged by their text. Pure.

A test that replaces `builtins.input` while it runs changes something that the runner monitor watches. A run on the base
repository shows this, but a test of something new does not get that far there, so its text decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_PATCH_CALL = re.compile(
    rb"\b(?:setattr|delattr|setitem|delitem|patch(?:\.object|\.dict|\.multiple)?)\s*\(.{0,200}?[\"']([\w.]+)[\"']",
    re.DOTALL,
)
_ASSIGNMENT = re.compile(rb"(?m)^[ \t]*(?:builtins|math|operator|unittest[\w.]*|doctest)\.(\w+)\s*=[^=]")


def monkeypatched_names(sources: Iterable[bytes]) -> tuple[str, ...]:
    """Return the last part of each name that is passed to a patching call or assigned in a watched module."""
    names = {
        match[1].rpartition(b".")[2].decode()
        for source in sources
        for match in (*_PATCH_CALL.finditer(source), *_ASSIGNMENT.finditer(source))
    }
    return tuple(sorted(names - {""}))
