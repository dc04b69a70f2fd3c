"""The input of grading, and its results."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Literal, Protocol

from agentbench.acceptance.reference_evidence import ReferenceEvidence
from agentbench.contract.load import LoadedTask
from agentbench.contract.schema import Check
from agentbench.core.command import Completed, Stream
from agentbench.core.dataclass import dataclass
from agentbench.core.reasons import Assurance, Gate, Outcome
from agentbench.sandbox.protocol import Backend, Prepared, SandboxSpec
from agentbench.trace.blobs import BlobStore
from agentbench.trace.events import Actor, Payload

Severity = Literal["note", "penalty", "gate", "error"]


class EventSink(Protocol):
    """Receives events: an attempt's log, or a list in memory."""

    def append(self, payload: Payload, actor: Actor = "harness") -> int: ...


class Unlogged:
    """Keeps events in memory, for runs outside any attempt such as validation."""

    def __init__(self) -> None:
        self.payloads: list[Payload] = []

    def append(self, payload: Payload, actor: Actor = "harness") -> int:
        self.payloads.append(payload)
        return len(self.payloads)


@dataclass(frozen=True, slots=True)
class GradingContext:
    """A prepared task and where its evidence is written.

    `spec` describes the grading sandboxes; its phase and network are overridden. `cache` is a folder for results about
    the base repository (survey, baseline), which attempts and processes may share.
    """

    backend: Backend
    spec: SandboxSpec
    prepared: Prepared
    loaded: LoadedTask
    cache: Path
    log: EventSink = field(default_factory=Unlogged)
    blobs: BlobStore | None = None
    known_packages: tuple[str, ...] | None = None
    """Python packages that the task knows; None if packages of patches are not compared."""
    reference_evidence: ReferenceEvidence = field(default_factory=ReferenceEvidence)
    cancelled: threading.Event = field(default_factory=threading.Event)
    """Set once everything is to stop, before the sandboxes are closed."""

    def unlogged(self) -> GradingContext:
        """Return a copy of this context for runs that are not part of the attempt and leave nothing in its log."""
        return dataclasses.replace(self, log=Unlogged(), blobs=None)


@dataclass(frozen=True, slots=True)
class Finding:
    """An integrity finding about a patch. Severity `gate` makes the patch unsafe."""

    rule: str
    severity: Severity
    detail: str
    path: str | None = None
    line: int | None = None
    excerpt: str = ""


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """The decision of one run of a check, with its evidence.

    `tests`: outcome by test id, if the check has tests: passed, failed, skipped, xfailed, xpassed, missing, or `broken`
    if the reports of a test contradict each other.
    """

    outcome: Outcome
    why: str
    assurance: Assurance = Assurance.EXIT_CODE
    exit_code: int | None = None
    duration_sec: float = 0.0
    timed_out: bool = False
    stdout: Stream = field(default_factory=Stream)
    stderr: Stream = field(default_factory=Stream)
    tests: Mapping[str, str] = field(default_factory=dict)
    failing: tuple[str, ...] = ()
    diagnostics: str = ""
    findings: tuple[Finding, ...] = ()
    f2p_passed: int = 0
    f2p_total: int = 0
    p2p_kept: int = 0
    p2p_total: int = 0
    decoys: int = 0
    """Required fail-to-pass tests that have a decoy test."""
    not_started: str = ""
    """Why the command could not be started; empty if it could."""
    starts_on_base: bool | None = None
    """Whether the command starts on the base repository; None unless it could not be started."""
    host_trouble: bool = False
    """Whether a sandbox was lost for which no candidate is at fault, so that a second run may succeed."""


def with_run(decided: CheckOutcome, completed: Completed) -> CheckOutcome:
    """Add exit code, duration and output of the command that was decided."""
    return dataclasses.replace(
        decided,
        exit_code=completed.exit_code,
        duration_sec=completed.duration_sec,
        timed_out=completed.timed_out,
        stdout=completed.stdout,
        stderr=completed.stderr,
    )


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The decision about one check, over all its runs."""

    check: Check
    decided: CheckOutcome
    started_at: str
    runs: int = 1
    not_run: Gate | None = None

    @property
    def outcome(self) -> Outcome:
        return self.decided.outcome


@dataclass(frozen=True, slots=True)
class StepResult:
    """The outcome of applying the patch, of the build, or of one static command."""

    step: str
    outcome: Outcome
    why: str = ""


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Everything grading found; the log has it too."""

    application: StepResult
    steps: tuple[StepResult, ...]
    checks: tuple[CheckResult, ...]
    findings: tuple[Finding, ...]
    restored: tuple[bytes, ...] = ()
    dropped: tuple[bytes, ...] = ()

    @property
    def decoy_coverage(self) -> float | None:
        """Share of the fail-to-pass tests of mandatory pytest checks that have a decoy test; None if there are none."""
        decided = [result.decided for result in self.checks if result.check.mandatory]
        counted = [outcome for outcome in decided if outcome.assurance is Assurance.PER_TEST]
        total = sum(outcome.f2p_total for outcome in counted)
        return sum(outcome.decoys for outcome in counted) / total if total else None

    @property
    def accepted(self) -> bool:
        """True if all steps and mandatory checks passed without a severe finding. For validation; not the verdict."""
        steps = (self.application, *self.steps)
        return (
            all(step.outcome is Outcome.PASS for step in steps)
            and all(result.outcome is Outcome.PASS for result in self.checks if result.check.mandatory)
            and not any(finding.severity in {"gate", "error"} for finding in self.findings)
        )
