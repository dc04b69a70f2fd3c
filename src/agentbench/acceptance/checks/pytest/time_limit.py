"""The time limit of a run: the one that the contract declares, or less if the reference is known to be faster. Pure."""

from __future__ import annotations

from agentbench.core.dataclass import dataclass

MIN_SEC = 30.0
FACTOR, MARGIN_SEC = 10, 10.0
"""A run may take this many times as long as that of the reference, plus a margin for a loaded machine."""
MORE_FACTOR, MIN_MORE_SEC, MAX_MORE_SEC = 3, 60.0, 600.0
"""A run without code of a candidate may take this many times the declared limit longer on a busy machine, within bounds."""
BUSY_SHARE = 0.5
"""Share of a run during which processes must have waited for a CPU for the machine to count as busy."""

HAD_CPU_SHARE = 0.5
"""Share of a run that its processes spent on CPUs from which it was not slow because of others: limits leave more room."""


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """Seconds, and the seconds of the reference's run from which they derive, or None if the contract declares them."""

    sec: float
    reference_sec: float | None = None

    def __str__(self) -> str:
        source = "" if self.reference_sec is None else f", the reference takes {self.reference_sec:.1f} s"
        return f"limit {self.sec:g} s{source}"


def time_limit(declared_sec: float, reference_sec: float | None) -> TimeLimit:
    """Return the limit of a run. `reference_sec`: duration of the reference's run on this machine, if it is known.

    The base repository's run proves nothing: tests that fail there at once may take long with a fix. A reference that took
    longer than declared had more time, because the machine was busy: others have it too.
    """
    if reference_sec is None:
        return TimeLimit(declared_sec)
    proven_sec = float(round(max(MIN_SEC, FACTOR * reference_sec + MARGIN_SEC)))
    proves = proven_sec < declared_sec or reference_sec > declared_sec
    return TimeLimit(proven_sec, reference_sec) if proves else TimeLimit(declared_sec)


def more_time(declared_sec: float) -> TimeLimit:
    """Return the limit for base repository and reference on a busy machine: their failure would be an error of the task."""
    return TimeLimit(declared_sec + min(max(MORE_FACTOR * declared_sec, MIN_MORE_SEC), MAX_MORE_SEC))


def machine_was_busy(waited_sec: float, run_sec: float) -> bool:
    """Return whether a run that took too long may have been slow because of others."""
    return waited_sec >= BUSY_SHARE * run_sec
