"""Paired comparison of two methods on the same tasks.

`compare_sides` computes the report. `paired_decision.py` states its decision, `paired_costs.py` its costs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError
from agentbench.record.headline import headline
from agentbench.reports.deviations import makes_provisional, provenance_of, side_deviations
from agentbench.reports.number_format import percent, plural
from agentbench.reports.record_rows import Row
from agentbench.reports.sequential_text import unadjusted_deviation
from agentbench.reports.sources import Side, refuse_unknown_acceptance, refuse_without_results
from agentbench.reports.stopping import StoppedComparison, stopped_comparison
from agentbench.statistics.comparability import Comparability, compare_identities, join_names
from agentbench.statistics.intervals import CONFIDENCE, Interval, newcombe_paired
from agentbench.statistics.paired import Comparison, Method, PairedTask, Pairing, compare, pair
from agentbench.statistics.sequential.rules import SequentialDecision, SequentialOutcome
from agentbench.statistics.trials import Rate
from agentbench.statistics.undecided_bounds import difference_bounds

MAX_FLIPS = 2_000
"""Differing tasks listed with their verdicts; all are counted."""
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.@:/+-]{1,60}")


@dataclass(frozen=True, slots=True)
class Flip:
    """A task at which the two sides differ."""

    task: str
    mean_a: float
    mean_b: float
    headlines_a: tuple[str, ...]
    headlines_b: tuple[str, ...]
    rows_a: tuple[Row, ...]
    rows_b: tuple[Row, ...]

    @property
    def gain(self) -> float:
        return self.mean_b - self.mean_a

    @property
    def shares(self) -> str:
        return f"{percent(self.mean_a)} → {percent(self.mean_b)}"


@dataclass(frozen=True, slots=True)
class PairedReport:
    a: Side
    b: Side
    comparability: Comparability
    comparison: Comparison
    other: Comparison | None
    """The same comparison under the other rate; None when nothing can be paired under it."""
    flips: tuple[Flip, ...]
    """Largest difference first."""
    bounds: tuple[float, float] | None
    """B - A over common tasks if every undecided attempt had counted against B, and if all had counted for it."""
    new_safety: tuple[str, ...]
    """Tasks at which B broke a rule or had a safety stop, but A is not known to have."""
    unknown_safety: int
    """Compared attempts of B that may have broken a rule, at tasks at which neither side is known to have."""
    margin: float | None = None
    """The equivalence margin of a gate."""
    deviations: tuple[str, ...] = ()
    """Protocol deviations of both sides, seeds included."""
    stopped: StoppedComparison | None = None
    """The stopping rule of both runs; its adjusted interval and p-value replace the ordinary ones."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Warnings that belong beside every number."""
        labels = []
        if self.comparability.across_versions:
            labels.append("ACROSS CONTRACT VERSIONS")
        if makes_provisional(self.deviations) or self.comparability.differences:
            labels.append("PROVISIONAL")
        return tuple(labels)

    @property
    def unknown_conditions(self) -> tuple[str, ...]:
        """Say which results do not state their conditions."""
        if not self.comparability.unknown:
            return ()
        sides = (self.a, self.b)
        imported = any(side.run and any(identity.seed is None for identity in side.identities) for side in sides)
        csv_file = "Results from a CSV file do not state their contract and configuration."
        tool = "Results imported from another tool do not state their contract, configuration and seeds."
        return (*([csv_file] if any(side.run is None for side in sides) else []), *([tool] if imported else []))

    @property
    def adjusted(self) -> SequentialDecision | None:
        """The decision of the stopping rule."""
        return self.stopped.decision if self.stopped else None

    @property
    def better(self) -> str | None:
        """`A` or `B` if it is significantly better, else None."""
        if self.stopped is None:
            return self.comparison.better
        if self.adjusted is None:
            return None
        return {SequentialOutcome.A_BETTER: "A", SequentialOutcome.B_BETTER: "B"}.get(self.adjusted.outcome)

    @property
    def underpowered(self) -> bool:
        """Whether a true difference as large as the observed one would often be missed."""
        detectable = self.comparison.detectable
        return detectable is None or not detectable.reaches(self.comparison.difference)

    @property
    def interval(self) -> Interval | None:
        """The interval shown beside the difference."""
        if self.stopped is not None:
            return self.adjusted.interval if self.adjusted else None
        return self.comparison.bootstrap if self.comparison.method is Method.BOOTSTRAP else self.comparison.interval

    @property
    def equivalent(self) -> bool:
        """Whether the confidence interval lies inside the margin of the gate."""
        if self.margin is None:
            return False
        interval = self.interval or difference_interval(self.comparison)
        return interval is not None and -self.margin < interval.low and interval.high < self.margin

    @property
    def difference_name(self) -> str:
        """`reference − partial`; `B − A` where the names are equal or cannot be printed as they are."""
        names = (self.b.name, self.a.name)
        if names[0] == names[1] or not all(map(_PLAIN_NAME.fullmatch, names)):
            names = ("B", "A")
        return " − ".join(names)


