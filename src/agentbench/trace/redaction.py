"""Replaces secrets by stable placeholders: the same secret always gets the same placeholder.

Redacted are the values of named variables, secrets found in the files of a base repository, the percent-encoded, base64 and
JSON forms of both, and text that looks like a well-known API key. The placeholder of a named value or a key contains eight digits
of its SHA-256, so equal secrets can be recognised. A secret of a repository may be short enough to be guessed from a digest, so
it gets a number instead, and each of its forms has its own placeholder: who has the repository can restore the text.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Self
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
MIN_PART = 8
"""Shortest part of a repository's secret that is redacted by itself."""
_HEX = re.compile(r"[0-9a-f]{12,}")
_KEY_LINE = re.compile(r"[A-Za-z0-9+/=]+")
"""A line of an encoded key. Its first and last line, and its headers, are no secret."""
REPOSITORY = "repo-secret"
_REPOSITORY_PLACEHOLDER = re.compile(rb"\[redacted:repo-secret:[0-9]+(?::[a-z0-9]+)?\]")
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
        self._restored: dict[str, str] = {}
        self._shapes = shapes
        self.too_short = tuple(sorted(name for name, value in values.items() if 0 < len(value) < MIN_LENGTH))
        for name, value in sorted(values.items()):
            if len(value) >= MIN_LENGTH:
                for _, form in _forms(value):
                    self._forms.setdefault(form, placeholder(name, value))
        self._order()

    def copy(self) -> Self:
        """Return a redactor with the same values, to which others can be added."""
        other = type(self)({}, shapes=self._shapes)
        other._forms, other._restored = dict(self._forms), dict(self._restored)  # noqa: SLF001 - the same class
        other.too_short = self.too_short
        other._order()  # noqa: SLF001
        return other

    def add_repository_secrets(self, values: Sequence[str]) -> None:
        """Also redact these values, whose placeholders contain their position, counted from 1.

        Everything that shares this redactor applies them from now on. Must not be called while another thread redacts.
        """
        for number, value in enumerate(values, start=1):
            for name, form in (*_forms(value), *_parts(value)):
                if form not in self._forms:
                    self._forms[form] = repository_placeholder(number, name)
                    self._restored[self._forms[form]] = form
        self._order()

    def _order(self) -> None:
        # Longest first, so that a secret that contains another is replaced as a whole.
        self._ordered = sorted(self._forms, key=lambda form: (-len(form), form))
        self._ordered_bytes = [(form.encode("utf-8", "surrogateescape"), self._forms[form]) for form in self._ordered]
        self._escaped = tuple(json.dumps(form, ensure_ascii=False)[1:-1] for form in self._ordered)

    def suspects(self, encoded: str) -> bool:
        """Return whether JSON text may contain a secret. False is certain."""
        return any(form in encoded for form in self._escaped) or (
            self._shapes and any(mark in encoded for mark in _SHAPE_MARKS)
        )

    def text(self, text: str) -> str:
        """Redact text. Enum values stay, and so do digests that are not themselves secrets."""
        # With many secrets, searching for each is much faster than one pattern of all.
        present = [form for form in self._ordered if form in text]
        if present and text not in _WORDS and (text in self._forms or not _DIGEST.fullmatch(text)):
            text = re.sub("|".join(map(re.escape, present)), lambda match: self._forms[match.group()], text)
        if self._shapes and any(mark in text for mark in _SHAPE_MARKS):
            text = _SHAPES.sub(_shape_placeholder, text)
        return text

    def named(self, data: bytes) -> bytes:
        """Redact the known values in bytes, but not what only looks like a key."""
        present = {form: shown.encode() for form, shown in self._ordered_bytes if form in data}
        if not present:
            return data
        return re.sub(b"|".join(map(re.escape, present)), lambda match: present[match.group()], data)

    def restore(self, data: bytes, *, in_json: bool = False) -> bytes:
        """Put the secrets of the repository back. `in_json`: placeholders are inside JSON strings.

        Placeholders of other secrets and of unknown numbers stay.
        """

        def original(match: re.Match[bytes]) -> bytes:
            form = self._restored.get(match.group().decode())
            if form is None:
                return match.group()
            # A form with backslashes is escaped already.
            escape = in_json and "\\" not in form
            return (json.dumps(form)[1:-1] if escape else form).encode("utf-8", "surrogateescape")

        return _REPOSITORY_PLACEHOLDER.sub(original, data)

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
        for secret, shown in self._ordered_bytes:
            if secret[:EDGE] not in data[-len(secret) :]:
                continue
            for length in range(min(len(secret) - 1, len(data)), EDGE - 1, -1):
                if data.endswith(secret[:length]):
                    return data[:-length] + shown.encode()
        return data

    def cut_start(self, data: bytes) -> bytes:
        """Redact the end of a secret at the start of data that was cut there."""
        for secret, shown in self._ordered_bytes:
            if secret[-EDGE:] not in data[: len(secret)]:
                continue
            for length in range(min(len(secret) - 1, len(data)), EDGE - 1, -1):
                if data.startswith(secret[-length:]):
                    return shown.encode() + data[length:]
        return data


