"""Failure tags: labels that carry their evidence. A tag can only be built from events of the kinds its definition lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field

from agentbench.core.dataclass import dataclass
from agentbench.core.reasons import Gate, Outcome, RunStatus
from agentbench.trace.events import AcceptanceCheck, IntegrityFinding, MonitorAlert, Payload, ScorerResult
from agentbench.verdict.facts import Facts, Logged
from agentbench.verdict.gates import Gates, mandatory_decisions, noted, penalties, unstartable_checks, violations
from agentbench.verdict.taxonomy import ANY_EVENT, kind_of_rule, taxonomy
from agentbench.verdict.termination_effects import RESOURCE_STOPS
from agentbench.verdict.terms import Terms


@dataclass(frozen=True, slots=True)
class Tag:
    """One label. Construction fails for an unknown id, a gate it cannot explain, and missing or wrong evidence."""

    id: str
    gate: Gate
    events: tuple[Logged[Payload], ...] = field(repr=False)
    attributes: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kind = taxonomy().get(self.id)
        if kind is None:
            raise ValueError(f"no tag {self.id!r} in the taxonomy")
        if self.gate not in kind.gates:
            raise ValueError(f"tag {self.id} cannot explain {self.gate}")
        if len(self.evidence) < max(1, kind.minimum):
            raise ValueError(f"tag {self.id} needs {kind.minimum} events as evidence, got {len(self.evidence)}")
        wrong = {event.payload.type for event in self.events} - set(kind.evidence)
        if wrong and ANY_EVENT not in kind.evidence:
            raise ValueError(f"tag {self.id} does not accept as evidence {', '.join(sorted(wrong))}")
        unknown = set(self.attributes) - set(kind.attributes)
        if unknown:
            raise ValueError(f"tag {self.id} has no attribute {', '.join(sorted(unknown))}")

    @property
    def evidence(self) -> tuple[int, ...]:
        """Sequence numbers in the attempt's log."""
        return tuple(sorted({event.seq for event in self.events}))


def assign_tags(facts: Facts, terms: Terms, gates: Gates, status: RunStatus) -> tuple[Tag, ...]:
    """Assign the tags of an attempt, in gate order."""
    tags = [
        *_undecided_tags(facts, terms, gates),
        *_patch_tags(facts, terms, gates),
        *_step_tags(facts),
        *_check_tags(facts, terms),
        *_rule_tags(facts, terms),
        *_termination_tags(facts, status),
        *_overrun_tags(facts),
        *_disagreement_tags(facts),
    ]
    unique: dict[tuple[str, Gate, tuple[int, ...]], Tag] = {}
    for tag in tags:
        unique.setdefault((tag.id, tag.gate, tag.evidence), tag)
    return tuple(unique.values())


def _undecided_tags(facts: Facts, terms: Terms, gates: Gates) -> Iterator[Tag]:
    """Yield one `evaluation_error` per undecided gate. It does not say whether the agent caused it."""
    evidence: dict[Gate, Iterable[Logged[Payload]]] = {
        Gate.G1: [check for check in unstartable_checks(facts, terms) if check.payload.outcome is Outcome.ERROR]
        or (() if facts.application is None else (facts.application,)),
        Gate.G2: [step for step in (*facts.builds, *facts.statics) if step.payload.outcome is Outcome.ERROR],
        Gate.G3: [check for check in mandatory_decisions(facts, terms) if check.payload.outcome is Outcome.ERROR],
        Gate.G4: [finding for finding in facts.findings if finding.payload.severity == "error"],
    }
    # Without an event that shows the error, the tag points to the end of the attempt or of the log.
    end: tuple[Logged[Payload], ...] = facts.terminations or ((facts.last,) if facts.last else ())
    for gate, result in gates.items():
        events = tuple(evidence[gate]) or end
        if result.outcome is Outcome.ERROR and events:
            yield Tag("evaluation_error", gate, events)


def _patch_tags(facts: Facts, terms: Terms, gates: Gates) -> Iterator[Tag]:
    broken = [event for event in unstartable_checks(facts, terms) if event.payload.starts_on_base]
    for event in broken:
        yield Tag("patch.breaks_check", Gate.G1, (event,), {"check": event.payload.check_id})
    if gates[Gate.G1].outcome is Outcome.FAIL and not broken:
        events = tuple(event for event in (facts.patch, facts.application) if event is not None)
        yield Tag("patch.not_applicable", Gate.G1, events)


