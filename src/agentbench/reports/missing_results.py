"""Attempts that a run was started for and that have no result, because the run or the attempt was cut off. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.core.reasons import REPEATED_ON_RESUME
from agentbench.record.run_state import RunState
from agentbench.reports.number_format import plural
from agentbench.reports.record_rows import Row

_NOT_FINISHED = "not finished"
_PATCH_AGENT = "patch"
"""The agent of attempts that grade a patch made elsewhere."""


@dataclass(frozen=True, slots=True)
class MissingResults:
    planned: int
    """Number of attempts that the run was started for."""
    counts: Mapping[str, int]
    """Attempts without a result, by how they ended."""
    remedy: str = "`ab run --resume` continues it"

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def counted(self) -> str:
        have = "has" if self.total == 1 else "have"
        return f"{self.total} of {plural(self.planned, 'attempt')} {have} no result"

    @property
    def sentence(self) -> str:
        """The counts with their causes, as a protocol deviation."""
        causes = ", ".join(f"{count} {cause}" for cause, count in self.counts.items())
        return f"the run is incomplete: {self.counted} ({causes}); unless it is still running, {self.remedy}"

    def as_json(self) -> dict[str, Json]:
        return {"planned": self.planned, "without_result": self.total, "causes": dict(self.counts)}


def missing_results(meta: Mapping[str, Json], rows: Sequence[Row]) -> MissingResults | None:
    """Compare the attempts of a run with its plan. None if none is missing, or `run.json` has no plan."""
    planned = _planned(meta)
    ended = {(row.task, row.variant, row.repeat): row.ending for row in rows}
    # A stopping rule leaves planned attempts out; its own report says whether it has decided.
    counts = Counter({_NOT_FINISHED: 0 if _stops_early(meta) else len(planned - ended.keys())})
    counts.update(
        ending.replace("_", " ") for key, ending in ended.items() if key in planned and ending in REPEATED_ON_RESUME
    )
    if not counts.total():
        return None
    missing = MissingResults(len(planned), dict(+counts))
    if any(row.agent == _PATCH_AGENT for row in rows):
        return replace(missing, remedy="grade the patches again: `ab run --resume` does not continue a grading run")
    if meta.get("pilot") is not None:
        return replace(missing, remedy="`ab pilot run` continues it")
    return missing


def listed_state(state: RunState, missing: MissingResults | None) -> RunState:
    """Return the state of a run as users see it, given the state of its chain: no run with missing results is finished."""
    return "incomplete" if state == "finished" and missing else state


def _stops_early(meta: Mapping[str, Json]) -> bool:
    request = meta.get("request")
    return isinstance(request, Mapping) and request.get("stop_when") is not None


def _planned(meta: Mapping[str, Json]) -> set[tuple[Json, ...]]:
    order = meta.get("order")
    keys = order if isinstance(order, list) else []
    return {tuple(key) for key in keys if isinstance(key, list) and len(key) == 3 and key[1] == meta.get("variant")}
