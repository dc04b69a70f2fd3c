"""Verify attempts: their run directories, their identities, and the order in which they were launched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agentbench.core.errors import AgentBenchError
from agentbench.core.ids import split_ulid
from agentbench.execution.plan import seeds
from agentbench.pilot.decisions.decision_log import StageDecision
from agentbench.pilot.decisions.launches import Launch, id_problems, read_launches
from agentbench.pilot.folder import (
    DECISIONS,
    RUNS,
)
from agentbench.pilot.pilot_state import PilotState
from agentbench.pilot.verification.registrations import CURRENT_RULES
from agentbench.pilot.verification.result import PilotVerification
from agentbench.record.attempt_audit import Recompute
from agentbench.record.audit import verify_run
from agentbench.record.find_run import run_directories
from agentbench.record.run_directory import RunDirectory
from agentbench.record.schema import AttemptRecord


def check_runs(state: PilotState, recompute: Recompute, result: PilotVerification) -> None:
    """Verify every run directory, and that there is no other."""
    for path in run_directories(state.folder / RUNS):
        if path.name not in state.records.by_run and any(RunDirectory.open(path).records()):
            result.add("appended", f"{RUNS}/{path.name}", "no stage of this pilot made these attempts")
    for name in state.records.by_run:
        report = verify_run(state.folder / RUNS / name, recompute=recompute)
        result.counts["attempts"] += report.attempts
        result.counts["verdicts"] += report.recomputed
        for problem in report.problems:
            result.add(problem.kind, f"{RUNS}/{name}/{problem.place}", problem.message)


def check_attempts(state: PilotState, history: Sequence[PilotState], result: PilotVerification) -> None:
    """Compare each attempt with the plan and the identities of a registration."""
    for name, records in state.records.by_run.items():
        stage = _stage_of(state, name)
        _check_link(state, name, stage, result)
        planned = {line.key for then in history for line in then.lines if line.stage == stage}
        for record in records:
            place = f"{RUNS}/{name}: attempt {record.attempt_id}"
            if record.key not in planned:
                result.add(
                    "appended",
                    place,
                    f"{record.variant} at {record.task_id}, repeat {record.repeat} is not planned in stage {stage}",
                )
            for what in _unregistered(record, history):
                result.add("inconsistent", place, f"{what} is not the registered one")


def _unregistered(record: AttemptRecord, history: Sequence[PilotState]) -> Iterator[str]:
    """Name everything about an attempt that no registration has."""
    registrations = [then.registration for then in history]
    tasks = {(task.task_id, task.contract_id, task.task_digest) for item in registrations for task in item.tasks}
    if (record.task_id, record.contract_id, record.task_digest) not in tasks:
        yield f"task {record.task_id}"
    if record.harness_version not in {item.harness_version for item in registrations}:
        yield f"harness {record.harness_version}"
    if record.cost.method_id not in {item.prices for item in registrations}:
        yield f"price table {record.cost.method_id}"
    if record.seed not in {seeds(then.pilot.seed, record.repeat)[-1] for then in history}:
        yield f"seed {record.seed}"


def _check_link(state: PilotState, run: str, stage: str, result: PilotVerification) -> None:
    """Check that a run directory says which stage of which registration it belongs to."""
    link = RunDirectory.open(state.folder / RUNS / run).meta.get("pilot")
    given = (link.get("stage"), link.get("registration_id")) if isinstance(link, Mapping) else None
    if given not in {(stage, registration.registration_id) for registration in state.registrations}:
        result.add("inconsistent", f"{RUNS}/{run}", f"it does not name stage {stage} and a registration of this pilot")


def check_launches(state: PilotState, history: Sequence[PilotState], result: PilotVerification) -> None:
    """Check that each session launched exactly the lines that waited, in the order of the plan, and none after a stop."""
    if any(then.registration.schema_version < CURRENT_RULES for then in history):
        result.note("order of attempts not checked: an earlier version registered the pilot")
        return
    try:
        launches = read_launches(state.folder / RUNS, state.records.by_run)
    except AgentBenchError as error:
        result.add("inconsistent", RUNS, error.message)
        return
    by_registration = {then.registration.registration_id: then for then in history}
    for number, decision in enumerate(state.decisions):
        then = by_registration.get(decision.registration_id)
        following = next((later for later in state.decisions[number + 1 :] if later.kind == "opened"), None)
        end = len(launches) if following is None else following.launched
        if decision.launched > len(launches):
            result.add("missing", RUNS, f"{decision.launched} attempts were launched, but {len(launches)} are recorded")
        elif decision.kind == "opened" and then is not None:
            _check_session(then, decision, launches[: decision.launched], launches[decision.launched : end], result)
        elif decision.kind == "stop":
            for launch in launches[decision.launched : end]:
                result.add("inconsistent", f"attempt {launch.attempt_id}", "it began after the pilot was stopped")
            if following is not None and following.registration_id == decision.registration_id:
                result.add("inconsistent", DECISIONS, f"stage {following.stage} started after the pilot was stopped")


def _check_session(
    then: PilotState,
    opened: StageDecision,
    earlier: Sequence[Launch],
    session: Sequence[Launch],
    result: PilotVerification,
) -> None:
    registration = then.registration
    lines = [line for line in then.lines if line.stage == opened.stage and line.task_id not in opened.removed]
    for launch, message in id_problems(registration.registration_id, lines, earlier, session):
        result.add("reordered", f"attempt {launch.attempt_id}", message)
    for launch in session:
        if split_ulid(launch.attempt_id)[0] <= registration.frozen_ms:
            result.add("inconsistent", f"attempt {launch.attempt_id}", "it began before the pilot was frozen")


def _stage_of(state: PilotState, run: str) -> str:
    return next(decision.stage for decision in state.decisions if run in decision.runs.values())
