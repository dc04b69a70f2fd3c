"""Paired comparisons of the methods of a pilot with each other and with the baselines."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from agentbench.core.dataclass import dataclass
from agentbench.pilot.decisions.efficacy import sequential_decision
from agentbench.pilot.decisions.observations import Observation
from agentbench.pilot.pilot_state import PilotState
from agentbench.reports.csv_results import joined_deviations
from agentbench.reports.escape import Cell, csv_text
from agentbench.statistics.multiple import holm
from agentbench.statistics.paired import Comparison, compare
from agentbench.statistics.paired import pair as pair_trials
from agentbench.statistics.sequential.rules import SequentialDecision

COLUMNS = (
    "a", "b", "primary", "tasks", "difference", "ci_low", "ci_high", "interval", "p_value", "p_holm", "adjusted_for_looks",
    "decision", "deviations",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pair:
    """A comparison of two methods: B - A."""

    a: str
    b: str
    primary: bool
    """Whether it compares the first two methods, which the pilot was registered for."""
    comparison: Comparison | None
    adjusted_p: float | None
    """Adjusted for the number of comparisons (Holm)."""
    sequential: SequentialDecision | None = None
    """The decision of the registered rule, for the primary comparison. Its interval and p-value replace the ordinary ones."""

    @property
    def p_value(self) -> float | None:
        if self.sequential is not None:
            return self.sequential.adjusted_p
        return self.comparison.p_value if self.comparison else None

    @property
    def result(self) -> Comparison | SequentialDecision | None:
        """Return what difference and interval come from: adjusted if a stopping rule looked at the comparison."""
        return self.sequential or self.comparison

    @property
    def tasks(self) -> int:
        if self.sequential is not None:
            return self.sequential.tasks
        return len(self.comparison.pairing.pairs) if self.comparison else 0


def compare_methods(state: PilotState, counted: Sequence[Observation]) -> tuple[Pair, ...]:
    """Compare the methods with each other, and each method with each baseline."""
    methods = [entry.label for entry in state.pilot.methods]
    baselines = [entry.label for entry in state.pilot.baselines]
    names = [*itertools.combinations(methods, 2), *itertools.product(baselines, methods)]
    trials = {name: [attempt.trial for attempt in counted if attempt.method == name] for name in state.pilot.names}
    rate = state.pilot.endpoint
    comparisons = [compare(pair_trials(trials[a], trials[b], rate), rate) for a, b in names]
    primary, decision = tuple(methods[:2]), sequential_decision(state.pilot, state.lines, counted, state.removed)
    pairs = [
        Pair(a, b, (a, b) == primary, comparison, None, decision if (a, b) == primary else None)
        for (a, b), comparison in zip(names, comparisons, strict=True)
    ]
    adjusted = iter(holm([pair.p_value for pair in pairs if pair.p_value is not None]))
    return tuple(pair if pair.p_value is None else replace(pair, adjusted_p=next(adjusted)) for pair in pairs)


def comparisons_text(pairs: Sequence[Pair], deviations: Sequence[str]) -> str:
    """Return the content of `comparisons.csv`."""
    return csv_text(COLUMNS, [{**_cells(pair), "deviations": joined_deviations(deviations)} for pair in pairs])


def _cells(pair: Pair) -> dict[str, Cell]:
    result = pair.result
    interval = result.interval if result else None
    return {
        "a": pair.a,
        "b": pair.b,
        "primary": pair.primary,
        "tasks": pair.tasks,
        "difference": result.difference if result else None,
        "ci_low": interval.low if interval else None,
        "ci_high": interval.high if interval else None,
        "interval": interval.method if interval else None,
        "p_value": pair.p_value,
        "p_holm": pair.adjusted_p,
        "adjusted_for_looks": pair.sequential is not None,
        "decision": pair.sequential.outcome.value if pair.sequential else None,
    }
