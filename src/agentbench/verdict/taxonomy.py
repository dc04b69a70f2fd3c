"""The published failure tags: the gates each tag explains and the evidence it requires."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from agentbench.core.dataclass import dataclass
from agentbench.core.reasons import Gate
from agentbench.trace.events import IntegrityFinding, MonitorAlert

ANY_EVENT = "*"


@dataclass(frozen=True, slots=True)
class TagKind:
    """One line of `taxonomy.jsonl`."""

    id: str
    gates: tuple[Gate, ...]
    evidence: tuple[str, ...]
    """Event types accepted as evidence."""
    minimum: int
    """Number of such events that are required."""
    attributes: tuple[str, ...]
    rules: tuple[str, ...]
    """Prefixes of alert and finding rules that map to this tag."""
    monitors: tuple[str, ...]
    """Monitors whose alerts all map to this tag, whatever their rule."""
    notes: bool
    """Whether notes get the tag, not only violations."""
    rejects: bool
    """Whether an attempt can be rejected with the tag. Otherwise it only adds information to an attempt."""
    description: str


@cache
def taxonomy() -> dict[str, TagKind]:
    """Return all tag kinds by id, in file order."""
    text = Path(__file__).with_name("taxonomy.jsonl").read_text(encoding="utf-8")
    kinds = [_kind(line) for line in text.split("\n") if line.strip()]
    return {kind.id: kind for kind in kinds}


def _kind(line: str) -> TagKind:
    data = json.loads(line)
    return TagKind(
        id=data["id"],
        gates=tuple(Gate(gate) for gate in data["gates"]),
        evidence=tuple(data["evidence"]),
        minimum=data["minimum"],
        attributes=tuple(data.get("attributes", ())),
        rules=tuple(data.get("rules", ())),
        monitors=tuple(data.get("monitors", ())),
        notes=data.get("notes", False),
        rejects=data.get("rejects", True),
        description=data["description"],
    )


def kind_of_rule(violation: MonitorAlert | IntegrityFinding) -> TagKind:
    """Return the tag of a violated rule: by monitor, else by the first matching rule prefix, else the general tag."""
    kinds = taxonomy()
    if isinstance(violation, MonitorAlert):
        for kind in kinds.values():
            if violation.monitor in kind.monitors:
                return kind
    for kind in kinds.values():
        if violation.type in kind.evidence and violation.rule.startswith(kind.rules):
            return kind
    return kinds["policy.violation" if isinstance(violation, MonitorAlert) else "integrity.violation"]