def compare_sides(
    a: Side,
    b: Side,
    *,
    rate: Rate = Rate.CONTRACT,
    across_versions: bool = False,
    method: Method = Method.TEST,
    margin: float | None = None,
) -> PairedReport:
    """Compare two sides over their common tasks.

    Raises:
        InputError: no task can be compared, or contracts differ and `across_versions` is not set.
    """
    for side in (a, b):
        refuse_without_results(side)
        refuse_unknown_acceptance(side, rate)
    comparability = compare_identities(a.identities, b.identities)
    if comparability.across_versions and not across_versions:
        tasks = comparability.across_versions
        msg = f"the contract of {plural(len(tasks), 'task')} differs between the runs: {join_names(tasks)}"
        raise InputError(msg, remedy="results are per contract version; use --across-versions to compare them anyway")
    provenance_a, provenance_b = provenance_of(a), provenance_of(b)
    stopped = stopped_comparison(a, b, rate)
    repositories = {**provenance_b.repositories, **provenance_a.repositories}
    pairing = pair(a.trials, b.trials, rate)
    comparison = compare(pairing, rate, method=method, repositories=repositories)
    if comparison is None:
        raise InputError(_nothing_to_compare(pairing, a, b))
    other_rate = Rate.ACCEPTANCE if rate is Rate.CONTRACT else Rate.CONTRACT
    differing = sorted(
        (task for task in comparison.pairing.pairs if task.difference),
        key=lambda task: (-abs(task.difference), task.task),
    )
    return PairedReport(
        a=a,
        b=b,
        comparability=comparability,
        comparison=comparison,
        other=compare(pair(a.trials, b.trials, other_rate), other_rate, method=method, repositories=repositories),
        flips=tuple(_flip(task, a, b) for task in differing[:MAX_FLIPS]),
        bounds=difference_bounds(a.trials, b.trials),
        new_safety=_new_safety(a, b),
        unknown_safety=_unknown_safety(a, b, comparison.pairing),
        margin=margin,
        deviations=(
            *comparability.deviations,
            *side_deviations(a, "A", provenance_a),
            *side_deviations(b, "B", provenance_b),
            *(() if stopped else (*unadjusted_deviation(a, "A"), *unadjusted_deviation(b, "B"))),
        ),
        stopped=stopped,
    )


def difference_interval(comparison: Comparison, confidence: float = CONFIDENCE) -> Interval | None:
    """Return the interval of B - A at a confidence, also when no task differs.

    Without any difference there is no variance, but the number of equal tasks still bounds the difference.
    """
    again = compare(comparison.pairing, comparison.rate, confidence)
    interval = again.interval if again else None
    if interval is None and not comparison.discordant:
        return newcombe_paired(len(comparison.pairing.pairs), 0, 0, 0, confidence)
    return interval


def _nothing_to_compare(pairing: Pairing, a: Side, b: Side) -> str:
    if pairing.uncounted:
        tasks = join_names(pairing.uncounted)
        return f"nothing to compare: one side has only invalid attempts at every common task ({tasks})"
    return f"nothing to compare: {a.origin} and {b.origin} have no task in common"


def _flip(task: PairedTask, a: Side, b: Side) -> Flip:
    rows_a, rows_b = (tuple(side.by_task.get(task.task, ())) for side in (a, b))
    return Flip(
        task=task.task,
        mean_a=float(task.mean_a),
        mean_b=float(task.mean_b),
        headlines_a=_headlines(a, rows_a),
        headlines_b=_headlines(b, rows_b),
        rows_a=rows_a,
        rows_b=rows_b,
    )


def _headlines(side: Side, rows: Sequence[Row]) -> tuple[str, ...]:
    return tuple(headline(record) for record in side.run.records(rows)) if side.run else ()


def _new_safety(a: Side, b: Side) -> tuple[str, ...]:
    ran = {trial.task for trial in a.trials}
    return tuple(sorted((_unsafe(b) - _unsafe(a)) & ran))


def _unknown_safety(a: Side, b: Side, pairing: Pairing) -> int:
    """Count the attempts of B that could be new violations. Those outside of the rate are not compared."""
    tasks = {task.task for task in pairing.pairs} - _unsafe(a) - _unsafe(b)
    return sum(
        trial.safe is None and trial.task in tasks and trial.value(Rate.CONTRACT) is not None for trial in b.trials
    )


def _unsafe(side: Side) -> set[str]:
    return {trial.task for trial in side.trials if trial.safe is False}
