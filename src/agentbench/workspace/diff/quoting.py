"""Names in diff headers, quoted as git quotes them."""

from __future__ import annotations

import re

_SIMPLE = {7: b"a", 8: b"b", 9: b"t", 10: b"n", 11: b"v", 12: b"f", 13: b"r", 34: b'"', 92: b"\\"}
_UNSIMPLE = {value: bytes([key]) for key, value in _SIMPLE.items()}
_NEEDS_QUOTE = re.compile(rb'[\x00-\x1f"\\\x7f-\xff]')
_TOKEN = re.compile(rb'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(rb"\\([0-3][0-7]{2}|.)", re.DOTALL)


def quote(name: bytes) -> bytes:
    """The name as it stands in a header: bare where that is unambiguous, else in C notation."""
    if not _NEEDS_QUOTE.search(name):
        return name
    return b'"' + _NEEDS_QUOTE.sub(lambda match: _escaped(match[0][0]), name) + b'"'


def _escaped(byte: int) -> bytes:
    simple = _SIMPLE.get(byte)
    return b"\\" + simple if simple is not None else b"\\%03o" % byte


def unquote(text: bytes) -> tuple[bytes, bytes] | None:
    """The name of the quoted token that `text` starts with, and what follows it; None if there is no such token."""
    match = _TOKEN.match(text)
    if match is None:
        return None
    valid = True

    def plain(escape: re.Match[bytes]) -> bytes:
        nonlocal valid
        code = escape[1]
        if len(code) == 3:
            return bytes([int(code, 8)])
        valid = valid and code in _UNSIMPLE
        return _UNSIMPLE.get(code, b"")

    name = _ESCAPE.sub(plain, match[1])
    return (name, text[match.end() :]) if valid else None