def redact_bytes(data: bytes, redact: Redactor | None) -> bytes:
    """Return data without secrets; as it is if there is no redactor."""
    return redact.data(data) if redact else data


def placeholder(name: str, value: str) -> str:
    """Return the placeholder of a secret."""
    return f"[redacted:{name}:{sha256_hex(value.encode('utf-8', 'surrogateescape'))[:8]}]"


def _shape_placeholder(match: re.Match[str]) -> str:
    return placeholder("API_KEY", match.group())


def repository_placeholder(number: int, form: str = "") -> str:
    """Return the placeholder of a secret of the base repository, or of one form of it."""
    return f"[redacted:{REPOSITORY}:{number}{form and ':' + form}]"


def _forms(value: str) -> Iterator[tuple[str, str]]:
    """Yield the forms in which a value may appear: as it is, in URLs, headers and JSON, and line by line in diffs."""
    yield "", value
    # Conversations are stored as the JSON that was sent, with quotes, backslashes and line breaks escaped.
    yield "json", json.dumps(value, ensure_ascii=False)[1:-1]
    yield "ascii", json.dumps(value)[1:-1]
    # In source code only backslashes may be doubled.
    yield "source", value.replace("\\", "\\\\")
    yield "url", quote(value, safe="", errors="surrogateescape")
    yield "base64", base64.b64encode(value.encode("utf-8", "surrogateescape")).decode().rstrip("=")
    if "\n" in value:
        for number, line in enumerate(_RUN.findall(value), start=1):
            if _is_random(line):
                yield f"line{number}", line


def _parts(value: str) -> Iterator[tuple[str, str]]:
    """Yield parts of a repository's secret that are secret by themselves: lines of a key, and what a cut can leave."""
    lines = [line.strip() for line in re.split(r"(?:\\[rn]|[\r\n])+", value)]
    if len(lines) > 1:
        for number, line in enumerate(lines, start=1):
            if len(line) >= MIN_PART and _KEY_LINE.fullmatch(line):
                yield f"part{number}", line
        for name, separator in (("lines", "\n"), ("escaped", "\\n")):
            yield name, separator.join(lines)
    half = len(value) // 2
    for name, part in (("start", value[:half]), ("end", value[-half:])):
        # Half of a password can be an ordinary word.
        if len(lines) == 1 and len(part) >= MIN_PART and (_is_random(part) or _HEX.fullmatch(part)):
            yield name, part


def _is_random(text: str) -> bool:
    """Return whether text looks randomly generated."""
    return any(map(str.isupper, text)) and any(map(str.islower, text)) and any(map(str.isdigit, text))
