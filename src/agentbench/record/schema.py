"""The record of an attempt: one line of `attempts.jsonl`. Every key is always present; null means not applicable.

The line is canonical JSON. The digest that the trace seals leaves out two keys: `trace_head` (the head of the chain that
contains the digest) and `final` (false once a later attempt supersedes this one).
"""

# No `from __future__ import annotations`: pydantic would compile every annotation, a quarter of the time to import this.

from typing import Annotated, Final, Literal, Self, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, PlainSerializer, ValidationError, field_validator

from agentbench.core.canonical import SAFE_INTEGER, CanonicalError, Json, canonical, parse_canonical, sha256_hex
from agentbench.core.errors import RecordError
from agentbench.core.reasons import (
    Assurance,
    Attribution,
    Gate,
    InvalidCause,
    Observability,
    Outcome,
    Reason,
    RunStatus,
    TerminationCategory,
    TerminationCode,
)
from agentbench.trace.events import GateResult

SCHEMA_VERSION: Final = 1
UNSEALED = frozenset({"trace_head", "final"})
"""Keys of a record that its digest leaves out."""


def _exact(number: int) -> int | str:
    return number if -SAFE_INTEGER <= number <= SAFE_INTEGER else str(number)


Integer = Annotated[int, PlainSerializer(_exact, when_used="json")]
"""An arbitrary integer. Beyond 2^53 it is written as a string."""

ScorerVerdict = Literal["PASS", "FAIL", "N/A", "ERROR"]


class Part(BaseModel):
    """Base of all parts of a record."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    @classmethod
    def of(cls, source: object) -> Self:
        """Copy the attributes of `source` that have the names of this part's fields."""
        return cls.model_validate(source, from_attributes=True)


class Model(Part):
    """The agent's model; all null for an agent without one."""

    provider: str | None = None
    name: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    prompt_version: str | None = None


class Timestamps(Part):
    started_at: str
    ended_at: str


class BaselineValidation(Part):
    attempted: bool = False
    failed_as_expected: bool | None = None
    exit_code: int | None = None
    cached: bool = False


class Result(Part):
    passed: bool
    exit_code: int | None = None
    failure_reason: Reason | None = None


class Patch(Part):
    path: str
    sha256: str
    files: int
    added: int
    removed: int


class CheckRecord(Part):
    id: str
    layer: str
    mandatory: bool
    outcome: Outcome
    assurance: Assurance
    command: str
    exit_code: int | None = None
    started_at: str
    duration_sec: float
    ceiling_sec: float
    stdout_sha256: str
    stderr_sha256: str
    failing_tests: tuple[str, ...] = ()
    why: str = ""
    f2p_total: int | None = None
    """Number of fail-to-pass tests; null in records of versions that did not count them by check."""
    decoys: int | None = None
    """How many of them have a decoy test."""

    @property
    def decoy_coverage(self) -> float | None:
        """Share of fail-to-pass tests with a decoy test; None if the check has no results per test, or was not run."""
        if self.assurance is not Assurance.PER_TEST or self.decoys is None or not self.f2p_total:
            return None
        return self.decoys / self.f2p_total


class Progress(Part):
    f2p_passed: int = 0
    f2p_total: int = 0
    p2p_kept: int = 0
    p2p_total: int = 0


class Components(Part):
    """The four score components, each 0..1; null if not measured."""

    correctness: float | None = None
    validity: float | None = None
    safety: float | None = None
    efficiency: float | None = None


class Tag(Part):
    id: str
    gate: Gate | None = None
    evidence: tuple[int, ...] = Field(min_length=1)
    """`seq` of the events that prove it; at least one."""
    attributes: dict[str, JsonValue] = Field(default_factory=dict)


class ScorerRecord(Part):
    name: str
    type: str
    required: bool
    verdict: ScorerVerdict
    score: float | None = None
    detail: str = ""


class Fact(Part):
    claim: str
    verdict: str
    evidence: str


