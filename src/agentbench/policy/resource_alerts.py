"""Alerts about resources and system calls: out of memory, a full disk, denied calls.

They are observations, not decisions: every alert is a note that follows from the event it points to, and recomputing the
decisions of an attempt checks that it does.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping

from agentbench.core.reasons import TerminationCode
from agentbench.trace.events import MonitorAlert, Payload, ResourceSample, Termination

RESOURCE = "resource"
SYSCALL = "syscall"
OBSERVING_MONITORS = frozenset({RESOURCE, SYSCALL})
OUT_OF_MEMORY = "out_of_memory"
DISK_FULL = "disk_full"
FULL_PERCENT = 99
"""Share of the disk limit from which the disk counts as full."""

CUT_SHORT = frozenset(
    {
        TerminationCode.INTERRUPTED,
        TerminationCode.TOTAL_BUDGET,
        TerminationCode.MODEL_UNAVAILABLE,
        TerminationCode.SANDBOX_ERROR,
        TerminationCode.OPERATOR_ABORT,
    }
)
"""Terminations that may come between a decision and its execution."""

_Key = tuple[str, str]


def resource_observations(sample: ResourceSample) -> Mapping[_Key, tuple[str, Mapping[str, int]]]:
    """Return what a sample shows: (monitor, rule) -> (detail, signals).

    Only measurements count. A command can print any text, so its output proves nothing about the disk.
    """
    return {**_memory(sample), **_disk(sample), **_denied(sample)}


def _memory(sample: ResourceSample) -> Mapping[_Key, tuple[str, Mapping[str, int]]]:
    if not sample.oom_kills:
        return {}
    detail = f"out of memory: {sample.oom_kills} processes were killed"
    return {(RESOURCE, OUT_OF_MEMORY): (detail, {"oom_kills": sample.oom_kills})}


def _disk(sample: ResourceSample) -> Mapping[_Key, tuple[str, Mapping[str, int]]]:
    used, limit = sample.disk_bytes, sample.disk_limit_bytes
    if used is None or not limit or used * 100 < limit * FULL_PERCENT:
        return {}
    detail = f"disk full: {used} of {limit} bytes are used"
    return {(RESOURCE, DISK_FULL): (detail, {"disk_bytes": used, "limit_bytes": limit})}


def _denied(sample: ResourceSample) -> Mapping[_Key, tuple[str, Mapping[str, int]]]:
    return {
        (SYSCALL, name): (f"the sandbox denied {count} system calls of the class {name}", {"denied": count})
        for name, count in sorted(sample.denied_calls.items())
        if count
    }


class ResourceAlerts:
    """Reports each observation once per phase. Later samples have the current counts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reported: set[tuple[str, _Key]] = set()

    def alerts(self, seq: int, sample: ResourceSample) -> tuple[MonitorAlert, ...]:
        """Return the alerts that the sample with number `seq` gives rise to."""
        observations = resource_observations(sample)
        with self._lock:
            new = [key for key in observations if (sample.phase, key) not in self._reported]
            self._reported.update((sample.phase, key) for key in new)
        return tuple(_alert(key, seq, *observations[key]) for key in new)


def _alert(key: _Key, seq: int, detail: str, signals: Mapping[str, int]) -> MonitorAlert:
    monitor, rule = key
    return MonitorAlert(
        monitor=monitor, severity="note", rule=rule, detail=detail, evidence=[seq], signals=dict(signals)
    )


class MissingAlerts:
    """Finds observations without an alert. Any sample of the phase may be the one that the alert points to."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, _Key], int] = {}
        self._alerted: set[tuple[str, _Key]] = set()
        self._phases: dict[int, str] = {}
        self._last_seq = 0

    def observe(self, seq: int, payload: Payload) -> None:
        self._last_seq = seq
        if isinstance(payload, ResourceSample):
            self._phases[seq] = payload.phase
            for key in resource_observations(payload):
                self._first.setdefault((payload.phase, key), seq)
        elif isinstance(payload, MonitorAlert):
            key = (payload.monitor, payload.rule)
            self._alerted.update((self._phases[at], key) for at in payload.evidence if at in self._phases)
        elif isinstance(payload, Termination) and payload.code in CUT_SHORT:
            # The process died between a sample and its alert.
            self._forget(seq - 1)

    def problems(self) -> Iterator[tuple[int, str]]:
        """Yield the first sample of each observation without an alert. The last event of a log may still wait for its own."""
        self._forget(self._last_seq)
        for (phase, key), seq in self._first.items():
            if (phase, key) not in self._alerted:
                monitor, rule = key
                yield seq, f"{monitor} {rule}: the alert that follows from this event is missing"

    def _forget(self, last: int) -> None:
        self._first = {name: seq for name, seq in self._first.items() if seq != last}


def alert_problem(alert: MonitorAlert, samples: Mapping[int, ResourceSample]) -> str | None:
    """Return why an alert does not follow from the event it points to; None if it does."""
    sample = samples.get(alert.evidence[0]) if len(alert.evidence) == 1 else None
    observation = None if sample is None else resource_observations(sample).get((alert.monitor, alert.rule))
    if observation is None or alert.severity != "note" or alert.signals != dict(observation[1]):
        return f"{alert.monitor} {alert.rule}: this alert does not follow from the event it points to"
    return None
