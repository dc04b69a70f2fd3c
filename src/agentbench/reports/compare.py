"""Compare any number of methods on the tasks that all of them ran: leaderboard, pairwise differences, best set, cost.

`compare_methods` computes the report; `decision` is its first line. `compare_markdown.py` and `compare_data.py` render it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError
from agentbench.reports.attempt_costs import AttemptCosts, attempt_costs, cost_problem, cost_units
from agentbench.reports.deviations import makes_provisional, provenance_of, side_deviations
from agentbench.reports.escape import plain
from agentbench.reports.number_format import amount, percent, plural
from agentbench.reports.sequential_text import unadjusted_deviation
from agentbench.reports.sources import Side, mark_sides, refuse_unknown_acceptance, refuse_without_results, results_of
from agentbench.statistics.comparability import (
    DIFFERENT_SEEDS,
    compare_identities,
    join_names,
    seed_deviations,
)
from agentbench.statistics.intervals import ALPHA
from agentbench.statistics.multiple import best_set, bradley_terry, front, holm
from agentbench.statistics.paired import Comparison, compare, pair
from agentbench.statistics.rates import TaskRate, task_rate
from agentbench.statistics.trials import Rate, Trial

MIN_METHODS = 2
MAX_METHODS = 50


@dataclass(frozen=True, slots=True)
class MethodLine:
    """One method of the leaderboard."""

    side: Side
    name: str
    """The name of the side, made unique."""
    rate: TaskRate
    cost: float | None
    """Mean cost of an attempt over the common tasks, on the basis of the report; None if unknown or in several units."""
    other_unit: str = ""
    """The unit of its costs if not all methods have the same."""

    @property
    def share(self) -> float:
        return self.rate.share or 0.0

    @property
    def cost_text(self) -> str:
        if self.cost is not None:
            return amount(self.cost)
        return f"not comparable ({self.other_unit})" if self.other_unit else "unknown"


@dataclass(frozen=True, slots=True)
class Duel:
    """The comparison of two methods: `b` against `a`, as indices of the leaderboard."""

    a: int
    b: int
    comparison: Comparison
    adjusted: float
    """P-value adjusted by Holm's method over all pairs."""

    @property
    def winner(self) -> int | None:
        difference = self.comparison.difference
        if self.adjusted > ALPHA or not difference:
            return None
        return self.b if difference > 0 else self.a


@dataclass(frozen=True, slots=True)
class CompareReport:
    rate: Rate
    methods: tuple[MethodLine, ...]
    """Highest rate first."""
    duels: tuple[Duel, ...]
    tasks: tuple[str, ...]
    left_out: tuple[str, ...]
    """Tasks that some method did not run, or at which all of its attempts are invalid."""
    best: tuple[int, ...]
    front: tuple[int, ...]
    """Methods on the cost-quality front, cheapest first; empty if a cost is unknown."""
    unit: str
    """The unit of all costs, `unknown unit` for CSV files; empty if units differ or no cost is known."""
    cost_problem: str
    """Why costs cannot be compared: which units differ or which costs are unknown. Empty if they can."""
    cost_basis: str
    """What costs leave out: `without setup and grading`; empty for total costs."""
    strengths: tuple[float, ...]
    """Bradley-Terry strengths; empty if not asked for."""
    differences: tuple[str, ...]
    remarks: tuple[str, ...]
    """Differences that no rate depends on."""
    deviations: tuple[str, ...]
    across_versions: bool

    @property
    def cost_terms(self) -> str:
        """Unit and basis of the costs: `usd, without setup and grading`."""
        return ", ".join(filter(None, (self.unit, self.cost_basis)))


def compare_methods(
    sides: Sequence[Side], *, rate: Rate = Rate.CONTRACT, across_versions: bool = False, strengths: bool = False
) -> CompareReport:
    """Compare methods over the tasks at which every one has an attempt that counts.

    Raises:
        InputError: too few or too many methods, one given twice, no common task, or contracts differ.
    """
    _refuse(sides, rate)
    names = _unique_names(sides)
    differences, remarks, versions = _comparability(sides, names)
    if versions and not across_versions:
        msg = f"the contract of {plural(len(versions), 'task')} differs between the runs: {join_names(versions)}"
        raise InputError(msg, remedy="results are per contract version; use --across-versions to compare them anyway")
    counted = [{trial.task for trial in side.trials if trial.value(rate) is not None} for side in sides]
    common = set.intersection(*counted)
    if not common:
        raise InputError("nothing to compare: no task has an attempt that counts from every method")
    trials = {
        name: [trial for trial in side.trials if trial.task in common] for side, name in zip(sides, names, strict=True)
    }
    units = set[str]().union(*(cost_units(side) for side in sides))
    unit = units.pop() if len(units) == 1 else ""
    per_attempt = attempt_costs(sides, sorted(common)) if unit else AttemptCosts((None,) * len(sides), "")
    lines = [
        MethodLine(side, name, task_rate(trials[name], rate), cost, "" if unit else _unit_text(side))
        for side, name, cost in zip(sides, names, per_attempt.costs, strict=True)
    ]
    lines.sort(key=lambda line: (-line.share, line.name))
    duels = _duels([trials[line.name] for line in lines], rate)
    costs = [line.cost for line in lines]
    known_costs = [cost for cost in costs if cost is not None]
    return CompareReport(
        rate=rate,
        methods=tuple(lines),
        duels=duels,
        tasks=tuple(sorted(common)),
        left_out=tuple(sorted({trial.task for side in sides for trial in side.trials} - common)),
        best=tuple(best_set(len(lines), [_pair_of(duel) for duel in duels if duel.winner is not None])),
        front=tuple(front([(cost, line.share) for cost, line in zip(known_costs, lines, strict=True)]))
        if len(known_costs) == len(lines)
        else (),
        unit=unit,
        cost_problem=cost_problem(tuple(zip(names, sides, strict=True))) if len(known_costs) < len(lines) else "",
        cost_basis=per_attempt.basis,
        strengths=tuple(bradley_terry(_wins(len(lines), duels))) if strengths else (),
        differences=differences,
        remarks=remarks,
        deviations=list_deviations(sides, names),
        across_versions=bool(versions),
    )