class Judge(Part):
    verdict: Literal["PASS", "FAIL", "unparseable"]
    task_completion: int | None = None
    instruction_adherence: int | None = None
    efficiency: int | None = None
    failure_mode: str | None = None
    facts: tuple[Fact, ...] = ()
    reasoning: str = ""
    model: str
    scored_at: str
    verdicts: tuple[str, ...] = ()
    """The verdict of each request, if the judge was asked more than once."""
    agreement: float | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0


class TerminationRecord(Part):
    code: TerminationCode
    category: TerminationCategory | None = None
    rationale: str = ""
    evidence: tuple[int, ...] = ()


class LimitsRecord(Part):
    timeout_sec: float
    tool_timeout_sec: float


class Usage(Part):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    model_requests: int = 0
    tool_calls: int = 0
    test_cycles: int = 0
    wall_sec: float = 0.0
    tool_sec: float = 0.0
    check_sec: float = 0.0


class PhaseCosts(Part):
    """The total cost by phase of the attempt."""

    setup: float = 0.0
    """Setup commands that ran for this attempt."""
    agent: float = 0.0
    """Model requests and tool calls."""
    review: float = 0.0
    """Time that the attempt waited for decisions of a person."""
    acceptance: float = 0.0
    """Builds, static commands and checks."""
    judge: float = 0.0
    storage: float = 0.0


def is_known(method_id: str | None, total: float) -> bool:
    """Return whether a cost is known. Nothing but an imported result has a cost of 0 that no method computed."""
    return method_id is not None or total != 0


class Cost(Part):
    lm: float = 0.0
    exec: float = 0.0
    human: float = 0.0
    overhead: float = 0.0
    judge: float = 0.0
    """Cost of the judge: part of the total, never of the agent's budget."""
    total: float = 0.0
    unit: str = "usd"
    method_id: str | None = None
    """The price table or cost model; null with a total of 0 if the cost is unknown: of a tool that does not state it."""
    phases: PhaseCosts | None = None
    """Null in records of versions that did not split the cost by phase."""

    @property
    def known(self) -> bool:
        """Whether the amounts say what the attempt cost."""
        return is_known(self.method_id, self.total)


class ArtifactPaths(Part):
    """Relative to the run directory."""

    task_dir: str
    failing_stdout: str | None = None
    passing_stdout: str | None = None
    """The same file as `checks_stdout`, under the name that earlier versions used."""
    checks_stdout: str | None = None
    """Output of the checks, whatever they decided; null in records of earlier versions."""


