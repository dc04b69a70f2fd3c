"""Escapes untrusted text for display. Agents choose file names and output, and terminals obey control characters."""

from __future__ import annotations

import re
import shlex
import unicodedata
from pathlib import Path

_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Control, format (bidi, zero width), surrogate, private, unassigned, line and paragraph separators."""


_TERMINAL_CODE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")


def without_terminal_codes(text: str) -> str:
    """Remove colours, cursor movements and titles, which programs write for terminals."""
    return _TERMINAL_CODE.sub("", text)


def shell_quoted(path: Path | str) -> str:
    """Return a path as it is typed in a shell, for commands to copy."""
    return shlex.quote(str(path))


def on_one_line(text: str) -> str:
    """Return text with every run of white space, line ends included, as one space."""
    return " ".join(text.split())


def printable(text: str, *, keep: str = "") -> str:
    """Escape every character that could control a terminal, except those in `keep`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char if char in keep or unicodedata.category(char) not in _UNSAFE else _escape(char) for char in text
    )


def _escape(char: str) -> str:
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
