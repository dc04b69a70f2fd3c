"""The host's side of observing programs: what the command server needs for it, and reading what it sends.

The server applies the filter, so it decides at its start whether it can observe. See server/exec_observer.py.
"""

from __future__ import annotations

import json
import os
import platform
from collections import Counter
from collections.abc import Mapping, Sequence

from agentbench.sandbox import seccomp
from agentbench.sandbox.protocol import Phase, ProcessEnd, ProcessObserver, ProcessStart
from agentbench.sandbox.server.capture import LogBudget, unpack

PLAIN_FILTER, NOTIFYING_FILTER = "filter", "observe"
"""Names of the files with the two filters, in the server's folder."""
_TEST_SWITCH = "AB_TEST_OBSERVATION_PROBLEM"
"""If set, servers behave as if the kernel had refused the listener, with this reason. For tests only."""
_HOST_BUDGET = 2
"""The server keeps to its budget, in bytes as it reads them. The host allows more, so that clocks that differ drop nothing,
but counts bytes as they are logged: one that is not UTF-8 or a control character takes five or six there."""


def filter_files() -> dict[str, bytes]:
    """Return the files that the server's folder needs, by name."""
    return {PLAIN_FILTER: seccomp.assemble(), NOTIFYING_FILTER: seccomp.assemble(notify=True)}


def is_wanted(phase: Phase) -> bool:
    """Return whether the command server of a sandbox tries to observe, and therefore applies the filter itself."""
    return phase is Phase.AGENT and seccomp.supported()


def server_options(phase: Phase, folder: str) -> dict[str, str]:
    """Return the server's options: how it observes programs, or why it need not. `folder`: the server's, inside."""
    if phase is not Phase.AGENT:
        return {"problem": "only sandboxes of the agent phase are observed"}
    if not seccomp.supported():
        return {"problem": "no system call filter for this CPU architecture"}
    machine = seccomp.MACHINES[platform.machine()]
    calls = (machine.execve, machine.execveat, machine.socket, machine.seccomp)
    options = {
        "filter": f"{folder}/{PLAIN_FILTER}",
        "observe": f"{folder}/{NOTIFYING_FILTER}",
        "calls": ",".join(map(str, calls)),
    }
    problem = os.environ.get(_TEST_SWITCH)
    return {**options, "problem": problem} if problem else options


def denied_by_class(fields: Sequence[bytes]) -> Mapping[str, int]:
    """Add up the server's counts (`NUMBER COUNT` each) by class."""
    classes = seccomp.MACHINES[platform.machine()].classes
    counts: Counter[str] = Counter()
    for field in fields:
        number, count = map(int, field.split())
        counts[classes.get(number, "other")] += count
    return dict(sorted(counts.items()))


class ObservedPrograms:
    """Passes what the server reports about one command on to an observer, within a bound."""

    def __init__(self, observe: ProcessObserver) -> None:
        self._observe = observe
        budget = LogBudget()
        self._budget = LogBudget(budget.burst * _HOST_BUDGET, budget.per_sec * _HOST_BUDGET)
        self.started = 0
        self.dropped = 0
        self.error: Exception | None = None
        """Raised by the observer, which is not called again."""

    def receive(self, entries: Sequence[bytes]) -> None:
        """
        Raises:
            ValueError: the data is invalid.
        """
        for entry in entries:
            event = _event(unpack(entry))
            started = isinstance(event, ProcessStart)
            self.started += started
            if not self._budget.available():
                self.dropped += started
            elif self.error is None:
                self._budget.spend(max(len(entry), _logged_bytes(event)))
                try:
                    self._observe(event)
                except Exception as error:  # noqa: BLE001 - the reader serves other calls too; `wait` raises it
                    self.error = error


def _event(fields: list[bytes]) -> ProcessStart | ProcessEnd:
    kind, number, elapsed_us, *rest = fields
    if kind == b"end":
        code, signal = rest
        return ProcessEnd(int(number), int(elapsed_us), int(code) if code else None, int(signal) if signal else None)
    pid, parent, truncated, program, cwd, *argv = rest
    return ProcessStart(
        number=int(number),
        elapsed_us=int(elapsed_us),
        pid=int(pid),
        parent=int(parent),
        program=_text(program),
        argv=tuple(map(_text, argv)),
        cwd=_text(cwd),
        truncated=truncated == b"1",
    )


def _logged_bytes(event: ProcessStart | ProcessEnd) -> int:
    """Return the size of the texts of an event in a log."""
    if isinstance(event, ProcessEnd):
        return 0
    return len(json.dumps([event.program, event.cwd, *event.argv], ensure_ascii=False).encode())


def _text(data: bytes) -> str:
    """Decode bytes that a program chose. The result can always be written as UTF-8."""
    return data.decode("utf-8", "backslashreplace")
