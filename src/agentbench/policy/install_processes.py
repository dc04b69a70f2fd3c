"""Recognises installations among the processes of an agent program.

One installation is often several processes: `timeout 60 pip install x` starts `pip install x`. It counts once per branch of
processes. A shell (`sh -c LINE`) is not counted itself, because each command that it runs is a process of its own.
"""

from __future__ import annotations

from agentbench.policy.installs import installs_of
from agentbench.policy.model_actions import process_command
from agentbench.policy.process_branches import ProcessBranches
from agentbench.trace.events import ProcessFinished, ProcessStarted


class InstallProcesses:
    """Follows the processes of one attempt in log order."""

    def __init__(self) -> None:
        self._counted: ProcessBranches[str] = ProcessBranches()

    def started(self, process: ProcessStarted) -> tuple[str, ...]:
        """Return the installations that a process begins, without those that its parents have begun."""
        command = process_command(process)
        installs = installs_of(command.text) if command.one_program else ()
        known = self._counted.started(process, installs)
        return tuple(install for install in installs if install not in known)

    def finished(self, process: ProcessFinished) -> None:
        self._counted.finished(process)
