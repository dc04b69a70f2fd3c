"""JSON of what several reports contain: shares, intervals, and whether records match their seals."""

from __future__ import annotations

from agentbench.core.canonical import Json
from agentbench.reports.sources import Run
from agentbench.statistics.intervals import Interval
from agentbench.statistics.rates import Proportion, TaskRate


def seals_json(run: Run) -> dict[str, Json]:
    """Return the records that differ from their seals, those without one, and who signed the run."""
    return {
        "altered": [{"place": place, "attempt_id": attempt_id, "why": why} for place, attempt_id, why in run.altered],
        "not_sealed": sorted(run.unsealed),
        "signature": run.signature or None,
        "incomplete": run.missing.as_json() if run.missing else None,
    }


def proportion_json(proportion: Proportion) -> dict[str, Json]:
    return {
        "count": proportion.count,
        "total": proportion.total,
        "share": proportion.share,
        "interval": interval_json(proportion.interval),
    }


def task_rate_json(rate: TaskRate) -> dict[str, Json]:
    """Return a rate that is the mean over tasks. `count` and `total` are attempts."""
    return {"count": rate.passed, "total": rate.attempts, "share": rate.share, "interval": interval_json(rate.interval)}


def interval_json(interval: Interval | None) -> dict[str, Json] | None:
    if interval is None:
        return None
    return {
        "low": interval.low,
        "high": interval.high,
        "confidence": interval.confidence,
        "method": interval.method,
    }
