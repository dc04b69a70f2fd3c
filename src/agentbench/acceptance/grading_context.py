"""What grading works with, and what it hands back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from agentbench.contract.load import LoadedTask
from agentbench.contract.schema import Check
from agentbench.core.command import Completed, Stream
from agentbench.core.reasons import Assurance, Gate, Outcome
from agentbench.sandbox.protocol import Backend, Prepared, SandboxSpec
from agentbench.trace.blobs import BlobStore
from agentbench.trace.events import Actor, Payload

Severity = Literal["note", "penalty", "gate", "error"]


class EventSink(Protocol):
    """Where events go: an attempt's log, or nowhere that lasts."""

    def append(self, payload: Payload, actor: Actor = "harness") -> int: ...


class Unlogged:
    """For runs outside any attempt (validation): counts events and keeps the payloads."""

    def __init__(self) -> None:
        self.payloads: list[Payload] = []

    def append(self, payload: Payload, actor: Actor = "harness") -> int:
        self.payloads.append(payload)
        return len(self.payloads)


@dataclass(frozen=True, slots=True)
class GradingContext:
    """One prepared contract and where its evidence goes.

    `spec` describes the grading sandboxes; phase and network are set here whatever it says. `cache` is a folder for what
    was found out about untouched R (survey, baseline); it may be shared by all attempts and processes.
    """

    backend: Backend
    spec: SandboxSpec
    prepared: Prepared
    loaded: LoadedTask
    contract_id: str
    cache: Path
    log: EventSink = field(default_factory=Unlogged)
    blobs: BlobStore | None = None

    def unlogged(self) -> GradingContext:
        """The same context for runs that are no part of the attempt and leave nothing in its log."""
        return dataclasses.replace(self, log=Unlogged(), blobs=None)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about Δ that people should see; `gate` fails G4."""

    rule: str
    severity: Severity
    detail: str
    path: str | None = None
    line: int | None = None
    excerpt: str = ""


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """One run of one check, decided.

    `tests` has the outcome of each test by id, where the check has tests: passed, failed, skipped, xfailed, xpassed,
    missing, or a mixture that is none of them (`broken`).
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


def with_run(decided: CheckOutcome, completed: Completed) -> CheckOutcome:
    """A decision with how the run that it is about went."""
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
    """The outcome of Δ's application, of the build, or of one static command."""

    step: str
    outcome: Outcome
    why: str = ""


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Everything grading found, as it also went into the log."""

    application: StepResult
    steps: tuple[StepResult, ...]
    checks: tuple[CheckResult, ...]
    findings: tuple[Finding, ...]
    restored: tuple[bytes, ...] = ()
    dropped: tuple[bytes, ...] = ()

    @property
    def accepted(self) -> bool:
        """Every step and mandatory check passed and nothing fails G4: a summary for validation, not the verdict."""
        steps = (self.application, *self.steps)
        return (
            all(step.outcome is Outcome.PASS for step in steps)
            and all(one.outcome is Outcome.PASS for one in self.checks if one.check.mandatory)
            and not any(finding.severity in {"gate", "error"} for finding in self.findings)
        )
