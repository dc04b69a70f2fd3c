"""Tells people once that a service is unavailable, and once that it answers again."""

from __future__ import annotations

import threading
from collections.abc import Callable

from agentbench.models.faults import ServiceFault

ANNOUNCED_TRIES = 3
"""Failed tries of one request before an outage is announced. Single failures are common and pass."""


class Outages:
    """The services of a run that are unavailable. Shared by all workers; `patience_sec` is how long requests wait for one."""

    def __init__(self, patience_sec: float, report: Callable[[str], None]) -> None:
        self.patience_sec = patience_sec
        self._report = report
        self._lock = threading.Lock()
        self._unavailable: set[str] = set()

    def failed(self, service: str, fault: ServiceFault, tried: int) -> None:
        with self._lock:
            if tried < ANNOUNCED_TRIES or service in self._unavailable:
                return
            self._unavailable.add(service)
        self._report(
            f"{service} is unavailable: {fault.message}; attempts wait up to {self.patience_sec:g} s (--model-patience)"
        )

    def answered(self, service: str) -> None:
        with self._lock:
            if service not in self._unavailable:
                return
            self._unavailable.remove(service)
        self._report(f"{service} answers again")