def _refuse(sides: Sequence[Side], rate: Rate) -> None:
    if not MIN_METHODS <= len(sides) <= MAX_METHODS:
        raise InputError(f"expected {MIN_METHODS} to {MAX_METHODS} methods, got {len(sides)}")
    seen: set[tuple[str, ...]] = set()
    for side in sides:
        refuse_without_results(side)
        refuse_unknown_acceptance(side, rate)
        if results_of(side) in seen:
            raise InputError(f"{side.origin} is given twice: a run cannot be compared with itself")
        seen.add(results_of(side))


def _unique_names(sides: Sequence[Side]) -> list[str]:
    """Return the names of the sides, with their origin where several have the same."""
    plain_names = [plain(side.name, 60) for side in sides]
    names: list[str] = []
    for side, name in zip(sides, plain_names, strict=True):
        label = f"{name} [{plain(side.folder.name if side.folder else side.origin, 80)}]"
        unique = name if plain_names.count(name) == 1 else label
        names.append(unique if unique not in names else f"{unique} ({len(names) + 1})")
    return names


def _comparability(sides: Sequence[Side], names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return differences, remarks and tasks with several contract versions, over all pairs."""
    differences: dict[str, None] = {}
    remarks: dict[str, None] = {}
    versions: dict[str, None] = {}
    for (a, name_a), (b, name_b) in combinations(zip(sides, names, strict=True), 2):
        compared = compare_identities(a.identities, b.identities)
        texts = [*compared.differences, *(text for text in compared.deviations if text == DIFFERENT_SEEDS)]
        differences |= {f"{name_a}, {name_b}: {text}": None for text in texts}
        remarks |= {f"{name_a}, {name_b}: {text}": None for text in compared.remarks}
        versions |= dict.fromkeys(compared.across_versions)
    return tuple(differences), tuple(remarks), tuple(versions)


def list_deviations(sides: Sequence[Side], names: Sequence[str]) -> tuple[str, ...]:
    """List the protocol deviations of every side, seeds and stopping rules included."""
    deviations: list[str] = []
    for side, name in zip(sides, names, strict=True):
        deviations += [*seed_deviations(side.identities, name), *side_deviations(side, name, provenance_of(side))]
        deviations += unadjusted_deviation(side, name)
    return tuple(deviations)


def _unit_text(side: Side) -> str:
    return plain(", ".join(sorted(cost_units(side))), 60)


def _duels(trials: Sequence[Sequence[Trial]], rate: Rate) -> tuple[Duel, ...]:
    pairs = []
    for a, b in combinations(range(len(trials)), 2):
        comparison = compare(pair(trials[a], trials[b], rate), rate)
        if comparison is not None:
            pairs.append((a, b, comparison))
    adjusted = holm([1.0 if comparison.p_value is None else comparison.p_value for _, _, comparison in pairs])
    return tuple(Duel(a, b, comparison, p) for (a, b, comparison), p in zip(pairs, adjusted, strict=True))


def _pair_of(duel: Duel) -> tuple[int, int]:
    return (duel.b, duel.a) if duel.winner == duel.b else (duel.a, duel.b)


def _wins(methods: int, duels: Sequence[Duel]) -> list[list[float]]:
    """Count the tasks at which one method has a higher share of passes than the other."""
    wins = [[0.0] * methods for _ in range(methods)]
    for duel in duels:
        for task in duel.comparison.pairing.pairs:
            if task.difference > 0:
                wins[duel.b][duel.a] += 1
            elif task.difference < 0:
                wins[duel.a][duel.b] += 1
    return wins


def decision(report: CompareReport) -> str:
    """Return the first line: the methods that none beats significantly, and how that was decided."""
    best = [report.methods[index] for index in report.best]
    names = ", ".join(line.name for line in best)
    basis = f"{plural(len(report.tasks), 'task')}, Holm over {plural(len(report.duels), 'pair')}, α = {ALPHA:g}"
    if len(best) == len(report.methods):
        line = f"INCONCLUSIVE: no method is significantly better than another ({basis})"
    elif len(best) == 1:
        line = f"BEST: {names} with {report.rate} rate {percent(best[0].share)} ({basis})"
    else:
        worse = len(report.methods) - len(best)
        is_worse = f"{worse} of {len(report.methods)} methods {'is' if worse == 1 else 'are'} significantly worse"
        line = f"BEST SET: {names}; {is_worse} ({basis})"
    labels = (["ACROSS CONTRACT VERSIONS"] if report.across_versions else []) + (
        ["PROVISIONAL"] if makes_provisional(report.deviations) or report.differences else []
    )
    line += "".join(f" [{label}]" for label in labels)
    return mark_sides(line, ((method.name, method.side) for method in report.methods))
