"""Builds small logs for verdict tests: each function makes one event, `log` numbers them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentbench.core.reasons import Gate, Outcome, TerminationCategory, TerminationCode
from agentbench.trace.events import (
    AcceptanceCheck,
    AttemptOpened,
    Briefing,
    BuildFinished,
    Excerpt,
    FileDigest,
    IdentityBound,
    IntegrityFinding,
    MonitorAlert,
    PatchApplied,
    PatchExtracted,
    Payload,
    StaticFinished,
    Termination,
)
from agentbench.verdict.decide import Verdict, decide
from agentbench.verdict.facts import collect_facts
from agentbench.verdict.terms import CheckTerm, Terms


@dataclass(frozen=True)
class Event:
    seq: int
    payload: Payload


def log(*payloads: Payload) -> list[Event]:
    return [Event(seq, payload) for seq, payload in enumerate(payloads)]


def opened() -> AttemptOpened:
    return AttemptOpened(
        attempt_id="01A",
        run_id="01R",
        study_id="01S",
        task_id="toy",
        contract_id="sha256:c",
        task_digest="sha256:t",
        harness_version="0.1.0",
        config_class="sha256:k",
        nonce="n",
    )


def bound(snapshot: str = "sha256:r") -> IdentityBound:
    return IdentityBound(
        snapshot=snapshot, source={}, base_tree="sha256:b", env_digest="sha256:e", backend="bwrap", manifest_sha256="m"
    )


def briefed() -> Briefing:
    return Briefing(text="fix it", sha256="x", parts={})


def ended(
    code: TerminationCode = TerminationCode.AGENT_STOPPED,
    rationale: str = "the agent said it was done",
    category: TerminationCategory | None = None,
) -> Termination:
    return Termination(code=code, category=category, rationale=rationale, evidence=[])


def extracted(
    *paths: str, added: int = 10, removed: int = 3, problem: str | None = None, size: int = 100
) -> PatchExtracted:
    return PatchExtracted(
        sha256="d",
        bytes=size,
        files=[FileDigest(path=path, change="modified") for path in paths or ("src/core.py",)],
        added=added,
        removed=removed,
        generated=0,
        problem=problem,
    )


def applied(outcome: Outcome = Outcome.PASS, why: str = "") -> PatchApplied:
    return PatchApplied(call_id=None, files=[], patch=Excerpt(), outcome=outcome, why=why)


def built(outcome: Outcome = Outcome.PASS, why: str = "") -> BuildFinished:
    return BuildFinished(
        step="build",
        outcome=outcome,
        exit_code=0,
        timed_out=False,
        duration_us=1,
        stdout=Excerpt(),
        stderr=Excerpt(),
        why=why,
    )


def linted(outcome: Outcome = Outcome.PASS, why: str = "", step: str = "static-1") -> StaticFinished:
    return StaticFinished(
        step=step,
        outcome=outcome,
        exit_code=0,
        timed_out=False,
        duration_us=1,
        stdout=Excerpt(),
        stderr=Excerpt(),
        why=why,
    )


def checked(
    outcome: Outcome = Outcome.PASS, check_id: str = "unit", *, not_run: Gate | None = None, **more: Any
) -> AcceptanceCheck:
    values: dict[str, Any] = {
        "layer": "unit",
        "mandatory": True,
        "why": "" if outcome is Outcome.PASS else f"{outcome} of {check_id}",
        "command": "python -m pytest -q",
        "started_at": "2026-01-01T00:00:00+00:00",
        "stdout_sha256": "s",
        "duration_us": 1_200_000,
        "ceiling_us": 300_000_000,
    }
    return AcceptanceCheck(check_id=check_id, outcome=outcome, not_run=not_run, **{**values, **more})


def found(severity: str = "gate", rule: str = "runner.internals", **more: Any) -> IntegrityFinding:
    return IntegrityFinding.model_validate({"rule": rule, "severity": severity, "detail": "touches the runner", **more})


def alerted(severity: str = "gate", rule: str = "os.system_path", **more: Any) -> MonitorAlert:
    return MonitorAlert.model_validate(
        {"monitor": "policy", "severity": severity, "rule": rule, "detail": "rm -rf /etc", "format": "code", **more}
    )


UNIT = Terms(checks=(CheckTerm("unit"),))


def terms(*ids: str, build: bool = False, statics: int = 0) -> Terms:
    return Terms(checks=tuple(CheckTerm(one) for one in ids or ("unit",)), build=build, statics=statics)


def graded(*tail: Payload, ending: Termination | None = None) -> list[Payload]:
    """Open an attempt, stop the agent, apply its patch, then add `tail`."""
    return [opened(), bound(), briefed(), ending or ended(), extracted(), applied(), *tail]


def verdict(payloads: Sequence[Payload], on: Terms = UNIT) -> Verdict:
    return decide(collect_facts(log(*payloads)), on)
