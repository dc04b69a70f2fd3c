"""Recompute the decision of a stopping rule from the records, and compare it with the one in the run's log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from agentbench.core.errors import AgentBenchError, InputError
from agentbench.record.attempt_folder import EVENTS
from agentbench.record.audit import RunReport
from agentbench.record.naming import ATTEMPTS, RUN_JSON
from agentbench.record.run_directory import RunDirectory, study_runs
from agentbench.record.schema import AttemptRecord
from agentbench.reports.sequential_text import describe_decision
from agentbench.reports.stopping import DeclaredRule, declared_rule, trials_of_records
from agentbench.statistics.sequential.rules import SequentialDecision
from agentbench.trace.verify import Problem


def audit_stopping(path: Path, report: RunReport) -> RunReport:
    """Add to the audit of a run what its stopping rule decides from the records of both methods."""
    try:
        run = RunDirectory.open(path)
        declared = declared_rule(run.meta)
    except AgentBenchError as error:
        return _with_problem(report, RUN_JSON, error.message)
    if declared is None:
        logged = "a stopping rule has decided, but run.json declares none"
        return report if report.decided is None else _with_problem(report, EVENTS, logged)
    try:
        records = _records(run, declared)
    except AgentBenchError as error:
        return replace(report, skipped=(*report.skipped, f"stopping decision: {error.message}"))
    decision = declared.decide(trials_of_records(records))
    problem = _compare(report, declared, decision, [record.key for record in records])
    if problem is not None:
        return _with_problem(report, *problem)
    words = "the first look is not complete" if decision is None else describe_decision(decision, *declared.methods)
    return replace(report, notes=(*report.notes, f"stopping rule recomputed: {words}"))


def _records(run: RunDirectory, declared: DeclaredRule) -> list[AttemptRecord]:
    """Read the final records of both methods.

    Raises:
        InputError: the run of the other method is missing.
        RecordError: a record cannot be read.
    """
    members = {str(member.meta.get("variant")): member for member in study_runs(run)}
    missing = [method for method in declared.methods if method not in members]
    if missing:
        raise InputError(f"the run of {missing[0]} is not in the same folder")
    return [record for method in declared.methods for record in members[method].finals()]


def _compare(
    report: RunReport, declared: DeclaredRule, decision: SequentialDecision | None, attempts: list[tuple[str, str, int]]
) -> tuple[str, str] | None:
    """Return the place and the description of the first contradiction between log, records and rule."""
    logged = report.decided
    stops = decision is not None and decision.outcome.stops
    recomputed = "no complete look"
    if decision is not None:
        recomputed = _words(decision.outcome, declared.better(decision), decision.look)
    if logged is not None:
        recorded = _words(logged.outcome, logged.better, logged.look)
        if not stops or recorded != recomputed or decision is None or decision.blocks != logged.blocks:
            return EVENTS, f"the stopping rule is logged as {recorded}, the records give {recomputed}"
    if stops and decision is not None:
        needed = set(declared.order[: decision.blocks])
        later = [key for key in attempts if (key[0], key[2]) not in needed]
        if later:
            task, method, repeat = later[0]
            return ATTEMPTS, (
                f"{task}, {method}, repeat {repeat} was attempted although the stopping rule had decided"
                f" ({recomputed}); {len(later)} such attempts"
            )
    return None


def _words(outcome: str, better: str | None, look: int) -> str:
    return f"{outcome}{f' ({better})' if better else ''} at look {look}"


def _with_problem(report: RunReport, place: str, message: str) -> RunReport:
    return replace(report, problems=(*report.problems, Problem("inconsistent", place, message)))
