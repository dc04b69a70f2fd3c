"""Finds likely secrets in added lines with the detectors of detect-secrets. Nothing is verified over a network."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from agentbench.acceptance.scorers.workspace import ChangedText, added_lines
from agentbench.workspace.diff.line_diff import LineDiff

if TYPE_CHECKING:
    from detect_secrets.plugins.base import BasePlugin

MAX_CHARACTERS = 4_000_000
"""Limit of added text that is searched, because its author may want the search to take long."""
MAX_KEYWORD_CHARACTERS = 400_000
WINDOW, STEP = 500, 400
"""A long line is searched in overlapping pieces: some patterns take quadratic time."""
KEYWORD_LINE = 300
"""Names such as `password` are searched only in lines of this length: that pattern takes cubic time."""
_EXCLUDED_DETECTORS = {"KeywordDetector", "IPPublicDetector", "Base64HighEntropyString", "HexHighEntropyString"}
"""Keywords are searched separately. IP addresses are not secrets, and honest digests have as much entropy as keys."""


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
        for detector in _detectors()
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

    return not (
        heuristic.is_templated_secret(secret)
        or heuristic.is_prefixed_with_dollar_sign(secret)
        or heuristic.is_not_alphanumeric_string(secret)
        or heuristic.is_sequential_string(secret)
        or heuristic.is_potential_uuid(secret)
        or heuristic.is_indirect_reference(line)
    )


@cache
def _detectors() -> tuple[BasePlugin, ...]:
    """Return one instance of each detector.

    The library's own scanner is not used because its settings are global to the process.
    """
    from detect_secrets import plugins  # noqa: PLC0415
    from detect_secrets.plugins.base import BasePlugin  # noqa: PLC0415

    modules = [
        importlib.import_module(f"{plugins.__name__}.{module.name}")
        for module in pkgutil.iter_modules(plugins.__path__)
    ]
    detectors = {
        name: detector
        for module in modules
        for name, detector in vars(module).items()
        if isinstance(detector, type) and issubclass(detector, BasePlugin) and not inspect.isabstract(detector)
    }
    return tuple(detectors[name]() for name in sorted(detectors) if name not in _EXCLUDED_DETECTORS)
