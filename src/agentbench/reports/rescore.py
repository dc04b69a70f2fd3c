"""Counterfactual results of a run under other weights or caps, computed from its traces alone.

Other weights change scores, never verdicts. A tighter cap would have stopped an attempt when it was used up: if the
last change to the workspace came before that point, the patch and the verdict stay the same; if it came later, the
attempt counts as not passed. The effect of a looser cap is unknown, so an attempt that was stopped by that cap is
undecided.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from agentbench.core.canonical import Json
from agentbench.core.errors import InputError, RecordError
from agentbench.core.reasons import Reason, TerminationCode
from agentbench.record.attempt_folder import EVENTS
from agentbench.record.manifest import read_manifest
from agentbench.record.recompute import terms_from
from agentbench.record.schema import AttemptRecord
from agentbench.reports.provenance import MANIFEST, evidence
from agentbench.reports.sources import Run
from agentbench.trace.chain import Event
from agentbench.trace.events import (
    LlmResponse,
    PatchApplied,
    PatchExtracted,
    ToolCallFinished,
    ToolCallStarted,
    WorkspaceMutated,
)
from agentbench.trace.log import read_events
from agentbench.verdict.decide import Verdict, decide
from agentbench.verdict.facts import collect_facts
from agentbench.verdict.terms import Caps, Weights

LABEL = "COUNTERFACTUAL"
CAP_NAMES = ("active_sec", "tool_calls", "tokens", "usd")
_STOPS: Mapping[str, tuple[TerminationCode, Reason]] = {
    "active_sec": (TerminationCode.WALL_CAP, Reason.TIMEOUT),
    "tool_calls": (TerminationCode.TOOL_CALL_CAP, Reason.BUDGET_EXHAUSTED),
    "tokens": (TerminationCode.TOKEN_CAP, Reason.BUDGET_EXHAUSTED),
    "usd": (TerminationCode.COST_CAP, Reason.BUDGET_EXHAUSTED),
}


@dataclass(frozen=True, slots=True)
class Assumption:
    """Weights and caps to assume; None keeps those of the run."""

    weights: Weights | None = None
    caps: Mapping[str, float] | None = None

    @property
    def text(self) -> str:
        parts = []
        if self.weights:
            weights = self.weights
            parts.append(
                f"weights minimal {weights.minimal:g}, trace {weights.trace:g}, "
                f"maintainability {weights.maintainability:g}"
            )
        if self.caps:
            parts.append("caps " + ", ".join(f"{name} {value:g}" for name, value in self.caps.items()))
        return "; ".join(parts)


@dataclass(frozen=True, slots=True)
class Rescored:
    """One attempt with its counterfactual result."""

    record: AttemptRecord
    passed: bool | None
    """None if unknown."""
    reason: str | None
    score: float | None
    efficiency: float | None
    why: str

    @property
    def changed(self) -> bool:
        return self.passed is not self.record.result.passed or self.score != self.record.score


def read_assumption(weights: Path | None, caps: Path | None) -> Assumption:
    """
    Raises:
        InputError: neither file is given, or one is invalid.
    """
    if weights is None and caps is None:
        raise InputError("give --weights FILE or --caps FILE")
    return Assumption(
        weights=_weights(weights) if weights else None,
        caps=_caps(caps) if caps else None,
    )


def rescore(run: Run, assumption: Assumption) -> tuple[Rescored, ...]:
    """Rescore every attempt of a run under the assumption.

    Raises:
        InputError: a manifest or a trace is missing or cannot be read.
    """
    return tuple(_attempt(record, run.path, assumption) for record in run.finals)


def _attempt(record: AttemptRecord, folder: Path, assumption: Assumption) -> Rescored:
    task_dir = record.artifact_paths.task_dir
    manifest, log = evidence(folder, f"{task_dir}/{MANIFEST}"), evidence(folder, f"{task_dir}/{EVENTS}")
    if manifest is None or log is None:
        raise InputError(f"the folder of attempt {record.attempt_id} is outside the run directory")
    try:
        terms = terms_from(read_manifest(manifest).protocol_manifest.planned)
        events = list(read_events(log))
    except RecordError as error:
        msg = f"cannot rescore {record.task_id}, repeat {record.repeat}: {error.message}"
        raise InputError(msg, remedy="rescoring needs the manifest and the trace of every attempt") from error
    if assumption.weights:
        terms = replace(terms, rubric=replace(terms.rubric, weights=assumption.weights))
    old_caps, terms = terms.caps, replace(terms, caps=_merged(terms.caps, assumption.caps or {}))
    verdict = decide(collect_facts(events), terms)
    return _result(record, verdict, _effect(events, old_caps, assumption.caps or {}, record))


@dataclass(frozen=True, slots=True)
class _CapEffect:
    """The effect that a cap would have had."""

    cap: str
    verdict_stands: bool | None
    """None if unknown."""
    why: str


def _result(record: AttemptRecord, verdict: Verdict, effect: _CapEffect | None) -> Rescored:
    score = verdict.score.value if verdict.score else None
    efficiency = verdict.components.efficiency
    if effect is None:
        return Rescored(record, verdict.passed, verdict.reason, score, efficiency, "")
    if effect.verdict_stands is None:
        return Rescored(record, None, None, None, None, effect.why)
    if effect.verdict_stands or not verdict.passed:
        return Rescored(record, verdict.passed, verdict.reason, score, efficiency, effect.why)
    return Rescored(record, False, str(_STOPS[effect.cap][1]), None, efficiency, effect.why)


def _effect(
    events: Iterable[Event], old_caps: Caps, caps: Mapping[str, float], record: AttemptRecord
) -> _CapEffect | None:
    """Find the first cap that would have stopped the attempt, or that stopped it and is now looser."""
    for name, cap in caps.items():
        old = getattr(old_caps, name)
        if record.termination.code is _STOPS[name][0] and (old is None or cap > old):
            return _CapEffect(name, None, f"stopped by {name}; the effect of {cap:g} is unknown")
    used = dict.fromkeys(CAP_NAMES, 0.0)
    at_change, at_end = dict(used), dict(used)
    for event in events:
        _add(used, event)
        if isinstance(event.payload, PatchExtracted):
            break
        if _changes(event):
            at_change = dict(used)
        at_end = dict(used)
    for name, cap in caps.items():
        if at_end[name] <= cap:
            continue
        if at_change[name] <= cap:
            why = f"stopped by {name} at {cap:g} of {at_end[name]:.4g}, after the last change"
            return _CapEffect(name, True, why)
        why = f"stopped by {name} at {cap:g}, before the last change at {at_change[name]:.4g}"
        return _CapEffect(name, False, why)
    return None


def _add(used: dict[str, float], event: Event) -> None:
    payload = event.payload
    if isinstance(payload, ToolCallStarted):
        used["tool_calls"] += 1
    elif isinstance(payload, ToolCallFinished):
        used["active_sec"] += payload.duration_us / 1e6
    elif isinstance(payload, LlmResponse):
        used["active_sec"] += payload.duration_us / 1e6
        used["tokens"] += payload.prompt_tokens + payload.completion_tokens
        used["usd"] += payload.cost_micro_usd / 1e6


def _changes(event: Event) -> bool:
    """Whether the event changes the workspace; generated files do not count."""
    payload = event.payload
    if isinstance(payload, WorkspaceMutated):
        return bool(payload.omitted) or any(not file.generated for file in payload.files)
    return isinstance(payload, PatchApplied) and payload.call_id is not None


def _merged(caps: Caps, new: Mapping[str, float]) -> Caps:
    calls, tokens = new.get("tool_calls"), new.get("tokens")
    return Caps(
        active_sec=new.get("active_sec", caps.active_sec),
        tool_calls=caps.tool_calls if calls is None else int(calls),
        tokens=caps.tokens if tokens is None else int(tokens),
        usd=new.get("usd", caps.usd),
    )


# --- files
# --------------------------------------------------------------------------------------------------------------


def _document(path: Path) -> Mapping[str, object]:
    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise InputError(f"{path} is not valid YAML: {' '.join(str(error).split())[:200]}") from error
    if not isinstance(value, Mapping):
        raise InputError(f"{path}: expected a mapping")
    return value


def _numbers(path: Path, values: Mapping[str, object]) -> dict[str, float]:
    numbers = {}
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
            raise InputError(f"{path}: {name}: expected a number from 0, got {json.dumps(str(value))}")
        numbers[str(name)] = float(value)
    return numbers


def _weights(path: Path) -> Weights:
    document = _document(path)
    weights = document.get("weights", document)
    if not isinstance(weights, Mapping):
        raise InputError(f"{path}: weights: expected a mapping")
    try:
        return Weights.of(_numbers(path, weights))
    except InputError as error:
        msg = error.message if error.message.startswith(str(path)) else f"{path}: {error.message}"
        raise InputError(msg, remedy="example: {minimal: 0.5, trace: 0.2, maintainability: 0.3}") from None


def _caps(path: Path) -> dict[str, float]:
    document = _document(path)
    caps = document.get("caps", document)
    unknown = [str(name) for name in caps if name not in CAP_NAMES] if isinstance(caps, Mapping) else ["caps"]
    if unknown or not caps or not isinstance(caps, Mapping):
        got = f", got {', '.join(unknown)}" if unknown else ""
        msg = f"{path}: expected some of {', '.join(CAP_NAMES)}{got}"
        raise InputError(msg, remedy="example: {active_sec: 120, tool_calls: 40}")
    return _numbers(path, caps)


# --- output -----------------------------------------------------------------------------------------------------------


def headline(attempts: Sequence[Rescored], assumption: Assumption) -> str:
    known = [attempt for attempt in attempts if attempt.passed is not None]
    new = sum(bool(attempt.passed) for attempt in attempts)
    old = sum(attempt.record.result.passed for attempt in attempts)
    unknown = len(attempts) - len(known)
    line = f"{LABEL}: {new} of {len(known)} would have passed, {old} of {len(attempts)} did ({assumption.text})"
    return line + (f"; {unknown} unknown" if unknown else "")


def as_json(attempt: Rescored) -> dict[str, Json]:
    record = attempt.record
    return {
        "label": LABEL,
        "task": record.task_id,
        "repeat": record.repeat,
        "attempt_id": record.attempt_id,
        "passed": record.result.passed,
        "counterfactual_passed": attempt.passed,
        "reason": record.result.failure_reason,
        "counterfactual_reason": attempt.reason,
        "score": record.score,
        "counterfactual_score": attempt.score,
        "counterfactual_efficiency": attempt.efficiency,
        "why": attempt.why,
    }
