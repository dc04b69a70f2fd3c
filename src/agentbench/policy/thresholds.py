"""Thresholds of breakers, backpressure and escalation, read from one file for all agents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import cache
from pathlib import Path

from agentbench.core.dataclass import dataclass

FIXED_HEADROOM = "headroom_percent"
"""Share of the cost cap that earlier versions reserved."""
RETIRED = frozenset({FIXED_HEADROOM})
"""Thresholds that only manifests of earlier versions contain."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The values of `thresholds.json`, which documents each of them."""

    identical_calls: int
    identical_installs: int
    dependency_events: int
    oscillation_length: int
    no_progress_calls: int
    no_progress_requests: int
    failed_writes: int
    reads_to_restore: int
    violations: int
    dominance_percent: int
    burst_calls: int
    burst_window_sec: int
    expensive_sec: int
    expensive_repeats: int
    wait_first_ms: int
    wait_most_ms: int
    operator_deadline_sec: int
    headroom_margin_percent: int = 0
    headroom_evidence_kb: int = 0
    """Absent in manifests of versions that reserved a fixed share of the cap."""

    @classmethod
    def of(cls, values: Mapping[str, int]) -> Thresholds:
        """
        Raises:
            ValueError: a threshold is missing, unknown or not a positive number.
        """
        known = {field.name for field in fields(cls)}
        required = {field.name for field in fields(cls) if field.default is MISSING}
        given = {name: value for name, value in values.items() if name not in RETIRED}
        wrong = sorted((required - set(given)) | (set(given) - known))
        wrong = wrong or sorted(name for name, value in given.items() if value < 1)
        if wrong:
            raise ValueError(f"thresholds: {', '.join(wrong)}: missing, unknown or not a positive integer")
        return cls(**given)


@cache
def published_thresholds() -> Thresholds:
    """Return the thresholds of this version."""
    return Thresholds.of({name: entry["value"] for name, entry in _document()["thresholds"].items()})


@cache
def _document() -> dict[str, dict[str, dict[str, int]]]:
    text = Path(__file__).with_name("thresholds.json").read_text(encoding="utf-8")
    return json.loads(text)  # type: ignore[no-any-return]
