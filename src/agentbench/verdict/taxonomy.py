"""The published enumeration of failure tags: which gates a tag explains and the least evidence that allows it (P4.4)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from agentbench.core.reasons import Gate
from agentbench.trace.events import IntegrityFinding, MonitorAlert

ANY_EVENT = "*"


@dataclass(frozen=True, slots=True)
class TagKind:
    """One line of `taxonomy.jsonl`."""

    id: str
    gates: tuple[Gate, ...]
    evidence: tuple[str, ...]
    """Event types that may prove it."""
    minimum: int
    """How many such events it takes."""
    attributes: tuple[str, ...]
    rules: tuple[str, ...]
    """Prefixes of the rules (of alerts and findings) that map to this tag."""
    monitors: tuple[str, ...]
    """Monitors all of whose alerts map to this tag, whatever rule of the contract they name."""
    description: str


@cache
def taxonomy() -> dict[str, TagKind]:
    """All kinds by id, in the order of the file."""
    text = files("agentbench.verdict").joinpath("taxonomy.jsonl").read_text(encoding="utf-8")
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
        description=data["description"],
    )


def kind_of_rule(broken: MonitorAlert | IntegrityFinding) -> TagKind:
    """The tag a broken rule becomes: by its monitor, else by the first prefix that fits its rule, else the general one."""
    kinds = taxonomy()
    if isinstance(broken, MonitorAlert):
        for kind in kinds.values():
            if broken.monitor in kind.monitors:
                return kind
    for kind in kinds.values():
        if broken.type in kind.evidence and broken.rule.startswith(kind.rules):
            return kind
    return kinds["policy.violation" if isinstance(broken, MonitorAlert) else "integrity.violation"]
