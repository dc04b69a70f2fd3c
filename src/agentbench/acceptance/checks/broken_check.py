"""Checks that cannot work, whatever the candidate is."""

from __future__ import annotations

from agentbench.core.errors import TaskError


class BrokenCheck(TaskError):
    """The check cannot be run on the base repository, which is a fault of the task."""


class BrokenDriver(BrokenCheck):
    """The driver of a probe does not work on the base repository."""
