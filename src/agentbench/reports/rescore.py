"""Counterfactual results of a run under other weights or caps, computed from its manifests and traces alone.

Other weights change scores, never verdicts. A tighter cap would have stopped an attempt when it was used up: if the
repository was already in its final state, the patch is the same and so is its grading; if it was still unchanged, the
attempt fails. In between, the patch was never graded, so the result is unknown. So is the effect of a looser cap on an
attempt that the cap stopped.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from agentbench.contract.problem import Problem, did_you_mean, in_order
from agentbench.contract.yaml_document import Document, read_document
from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import ContractError, InputError, RecordError
from agentbench.core.problems import Problems
from agentbench.core.reasons import InvalidCause, Reason, RunStatus, TerminationCode
from agentbench.record.attempt_folder import EVENTS, MANIFEST
from agentbench.record.manifest import read_manifest
from agentbench.record.recompute import terms_from
from agentbench.record.schema import AttemptRecord
from agentbench.reports.counterfactual import Stop, effect_of, stopped_log
from agentbench.reports.number_format import plural
from agentbench.reports.provenance import evidence
from agentbench.reports.sources import Run
from agentbench.statistics.trials import Rate, Trial
from agentbench.trace.chain import Event
from agentbench.trace.log import read_events
from agentbench.verdict.decide import Verdict, decide
from agentbench.verdict.facts import collect_facts
from agentbench.verdict.gates import violations
from agentbench.verdict.termination_effects import reason_of
from agentbench.verdict.terms import Caps, Terms, Weights

LABEL = "COUNTERFACTUAL"
WEIGHT_NAMES = ("minimal", "trace", "maintainability")
MAX_CAP = 1e15
"""Larger caps are refused. The largest numbers overflow when they are converted to millionths."""
CAP_NAMES = ("active_sec", "tool_calls", "tokens", "usd")


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
    run_status: RunStatus | None = None
    termination: TerminationCode | None = None
    invalid_cause: InvalidCause | None = None

    @property
    def recorded_value(self) -> int | None:
        """The recorded result in the contract rate; None if the attempt is outside of it."""
        record = self.record
        return _value(record, record.run_status, record.invalid_cause, passed=record.result.passed)

    @property
    def value(self) -> int | None:
        """The counterfactual result in the contract rate; None if it is unknown or outside of it."""
        if self.passed is None or self.run_status is None:
            return None
        return _value(self.record, self.run_status, self.invalid_cause, passed=self.passed)

    @property
    def changed(self) -> bool:
        return self.passed is not self.record.result.passed or self.score != self.record.score


def _value(record: AttemptRecord, status: RunStatus, cause: InvalidCause | None, *, passed: bool) -> int | None:
    return Trial(record.task_id, record.repeat, status, passed, cause).value(Rate.CONTRACT)


def read_assumption(weights: Path | None, caps: Path | None) -> Assumption:
    """
    Raises:
        InputError: neither file is given, or one is invalid.
    """
    if weights is None and caps is None:
        raise InputError("give --weights FILE or --caps FILE")
    problems = Problems()
    assumption = Assumption(
        weights=problems.collect(partial(_weights, weights)) if weights else None,
        caps=problems.collect(partial(_caps, caps)) if caps else None,
    )
    problems.raise_all("")
    return assumption


def rescore(run: Run, assumption: Assumption) -> tuple[Rescored, ...]:
    """Rescore every attempt of a run under the assumption.

    Raises:
        InputError: the run was imported, or a manifest or a trace is missing or cannot be read.
    """
    if run.imported:
        msg = f"{run.path} was imported from {run.imported}: it has no manifests and traces to rescore"
        raise InputError(msg)
    return tuple(_attempt(record, run.path, assumption) for record in run.finals)


def _attempt(record: AttemptRecord, folder: Path, assumption: Assumption) -> Rescored:
    task_dir = record.artifact_paths.task_dir
    manifest, log = evidence(folder, f"{task_dir}/{MANIFEST}"), evidence(folder, f"{task_dir}/{EVENTS}")
    if manifest is None or log is None:
        raise InputError(f"the folder of attempt {record.attempt_id} is outside the run directory")
    try:
        planned = read_manifest(manifest).protocol_manifest.planned
        terms = terms_from(planned)
        events = list(read_events(log))
    except RecordError as error:
        msg = f"cannot rescore {record.task_id}, repeat {record.repeat}: {error.message}"
        raise InputError(msg, remedy="rescoring needs the manifest and the trace of every attempt") from error
    if assumption.weights:
        terms = replace(terms, rubric=replace(terms.rubric, weights=assumption.weights))
    if not assumption.caps:
        return _result(record, decide(collect_facts(events), terms))
    terms = replace(terms, caps=_merged(terms.caps, assumption.caps))
    try:
        effect = effect_of(events, planned, assumption.caps, record.cost.unit, record.usage.wall_sec)
    except ValueError as error:
        raise InputError(f"cannot rescore {record.task_id}, repeat {record.repeat}: {error}") from error
    if effect.unknown:
        return _unknown(record, effect.unknown)
    if effect.stop is None:
        return _result(record, decide(collect_facts(events), terms))
    return _stopped(record, events, terms, effect.stop)


def _stopped(record: AttemptRecord, events: Sequence[Event], terms: Terms, stop: Stop) -> Rescored:
    """Rescore an attempt that the assumed caps stop."""
    why = f"stopped as {stop.code}: {stop.why}"
    if stop.in_call and not (stop.same_patch and stop.code is TerminationCode.WALL_CAP):
        return _unknown(record, f"{why}; the reaction of the running command is unknown")
    if not stop.same_patch and not stop.unchanged:
        return _unknown(record, f"{why}; the patch at that point was not graded")
    verdict = decide(collect_facts(stopped_log(events, stop)), terms)
    if stop.same_patch:
        return _result(record, verdict, f"{why}, after the last change")
    # An empty patch fails: the baseline was checked before the agent phase.
    unsafe = violations(collect_facts(events[: stop.position]))
    reason = Reason.POLICY_VIOLATION if unsafe else reason_of(stop.code)
    failed = _result(record, verdict, f"{why}, before the first change")
    return replace(failed, passed=False, run_status=RunStatus.FAILURE, invalid_cause=None, reason=reason, score=None)


def _result(record: AttemptRecord, verdict: Verdict, why: str = "") -> Rescored:
    return Rescored(
        record,
        verdict.passed,
        verdict.reason,
        verdict.score.value if verdict.score else None,
        verdict.components.efficiency,
        why,
        verdict.run_status,
        None if verdict.termination is None else verdict.termination.payload.code,
        verdict.invalid_cause,
    )


def _unknown(record: AttemptRecord, why: str) -> Rescored:
    return Rescored(record, None, None, None, None, why)


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


def _numbers(
    document: Document, section: str, known: Sequence[str], most: float = math.inf
) -> tuple[dict[str, float], list[Problem]]:
    """Read the numbers of a file: those below the key `section`, or if there is none, all of them."""
    place = (section,) if section in document.value else ()
    given, problems = document.at(place), list(document.problems)
    if not isinstance(given, dict):
        return {}, [*problems, document.problem(place, "expected a mapping")]
    numbers = {}
    for name, value in given.items():
        if name not in known:
            message = f"unknown key{did_you_mean(name, known)}; expected some of {', '.join(known)}"
            problems.append(document.problem((*place, name), message))
        elif isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            message = f"expected a number from 0; got {json.dumps(value)}"
            problems.append(document.problem((*place, name), message))
        elif value > most:
            problems.append(document.problem((*place, name), f"expected at most {most:g}; got {value:g}"))
        else:
            numbers[name] = float(value)
    return numbers, problems


def _weights(path: Path) -> Weights:
    document = read_document(path)
    numbers, problems = _numbers(document, "weights", WEIGHT_NAMES)
    try:
        if not problems:
            return Weights.of(numbers)
    except InputError as error:
        problems.append(document.problem((), error.message))
    raise _invalid(path, problems, "{minimal: 0.5, trace: 0.2, maintainability: 0.3}")


def _caps(path: Path) -> dict[str, float]:
    document = read_document(path)
    numbers, problems = _numbers(document, "caps", CAP_NAMES, MAX_CAP)
    if not numbers and not problems:
        problems.append(document.problem((), f"expected some of {', '.join(CAP_NAMES)}"))
    if problems:
        raise _invalid(path, problems, "{active_sec: 120, tool_calls: 40}")
    return numbers


def _invalid(path: Path, problems: Sequence[Problem], example: str) -> ContractError:
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    return ContractError(f"{path}: {count}", problems=tuple(map(str, in_order(problems))), remedy=f"example: {example}")


# --- output -----------------------------------------------------------------------------------------------------------


def headline(attempts: Sequence[Rescored], assumption: Assumption) -> str:
    """Return the first line: how many attempts would have passed and did, of those in the contract rate."""
    new = [value for attempt in attempts if (value := attempt.value) is not None]
    old = [value for attempt in attempts if (value := attempt.recorded_value) is not None]
    unknown = sum(attempt.passed is None for attempt in attempts)
    outside = len(attempts) - unknown - len(new)
    line = f"{LABEL}: {sum(new)} of {len(new)} would have passed, {sum(old)} of {len(old)} did ({assumption.text})"
    line += f"; {unknown} unknown" if unknown else ""
    return line + (f"; {plural(outside, 'invalid attempt')} not counted" if outside else "")


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
        "run_status": record.run_status,
        "counterfactual_run_status": attempt.run_status,
        "termination": record.termination.code,
        "counterfactual_termination": attempt.termination,
        "efficiency": record.components.efficiency,
        "counterfactual_efficiency": attempt.efficiency,
        "why": attempt.why,
    }
