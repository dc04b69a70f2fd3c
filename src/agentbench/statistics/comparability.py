"""Whether two runs may be compared (P3.7): the same R, the same T with its A, a compatible configuration class.

What differs is declared. Two versions of one contract are not the same task: comparing across them is refused unless asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentbench.core.protocol import PROTOCOL_SEED

SHOWN = 3


@dataclass(frozen=True, slots=True)
class Identity:
    """What an attempt was made under. None: not known (results made elsewhere)."""

    task: str
    repeat: int = 1
    contract_id: str | None = None
    task_digest: str | None = None
    acceptance_id: str | None = None
    env_digest: str | None = None
    config_class: str | None = None
    harness_version: str | None = None
    observability: str | None = None
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Comparability:
    """Differences in words. `across_versions` names tasks whose contract differs; the others are declared."""

    across_versions: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()
    deviations: tuple[str, ...] = ()
    """Departures from the protocol that make numbers provisional."""
    unknown: bool = False
    """A side does not say what it was made under."""

    @property
    def comparable(self) -> bool:
        return not (self.across_versions or self.differences or self.deviations or self.unknown)


def hold_against(a: Sequence[Identity], b: Sequence[Identity]) -> Comparability:
    """Compare what two sets of attempts were made under, over the tasks they share."""
    common = {one.task for one in a} & {one.task for one in b}
    left, right = ([one for one in side if one.task in common] for side in (a, b))
    versions = _differing(left, right, "contract_id")
    differences = []
    fields = {
        "acceptance_id": "the mandatory checks differ",
        "task_digest": "the task (statement, hints, budget, rubric) differs",
        "env_digest": "the prepared environment differs",
        "config_class": "the configuration class (sandbox constraints, limits, logging) differs",
        "harness_version": "the harness version differs",
        "observability": "the agents are observed at different levels; trace metrics are not comparable",
    }
    for name, words in fields.items():
        tasks = _differing(left, right, name)
        if tasks:
            differences.append(f"{words}: {_values(left, right, name) if name == 'harness_version' else named(tasks)}")
    deviations = [*seed_deviations(a, "A"), *seed_deviations(b, "B")]
    if _seeds(left) != _seeds(right) and all(_seeds(left).values()) and all(_seeds(right).values()):
        deviations.append("the two sides used different seeds: the comparison is provisional")
    return Comparability(
        across_versions=versions,
        differences=tuple(differences),
        deviations=tuple(deviations),
        unknown=any(one.contract_id is None for one in (*left, *right)),
    )


def seed_deviations(identities: Sequence[Identity], side: str) -> tuple[str, ...]:
    """Base seeds other than the protocol's. The base seed is the first repeat's; others are spawned from it."""
    others = sorted(
        {one.seed for one in identities if one.repeat == 1 and one.seed not in (None, PROTOCOL_SEED)}, key=str
    )
    if not others:
        return ()
    return (f"{side} used base seed {', '.join(map(str, others))}; the protocol plans {PROTOCOL_SEED}",)


def named(tasks: Sequence[str]) -> str:
    """A few names, and how many more."""
    more = f" and {len(tasks) - SHOWN} more" if len(tasks) > SHOWN else ""
    return ", ".join(tasks[:SHOWN]) + more


def _differing(left: Sequence[Identity], right: Sequence[Identity], name: str) -> tuple[str, ...]:
    """Tasks under which this value is not one and the same on both sides, as far as it is known."""
    values: dict[str, set[object]] = {}
    for one in (*left, *right):
        value = getattr(one, name)
        if value is not None:
            values.setdefault(one.task, set()).add(value)
    return tuple(sorted(task for task, seen in values.items() if len(seen) > 1))


def _values(left: Sequence[Identity], right: Sequence[Identity], name: str) -> str:
    sides = [sorted({str(getattr(one, name)) for one in side}) for side in (left, right)]
    return " against ".join(", ".join(side) for side in sides)


def _seeds(side: Sequence[Identity]) -> Mapping[int, frozenset[int | None]]:
    repeats: dict[int, set[int | None]] = {}
    for one in side:
        repeats.setdefault(one.repeat, set()).add(one.seed)
    return {repeat: frozenset(seeds) for repeat, seeds in repeats.items()}
