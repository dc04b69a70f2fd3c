"""Collects facts about the processes of an agent program by branch: a process shares the facts of its parents."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from agentbench.trace.events import ProcessFinished, ProcessStarted

Fact = TypeVar("Fact")


class ProcessBranches(Generic[Fact]):
    """Follows the processes of one attempt in log order.

    A process that executes another program keeps its pid and gets a new number. Its end is logged once, for one of its
    numbers. Numbers and branches belong to one call.
    """

    def __init__(self) -> None:
        self._call_id = ""
        self._facts: dict[int, frozenset[Fact]] = {}
        """Pid -> facts of its branch."""
        self._pids: dict[int, int] = {}
        """Number -> pid."""

    def started(self, process: ProcessStarted, facts: Iterable[Fact]) -> frozenset[Fact]:
        """Add facts to the branch of a process. Return those that the branch had before."""
        if process.call_id != self._call_id:
            self._call_id = process.call_id
            self._facts.clear()
            self._pids.clear()
        known = self._facts.get(process.pid, frozenset()) | self._facts.get(process.parent, frozenset())
        self._pids[process.number] = process.pid
        self._facts[process.pid] = known.union(facts)
        return known

    def finished(self, process: ProcessFinished) -> None:
        """Forget a process, because a later one can have the same pid."""
        if process.call_id == self._call_id and process.number in self._pids:
            self._facts.pop(self._pids.pop(process.number), None)
