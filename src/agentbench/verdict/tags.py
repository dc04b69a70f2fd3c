"""Failure tags: labels with proof. A tag can only be made from events, and only from events of the right kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from agentbench.core.reasons import Gate, Outcome, RunStatus
from agentbench.trace.events import AcceptanceCheck, IntegrityFinding, MonitorAlert, Payload, ScorerResult
from agentbench.verdict.facts import Facts, Seen
from agentbench.verdict.gates import Gates, penalties, violations
from agentbench.verdict.required_evidence import mandatory_decisions
from agentbench.verdict.taxonomy import ANY_EVENT, kind_of_rule, taxonomy
from agentbench.verdict.termination_effects import RESOURCE_STOPS
from agentbench.verdict.terms import Terms


@dataclass(frozen=True, slots=True)
class Tag:
    """One label. Construction refuses an unknown id, a gate it cannot explain, and missing or wrong evidence."""

    id: str
    gate: Gate
    events: tuple[Seen[Payload], ...] = field(repr=False)
    attributes: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kind = taxonomy().get(self.id)
        if kind is None:
            msg = f"no tag {self.id!r} in the taxonomy"
            raise ValueError(msg)
        if self.gate not in kind.gates:
            msg = f"tag {self.id} cannot explain {self.gate}"
            raise ValueError(msg)
        if len(self.evidence) < max(1, kind.minimum):
            msg = f"tag {self.id} needs {kind.minimum} events as evidence, got {len(self.evidence)}"
            raise ValueError(msg)
        wrong = {one.payload.type for one in self.events} - set(kind.evidence)
        if wrong and ANY_EVENT not in kind.evidence:
            msg = f"tag {self.id} cannot be proved by {', '.join(sorted(wrong))}"
            raise ValueError(msg)
        unknown = set(self.attributes) - set(kind.attributes)
        if unknown:
            msg = f"tag {self.id} has no attribute {', '.join(sorted(unknown))}"
            raise ValueError(msg)

    @property
    def evidence(self) -> tuple[int, ...]:
        """Sequence numbers in the attempt's log."""
        return tuple(sorted({one.seq for one in self.events}))


def assign_tags(facts: Facts, terms: Terms, gates: Gates, status: RunStatus) -> tuple[Tag, ...]:
    """The tag set: a deterministic function of facts and gates, in the order gates are read."""
    tags = [
        *_undecided(facts, terms, gates),
        *_patch(facts, gates),
        *_steps(facts),
        *_checks(facts, terms),
        *_rules(facts),
        *_endings(facts, status),
        *_disagreements(facts),
    ]
    seen: dict[tuple[str, Gate, tuple[int, ...]], Tag] = {}
    for tag in tags:
        seen.setdefault((tag.id, tag.gate, tag.evidence), tag)
    return tuple(seen.values())


def _undecided(facts: Facts, terms: Terms, gates: Gates) -> Iterator[Tag]:
    """One `evaluation_error` per undecided gate, and no guess at the agent's part in it."""
    proof: dict[Gate, Iterable[Seen[Payload]]] = {
        Gate.G1: () if facts.application is None else (facts.application,),
        Gate.G2: [one for one in (*facts.builds, *facts.statics) if one.payload.outcome is Outcome.ERROR],
        Gate.G3: [one for one in mandatory_decisions(facts, terms) if one.payload.outcome is Outcome.ERROR],
        Gate.G4: [one for one in facts.findings if one.payload.severity == "error"],
    }
    # Evidence of something missing: where the run ended, or where the log does.
    otherwise: tuple[Seen[Payload], ...] = facts.terminations or ((facts.last,) if facts.last else ())
    for gate, result in gates.items():
        events = tuple(proof[gate]) or otherwise
        if result.outcome is Outcome.ERROR and events:
            yield Tag("evaluation_error", gate, events)


def _patch(facts: Facts, gates: Gates) -> Iterator[Tag]:
    if gates[Gate.G1].outcome is Outcome.FAIL:
        events = tuple(one for one in (facts.patch, facts.application) if one is not None)
        yield Tag("patch.not_applicable", Gate.G1, events)


def _steps(facts: Facts) -> Iterator[Tag]:
    for build in facts.builds:
        if build.payload.outcome is Outcome.FAIL:
            yield Tag("build.failed", Gate.G2, (build,), {"step": build.payload.step})
    for static in facts.statics:
        if static.payload.outcome is Outcome.FAIL:
            yield Tag("static.failed", Gate.G2, (static,), {"step": static.payload.step})


def _checks(facts: Facts, terms: Terms) -> Iterator[Tag]:
    for one in mandatory_decisions(facts, terms):
        check = one.payload
        # A check that was kept from running by an earlier gate shows nothing of its own.
        if check.outcome is not Outcome.FAIL or check.not_run is not None:
            continue
        name = {"check": check.check_id}
        layered = f"acceptance.{check.layer}"
        yield Tag(layered if layered in taxonomy() else "acceptance.script", Gate.G3, (one,), name)
        if check.timed_out:
            yield Tag("acceptance.timeout", Gate.G3, (one,), name)
        elif check.f2p_total and check.p2p_kept < check.p2p_total:
            # Only a contract that tells the two kinds of tests apart says which of them passed on R.
            yield Tag("invariant_violation", Gate.G3, (one,), {**name, "lost": str(check.p2p_total - check.p2p_kept)})


def _rules(facts: Facts) -> Iterator[Tag]:
    """Broken rules, grouped: one tag per kind and rule, with all its events."""
    groups: dict[tuple[str, str, str], list[Seen[MonitorAlert] | Seen[IntegrityFinding]]] = {}
    for one in (*violations(facts), *penalties(facts)):
        shape: str = one.payload.format if isinstance(one.payload, MonitorAlert) else ""
        source = one.payload.monitor if isinstance(one.payload, MonitorAlert) else one.payload.type
        groups.setdefault((source, one.payload.rule, shape), []).append(one)
    for (_, rule, shape), events in groups.items():
        kind = kind_of_rule(events[0].payload)
        severities = [one.payload.severity for one in events]
        worst = max(severities, key=("penalty", "gate", "terminate").index)
        attributes = {"rule": rule, "severity": worst, "format": shape}
        paths = sorted(
            {one.payload.path for one in events if isinstance(one.payload, IntegrityFinding) and one.payload.path}
        )
        if paths:
            attributes["path"] = ", ".join(paths)
        yield Tag(kind.id, Gate.G4, tuple(events), {name: text for name, text in attributes.items() if text})


def _endings(facts: Facts, status: RunStatus) -> Iterator[Tag]:
    for stop in facts.terminations:
        code = {"code": stop.payload.code.value}
        if stop.payload.code in RESOURCE_STOPS:
            yield Tag("resource_termination", Gate.G3, (stop,), code)
        if stop.payload.category is not None:
            kind = taxonomy()[f"termination.{stop.payload.category}"]
            yield Tag(kind.id, kind.gates[0], (stop,), code)
    if facts.overflows and status is not RunStatus.SUCCESS:
        yield Tag("context_overflow", Gate.G3, facts.overflows)


def disagreements(facts: Facts) -> tuple[tuple[Seen[ScorerResult], Seen[AcceptanceCheck]], ...]:
    """Scorers and checks that decided the same command differently (G-09)."""
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


def _disagreements(facts: Facts) -> Iterator[Tag]:
    for scorer, check in disagreements(facts):
        yield Tag("oracle.disagreement", Gate.G3, (scorer, check), {"command": check.payload.command})
