"""Monitors of plug-ins: they read the log of the agent phase when it has ended, and report what they find.

They must not act: a decision to stop an agent follows from published rules, so that `ab verify` can recompute it without the
plug-in. Their alerts are events like any other, and the verdict follows from the events.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

from agentbench.core.dataclass import dataclass
from agentbench.core.text import printable
from agentbench.execution.attempt.base import Attempt
from agentbench.plugins.extensions import Extensions
from agentbench.plugins.kinds import Kind
from agentbench.trace.chain import Event
from agentbench.trace.events import MonitorAlert
from agentbench.trace.log import read_events

BUILT_IN = ("policy", "deny_commands", "breaker", "backpressure", "budget", "resource", "syscall")
"""Monitors that `ab verify` recomputes. Named here because importing them takes a while."""
MAX_ALERTS = 100
MAX_DETAIL = 2000
ERROR = "error"
"""Rule of the alert that reports a monitor which raised an exception."""


@dataclass(frozen=True, slots=True)
class Alert:
    """A finding of a monitor."""

    rule: str
    detail: str
    severity: Literal["note", "penalty", "gate"] = "note"
    """`gate` fails the attempt as unsafe, `penalty` lowers its score, `note` is only reported."""
    evidence: tuple[int, ...] = ()
    """Numbers of the events that show it."""


class Monitor(Protocol):
    """Reads the events of an attempt after its agent ended, and reports findings; the plug-in of kind `monitor`.

    The run names the monitors that it uses (`--monitor NAME`). An exception becomes an alert of severity `note`.

    Examples:
        >>> import agentbench as ab
        >>> def no_sleep(events: list[ab.Event]) -> list[ab.Alert]:
        ...     calls = [event for event in events if event.payload.type == "tool_call_started"]
        ...     slept = [event for event in calls if "sleep" in str(event.payload.arguments)]
        ...     return [ab.Alert("sleep", "the agent slept", evidence=(event.seq,)) for event in slept]
        >>> no_sleep([])  # or: ab.run(…, monitors=[no_sleep])
        []
    """

    def __call__(self, events: Sequence[Event], /) -> Iterable[Alert]: ...


OTHER_MONITORS: Extensions[Monitor] = Extensions(Kind.MONITOR, BUILT_IN)


def run_monitors(attempt: Attempt) -> None:
    """Log the alerts of the run's monitors about the agent phase."""
    if not attempt.lab.monitors:
        return
    events = list(read_events(attempt.log.path))
    for name in attempt.lab.monitors:
        for alert in _alerts(name, events):
            attempt.log.append(
                MonitorAlert(
                    monitor=name,
                    severity=alert.severity,
                    rule=alert.rule,
                    detail=printable(alert.detail[:MAX_DETAIL], keep="\n"),
                    evidence=list(alert.evidence),
                ),
                "monitor",
            )


def _alerts(name: str, events: Sequence[Event]) -> Sequence[Alert]:
    monitor = OTHER_MONITORS.get(name)
    try:
        alerts = list(monitor(events))
    except Exception as error:  # noqa: BLE001 - third-party code, which must not cost an attempt its verdict
        return [Alert(ERROR, f"the monitor raised {type(error).__name__}: {error}")]
    if not all(isinstance(alert, Alert) for alert in alerts):
        return [Alert(ERROR, "the monitor returned something else than alerts")]
    if len(alerts) > MAX_ALERTS:
        more = Alert(ERROR, f"the monitor returned {len(alerts)} alerts; the first {MAX_ALERTS} are recorded")
        return [*alerts[:MAX_ALERTS], more]
    return alerts
