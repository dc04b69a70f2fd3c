"""Replaces secrets by stable placeholders: the same secret always gets the same placeholder.

Redacted are the values of named variables, their percent-encoded, base64 and JSON forms, and text that looks like a well-known
API key. A placeholder contains the variable's name and eight digits of the value's SHA-256, so equal secrets can be recognised.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from urllib.parse import quote

from agentbench.core.canonical import sha256_hex
from agentbench.core.reasons import (
    Attribution,
    Gate,
    InvalidCause,
    Outcome,
    Reason,
    RunStatus,
    TerminationCategory,
    TerminationCode,
)

MIN_LENGTH = 6
"""Shorter values are not redacted: they would match inside ordinary words."""
_RUN = re.compile(r"[A-Za-z0-9+/=_.-]{32,}")
"""A line of a multi-line secret that is secret by itself, such as the body of a PEM file."""
EDGE = 4
"""Shortest part of a secret that is redacted at a cut, in bytes."""

_SHAPES = re.compile(
    r"(?<![A-Za-z0-9_-])(?:"
    r"sk-(?:or-v1-|ant-|proj-)?[A-Za-z0-9_-]{24,}"
    r"|gh[pousr]_[A-Za-z0-9]{36,}"
    r"|github_pat_[A-Za-z0-9_]{40,}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}"
    r"|xox[abprs]-[A-Za-z0-9-]{20,}"
    r"|AIza[A-Za-z0-9_-]{35}"
    r")(?![A-Za-z0-9_-])"
)
_SHAPE_MARKS = ("sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "AKIA", "ASIA", "xox", "AIza")
"""Every match of the pattern contains one of these; searching for them first is much faster."""

_DIGEST = re.compile(r"(?:sha256:)?[0-9a-f]{64}")
_WORDS = frozenset(
    str(word)
    for words in (Outcome, RunStatus, InvalidCause, Attribution, Reason, TerminationCode, TerminationCategory, Gate)
    for word in words
) | frozenset(
    (
        *("agent", "harness", "monitor", "operator", "utf-8", "base64", "percent"),
        *("added", "modified", "deleted", "renamed", "mode", "note", "penalty", "gate", "terminate"),
        *("natural_text", "code", "none", "throttle", "deny", "kill", "rollback", "quarantine", "pause"),
        *("http", "tunnel", "malformed", "not_listed", "not_public", "limit"),
        *("continue", "stop", "completed", "interrupted", "PASS", "FAIL", "N/A", "ERROR", "unparseable"),
    )
)
"""Enum values of events. A secret that equals one of them must not make a log unreadable."""


class Redactor:
    """Replaces secrets in text, bytes and JSON values."""

    def __init__(self, values: Mapping[str, str], *, shapes: bool = True) -> None:
        self._forms: dict[str, str] = {}
        self.too_short = tuple(sorted(name for name, value in values.items() if 0 < len(value) < MIN_LENGTH))
        for name, value in sorted(values.items()):
            if len(value) >= MIN_LENGTH:
                for form in _forms(value):
                    self._forms.setdefault(form, placeholder(name, value))
        # Longest first, so that a secret that contains another is replaced as a whole.
        ordered = sorted(self._forms, key=lambda form: (-len(form), form))
        self._named = re.compile("|".join(map(re.escape, ordered))) if ordered else None
        self._named_bytes = (
            re.compile(b"|".join(re.escape(form.encode("utf-8", "surrogateescape")) for form in ordered))
            if ordered
            else None
        )
        self._shapes = shapes
        self._escaped = tuple(json.dumps(form, ensure_ascii=False)[1:-1] for form in ordered)

    def suspects(self, encoded: str) -> bool:
        """Return whether JSON text may contain a secret. False is certain."""
        return any(form in encoded for form in self._escaped) or (
            self._shapes and any(mark in encoded for mark in _SHAPE_MARKS)
        )

    def text(self, text: str) -> str:
        """Redact text. Enum values stay, and so do digests that are not themselves secrets."""
        if self._named is not None and text not in _WORDS and (text in self._forms or not _DIGEST.fullmatch(text)):
            text = self._named.sub(lambda match: self._forms[match.group()], text)
        if self._shapes and any(mark in text for mark in _SHAPE_MARKS):
            text = _SHAPES.sub(_shape_placeholder, text)
        return text

    def named(self, data: bytes) -> bytes:
        """Redact the known values in bytes, but not what only looks like a key."""
        if self._named_bytes is None:
            return data
        return self._named_bytes.sub(
            lambda match: self._forms[match.group().decode("utf-8", "surrogateescape")].encode(), data
        )

    def data(self, data: bytes) -> bytes:
        """Redact arbitrary bytes."""
        data = self.named(data)
        if self._shapes:
            text = data.decode("latin-1")
            if any(mark in text for mark in _SHAPE_MARKS):
                data = _SHAPES.sub(_shape_placeholder, text).encode("latin-1")
        return data

    def cut_end(self, data: bytes) -> bytes:
        """Redact the beginning of a secret at the end of data that was cut there."""
        for form in self._forms:
            secret = form.encode("utf-8", "surrogateescape")
            for length in range(min(len(secret) - 1, len(data)), EDGE - 1, -1):
                if data.endswith(secret[:length]):
                    return data[:-length] + self._forms[form].encode()
        return data

    def cut_start(self, data: bytes) -> bytes:
        """Redact the end of a secret at the start of data that was cut there."""
        for form in self._forms:
            secret = form.encode("utf-8", "surrogateescape")
            for length in range(min(len(secret) - 1, len(data)), EDGE - 1, -1):
                if data.startswith(secret[-length:]):
                    return self._forms[form].encode() + data[length:]
        return data


def placeholder(name: str, value: str) -> str:
    """Return the placeholder of a secret."""
    return f"[redacted:{name}:{sha256_hex(value.encode('utf-8', 'surrogateescape'))[:8]}]"


def _shape_placeholder(match: re.Match[str]) -> str:
    return placeholder("API_KEY", match.group())


def _forms(value: str) -> tuple[str, ...]:
    """Return the forms in which a value may appear: as it is, in URLs, headers and JSON, and line by line in diffs."""
    encoded = base64.b64encode(value.encode("utf-8", "surrogateescape")).decode()
    parts = [run for run in _RUN.findall(value) if _is_random(run)] if "\n" in value else []
    # Conversations are stored as the JSON that was sent, with quotes, backslashes and line breaks escaped.
    escaped = [json.dumps(value, ensure_ascii=ascii_only)[1:-1] for ascii_only in (False, True)]
    # In source code only backslashes may be doubled.
    escaped.append(value.replace("\\", "\\\\"))
    forms = (value, quote(value, safe="", errors="surrogateescape"), encoded.rstrip("="), *escaped, *parts)
    return tuple(dict.fromkeys(form for form in forms if len(form) >= MIN_LENGTH))


def _is_random(text: str) -> bool:
    """Return whether text looks randomly generated."""
    return any(map(str.isupper, text)) and any(map(str.islower, text)) and any(map(str.isdigit, text))