def _step_tags(facts: Facts) -> Iterator[Tag]:
    for build in facts.builds:
        if build.payload.outcome is Outcome.FAIL:
            yield Tag("build.failed", Gate.G2, (build,), {"step": build.payload.step})
    for static in facts.statics:
        if static.payload.outcome is Outcome.FAIL:
            yield Tag("static.failed", Gate.G2, (static,), {"step": static.payload.step})


def _check_tags(facts: Facts, terms: Terms) -> Iterator[Tag]:
    for event in mandatory_decisions(facts, terms):
        check = event.payload
        # A check that an earlier gate kept from running has no evidence of its own.
        if check.outcome is not Outcome.FAIL or check.not_run is not None:
            continue
        name = {"check": check.check_id}
        layered = f"acceptance.{check.layer}"
        yield Tag(layered if layered in taxonomy() else "acceptance.script", Gate.G3, (event,), name)
        if check.timed_out:
            yield Tag("acceptance.timeout", Gate.G3, (event,), name)
        elif check.f2p_total and check.p2p_kept < check.p2p_total:
            # Without fail-to-pass tests the task does not say which tests passed on the base repository.
            yield Tag("invariant_violation", Gate.G3, (event,), {**name, "lost": str(check.p2p_total - check.p2p_kept)})


def _rule_tags(facts: Facts, terms: Terms) -> Iterator[Tag]:
    """Yield one tag per kind and rule that was violated, with all its events."""
    notes = [event for event in noted(facts) if kind_of_rule(event.payload).notes] if terms.tag_notes else ()
    groups: dict[tuple[str, str, str], list[Logged[MonitorAlert] | Logged[IntegrityFinding]]] = {}
    for event in (*violations(facts), *penalties(facts), *notes):
        payload = event.payload
        text_format: str = payload.format if isinstance(payload, MonitorAlert) else ""
        source = payload.monitor if isinstance(payload, MonitorAlert) else payload.type
        groups.setdefault((source, payload.rule, text_format), []).append(event)
    for (_, rule, text_format), events in groups.items():
        kind = kind_of_rule(events[0].payload)
        severities = [event.payload.severity for event in events]
        worst = max(severities, key=("note", "penalty", "gate", "terminate").index)
        attributes = {"rule": rule, "severity": worst, "format": text_format}
        paths = sorted(
            {
                event.payload.path
                for event in events
                if isinstance(event.payload, IntegrityFinding) and event.payload.path
            }
        )
        if paths:
            attributes["path"] = ", ".join(paths)
        yield Tag(kind.id, Gate.G4, tuple(events), {name: text for name, text in attributes.items() if text})


def _termination_tags(facts: Facts, status: RunStatus) -> Iterator[Tag]:
    for stop in facts.terminations:
        code = {"code": stop.payload.code.value}
        if stop.payload.code in RESOURCE_STOPS:
            yield Tag("resource_termination", Gate.G3, (stop,), code)
        if stop.payload.category is not None:
            kind = taxonomy()[f"termination.{stop.payload.category}"]
            yield Tag(kind.id, kind.gates[0], (stop,), code)
    if facts.overflows and status is not RunStatus.SUCCESS:
        yield Tag("context_overflow", Gate.G3, facts.overflows)


def _overrun_tags(facts: Facts) -> Iterator[Tag]:
    """Yield a tag for a total cost above the cap. It explains the cost, never a verdict."""
    for alert in facts.alerts:
        payload = alert.payload
        if (payload.monitor, payload.rule) == ("budget", "overrun"):
            signals = {name: str(payload.signals.get(name, 0)) for name in ("total", "cap")}
            yield Tag("budget.overrun", Gate.G3, (alert,), signals)


def disagreements(facts: Facts) -> tuple[tuple[Logged[ScorerResult], Logged[AcceptanceCheck]], ...]:
    """Return pairs of scorer and check that decided the same command differently."""
    decided = {"PASS": Outcome.PASS, "FAIL": Outcome.FAIL}
    return tuple(
        (scorer, check)
        for scorer in facts.scorers
        for check in facts.checks
        if scorer.payload.command
        and scorer.payload.command == check.payload.command
        and scorer.payload.verdict in decided
        and check.payload.not_run is None
        and check.payload.outcome is not Outcome.ERROR
        and decided[scorer.payload.verdict] is not check.payload.outcome
    )


def _disagreement_tags(facts: Facts) -> Iterator[Tag]:
    for scorer, check in disagreements(facts):
        yield Tag("oracle.disagreement", Gate.G3, (scorer, check), {"command": check.payload.command})
