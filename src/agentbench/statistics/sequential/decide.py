"""Apply a stopping rule to the paired outcomes so far."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from statistics import NormalDist, variance

from agentbench.statistics.intervals import Interval, mean_interval, newcombe_paired
from agentbench.statistics.paired import PairedTask, contingency, sign_flip
from agentbench.statistics.sequential.boundaries import nominal_level, spending_bounds
from agentbench.statistics.sequential.confidence_sequence import confidence_bounds, count_values, log_e_values
from agentbench.statistics.sequential.rules import (
    Anytime,
    Block,
    GroupSequential,
    PlannedBlocks,
    Rule,
    SequentialDecision,
    SequentialOutcome,
    look_schedule,
)

_NORMAL = NormalDist()
_MAX_LOG = 700.0
"""e-values are capped at exp(700), which a float can hold."""
_P_STEPS = 20


def decide(rule: Rule, planned: PlannedBlocks, blocks: Sequence[Block], look: int) -> SequentialDecision:
    """Decide at a look from the first blocks of the plan; later blocks are ignored.

    Raises:
        ValueError: `look` is not one of the rule, or fewer blocks are complete than the look needs.
    """
    schedule = look_schedule(rule, planned)
    if not 1 <= look <= rule.looks:
        raise ValueError(f"the rule has looks 1 to {rule.looks}, not {look}")
    needed = schedule[look - 1]
    if len(blocks) < needed:
        raise ValueError(f"look {look} needs {needed} blocks, {len(blocks)} are complete")
    if isinstance(rule, Anytime):
        return _anytime(rule, planned, blocks[:needed], look)
    return _group_sequential(rule, planned, blocks[:needed], look)


def first_decision(rule: Rule, planned: PlannedBlocks, blocks: Sequence[Block]) -> SequentialDecision | None:
    """Take every look whose blocks are complete, in order, and return the first decision that stops.

    Returns the last look's decision (`continue`) if none stops, and None if the first look is not complete yet.
    """
    decision = None
    for look, needed in enumerate(look_schedule(rule, planned), start=1):
        if len(blocks) < needed:
            break
        decision = decide(rule, planned, blocks, look)
        if decision.outcome.stops:
            break
    return decision


MAX_NEEDED = 100
"""Rules of usual levels need fewer than 20 tasks."""


def can_decide(rule: Rule, planned: PlannedBlocks) -> bool:
    """Return whether the rule could decide for a method at all: if one of them passed every attempt and the other none."""
    blocks = [
        Block(str(task), repeat, 0, 1) for repeat in range(1, planned.repeats + 1) for task in range(planned.tasks)
    ]
    return decide(rule, planned, blocks, rule.looks).outcome is SequentialOutcome.B_BETTER


def needed_tasks(rule: Rule, repeats: int) -> int | None:
    """Return the smallest number of tasks with which the rule could decide for a method; None if it is very large."""
    sizes = range(max(2, -(-rule.looks // repeats)), MAX_NEEDED + 1)
    return next((tasks for tasks in sizes if can_decide(rule, PlannedBlocks(tasks, repeats))), None)


def pairs_of(blocks: Sequence[Block]) -> tuple[PairedTask, ...]:
    """Group the valid blocks by task, in order of repeats."""
    values: dict[str, list[tuple[int, int, int]]] = {}
    for block in blocks:
        if block.a is not None and block.b is not None:
            values.setdefault(block.task, []).append((block.repeat, block.a, block.b))
    return tuple(
        PairedTask(task, tuple(a for _, a, _ in sorted(rows)), tuple(b for _, _, b in sorted(rows)))
        for task, rows in values.items()
    )


def _mean(pairs: Sequence[PairedTask]) -> float | None:
    return float(sum((pair.difference for pair in pairs), Fraction(0)) / len(pairs)) if pairs else None


def _last(rule: Rule, look: int) -> SequentialOutcome:
    return SequentialOutcome.INCONCLUSIVE if look == rule.looks else SequentialOutcome.CONTINUE


def _is_equivalent(interval: Interval | None, margin: float | None) -> bool:
    return interval is not None and margin is not None and -margin < interval.low and interval.high < margin


# --- group sequential -------------------------------------------------------------------------------------------------


def _group_sequential(
    rule: GroupSequential, planned: PlannedBlocks, blocks: Sequence[Block], look: int
) -> SequentialDecision:
    fractions = tuple(count / planned.blocks for count in look_schedule(rule, planned))
    bounds = spending_bounds(rule.spending, fractions, rule.alpha)
    bound = bounds[look - 1]
    pairs = pairs_of(blocks)
    difference = _mean(pairs)
    p_value = sign_flip([pair.difference for pair in pairs]).p_value if pairs else 1.0
    interval = _repeated_interval(rule, pairs, nominal_level(bound))
    power = None
    if rule.futility is not None and look < rule.looks and len(pairs) > 1:
        effect, spread = rule.futility.effect, variance([float(pair.difference) for pair in pairs])
        squared_error = max(spread, least_variance(effect, planned.repeats)) / len(pairs)
        power = conditional_power(effect, squared_error, p_value, fractions[look - 1], bounds[-1])
    if difference and p_value <= nominal_level(bound):
        outcome = SequentialOutcome.B_BETTER if difference > 0 else SequentialOutcome.A_BETTER
    elif _is_equivalent(interval, rule.margin):
        outcome = SequentialOutcome.EQUIVALENT
    elif rule.futility and power is not None and power < rule.futility.conditional_power:
        outcome = SequentialOutcome.FUTILE
    else:
        outcome = _last(rule, look)
    return SequentialDecision(
        rule=rule,
        outcome=outcome,
        look=look,
        looks=rule.looks,
        blocks=len(blocks),
        planned_blocks=planned.blocks,
        tasks=len(pairs),
        difference=difference,
        statistic=math.copysign(_z_of(p_value), difference or 0.0),
        boundary=bound,
        p_value=p_value,
        adjusted_p=_repeated_p(rule, fractions[:look], p_value),
        interval=interval,
        conditional_power=power,
    )


def _z_of(p_value: float) -> float:
    """Return the normal quantile of a two-sided p-value."""
    return -_NORMAL.inv_cdf(max(p_value, 1e-300) / 2) if p_value < 1 else 0.0


def _repeated_interval(rule: GroupSequential, pairs: Sequence[PairedTask], level: float) -> Interval | None:
    """Compute the repeated confidence interval: an ordinary one at the nominal level of the look.

    All looks together cover the true difference with probability 1 - alpha (Jennison and Turnbull 1989). One attempt per
    task: Newcombe. Repeats: Student's t with one task added that favours A and one that favours B, the adjustment of
    Bonett and Price (2012) for paired proportions. Without it, few differing tasks understate the variance.
    """
    if not pairs:
        return None
    confidence, overall = 1 - level, 1 - rule.alpha
    if confidence >= 1:
        return Interval(-1.0, 1.0, overall, "no bound at this look")
    if all(len(pair.a) == 1 for pair in pairs):
        table = contingency(pairs)
        interval = newcombe_paired(table.both, table.only_a, table.only_b, table.neither, confidence)
    else:
        interval = mean_interval([*(float(pair.difference) for pair in pairs), -1.0, 1.0], confidence)
    if interval is None:
        return None
    return Interval(interval.low, interval.high, overall, f"{interval.method}, repeated over {rule.looks} looks")


def _repeated_p(rule: GroupSequential, fractions: tuple[float, ...], p_value: float) -> float:
    """Find the smallest overall alpha at which this look would be significant, by bisection on a logarithmic scale."""
    low, high = p_value, 1.0
    if low >= high:
        return 1.0
    low = max(low, 1e-12)
    for _ in range(_P_STEPS):
        middle = math.sqrt(low * high)
        bound = spending_bounds(rule.spending, fractions, middle)[-1]
        low, high = (low, middle) if p_value <= nominal_level(bound) else (middle, high)
    return high


def least_variance(effect: float, repeats: int) -> float:
    """Return the smallest variance that differences of tasks can have if their mean is `effect`.

    With one attempt per task, at least the share `effect` of the tasks differs. Observed variances below this, such as 0
    without a single difference, would make every effect look certain to be found.
    """
    return effect * (1 - effect) / repeats


def conditional_power(effect: float, squared_error: float, p_value: float, fraction: float, last_bound: float) -> float:
    """Compute the probability of a significant last look if the true difference is `effect`.

    Uses the B-value of Lan and Wittes (1988) with the standard error so far.
    """
    drift = effect / math.sqrt(squared_error * fraction)
    missing = last_bound - _z_of(p_value) * math.sqrt(fraction) - drift * (1 - fraction)
    return 1 - _NORMAL.cdf(missing / math.sqrt(1 - fraction))


# --- anytime ----------------------------------------------------------------------------------------------------------


def _anytime(rule: Anytime, planned: PlannedBlocks, blocks: Sequence[Block], look: int) -> SequentialDecision:
    share = rule.alpha / planned.repeats
    log_b = log_a = 0.0
    low, high = -1.0, 1.0
    for repeats in range(1, planned.repeats + 1):
        values = _first_means(blocks, repeats)
        if not values:
            continue
        distinct, counts = count_values(values)
        log_b = max(log_b, float(log_e_values(distinct, counts)))
        log_a = max(log_a, float(log_e_values(-distinct, counts)))
        bounds = confidence_bounds(values, share)
        # Two gamblers can contradict each other, with probability at most alpha. Then the one with more repeats counts.
        low, high = (max(low, bounds[0]), min(high, bounds[1])) if bounds[0] <= high and low <= bounds[1] else bounds
    interval = Interval(low, high, 1 - rule.alpha, "confidence sequence by betting over tasks")
    log_e, log_threshold = max(log_a, log_b), math.log(2 / share)
    pairs = pairs_of(blocks)
    if log_e >= log_threshold:
        outcome = SequentialOutcome.B_BETTER if log_b > log_a else SequentialOutcome.A_BETTER
    elif _is_equivalent(interval, rule.margin):
        outcome = SequentialOutcome.EQUIVALENT
    else:
        outcome = _last(rule, look)
    p_value = min(1.0, 2 * planned.repeats * math.exp(-log_e))
    return SequentialDecision(
        rule=rule,
        outcome=outcome,
        look=look,
        looks=rule.looks,
        blocks=len(blocks),
        planned_blocks=planned.blocks,
        tasks=len(pairs),
        difference=_mean(pairs),
        statistic=math.exp(min(log_e, _MAX_LOG)),
        boundary=math.exp(log_threshold),
        p_value=p_value,
        adjusted_p=p_value,
        interval=interval,
    )


def _first_means(blocks: Sequence[Block], repeats: int) -> list[float]:
    """Return the mean difference over the first repeats of every task that has made all of them.

    Invalid blocks are left out of the mean; a task without a valid one is left out.
    """
    by_task: dict[str, list[Block]] = {}
    for block in blocks:
        if block.repeat <= repeats:
            by_task.setdefault(block.task, []).append(block)
    complete = [block for rows in by_task.values() if len(rows) == repeats for block in rows]
    return [float(pair.difference) for pair in pairs_of(complete)]
