"""Protocol deviations of a run. Every report that uses the run's data shows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from agentbench.core.canonical import Json
from agentbench.core.protocol import SEED_DEVIATION
from agentbench.reports.number_format import plural
from agentbench.reports.provenance import Provenance, read_provenance
from agentbench.reports.sources import Run, Side
from agentbench.statistics.comparability import Identity, seed_deviations

_NO_LOCK = "no task.lock.json"
_LOCK_REMEDY = " (write it with ab task lock)"
_SELECTED = "tasks of the suite, selected by "


def run_deviations(run: Run, provenance: Provenance) -> tuple[str, ...]:
    """List the deviations of one run, seeds included."""
    if run.imported:
        return (*seed_deviations(run.identities, "this run"), *_other_deviations(run, provenance))
    # One identity per seed of a first repeat is enough to check seeds.
    seeds = [Identity(task="", seed=seed) for seed in {row.seed for row in run.rows if row.repeat == 1}]
    return (*seed_deviations(seeds, "this run"), *_other_deviations(run, provenance))


def side_deviations(side: Side, name: str, provenance: Provenance) -> tuple[str, ...]:
    """List the deviations of one side of a comparison, except seeds, which both sides are compared by."""
    texts = side.deviations if side.run is None else _other_deviations(side.run, provenance)
    return tuple(f"{name}: {text}" for text in texts)


def makes_provisional(deviations: Iterable[str]) -> bool:
    """Return whether any deviation can change a number.

    A missing lock only means that a later run may differ. Tasks selected by their properties are a smaller suite.
    """
    return any(not text.removesuffix(_LOCK_REMEDY).endswith(_NO_LOCK) and _SELECTED not in text for text in deviations)


def provenance_of(side: Side) -> Provenance:
    """Return what the files of a side's attempts say about their configuration; nothing for results without a run."""
    return read_provenance(side.run.path, side.run.rows) if side.run else Provenance({})


def selection_deviations(meta: Mapping[str, Json]) -> tuple[str, ...]:
    """Say which tasks or attempts a run was limited to. Those chosen for their outcome do not estimate a pass rate."""
    deviations = []
    request = meta.get("request")
    selection = request.get("selection") if isinstance(request, Mapping) else None
    if isinstance(selection, Mapping):
        counts = f"{selection.get('selected')} of {selection.get('available')}"
        deviations.append(f"{counts} {_SELECTED}{selection.get('options')}")
        failed_of = selection.get("failed_of")
        if isinstance(failed_of, Mapping):
            deviations.append(f"tasks were selected because run {failed_of.get('run_id')} did not pass them")
    retried = meta.get("retry_of")
    if isinstance(retried, Mapping):
        which = "ended in a harness error" if retried.get("kind") == "errors" else "did not pass"
        deviations.append(f"only attempts that {which} in run {retried.get('run_id')} were made")
    pilot = meta.get("pilot")
    if isinstance(pilot, Mapping):
        deviations.append(f"only the attempts of stage {pilot.get('stage')} of a pilot")
        registered = pilot.get("deviations")
        deviations += map(str, registered) if isinstance(registered, list) else ()
    return tuple(deviations)


def _other_deviations(run: Run, provenance: Provenance) -> tuple[str, ...]:
    origins = provenance.origins.values()
    texts = (text for origin in origins for text in origin.deviations)
    # Records have their seed.
    recorded = Counter(text for text in texts if not text.startswith(SEED_DEVIATION))
    deviations = [*selection_deviations(run.meta)]
    deviations += [run.missing.sentence] if run.missing else []
    deviations += [f"{text} ({plural(count, 'task')})" for text, count in sorted(recorded.items())]
    versions = sorted({row.harness_version for row in run.rows})
    if len(versions) > 1:
        deviations.append(f"attempts come from different harness versions: {', '.join(versions)}")
    contracts = Counter(task for task, _ in {(row.task, row.contract_id) for row in run.rows})
    mixed = sorted(task for task, ids in contracts.items() if ids > 1)
    if mixed:
        deviations.append(f"attempts at one task have different contract versions: {', '.join(mixed[:5])}")
    unreplayable = sum(origin.replayable is False for origin in origins)
    if unreplayable:
        depends = "depends" if unreplayable == 1 else "depend"
        deviations.append(
            f"{plural(unreplayable, 'task')} cannot be replayed: {depends} on resources outside the contract"
        )
    unlocked = sum(origin.locked is False for origin in origins)
    if unlocked:
        deviations.append(f"{plural(unlocked, 'task')} {'has' if unlocked == 1 else 'have'} {_NO_LOCK}{_LOCK_REMEDY}")
    return tuple(deviations)
