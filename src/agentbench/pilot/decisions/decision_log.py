"""The log of decisions: each entry to a stage, each start, stop and exit, with its evidence and what it was based on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from pathlib import Path
from typing import Literal, get_args

from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError
from agentbench.core.ids import now_iso
from agentbench.pilot.chained_log import ChainedLog
from agentbench.pilot.decisions.criteria import Criterion
from agentbench.pilot.decisions.stopping_rules import Stop
from agentbench.pilot.folder import DECISIONS

DecisionKind = Literal["entry", "opened", "stop", "exit"]


@dataclass(frozen=True, slots=True)
class StageDecision:
    """One line of `decisions.jsonl`."""

    kind: DecisionKind
    stage: str
    registration_id: str
    at: str = field(default_factory=now_iso)
    met: bool | None = None
    """Of an entry or exit: whether every criterion is met."""
    criteria: tuple[Criterion, ...] = ()
    seen: Mapping[str, int] = field(default_factory=dict)
    """Number of records of each run directory that the decision is based on."""
    removed: tuple[str, ...] = ()
    """Tasks that were removed before."""
    runs: Mapping[str, str] = field(default_factory=dict)
    """Run directory of each method, for an opened stage."""
    workers: int = 0
    launched: int = 0
    """Number of attempts of the pilot that were launched before, for an opened stage or a stop."""
    screen: str | None = None
    """Digest of the flake screen that an entry is based on."""
    rule: str | None = None
    """Of a stop: the rule."""
    why: str = ""
    evidence: tuple[str, ...] = ()
    """Of a stop: the attempts that prove it."""

    def as_json(self) -> dict[str, Json]:
        value: dict[str, Json] = asdict(self)
        value["criteria"] = [asdict(criterion) for criterion in self.criteria]
        return {name: part for name, part in value.items() if name == "met" or part}


def stop_decision(
    stage: str, registration_id: str, stop: Stop, seen: Mapping[str, int], removed: Sequence[str], launched: int
) -> StageDecision:
    return StageDecision(
        "stop",
        stage,
        registration_id,
        seen=seen,
        removed=tuple(removed),
        launched=launched,
        rule=stop.rule,
        why=stop.why,
        evidence=stop.evidence,
    )


def read_decisions(folder: Path) -> list[StageDecision]:
    """Read the log.

    Raises:
        InputError: a line was altered or removed, or is not a decision.
    """
    path = folder / DECISIONS
    decisions = []
    for number, value in enumerate(ChainedLog(path).entries(), start=1):
        try:
            decisions.append(_decision(dict(value)))
        except (TypeError, ValueError, KeyError):
            raise InputError(f"{path}:{number}: not a decision") from None
    return decisions


def append_decision(folder: Path, decision: StageDecision) -> None:
    """
    Raises:
        RecordError: the log cannot be written.
    """
    ChainedLog(folder / DECISIONS).append(decision.as_json())


def _decision(value: dict[str, Json]) -> StageDecision:
    value.pop("previous", None)
    if value["kind"] not in get_args(DecisionKind):
        raise ValueError(value["kind"])
    criteria = value.pop("criteria", ())
    parts: dict[str, object] = {name: tuple(part) if isinstance(part, list) else part for name, part in value.items()}
    if not isinstance(criteria, Sequence):
        raise TypeError(criteria)
    parts["criteria"] = tuple(Criterion(**criterion) for criterion in criteria if isinstance(criterion, dict))
    return StageDecision(**parts)  # type: ignore[arg-type]
