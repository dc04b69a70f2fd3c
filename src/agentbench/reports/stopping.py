"""The stopping rule that a run declared before its first attempt, applied to the records of both methods.

`ab run`, `ab report paired` and `ab verify` all decide here, from the same records, so they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError
from agentbench.core.reasons import REPEATED_ON_RESUME
from agentbench.record.schema import AttemptRecord
from agentbench.reports.record_rows import Row, trial_of
from agentbench.reports.sources import Side
from agentbench.statistics.sequential.decide import first_decision
from agentbench.statistics.sequential.rules import (
    Block,
    PlannedBlocks,
    Rule,
    SequentialDecision,
    SequentialOutcome,
    look_schedule,
    read_rule,
)
from agentbench.statistics.trials import Rate, Trial

Attempt = tuple[str, str, int]
"""Task, method and repeat."""


@dataclass(frozen=True, slots=True)
class DeclaredRule:
    """A stopping rule with the plan that it was declared for."""

    rule: Rule
    rate: Rate
    methods: tuple[str, str]
    """A and B."""
    order: tuple[tuple[str, int], ...]
    """Task and repeat of every block, in the order in which they start."""

    @property
    def planned(self) -> PlannedBlocks:
        return PlannedBlocks(len({task for task, _ in self.order}), max(repeat for _, repeat in self.order))

    @property
    def looks(self) -> tuple[int, ...]:
        """Number of complete blocks at each look."""
        return look_schedule(self.rule, self.planned)

    def blocks(self, trials: Mapping[Attempt, Trial]) -> list[Block]:
        """Return the blocks of the plan up to the first that is not complete."""
        blocks = []
        for task, repeat in self.order:
            pair = [trials.get((task, method, repeat)) for method in self.methods]
            if pair[0] is None or pair[1] is None:
                break
            blocks.append(Block(task, repeat, pair[0].value(self.rate), pair[1].value(self.rate)))
        return blocks

    def decide(self, trials: Mapping[Attempt, Trial]) -> SequentialDecision | None:
        """Return the first decision that stops, else that of the last complete look, else None."""
        return first_decision(self.rule, self.planned, self.blocks(trials))

    def better(self, decision: SequentialDecision) -> str | None:
        """Return the method that a decision favours, or None."""
        a, b = self.methods
        return {SequentialOutcome.A_BETTER: a, SequentialOutcome.B_BETTER: b}.get(decision.outcome)

    def swapped(self) -> DeclaredRule:
        """Return the rule with A and B exchanged, which decides the same."""
        return DeclaredRule(self.rule, self.rate, (self.methods[1], self.methods[0]), self.order)


def declared_rule(meta: Mapping[str, Json]) -> DeclaredRule | None:
    """Read the stopping rule from the content of `run.json`; None if the run has none.

    Raises:
        InputError: the rule or the plan in `run.json` cannot be used.
    """
    request = meta.get("request")
    declared = request.get("stop_when") if isinstance(request, Mapping) else None
    if declared is None:
        return None
    try:
        return make_declared(_mapping(declared), _attempts(meta.get("order")))
    except ValueError as error:
        raise InputError(f"run.json has no usable stopping rule: {error}") from None


def _mapping(value: Json) -> Mapping[str, Json]:
    if isinstance(value, Mapping):
        return value
    raise ValueError("stop_when is not an object")


def _attempts(order: Json) -> list[Attempt]:
    attempts = []
    for key in order if isinstance(order, list) else ():
        match key:
            case [str(task), str(method), int(repeat)]:
                attempts.append((task, method, repeat))
            case _:
                raise ValueError(f"{key!r} in order is not an attempt")
    return attempts


def make_declared(declared: Mapping[str, Json], order: Sequence[Attempt]) -> DeclaredRule:
    """Combine a recorded rule with the plan, whose attempts are given in the order in which they start.

    Raises:
        ValueError: the rule is malformed, or the plan is not one of complete blocks of two methods.
    """
    values: dict[str, object] = dict(declared)
    rate = Rate(str(values.pop("rate", Rate.CONTRACT)))
    rule = read_rule(values)
    methods = tuple(dict.fromkeys(method for _, method, _ in order))
    blocks = [order[start : start + 2] for start in range(0, len(order), 2)]
    keys = [(block[0][0], block[0][2]) for block in blocks]
    complete = all(
        len(block) == 2 and {(task, repeat) for task, _, repeat in block} == {key} and block[0][1] != block[1][1]
        for block, key in zip(blocks, keys, strict=True)
    )
    if len(methods) != 2 or not complete:
        raise ValueError(f"a stopping rule compares exactly two methods in blocks, the plan has {', '.join(methods)}")
    result = DeclaredRule(rule, rate, (methods[0], methods[1]), tuple(keys))
    if len(set(keys)) != len(keys) or result.planned.blocks != len(keys):
        raise ValueError("every task needs the same repeats")
    look_schedule(rule, result.planned)
    return result


@dataclass(frozen=True, slots=True)
class StoppedComparison:
    """The rule of a comparison and its decision, recomputed from the records of both runs."""

    declared: DeclaredRule
    decision: SequentialDecision | None
    """None if the first look is not complete."""


def stopped_comparison(a: Side, b: Side, rate: Rate) -> StoppedComparison | None:
    """Apply the rule that both runs were started with; None if they are not the two sides of one comparison.

    Raises:
        InputError: the rule in `run.json` cannot be used.
    """
    if a.run is None or b.run is None or a.run.meta.get("study_id") != b.run.meta.get("study_id"):
        return None
    declared = declared_rule(a.run.meta)
    if declared is None or declared.rate is not rate or {a.name, b.name} != set(declared.methods):
        return None
    declared = declared if declared.methods[0] == a.name else declared.swapped()
    return StoppedComparison(declared, declared.decide(trials_of_rows((*a.run.rows, *b.run.rows))))


def applied_rule(meta: Mapping[str, Json]) -> Rule | None:
    """Return the rule that could end a run early: its own, or that of its pilot."""
    declared = declared_rule(meta)
    pilot = meta.get("pilot")
    registered = pilot.get("stopping") if isinstance(pilot, Mapping) else None
    if declared is None and isinstance(registered, Mapping):
        return read_rule(registered)
    return declared.rule if declared else None


def trials_of_rows(rows: Iterable[Row]) -> dict[Attempt, Trial]:
    """Index the attempts that have a result or are invalid for good. Those that resuming repeats are not complete."""
    return {(row.task, row.variant, row.repeat): trial_of(row) for row in rows if row.ending not in REPEATED_ON_RESUME}


def trials_of_records(records: Iterable[AttemptRecord]) -> dict[Attempt, Trial]:
    """Index full records in the same way."""
    return {
        record.key: Trial(
            record.task_id,
            record.repeat,
            record.run_status,
            record.result.passed,
            record.invalid_cause,
            record.cost.total,
        )
        for record in records
        if record.termination.code not in REPEATED_ON_RESUME
    }
