"""What a run would have been under other weights or tighter caps, from its traces alone. Always a counterfactual (A-09).

Other weights change scores, never verdicts. A tighter cap stops an attempt where it was used up: when the last change to the
workspace came before that point, Δ would have been the same and the verdict stands; when it came later, the attempt would not
have got there, and counts as not passed. What a looser cap would have allowed nobody knows: an attempt that was stopped by
the very cap is undecided under a looser one.
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
    """What is supposed instead of what held. None: as it was."""

    weights: Weights | None = None
    caps: Mapping[str, float] | None = None

    @property
    def words(self) -> str:
        parts = []
        if self.weights:
            one = self.weights
            parts.append(
                f"weights minimal {one.minimal:g}, trace {one.trace:g}, maintainability {one.maintainability:g}"
            )
        if self.caps:
            parts.append("caps " + ", ".join(f"{name} {value:g}" for name, value in self.caps.items()))
        return "; ".join(parts)


@dataclass(frozen=True, slots=True)
class Rescored:
    """One attempt as it was and as it would have been. `passed` None: cannot be told."""

    record: AttemptRecord
    passed: bool | None
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
        InputError: neither is given, or a file does not say what it should.
    """
    if weights is None and caps is None:
        msg = "nothing to suppose: give --weights FILE or --caps FILE"
        raise InputError(msg)
    return Assumption(
        weights=_weights(weights) if weights else None,
        caps=_caps(caps) if caps else None,
    )


def rescore(run: Run, assumed: Assumption) -> tuple[Rescored, ...]:
    """Every attempt of a run under the assumption.

    Raises:
        InputError: a manifest or a trace is missing or cannot be read.
    """
    return tuple(_attempt(record, run.path, assumed) for record in run.finals)


def _attempt(record: AttemptRecord, folder: Path, assumed: Assumption) -> Rescored:
    place = record.artifact_paths.task_dir
    manifest, log = evidence(folder, f"{place}/{MANIFEST}"), evidence(folder, f"{place}/{EVENTS}")
    if manifest is None or log is None:
        msg = f"attempt {record.attempt_id} names a folder outside the run directory"
        raise InputError(msg)
    try:
        terms = terms_from(read_manifest(manifest).protocol_manifest.planned)
        events = list(read_events(log))
    except RecordError as error:
        msg = f"cannot rescore {record.task_id}, repeat {record.repeat}: {error.message}"
        raise InputError(msg, remedy="rescoring needs the manifest and the trace of every attempt") from error
    if assumed.weights:
        terms = replace(terms, rubric=replace(terms.rubric, weights=assumed.weights))
    before, terms = terms.caps, replace(terms, caps=_merged(terms.caps, assumed.caps or {}))
    verdict = decide(collect_facts(events), terms)
    stopped = _stopped(events, before, assumed.caps or {}, record)
    return _result(record, verdict, stopped)


def _result(record: AttemptRecord, verdict: Verdict, stopped: tuple[str, bool | None] | None) -> Rescored:
    score = verdict.score.value if verdict.score else None
    efficiency = verdict.components.efficiency
    if stopped is None:
        return Rescored(record, verdict.passed, verdict.reason, score, efficiency, "")
    why, passed = stopped
    name = why.split(" ", 1)[0]
    if passed is None:
        return Rescored(record, None, None, None, None, why)
    if passed or not verdict.passed:
        return Rescored(record, verdict.passed, verdict.reason, score, efficiency, why)
    return Rescored(record, False, str(_STOPS[name][1]), None, efficiency, why)


