"""Outages of model services: all attempts share the patience of one, and people are told once when it begins and ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from agentbench.core.dataclass import dataclass
from agentbench.models.faults import ServiceFault

QUICK_TRIES = 3
"""Failed tries of one request before an outage is announced. Single failures are common and pass."""
LAPSE_SEC = 600.0
"""A failure this long after the last one begins a new outage: the service may have answered in between."""


@dataclass(slots=True)
class _Outage:
    """One service that is unavailable. Times are monotonic."""

    began: float
    last_failure: float
    announced: bool = False


class Outages:
    """The services of a run that are unavailable. Shared by all workers.

    `patience_sec` is how long requests wait for a service per outage: when it is over, later requests only make a few quick tries.
    """

    def __init__(self, patience_sec: float, report: Callable[[str], None]) -> None:
        self.patience_sec = patience_sec
        self._report = report
        self._lock = threading.Lock()
        self._outages: dict[str, _Outage] = {}

    def failed(self, service: str, fault: ServiceFault, tried: int, *, first_try: float) -> float:
        """Record a failed try, and return the patience that is left for the request.

        `first_try` is when the request was first sent (monotonic).
        """
        now = time.monotonic()
        with self._lock:
            outage = self._outages.get(service)
            if outage is None or now - outage.last_failure > max(LAPSE_SEC, self.patience_sec):
                outage = self._outages[service] = _Outage(began=first_try, last_failure=now)
            outage.last_failure = now
            announce = tried >= QUICK_TRIES and not outage.announced
            outage.announced |= announce
            began = outage.began if tried >= QUICK_TRIES else first_try
        if announce:
            self._report(
                f"{service} is unavailable: {fault.message}; attempts wait up to {self.patience_sec:g} s (--model-patience)"
            )
        return self.patience_sec - (now - began)

    def answered(self, service: str) -> None:
        with self._lock:
            outage = self._outages.pop(service, None)
        if outage is not None and outage.announced:
            self._report(f"{service} answers again")
