"""Decides which nodes to give up because attempts keep failing there.

A harness error alone does not say whether the node or the task is at fault. A node is blamed for a task that fails nowhere else, or
that has ended without a harness error somewhere; so one broken task never removes the nodes of a cluster.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable

MAX_ERRORS = 3
"""Harness errors in a row, as far as the node is blamed for them, after which a node is given up."""


class NodeBlame:
    """Counts the harness errors of all nodes. Safe to use from every thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sound: set[str] = set()
        self._errors: dict[Hashable, list[str]] = {}
        """Tasks of the harness errors in a row, by node."""
        self._failed_on: dict[str, set[Hashable]] = {}

    def succeeded(self, node: Hashable, task_id: str) -> None:
        """Note that an attempt ended there without a harness error of the node."""
        with self._lock:
            self._sound.add(task_id)
            self._errors.pop(node, None)

    def failed(self, node: Hashable, task_id: str) -> bool:
        """Note a harness error of the node. Return whether the node must be given up."""
        with self._lock:
            errors = self._errors.setdefault(node, [])
            errors.append(task_id)
            self._failed_on.setdefault(task_id, set()).add(node)
            return sum(self._blames(node, task) for task in errors) >= MAX_ERRORS

    def _blames(self, node: Hashable, task_id: str) -> bool:
        return task_id in self._sound or self._failed_on[task_id] == {node}
