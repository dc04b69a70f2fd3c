"""What looks like a secret in added lines, by the detectors of detect-secrets. Nothing is verified over a network."""

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
"""Of added text that is looked at. Whoever wrote it may have written it to keep us busy."""
MAX_KEYWORD_CHARACTERS = 400_000
WINDOW, STEP = 500, 400
"""A long line is looked at piece by piece: some patterns get slow with the square of a length."""
KEYWORD_LINE = 300
"""Names such as `password` are looked for in lines a person would write: that pattern gets slow with the cube."""
_LEFT_OUT = {"KeywordDetector", "IPPublicDetector", "Base64HighEntropyString", "HexHighEntropyString"}
"""Keywords are looked for apart. Addresses are no secrets; and digests and fixtures of honest work have as much entropy as keys."""


@dataclass(frozen=True, slots=True)
class Finding:
    path: str
    line: int
    kind: str


@dataclass(frozen=True, slots=True)
class Findings:
    findings: tuple[Finding, ...]
    looked_at: int
    cut: bool


def secrets_in(texts: Sequence[ChangedText]) -> Findings:
    """Every added line that looks like it holds a secret, one finding per line and kind. The same work for any text."""
    diff = LineDiff()
    found: dict[Finding, None] = {}
    looked_at = 0
    left, keyword_left = MAX_CHARACTERS, MAX_KEYWORD_CHARACTERS
    for text in texts:
        if text.after_path is None:
            continue
        for number, line in added_lines(text, diff):
            if len(line) > left:
                return Findings(tuple(found), looked_at, cut=True)
            looked_at += 1
            left -= len(line)
            kinds = _forms(line)
            if _may_name_a_secret(line) and keyword_left >= len(line):
                keyword_left -= len(line)
                kinds |= _named(line)
            for kind in sorted(kinds):
                found[Finding(text.after_path, number, kind)] = None
    return Findings(tuple(found), looked_at, cut=keyword_left < KEYWORD_LINE)


def _forms(line: str) -> set[str]:
    """Tokens and keys known by their form: one is one wherever it stands."""
    windows = [line[at : at + WINDOW] for at in range(0, max(len(line) - WINDOW + STEP, 1), STEP)]
    return {str(one.secret_type) for one in _detectors() for window in windows if any(one.analyze_string(window))}


def _may_name_a_secret(line: str) -> bool:
    if len(line) > KEYWORD_LINE or not ('"' in line or "'" in line):
        return False
    from detect_secrets.plugins.keyword import DENYLIST  # noqa: PLC0415 - 0.2 s that runs without this scorer do not spend

    lower = line.lower()
    # The list is of patterns; what is left of one without its odd characters is in every text it matches.
    return any(max(re.split(r"[^a-z0-9]+", word.lower()), key=len) in lower for word in DENYLIST)


def _named(line: str) -> set[str]:
    """A quoted value that is given to a name such as `password`."""
    from detect_secrets.plugins.keyword import KeywordDetector  # noqa: PLC0415

    detector = KeywordDetector()
    found = any(_counts(secret, line) for secret in detector.analyze_string(line))
    return {str(detector.secret_type)} if found else set()


def _counts(secret: str, line: str) -> bool:
    """Without what the library itself takes for a placeholder or a reference to a secret."""
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
    """One of each detector of the library. Its own scanner is not used: its settings are global to the process."""
    from detect_secrets import plugins  # noqa: PLC0415
    from detect_secrets.plugins.base import BasePlugin  # noqa: PLC0415

    modules = [
        importlib.import_module(f"{plugins.__name__}.{one.name}") for one in pkgutil.iter_modules(plugins.__path__)
    ]
    found = {
        name: kind
        for module in modules
        for name, kind in vars(module).items()
        if isinstance(kind, type) and issubclass(kind, BasePlugin) and not inspect.isabstract(kind)
    }
    return tuple(found[name]() for name in sorted(found) if name not in _LEFT_OUT)
