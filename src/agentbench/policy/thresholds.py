"""Thresholds of breakers, backpressure and escalation, read from one file for all agents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files


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
    headroom_percent: int
    burst_calls: int
    burst_window_sec: int
    expensive_sec: int
    expensive_repeats: int
    wait_first_ms: int
    wait_most_ms: int
    operator_deadline_sec: int

    @classmethod
    def of(cls, values: Mapping[str, int]) -> Thresholds:
        """
        Raises:
            ValueError: a threshold is missing, unknown or not a positive number.
        """
        names = {field.name for field in fields(cls)}
        wrong = sorted(names ^ set(values)) or sorted(name for name, value in values.items() if value < 1)
        if wrong:
            raise ValueError(f"thresholds: {', '.join(wrong)}: missing, unknown or not a positive integer")
        return cls(**values)


@cache
def published_thresholds() -> Thresholds:
    """Return the thresholds of this version."""
    return Thresholds.of({name: entry["value"] for name, entry in _document()["thresholds"].items()})


def threshold_meanings() -> Mapping[str, str]:
    """Return the description of each threshold, for documentation."""
    return {name: str(entry["meaning"]) for name, entry in _document()["thresholds"].items()}


@cache
def _document() -> dict[str, dict[str, dict[str, int]]]:
    text = files("agentbench.policy").joinpath("thresholds.json").read_text(encoding="utf-8")
    return json.loads(text)  # type: ignore[no-any-return]