def _stopped(
    events: Iterable[Event], before: Caps, caps: Mapping[str, float], record: AttemptRecord
) -> tuple[str, bool | None] | None:
    """What a cap would have done: words that begin with its name, and whether the verdict stands (None: unknown)."""
    for name, cap in caps.items():
        old = getattr(before, name)
        if record.termination.code is _STOPS[name][0] and (old is None or cap > old):
            return f"{name} was what stopped it; what {cap:g} would have allowed is not known", None
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
            return f"{name} would have stopped it at {cap:g} of {at_end[name]:.4g}, after its last change", True
        return f"{name} would have stopped it at {cap:g}; its last change came at {at_change[name]:.4g}", False
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
    """Whether the workspace became another one that counts: generated files do not."""
    payload = event.payload
    if isinstance(payload, WorkspaceMutated):
        return bool(payload.omitted) or any(not one.generated for one in payload.files)
    return isinstance(payload, PatchApplied) and payload.call_id is not None


def _merged(caps: Caps, new: Mapping[str, float]) -> Caps:
    calls, tokens = new.get("tool_calls"), new.get("tokens")
    return Caps(
        active_sec=new.get("active_sec", caps.active_sec),
        tool_calls=caps.tool_calls if calls is None else int(calls),
        tokens=caps.tokens if tokens is None else int(tokens),
        usd=new.get("usd", caps.usd),
    )


# --- files --------------------------------------------------------------------------------------------------------------


def _document(path: Path) -> Mapping[str, object]:
    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{path} cannot be read: {error}"
        raise InputError(msg) from error
    except (yaml.YAMLError, RecursionError) as error:
        msg = f"{path} is neither YAML nor JSON: {' '.join(str(error).split())[:200]}"
        raise InputError(msg) from error
    if not isinstance(value, Mapping):
        msg = f"{path}: expected a mapping"
        raise InputError(msg)
    return value


def _numbers(path: Path, found: Mapping[str, object]) -> dict[str, float]:
    numbers = {}
    for name, value in found.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
            msg = f"{path}: {name} is {json.dumps(str(value))}, expected a number of at least 0"
            raise InputError(msg)
        numbers[str(name)] = float(value)
    return numbers


def _weights(path: Path) -> Weights:
    found = _document(path)
    inner = found.get("weights", found)
    if not isinstance(inner, Mapping):
        msg = f"{path}: weights: expected a mapping"
        raise InputError(msg)
    try:
        return Weights.of(_numbers(path, inner))
    except InputError as error:
        msg = error.message if error.message.startswith(str(path)) else f"{path}: {error.message}"
        raise InputError(msg, remedy="such as {minimal: 0.5, trace: 0.2, maintainability: 0.3}") from None


def _caps(path: Path) -> dict[str, float]:
    found = _document(path)
    inner = found.get("caps", found)
    unknown = [str(name) for name in inner if name not in CAP_NAMES] if isinstance(inner, Mapping) else ["caps"]
    if unknown or not inner or not isinstance(inner, Mapping):
        msg = f"{path}: expected some of {', '.join(CAP_NAMES)}" + (f", not {', '.join(unknown)}" if unknown else "")
        raise InputError(msg, remedy="such as {active_sec: 120, tool_calls: 40}")
    return _numbers(path, inner)


# --- telling ------------------------------------------------------------------------------------------------------------


def headline(found: Sequence[Rescored], assumed: Assumption) -> str:
    told = [one for one in found if one.passed is not None]
    old, new = sum(one.record.result.passed for one in found), sum(bool(one.passed) for one in found)
    unknown = len(found) - len(told)
    line = f"{LABEL}: {new} of {len(told)} would have passed, {old} of {len(found)} did ({assumed.words})"
    return line + (f"; {unknown} cannot be told" if unknown else "")


def row(one: Rescored) -> dict[str, Json]:
    record = one.record
    return {
        "label": LABEL,
        "task": record.task_id,
        "repeat": record.repeat,
        "attempt_id": record.attempt_id,
        "passed": record.result.passed,
        "counterfactual_passed": one.passed,
        "reason": record.result.failure_reason,
        "counterfactual_reason": one.reason,
        "score": record.score,
        "counterfactual_score": one.score,
        "counterfactual_efficiency": one.efficiency,
        "why": one.why,
    }
