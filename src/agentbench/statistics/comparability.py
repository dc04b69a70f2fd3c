"""Decide whether two runs may be compared: same repositories, tasks and checks, compatible configuration class.

Differences are listed, not hidden. Two versions of one contract are different tasks: comparing them needs an explicit
option.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentbench.core.dataclass import dataclass
from agentbench.core.protocol import PROTOCOL_SEED

SHOWN = 3
DIFFERENT_SEEDS = "A and B used different seeds"
DIFFERENT_OBSERVABILITY = "the observability levels differ, so trace metrics are not comparable"


@dataclass(frozen=True, slots=True)
class Identity:
    """Conditions of one attempt. None means unknown, as for results of other tools."""

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
    """Differences between the conditions of two runs."""

    across_versions: tuple[str, ...] = ()
    """Tasks whose contract differs."""
    differences: tuple[str, ...] = ()
    """All other differences, as sentences."""
    remarks: tuple[str, ...] = ()
    """Differences that no rate depends on, as sentences."""
    deviations: tuple[str, ...] = ()
    """Deviations from the protocol that make the numbers provisional."""
    unknown: bool = False
    """Some attempts do not record their contract, configuration and seed."""

    @property
    def comparable(self) -> bool:
        return not (self.across_versions or self.differences or self.remarks or self.deviations or self.unknown)


def compare_identities(a: Sequence[Identity], b: Sequence[Identity]) -> Comparability:
    """Compare the conditions of two sets of attempts over their common tasks."""
    common = {identity.task for identity in a} & {identity.task for identity in b}
    left, right = ([identity for identity in side if identity.task in common] for side in (a, b))
    versions = _differing(left, right, "contract_id")
    differences = []
    fields = {
        "acceptance_id": "the mandatory checks differ",
        "task_digest": "the task (statement, hints, budget, rubric) differs",
        "env_digest": "the prepared environment differs",
        "config_class": "the configuration class (sandbox constraints, limits, logging) differs",
        "harness_version": "the harness version differs",
    }
    for name, sentence in fields.items():
        tasks = _differing(left, right, name)
        if tasks:
            detail = _values(left, right, name) if name == "harness_version" else join_names(tasks)
            differences.append(f"{sentence}: {detail}")
    unlike = _differing(left, right, "observability")
    deviations = [*seed_deviations(a, "A"), *seed_deviations(b, "B")]
    seeds_a, seeds_b = _seeds(left), _seeds(right)
    # A repeat that only one side has got its seed from the same base seed as the common ones.
    if any(seeds_a[repeat] != seeds_b[repeat] for repeat in seeds_a.keys() & seeds_b.keys()):
        deviations.append(DIFFERENT_SEEDS)
    return Comparability(
        across_versions=versions,
        differences=tuple(differences),
        remarks=(f"{DIFFERENT_OBSERVABILITY}: {join_names(unlike)}",) if unlike else (),
        deviations=tuple(deviations),
        unknown=any(identity.contract_id is None or identity.seed is None for identity in (*left, *right)),
    )


def seed_deviations(identities: Sequence[Identity], side: str) -> tuple[str, ...]:
    """Report base seeds other than the protocol's. The first repeat uses the base seed; the others derive theirs."""
    others = sorted(
        {
            identity.seed
            for identity in identities
            if identity.repeat == 1 and identity.seed not in (None, PROTOCOL_SEED)
        },
        key=str,
    )
    if not others:
        return ()
    return (f"{side} used base seed {', '.join(map(str, others))}; the protocol specifies {PROTOCOL_SEED}",)


def join_names(names: Sequence[str]) -> str:
    """Join the first few names and count the rest: `a, b, c and 4 more`."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _differing(left: Sequence[Identity], right: Sequence[Identity], name: str) -> tuple[str, ...]:
    """Return the tasks that have more than one known value of this field."""
    values: dict[str, set[object]] = {}
    for identity in (*left, *right):
        value = getattr(identity, name)
        if value is not None:
            values.setdefault(identity.task, set()).add(value)
    return tuple(sorted(task for task, distinct in values.items() if len(distinct) > 1))


def _values(left: Sequence[Identity], right: Sequence[Identity], name: str) -> str:
    sides = [sorted({str(getattr(identity, name)) for identity in side}) for side in (left, right)]
    return " and ".join(", ".join(side) for side in sides)


def _seeds(side: Sequence[Identity]) -> Mapping[int, set[int]]:
    """Return the known seeds of each repeat."""
    repeats: dict[int, set[int]] = {}
    for identity in side:
        if identity.seed is not None:
            repeats.setdefault(identity.repeat, set()).add(identity.seed)
    return repeats
