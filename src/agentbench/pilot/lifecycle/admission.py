"""Admit attempts of a stage until a stopping rule holds."""

from __future__ import annotations

from dataclasses import field

from agentbench.core.dataclass import dataclass
from agentbench.pilot.decisions.decision_log import append_decision, stop_decision
from agentbench.pilot.decisions.launches import LaunchIds
from agentbench.pilot.decisions.observations import Records
from agentbench.pilot.decisions.stopping_rules import Stop, first_stop
from agentbench.pilot.folder import RUNS
from agentbench.pilot.pilot_state import PilotState, evaluate_rules
from agentbench.record.schema import AttemptRecord, parse_record


@dataclass(slots=True)
class Admission:
    """Evaluates the stopping rules before each attempt. Once a rule holds, logs the stop and admits no attempt."""

    state: PilotState
    stage: str
    ids: LaunchIds
    stop: Stop | None = None
    _records: dict[str, list[AttemptRecord]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._records = {name: list(records) for name, records in self.state.records.by_run.items()}

    def __call__(self) -> bool:
        if self.stop is not None:
            return False
        records = self._read()
        states = evaluate_rules(self.state, self.stage, records, self.state.removed)
        self.stop = first_stop(states)
        if self.stop is None:
            return True
        registration, launched = self.state.registration.registration_id, self.ids.launched
        removed = tuple(sorted(self.state.removed))
        decision = stop_decision(self.stage, registration, self.stop, records.seen, removed, launched)
        append_decision(self.state.folder, decision)
        return False

    def _read(self) -> Records:
        """Read the records that were added since the last call."""
        for name in self.state.stage_runs(self.stage).values():
            known = self._records.setdefault(name, [])
            lines = (self.state.folder / RUNS / name / "attempts.jsonl").read_bytes().split(b"\n")[:-1]
            known += [parse_record(line) for line in lines[len(known) :]]
        return Records({name: tuple(records) for name, records in self._records.items()})
