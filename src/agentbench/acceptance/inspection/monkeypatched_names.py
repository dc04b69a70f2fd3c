"""Names that tests themselves replace while they run, read from their text. Pure.

A test that exchanges `builtins.input` for the time it runs changes what the watch over the runner looks at. On untouched R
the same is seen and known; but a test of something new does not come that far there, so its text has to tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_CALL = re.compile(
    rb"\b(?:setattr|delattr|setitem|delitem|patch(?:\.object|\.dict|\.multiple)?)\s*\(.{0,200}?[\"']([\w.]+)[\"']",
    re.DOTALL,
)
_ASSIGNED = re.compile(rb"(?m)^[ \t]*(?:builtins|math|operator|unittest[\w.]*|doctest)\.(\w+)\s*=[^=]")


def replaced_names(sources: Iterable[bytes]) -> tuple[str, ...]:
    """The last part of each name that is given to a call which replaces things, or assigned in a module that is watched."""
    found = {
        match[1].rpartition(b".")[2].decode()
        for source in sources
        for match in (*_CALL.finditer(source), *_ASSIGNED.finditer(source))
    }
    return tuple(sorted(found - {""}))
