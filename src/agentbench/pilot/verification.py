"""Verify a pilot: recompute its registrations, plan, order of attempts, decisions, removals and verdicts.

Needs the folder of the pilot only. Each registration is verified with the copy of the files that it froze, and each decision
with the records that it was based on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from agentbench.core.canonical import sha256_hex
from agentbench.core.errors import AgentBenchError
from agentbench.pilot.config import PilotFile, read_pilot
from agentbench.pilot.cost_model import inputs_json, project_costs, projection_text
from agentbench.pilot.criteria import entry_criteria, exit_criteria
from agentbench.pilot.decisions import StageDecision
from agentbench.pilot.flakes import screen_digest
from agentbench.pilot.folder import (
    COST_INPUTS,
    COST_PROJECTION,
    DECISIONS,
    PLAN,
    POWER,
    REGISTRATIONS,
    REMOVALS,
    RUNS,
    json_text,
    read_text,
)
from agentbench.pilot.plan import PlanLine, PlannedTask, make_plan, plan_text
from agentbench.pilot.power import power_json
from agentbench.pilot.registration import Registration
from agentbench.pilot.removals import Removal, claim_evidence
from agentbench.pilot.remove import reference_methods
from agentbench.pilot.state import PilotState, power_of, read_registered_state, registered_files
from agentbench.pilot.stopping import Stop
from agentbench.record.attempt_audit import Recompute
from agentbench.record.audit import Decision as AuditDecision
from agentbench.record.audit import verify_run
from agentbench.record.find_run import run_directories
from agentbench.record.run_directory import RunDirectory
from agentbench.record.schema import AttemptRecord
from agentbench.trace.verify import Kind, Problem

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
CLOCK_STEP_SEC = 1.0
"""Times of attempts have milliseconds, and a clock may be corrected by a little."""


@dataclass(slots=True)
class PilotVerification:
    """The result. Start with the first of the `problems`."""

    path: Path
    problems: list[Problem] = field(default_factory=list)
    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("registrations", "attempts", "decisions", "removals", "verdicts"), 0)
    )

    @property
    def ok(self) -> bool:
        return not self.problems

    @property
    def decision(self) -> AuditDecision:
        if self.ok:
            return "verified"
        return "incomplete" if all(problem.kind == "unclosed" for problem in self.problems) else "altered"

    def add(self, kind: Kind, place: str, message: str) -> None:
        self.problems.append(Problem(kind, place, message))


def verify_pilot(folder: Path, recompute: Recompute) -> PilotVerification:
    """Verify everything that a pilot has recorded."""
    result = PilotVerification(folder)
    try:
        state = read_registered_state(folder)
    except AgentBenchError as error:
        result.add("changed", str(folder), error.message)
        return result
    for registration in state.registrations:
        _check_registration(state, registration, result)
    _check_runs(state, recompute, result)
    try:
        history = [_registered(state, registration) for registration in state.registrations]
    except AgentBenchError as error:
        result.add("changed", REGISTRATIONS, error.message)
        return result
    _check_attempts(state, history, result)
    _check_order(state, history, result)
    _check_decisions(state, history, result)
    _check_removals(state, result)
    return result


# --- registrations and plan -------------------------------------------------------------------------------------------


def _registered(state: PilotState, registration: Registration) -> PilotState:
    """Return the state with the configuration and the plan of a registration.

    Raises:
        InputError: its files are missing or were edited.
    """
    pilot, lines = registered_files(state.folder, registration)
    return replace(state, pilot=pilot, lines=lines, registrations=state.registrations[: registration.number])


def _check_registration(state: PilotState, registration: Registration, result: PilotVerification) -> None:
    result.counts["registrations"] += 1
    copy = state.folder / REGISTRATIONS / str(registration.number)
    folders = [copy, state.folder] if registration == state.registration else [copy]
    for folder in folders:
        for name, sha256 in registration.files.items():
            try:
                text = read_text(folder / name)
            except AgentBenchError as error:
                result.add("missing", _place(state, folder / name), error.message)
                continue
            if sha256_hex(text.encode()) != sha256:
                result.add("changed", _place(state, folder / name), "differs from the registration")
    if result.ok:
        _check_plan(state, registration, copy, result)


def _check_plan(state: PilotState, registration: Registration, copy: Path, result: PilotVerification) -> None:
    """Compute plan, power analysis and cost projection again."""
    pilot = read_pilot(copy)
    tasks = [PlannedTask(task.task_id, task.stratum) for task in registration.tasks]
    for name, text in _computed_files(pilot, tasks):
        if read_text(copy / name) != text:
            result.add(
                "changed", _place(state, copy / name), "does not follow from pilot.yaml and the registered tasks"
            )


def _computed_files(pilot: PilotFile, tasks: Sequence[PlannedTask]) -> Iterator[tuple[str, str]]:
    lines = make_plan(tasks, pilot.names, pilot.stages, pilot.seed)
    projection = project_costs(pilot, lines)
    power = power_of(pilot.power, len(tasks), pilot.stages.full.repeats, pilot.seed)
    yield PLAN, plan_text(lines)
    yield POWER, json_text(power_json(power))
    yield COST_INPUTS, json_text(inputs_json(projection))
    yield COST_PROJECTION, projection_text(projection)


# --- attempts ---------------------------------------------------------------------------------------------------------


def _check_runs(state: PilotState, recompute: Recompute, result: PilotVerification) -> None:
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


def _check_attempts(state: PilotState, history: Sequence[PilotState], result: PilotVerification) -> None:
    """Compare each attempt with the plan and the identities of a registration."""
    first = _seconds(state.registrations[0].frozen_at)
    tasks = {(task.task_id, task.contract_id, task.task_digest) for item in state.registrations for task in item.tasks}
    versions = {item.harness_version for item in state.registrations}
    for name, records in state.records.by_run.items():
        stage = _stage_of(state, name)
        planned = {line.key for then in history for line in then.lines if line.stage == stage}
        for record in records:
            place = f"{RUNS}/{name}: attempt {record.attempt_id}"
            if record.key not in planned:
                result.add(
                    "appended",
                    place,
                    f"{record.variant} at {record.task_id}, repeat {record.repeat} is not planned in stage {stage}",
                )
            if (record.task_id, record.contract_id, record.task_digest) not in tasks:
                result.add("inconsistent", place, f"task {record.task_id} is not the registered one")
            if record.harness_version not in versions:
                result.add("inconsistent", place, f"harness {record.harness_version} is not the registered one")
            if _began(record) < first - CLOCK_STEP_SEC:
                result.add("inconsistent", place, "the attempt began before the pilot was frozen")


def _check_order(state: PilotState, history: Sequence[PilotState], result: PilotVerification) -> None:
    """Check that attempts began in the order of the plan that was registered then."""
    began: dict[tuple[str, str, int], float] = {}
    for record in state.records.all():
        began[record.key] = min(_began(record), began.get(record.key, float("inf")))
    overtaking: dict[str, int] = {}
    for decision in state.decisions:
        if decision.kind == "opened":
            overtaking[decision.stage] = overtaking.get(decision.stage, 0) + decision.workers - 1
    frozen = [_seconds(item.frozen_at) for item in state.registrations]
    for number, then in enumerate(history):
        until = frozen[number + 1] if number + 1 < len(frozen) else float("inf")
        lines = {line.key: line for line in then.lines}
        since = frozen[number] if number else float("-inf")
        # Attempts that began in the same millisecond are in the order of the plan.
        starts = sorted(
            (key for key, at in began.items() if since <= at < until and key in lines),
            key=lambda key: (began[key], lines[key].order),
        )
        message = _first_overtaken([lines[key] for key in starts], overtaking)
        if message:
            result.add("reordered", PLAN, message)


def _first_overtaken(started: Sequence[PlanLine], overtaking: Mapping[str, int]) -> str:
    """Name the first attempt that began too late. Workers of one stage may overtake each other by their number."""
    for index, line in enumerate(started):
        before = sum(other.order > line.order for other in started[:index])
        if before > overtaking.get(line.stage, 0):
            place = f"{line.method} at {line.task_id}, repeat {line.repeat}"
            return f"{place} began after {before} attempts that the plan has later"
    return ""


def _stage_of(state: PilotState, run: str) -> str:
    return next(decision.stage for decision in state.decisions if run in decision.runs.values())


# --- decisions --------------------------------------------------------------------------------------------------------


def _check_decisions(state: PilotState, history: Sequence[PilotState], result: PilotVerification) -> None:
    """Decide again at every decision, from the records that it was based on."""
    completed: set[str] = set()
    entered: set[str] = set()
    by_registration = {then.registration.registration_id: then for then in history}
    for number, decision in enumerate(state.decisions, start=1):
        result.counts["decisions"] += 1
        place = f"{DECISIONS}:{number}"
        then = by_registration.get(decision.registration_id)
        if then is None:
            result.add("inconsistent", place, f"unknown registration {decision.registration_id}")
            continue
        try:
            message = _decision_problem(then, decision, frozenset(completed), frozenset(entered))
        except AgentBenchError as error:
            message = error.message
        if message:
            result.add("inconsistent", place, message)
        if decision.kind == "entry" and decision.met:
            entered.add(decision.stage)
        if decision.kind == "exit" and decision.met:
            completed.add(decision.stage)
    _check_stop_kept(state, result)


def _decision_problem(
    then: PilotState, decision: StageDecision, completed: frozenset[str], entered: frozenset[str]
) -> str:
    """Return how a decision differs from the one that its evidence gives; empty if it does not."""
    unknown = frozenset(decision.removed) - then.removed
    if unknown:
        return f"{', '.join(sorted(unknown))} was removed according to this decision, but {REMOVALS} does not say so"
    if decision.kind == "opened":
        return "" if decision.stage in entered else f"stage {decision.stage} started without meeting its entry criteria"
    if decision.kind == "stop":
        return _stop_problem(then, decision)
    return _criteria_problem(then, decision, completed)


def _stop_problem(then: PilotState, decision: StageDecision) -> str:
    stop = _held(then, decision)
    if stop is None:
        return "no stopping rule held"
    same = (stop.rule, stop.evidence) == (decision.rule, decision.evidence)
    return "" if same else f"rule {stop.rule} held, with other evidence"


def _criteria_problem(then: PilotState, decision: StageDecision, completed: frozenset[str]) -> str:
    facts = then.facts(seen=decision.seen, removed=frozenset(decision.removed), completed=completed)
    if decision.kind == "exit" and (held := _held(then, decision)) is not None:
        return f"rule {held.rule} held, but the pilot was not stopped"
    if decision.screen is not None and decision.screen != screen_digest(then.folder):
        # The screen of a refused entry may be made again after an amendment.
        return "the flake screen was changed since this decision" if decision.met else ""
    criteria = (entry_criteria if decision.kind == "entry" else exit_criteria)(decision.stage, facts)
    recorded = {criterion.name: criterion.met for criterion in decision.criteria}
    computed = {criterion.name: criterion.met for criterion in criteria}
    if recorded == computed and decision.met == all(computed.values()):
        return ""
    differing = sorted(name for name in recorded.keys() | computed.keys() if recorded.get(name) != computed.get(name))
    what = ", ".join(differing) or "the decision"
    return f"{decision.kind} of stage {decision.stage}: {what} differs when computed again"


def _held(then: PilotState, decision: StageDecision) -> Stop | None:
    """Return the stopping rule that held at a decision."""
    states = then.rules(decision.stage, seen=decision.seen, removed=frozenset(decision.removed))
    return next((rule.stop for rule in states if rule.stop is not None), None)


def _check_stop_kept(state: PilotState, result: PilotVerification) -> None:
    """Check that no attempt began after a stop, unless an amendment lifted it."""
    for stop in (decision for decision in state.decisions if decision.kind == "stop"):
        lifted = next(
            (_seconds(item.frozen_at) for item in state.registrations if _seconds(item.frozen_at) > _seconds(stop.at)),
            float("inf"),
        )
        for record in state.records.all():
            if _seconds(stop.at) + CLOCK_STEP_SEC < _began(record) < lifted:
                result.add("inconsistent", DECISIONS, f"attempt {record.attempt_id} began after the pilot was stopped")


def _check_removals(state: PilotState, result: PilotVerification) -> None:
    for number, removal in enumerate(state.removals, start=1):
        result.counts["removals"] += 1
        try:
            supported = _is_supported(state, removal)
        except AgentBenchError as error:
            result.add("inconsistent", f"{REMOVALS}:{number}", error.message)
            continue
        if not supported:
            message = f"no record that the removal was based on shows that task {removal.task_id} is invalid ({removal.cause})"
            result.add("inconsistent", f"{REMOVALS}:{number}", message)


def _is_supported(state: PilotState, removal: Removal) -> bool:
    attempts = state.records.until(removal.seen).observations()
    evidence = claim_evidence(removal.task_id, removal.cause, state.screen, attempts, reference_methods(state))
    return evidence is not None


# --- times ------------------------------------------------------------------------------------------------------------


def _began(record: AttemptRecord) -> float:
    """Return when an attempt began, in seconds, from its id."""
    number = 0
    for character in record.attempt_id[:10]:
        number = number * 32 + _CROCKFORD.index(character)
    return number / 1000


def _seconds(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()


def _place(state: PilotState, path: Path) -> str:
    return str(path.relative_to(state.folder))


def counts_text(counts: Mapping[str, int]) -> str:
    """Describe what was recomputed."""
    return ", ".join(f"{number} {name[:-1] if number == 1 else name}" for name, number in counts.items())
