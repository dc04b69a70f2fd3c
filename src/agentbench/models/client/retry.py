"""When to try again, and how long to wait before."""

from __future__ import annotations

import email.utils
import random
import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Back-off that doubles, with jitter, under a total deadline. `deadline_sec` counts from the first try."""

    tries: int = 6
    first_sec: float = 0.5
    most_sec: float = 30.0
    deadline_sec: float = 600.0

    def delay(self, tried: int, asked: float | None, left: float, *, draw: float | None = None) -> float | None:
        """Seconds until the next try after `tried` tries; None: give up.

        `asked` is what the service asked to wait for: never less than that, and not at all when it lies beyond the deadline.
        `draw` in [0, 1) replaces chance.
        """
        if tried >= self.tries:
            return None
        ceiling = min(self.first_sec * 2 ** (tried - 1), self.most_sec)
        # Between half and all of the ceiling: spread, but never at once.
        wait = ceiling * (0.5 + 0.5 * (random.random() if draw is None else draw))  # noqa: S311 - jitter
        wait = max(wait, asked or 0.0)
        return wait if wait < left else None


def retry_after(value: str | None, *, now: float | None = None) -> float | None:
    """Seconds of a Retry-After header: a number, or a date. None when there is none or it makes no sense."""
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            moment = email.utils.parsedate_to_datetime(value)
        except ValueError:
            return None
        seconds = moment.timestamp() - (time.time() if now is None else now)
    return max(seconds, 0.0) if seconds == seconds and seconds < 1e9 else None  # noqa: PLR0124 - NaN
