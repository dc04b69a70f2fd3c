"""Finds likely secrets in added lines with the detectors of detect-secrets. Nothing is verified over a network."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentbench.acceptance.scorers.workspace import ChangedText, added_lines
from agentbench.core.dataclass import dataclass
from agentbench.workspace.diff.line_diff import LineDiff
from agentbench.workspace.secrets.detectors import form_detectors, is_placeholder

MAX_CHARACTERS = 4_000_000
"""Limit of added text that is searched, because its author may want the search to take long."""
MAX_KEYWORD_CHARACTERS = 400_000
WINDOW, STEP = 500, 400
"""A long line is searched in overlapping pieces: some patterns take quadratic time."""
KEYWORD_LINE = 300
"""Names such as `password` are searched only in lines of this length: that pattern takes cubic time."""


@dataclass(frozen=True, slots=True)
class SecretFinding:
    path: str
    line: int
    kind: str


@dataclass(frozen=True, slots=True)
class SecretSearch:
    findings: tuple[SecretFinding, ...]
    searched_lines: int
    cut: bool


def find_secrets(texts: Sequence[ChangedText]) -> SecretSearch:
    """Return one finding per added line and kind of secret. The amount of work is bounded for any text."""
    diff = LineDiff()
    findings: dict[SecretFinding, None] = {}
    searched_lines = 0
    characters_left, keyword_characters_left = MAX_CHARACTERS, MAX_KEYWORD_CHARACTERS
    for text in texts:
        if text.after_path is None:
            continue
        for number, line in added_lines(text, diff):
            if len(line) > characters_left:
                return SecretSearch(tuple(findings), searched_lines, cut=True)
            searched_lines += 1
            characters_left -= len(line)
            kinds = _known_forms(line)
            if _may_contain_keyword(line) and keyword_characters_left >= len(line):
                keyword_characters_left -= len(line)
                kinds |= _keyword_secrets(line)
            for kind in sorted(kinds):
                findings[SecretFinding(text.after_path, number, kind)] = None
    return SecretSearch(tuple(findings), searched_lines, cut=keyword_characters_left < KEYWORD_LINE)


def _known_forms(line: str) -> set[str]:
    """Return the kinds of tokens and keys that are recognised by their form alone."""
    windows = [line[start : start + WINDOW] for start in range(0, max(len(line) - WINDOW + STEP, 1), STEP)]
    return {
        str(detector.secret_type)
        for detector in form_detectors()
        for window in windows
        if any(detector.analyze_string(window))
    }


def _may_contain_keyword(line: str) -> bool:
    if len(line) > KEYWORD_LINE or not ('"' in line or "'" in line):
        return False
    from detect_secrets.plugins.keyword import DENYLIST  # noqa: PLC0415 - takes 0.2 s, which runs without this scorer save

    lower = line.lower()
    # The list holds patterns. The longest plain part of a pattern occurs in every text that it matches.
    return any(max(re.split(r"[^a-z0-9]+", word.lower()), key=len) in lower for word in DENYLIST)


def _keyword_secrets(line: str) -> set[str]:
    """Match a quoted value that is assigned to a name such as `password`."""
    from detect_secrets.plugins.keyword import KeywordDetector  # noqa: PLC0415

    detector = KeywordDetector()
    is_secret = any(_is_real_secret(secret, line) for secret in detector.analyze_string(line))
    return {str(detector.secret_type)} if is_secret else set()


def _is_real_secret(secret: str, line: str) -> bool:
    """Return whether a secret counts: the library's own filters for placeholders and references do not exclude it."""
    from detect_secrets.filters import heuristic  # noqa: PLC0415

    return not (is_placeholder(secret) or heuristic.is_indirect_reference(line))
