"""Recomputes verdicts from a run directory: terms from the manifest, facts from the trace, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace

from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.core.reasons import RunStatus
from agentbench.policy.after_stop import acts_after_stop
from agentbench.policy.budget import Budget
from agentbench.policy.limits import Limits
from agentbench.policy.monitor_rules import ContractRules, RuleSet, published_rules
from agentbench.policy.monitors import MONITORS, PolicyMonitor
from agentbench.policy.recheck import recheck
from agentbench.policy.rule_engine import ENGINE_MONITORS
from agentbench.policy.stages import recheck_stages
from agentbench.policy.thresholds import Thresholds
from agentbench.record.cost import cost_differences, rates_from
from agentbench.record.manifest import GuardPlan, Manifest, Planned
from agentbench.record.schema import AttemptRecord
from agentbench.trace.chain import Event
from agentbench.trace.events import ProcessStarted, ToolCallFinished
from agentbench.verdict.decide import Verdict, decide
from agentbench.verdict.facts import collect_facts
from agentbench.verdict.terms import Caps, CheckTerm, Terms, Weights, published_rubric


def terms_from(planned: Planned) -> Terms:
    """Return the terms an attempt was graded with, from its manifest."""
    plan = planned.grading
    rubric = published_rubric()
    if plan.weights is not None:
        rubric = replace(rubric, weights=Weights.of(plan.weights))
    return Terms(
        checks=tuple(
            CheckTerm(id=check.id, mandatory=check.mandatory, layer=check.layer) for check in planned.acceptance
        ),
        build=planned.entrypoints.build != "none",
        statics=len(planned.entrypoints.static),
        lambda_=plan.penalty_lambda,
        envelope_files=plan.envelope_files,
        envelope_lines=plan.envelope_lines,
        judged_only=planned.repository.kind == "none",
        caps=Caps(plan.cap_active_sec, plan.cap_tool_calls, plan.cap_tokens, plan.cap_usd),
        execution=rates_from(planned).execution,
        rubric=rubric,
        needs_briefing=plan.needs_briefing,
        tag_notes=plan.tag_notes,
    )


def limits_from(plan: GuardPlan) -> Limits:
    """Return the limits of the rule engine, from a manifest.

    Raises:
        ValueError: the thresholds are invalid.
    """
    budget = Budget(**{field.name: getattr(plan, field.name) for field in fields(Budget)})
    return Limits(
        budget,
        plan.wall_us,
        Thresholds.of(plan.thresholds),
        plan.max_installs,
        frozenset(plan.not_applicable),
        plan.stops_enforced,
    )


@dataclass(frozen=True, slots=True)
class StoredEvidence:
    """Evidence besides the log that decisions may need: the text of a blob, and rules by digest."""

    blob: Callable[[str], str | None] = lambda _name: None
    rules: Callable[[str], RuleSet | None] = lambda _name: None
    missing: str = ""
    """Why the text that breakers and monitors saw is missing; empty if it is there."""


@dataclass(frozen=True, slots=True)
class Recomputed:
    """Differences between recorded and recomputed decisions, and what could not be recomputed."""

    differences: tuple[str, ...] = ()
    skipped: str = ""


def recompute_rules(events: Iterable[Event], plan: GuardPlan, stored: StoredEvidence | None = None) -> Recomputed:
    """Recompute the decisions of breakers and monitors, with the rules that the run was made with."""
    events, stored = list(events), stored or StoredEvidence()
    acts = tuple(acts_after_stop(events)) if plan.stops_enforced else ()
    if plan.stage_mode == "strict":
        acts += tuple(recheck_stages(events, plan.stages))
    contract = ContractRules(**{field.name: getattr(plan, field.name) for field in fields(ContractRules)})
    try:
        limits = limits_from(plan)
    except ValueError as error:
        return Recomputed((*acts, str(error)))
    current = published_rules()
    rules = current if plan.monitors == current.digest else stored.rules(plan.monitors)
    if stored.missing:
        return Recomputed(acts, f"decisions of breakers and monitors: {stored.missing}")
    if rules is None:
        why = f"made with other rules ({plan.monitors[:19]}…, this version has {current.digest[:19]}…) that the run does not store"
        return Recomputed(acts, f"decisions of breakers and monitors: {why}")
    decisions = recheck(events, limits, PolicyMonitor(contract, rules, blobs=stored.blob), ENGINE_MONITORS | MONITORS)
    return Recomputed((*acts, *decisions))


_PASSED_UNGRADED: Sequence[tuple[str, Json]] = (
    ("gates.G1.outcome", "pass"),
    ("gates.G1.passed", True),
    ("components.validity", 0.5),
    ("components.validity", 1),
)
"""Decisions of earlier versions about an empty patch of an attempt that ended before grading."""


def recompute(
    events: Iterable[Event], manifest: Manifest, record: AttemptRecord, stored: StoredEvidence | None = None
) -> Recomputed:
    """Recompute every decision from the events."""
    planned = manifest.protocol_manifest.planned
    all_events = list(events)
    facts = collect_facts(all_events)
    verdict = decide(facts, terms_from(planned))
    recorded = record.model_dump(mode="json")
    ungraded = verdict.run_status is RunStatus.INVALID and facts.patch is not None and not facts.patch.payload.bytes
    decisions = (
        recompute_rules(all_events, planned.guard, stored)
        if planned.guard
        else Recomputed(skipped="decisions of breakers and monitors: made by a version without them")
    )
    verdicts = tuple(
        f"{name} is {_shown(_at(recorded, name))} in the record, recomputed as {_shown(value)}"
        for name, value in _decided(verdict).items()
        if _at(recorded, name) != value and not (ungraded and (name, _at(recorded, name)) in _PASSED_UNGRADED)
    )
    costs = cost_differences(all_events, planned, record.cost)
    processes = (*process_differences(all_events), *observation_differences(all_events, manifest, record))
    return Recomputed(decisions.differences + processes + verdicts + costs, decisions.skipped)


def observation_differences(events: Iterable[Event], manifest: Manifest, record: AttemptRecord) -> Iterator[str]:
    """Yield a difference if the record claims more about the commands of a program than the manifest allows.

    Without a finished program there is nothing to observe, and `commands` is null.
    """
    observed = manifest.protocol_manifest.observed
    if observed is None or observed.program_commands != "not_observed":
        return
    ran = any(isinstance(event.payload, ToolCallFinished) and event.payload.by_harness for event in events)
    if record.commands == "observed" or (ran and record.commands is None):
        yield f"commands is {_shown(record.commands)} in the record, but the manifest says that they cannot be observed"


def process_differences(events: Iterable[Event]) -> Iterator[str]:
    """Yield the calls whose number of started processes differs from the processes in the log."""
    logged: dict[str, list[int]] = {}
    for event in events:
        match event.payload:
            case ProcessStarted(call_id=call, number=number):
                logged.setdefault(call, []).append(number)
            case ToolCallFinished(call_id=call, processes=counts) if counts is not None:
                numbers = logged.get(call, [])
                if not len(set(numbers)) == len(numbers) == counts.started - counts.dropped:
                    yield f"call {call} recorded {counts.started - counts.dropped} processes, but the log has {len(numbers)}"


def _decided(verdict: Verdict) -> dict[str, Json]:
    """Return the decisions of a verdict by their path in the record."""
    progress, ending = verdict.progress, verdict.termination
    decided: dict[str, Json] = {
        "result.passed": verdict.passed,
        "result.failure_reason": verdict.reason,
        "run_status": verdict.run_status,
        "invalid_cause": verdict.invalid_cause,
        "attribution": verdict.attribution,
        "run_badge": verdict.run_badge,
        "needs_review": verdict.needs_review,
        "commands": verdict.commands.status if verdict.commands else None,
        "score": verdict.score.value if verdict.score else None,
        **{f"components.{name}": value for name, value in asdict(verdict.components).items()},
        "progress.f2p_passed": progress.f2p_passed,
        "progress.f2p_total": progress.f2p_total,
        "progress.p2p_kept": progress.p2p_kept,
        "progress.p2p_total": progress.p2p_total,
        "workspace_verdict": verdict.workspace.verdict,
        "mean_score": verdict.workspace.mean_score,
        "tags": [
            {"id": tag.id, "gate": tag.gate, "evidence": list(tag.evidence), "attributes": dict(tag.attributes)}
            for tag in verdict.tags
        ],
    }
    for gate, result in verdict.gates.items():
        decided[f"gates.{gate}.outcome"] = result.outcome
        decided[f"gates.{gate}.passed"] = result.passed
    if ending is not None:
        decided["termination.code"] = ending.payload.code
        decided["termination.category"] = ending.payload.category
    return decided


def _at(record: Mapping[str, Json], name: str) -> Json:
    value: Json = record
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _shown(value: Json) -> str:
    return "null" if value is None else str(value)
