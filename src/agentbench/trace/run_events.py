"""Events of a run's own log: which attempts were begun, and the seal of each that ended.

An attempt's chain ends in a head; the run's chain holds that head, so an attempt's log cannot be cut, rewritten or removed
without breaking the run's chain too.
"""

from __future__ import annotations

from typing import Literal

from agentbench.trace.events import Payload


class RunOpened(Payload):
    """First record of a run's chain."""

    type = "run_opened"
    run_id: str
    study_id: str
    suite: str
    variant: str
    harness_version: str
    run_json_sha256: str
    nonce: str


class AttemptBegun(Payload):
    """An attempt has a folder. Every one of these is followed by an `attempt_sealed`, or the run is not complete."""

    type = "attempt_begun"
    attempt_id: str
    task_id: str
    repeat: int
    attempt: int
    """1 for the first, 2 for the first retry of the same repeat, and so on."""
    task_dir: str
    supersedes: str | None = None


class AttemptSealed(Payload):
    """An attempt ended and its evidence is final."""

    type = "attempt_sealed"
    attempt_id: str
    task_dir: str
    events: int
    head: str
    record_sha256: str
    files_sha256: str
    """Digest of `meta/files.json`: the list of every evidence file of the attempt with its digest."""


class RunResumed(Payload):
    """A later process continued the run."""

    type = "run_resumed"
    harness_version: str
    resumed_at: str
    unfinished: list[str]
    """Attempts that had begun and have no seal."""


class RunReduced(Payload):
    """From full to minimal evidence: approved by somebody, and written down before anything is removed."""

    type = "run_reduced"
    approved_by: str
    reason: str
    reduced_at: str
    files: int
    bytes: int
    """What is removed. The digests of it stay, in the lists of the attempts."""


class RunClosed(Payload):
    """Last record of a run's chain. Only `run_resumed` and `run_reduced` may follow it."""

    type = "run_closed"
    status: Literal["completed", "interrupted"]
    closed_at: str
    attempts: int
    events: int
    head: str
