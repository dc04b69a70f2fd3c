"""Recognises installations among the processes of an agent program.

One installation is often several processes: `timeout 60 pip install x` starts `pip install x`. It counts once per branch of
processes. A shell (`sh -c LINE`) is not counted itself, because each command that it runs is a process of its own.
"""

from __future__ import annotations

from agentbench.policy.installs import installs_of
from agentbench.policy.model_actions import process_command
from agentbench.trace.events import ProcessFinished, ProcessStarted


class InstallProcesses:
    """Follows the processes of one attempt in log order."""

    def __init__(self) -> None:
        self._counted: dict[int, frozenset[str]] = {}
        self._pids: dict[int, int] = {}

    def started(self, process: ProcessStarted) -> tuple[str, ...]:
        """Return the installations that a process begins, without those that its parents have begun."""
        command = process_command(process)
        installs = installs_of(command.text) if command.one_program else ()
        known = self._counted.get(process.pid, frozenset()) | self._counted.get(process.parent, frozenset())
        self._pids[process.number] = process.pid
        if installs or known:
            self._counted[process.pid] = known.union(installs)
        return tuple(install for install in installs if install not in known)

    def finished(self, process: ProcessFinished) -> None:
        pid = self._pids.pop(process.number, None)
        # After an exec, one process has several numbers.
        if pid is not None and pid not in self._pids.values():
            self._counted.pop(pid, None)