class AttemptRecord(Part):
    """The record of one attempt: its identity, verdict, costs and evidence."""

    schema_version: Literal[1] = SCHEMA_VERSION
    """Version of this format."""
    harness_version: str
    """Version and commit of the harness."""
    study_id: str
    """Common to all runs that one `ab run` started."""
    run_id: str
    """The run directory."""
    attempt_id: str
    """This attempt."""
    supersedes: str | None = None
    """The attempt that this one replaces, after a retry or resume."""
    final: bool = True
    """Whether no later attempt supersedes this one. Only final records count."""
    task_id: str
    """The task."""
    suite: str
    """The suite."""
    contract_id: str
    """Digest of repository, environment, setup, checks and policy."""
    task_digest: str
    """Digest of the contract and of statement, hints, turns, budget, scorers, judge and rubric."""
    acceptance_id: str
    """Digest of the mandatory checks and their files."""
    env_digest: str | None = None
    """Digest of what setup produced."""
    config_class: str | None = None
    """Digest of sandbox constraints, limits and logging schema. Only runs of one class are comparable."""
    variant: str
    """The variant, or the agent if there is none."""
    agent: str
    """The agent."""
    repeat: int = Field(ge=1)
    """Number of the repeat, from 1."""
    seed: Integer
    """This repeat's seed."""
    observability: Observability
    """What the trace shows of the agent: tool calls, model traffic, or only its effects."""
    commands: Literal["observed", "incomplete", "not_observed"] | None = None
    """Whether the commands of an agent program were observed; null if no program acted as the agent."""
    commands_why: str = ""
    """Why they were not, or not all of them."""
    model: Model = Model.model_construct()
    """The model of the agent."""
    timestamps: Timestamps
    """Start and end."""
    duration_sec: float
    """Duration of the attempt."""
    baseline_validation: BaselineValidation = BaselineValidation.model_construct()
    """Result of the checks on the base repository."""
    result: Result
    """The verdict."""
    run_status: RunStatus
    """Outcome of the mandatory checks."""
    invalid_cause: InvalidCause | None = None
    """Why the attempt is invalid."""
    attribution: Attribution | None = None
    """Who caused a result that is not a pass."""
    run_badge: str
    """How the agent phase ended: `completed`, `stopped`, `crashed`, `aborted`, `error` or `not_started`."""
    needs_review: bool = False
    """Whether a person should review the attempt."""
    patch: Patch | None = None
    """The graded patch."""
    checks: tuple[CheckRecord, ...] = ()
    """Every check with its decision."""
    progress: Progress = Progress.model_construct()
    """Passed and required tests."""
    decoy_coverage: float | None = None
    """Share of the fail-to-pass tests of mandatory `per_test` checks that have a decoy test; null if there are none."""
    gates: dict[Gate, GateResult]
    """The four gates: the patch applies (G1), builds (G2), passes the checks (G3) and is safe (G4)."""
    score: float | None = None
    """Graded score of a passed attempt."""
    decomposed_score: float | None = None
    """Weighted correctness and validity minus violations."""
    rubric: str | None = None
    """Digest of the rubric and the weights in force."""
    components: Components = Components.model_construct()
    """The four score components."""
    tags: tuple[Tag, ...] = ()
    """Failure tags."""
    scorers: tuple[ScorerRecord, ...] = ()
    """Scorer results."""
    workspace_verdict: ScorerVerdict = "N/A"
    """Verdict over the scorers; it never changes `result.passed`."""
    mean_score: float | None = None
    """Mean of the scorer scores."""
    judge: Judge | None = None
    """The opinion of the judge model; it never changes `result.passed`."""
    termination: TerminationRecord
    """How and why the agent phase ended."""
    limits: LimitsRecord
    """Time limits in force."""
    usage: Usage = Usage.model_construct()
    """Metered usage."""
    cost: Cost = Cost.model_construct()
    """Projected cost."""
    artifact_paths: ArtifactPaths
    """Paths relative to the run directory."""
    trace_head: str | None = None
    """Head of the attempt's hash chain."""

    @field_validator("gates")
    @classmethod
    def _all_gates(cls, gates: dict[Gate, GateResult]) -> dict[Gate, GateResult]:
        if set(gates) != set(Gate):
            raise ValueError("expected all four gates")
        return gates

    @property
    def key(self) -> tuple[str, str, int]:
        """Return (task, variant, repeat). Exactly one final record exists for each."""
        return (self.task_id, self.variant, self.repeat)

    def line(self) -> bytes:
        """Return the record as a line of `attempts.jsonl`, without the newline."""
        return canonical(self.model_dump(mode="json"))


def parse_record(line: bytes) -> AttemptRecord:
    """Parse one line.

    Raises:
        RecordError: the line is not canonical JSON, or not a record.
    """
    try:
        return AttemptRecord.model_validate(parse_canonical(line))
    except CanonicalError as error:
        raise RecordError(f"invalid line: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "record"
        raise RecordError(f"{place}: {first['msg']}") from None


def sealed_body(record: AttemptRecord) -> bytes:
    """Return the part of a record that the trace seals: its canonical form without `trace_head` and `final`."""
    value = cast("dict[str, Json]", record.model_dump(mode="json", exclude=set(UNSEALED)))
    return canonical(value)


def record_sha256(record: AttemptRecord) -> str:
    """Return the digest that `attempt_closed` and `attempt_sealed` contain."""
    return sha256_hex(sealed_body(record))
