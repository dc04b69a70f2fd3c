"""What AgentBench writes into the logs of other tools so that an import can restore it: the verdict and the conditions of an attempt."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentbench.core.canonical import Json
from agentbench.core.reasons import Attribution, Gate, InvalidCause, Outcome, Reason, RunStatus, TerminationCode
from agentbench.record.schema import AttemptRecord
from agentbench.statistics.trials import contract_value
from agentbench.trace.events import GateResult

_Id = Annotated[str, Field(min_length=1, max_length=200)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class _Result(_Part):
    passed: bool
    failure_reason: Reason | None = None


class _Termination(_Part):
    code: TerminationCode


class ExportedAttempt(_Part):
    """The fields of a record that an import restores. Logs of older versions do not state `harness_version`."""

    contract_id: _Id
    task_digest: _Id
    acceptance_id: _Id
    env_digest: _Id | None = None
    config_class: _Id | None = None
    harness_version: _Id | None = None
    seed: int = Field(ge=-(2**63), lt=2**64)
    run_status: RunStatus
    invalid_cause: InvalidCause | None = None
    attribution: Attribution | None = None
    result: _Result
    gates: dict[Gate, GateResult]
    termination: _Termination

    @property
    def contract(self) -> int | None:
        """What the attempt counts in the contract rate."""
        return contract_value(self.run_status, self.invalid_cause, passed=self.result.passed)

    @property
    def consistent(self) -> bool:
        """Whether the parts of the verdict can be those of one attempt."""
        if self.gates.keys() != set(Gate) or (self.run_status is RunStatus.INVALID) != (self.invalid_cause is not None):
            return False
        all_gates = all(gate.passed and gate.outcome is Outcome.PASS for gate in self.gates.values())
        return not self.result.passed or (self.run_status is RunStatus.SUCCESS and all_gates)


def exported_fields(record: AttemptRecord) -> dict[str, Json]:
    return record.model_dump(mode="json", include=set(ExportedAttempt.model_fields))


def exported_attempt(fields: Json) -> ExportedAttempt | None:
    """Read the fields back; None if another tool wrote the log or they are not those of one attempt."""
    try:
        attempt = ExportedAttempt.model_validate(fields)
    except ValidationError:
        return None
    return attempt if attempt.consistent else None
