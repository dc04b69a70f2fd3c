"""Read records in bulk: only the validated fields that reports count, as flat rows.

Parsing a full record takes about 150 µs, too slow for 100,000 of them. A row keeps its offset in the file, so that the
full record (failing tests, explanations, tags) can be read when a report shows it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from pydantic_core import CoreConfig, CoreSchema, SchemaValidator, ValidationError, core_schema

from agentbench.core.errors import InputError, RecordError
from agentbench.core.reasons import REPEATED_ON_RESUME, Assurance, InvalidCause, Outcome, Reason, RunStatus
from agentbench.core.regular_file import MAX_LINE, open_regular
from agentbench.record.naming import ATTEMPTS
from agentbench.record.schema import SCHEMA_VERSION, AttemptRecord, is_known, parse_record
from agentbench.record.seals import SealCheck, read_seals
from agentbench.reports.number_format import total
from agentbench.statistics.trials import Trial

VERIFY = "run `ab verify` to see what was changed"


class Row(NamedTuple):
    """One attempt."""

    attempt_id: str
    suite: str
    task: str
    repeat: int
    variant: str
    agent: str
    model: str | None
    status: RunStatus
    passed: bool
    reason: Reason | None
    cause: InvalidCause | None
    attribution: str | None
    badge: str
    needs_review: bool
    """False if resuming the run makes the attempt again, whatever its record says."""
    contract_id: str
    task_digest: str
    acceptance_id: str
    env_digest: str | None
    config_class: str | None
    harness_version: str
    observability: str
    commands: str | None
    """Whether the commands of an agent program were observed; None if no program acted as the agent."""
    safety: float | None
    seed: int
    duration: float
    score: float | None
    mean_score: float | None
    gates: tuple[Outcome, Outcome, Outcome, Outcome]
    progress: tuple[int, int, int, int]
    """fail-to-pass passed, fail-to-pass total, pass-to-pass kept, pass-to-pass total."""
    assurance: Assurance | None
    """Assurance of the weakest mandatory check."""
    decoy_coverage: float | None
    """Share of fail-to-pass tests with a decoy test; None if there are none, or in records of older versions."""
    ending: str
    timeout_sec: float
    tool_timeout_sec: float
    workspace_verdict: str
    judge: str | None
    usage: Usage
    cost: Cost
    overrun: bool
    """The total cost is above the cost cap."""
    task_dir: str
    offset: int
    length: int
    """Position of the full record in `attempts.jsonl`."""

    @property
    def safe(self) -> bool | None:
        """Whether the agent broke no rule and had no safety stop; None if that was not decided."""
        return is_safe(self.gates[3], self.cause)

    @property
    def started(self) -> bool:
        """Whether the agent did something. False for an invalid attempt without use, and without cost but that of its setup."""
        if self.status != "invalid" or self.cause == "safety" or self.cost.known_total is None:
            return True
        use, phases = self.usage, self.cost.phases
        return bool(
            use.wall_sec or use.tool_calls or use.model_requests or (phases[_AGENT] if phases else self.cost.total)
        )

    @property
    def checks_decided(self) -> bool:
        """False if the status of the attempt does not come from its checks, as in results imported from other tools."""
        return self.gates[2] != "error" or self.status not in ("success", "failure")


class Usage(NamedTuple):
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    model_requests: int
    tool_calls: int
    test_cycles: int
    wall_sec: float
    tool_sec: float
    check_sec: float


class Cost(NamedTuple):
    lm: float
    exec: float
    human: float
    overhead: float
    judge: float
    total: float
    unit: str
    phases: tuple[float, ...] | None
    """Total by phase, in the order of PHASES; None in records of versions that did not split it."""
    method_id: str | None = None

    @property
    def known_total(self) -> float | None:
        """The total; None if the cost is unknown."""
        return self.total if is_known(self.method_id, self.total) else None

    def without(self, left_out: Sequence[str]) -> float | None:
        """Return the cost of the other phases; None if it is unknown or not split by these phases."""
        if self.phases is None:
            components = {"judge": self.judge, "review": self.human}
            if self.known_total is None or not components.keys() >= set(left_out):
                return None
            return max(self.total - total([components[phase] for phase in left_out]), 0.0)
        return total([cost for phase, cost in zip(PHASES, self.phases, strict=True) if phase not in left_out])


PHASES = ("setup", "agent", "review", "acceptance", "judge", "storage")
_AGENT = PHASES.index("agent")
OVERRUN = "budget.overrun"
"""Tag of an attempt that cost more than its cap."""


# --- reading
# ------------------------------------------------------------------------------------------------------------

_TEXT, _FLAG, _WHOLE = core_schema.str_schema(), core_schema.bool_schema(strict=True), core_schema.int_schema()
_REAL = core_schema.float_schema(allow_inf_nan=False)
# Larger counts would overflow in shares and means.
_COUNT = core_schema.int_schema(le=2**63)


def _optional(schema: CoreSchema) -> CoreSchema:
    return core_schema.nullable_schema(schema)


def _members(**fields: CoreSchema) -> CoreSchema:
    """Schema of an object of which only these members are read."""
    return core_schema.typed_dict_schema(
        {
            name: core_schema.typed_dict_field(schema, required=schema["type"] != "default")
            for name, schema in fields.items()
        },
        extra_behavior="ignore",
    )


def _values(**fields: CoreSchema) -> CoreSchema:
    """Schema that yields these members as a tuple, or the value if there is only one."""
    return core_schema.no_info_after_validator_function(itemgetter(*fields), _members(**fields))


def _enum(members: Sequence[str]) -> CoreSchema:
    """Schema of an enumeration given its members."""
    return core_schema.literal_schema(list(members))


_GATE = _values(outcome=_enum(list(Outcome)))
# Older records have no judge cost.
_COSTS = dict.fromkeys(Cost._fields, _REAL) | {
    "judge": core_schema.with_default_schema(_REAL, default=0.0),
    "unit": _TEXT,
    "phases": core_schema.with_default_schema(_optional(_values(**dict.fromkeys(PHASES, _REAL))), default=None),
    "method_id": core_schema.with_default_schema(_optional(_TEXT), default=None),
}
_FIELDS = {
    "attempt_id": _TEXT,
    "suite": _TEXT,
    "task_id": _TEXT,
    "repeat": core_schema.int_schema(ge=1, le=2**63),
    "variant": _TEXT,
    "agent": _TEXT,
    "model": _values(name=_optional(_TEXT)),
    "run_status": _enum(list(RunStatus)),
    "result": _values(passed=_FLAG, failure_reason=_optional(_enum(list(Reason)))),
    "invalid_cause": _optional(_enum(list(InvalidCause))),
    "attribution": _optional(_TEXT),
    "run_badge": _TEXT,
    "needs_review": _FLAG,
    "contract_id": _TEXT,
    "task_digest": _TEXT,
    "acceptance_id": _TEXT,
    "env_digest": _optional(_TEXT),
    "config_class": _optional(_TEXT),
    "harness_version": _TEXT,
    "observability": _TEXT,
    # Older records do not say.
    "commands": core_schema.with_default_schema(_optional(_TEXT), default=None),
    "components": _values(safety=_optional(_REAL)),
    "seed": _WHOLE,
    "duration_sec": _REAL,
    "score": _optional(_REAL),
    "mean_score": _optional(_REAL),
    "gates": _values(G1=_GATE, G2=_GATE, G3=_GATE, G4=_GATE),
    "progress": _values(f2p_passed=_COUNT, f2p_total=_COUNT, p2p_kept=_COUNT, p2p_total=_COUNT),
    "checks": core_schema.list_schema(_values(mandatory=_FLAG, assurance=_enum(list(Assurance)))),
    # Older records do not say.
    "decoy_coverage": core_schema.with_default_schema(_optional(_REAL), default=None),
    "termination": _values(code=_TEXT),
    "limits": _values(timeout_sec=_REAL, tool_timeout_sec=_REAL),
    "workspace_verdict": _TEXT,
    "judge": _optional(_values(verdict=_TEXT)),
    "usage": _values(**{name: _REAL if name.endswith("_sec") else _COUNT for name in Usage._fields}),
    "cost": _values(**_COSTS),
    "tags": core_schema.list_schema(_values(id=_TEXT)),
    "artifact_paths": _values(task_dir=_TEXT),
}
_VALIDATOR = SchemaValidator(
    _members(
        schema_version=core_schema.literal_schema([SCHEMA_VERSION]),
        final=_FLAG,
        supersedes=core_schema.with_default_schema(_optional(_TEXT), default=None),
        **_FIELDS,
    ),
    # Caching values as well is slower, because few of them repeat.
    CoreConfig(cache_strings="keys"),
)
_select = itemgetter(*_FIELDS)
_WEAKNESS = {assurance: rank for rank, assurance in enumerate(Assurance)}


class Records(NamedTuple):
    """The records of a run as rows."""

    finals: tuple[Row, ...]
    superseded: int
    """Number of records replaced by a later attempt."""
    superseded_cost: Mapping[str, float]
    """Their total cost by unit. It was spent, and no rate counts it."""
    seals: SealCheck


def read_rows(folder: Path) -> Records:
    """Read the final records as rows and compare every record with its seal. An incomplete last line is ignored.

    Raises:
        InputError: a line is not a record this version can read.
        RecordError: a file cannot be read.
    """
    seals = read_seals(folder)
    path = folder / ATTEMPTS
    # Rows have no reference cycles; collecting while reading would double the time.
    gc_enabled = gc.isenabled()
    gc.disable()
    try:
        with open_regular(path) as file:
            return _rows(file, path, seals)
    except FileNotFoundError:
        return Records((), 0, {}, seals)
    except OSError as error:
        raise RecordError.of("read", path, error) from error
    finally:
        if gc_enabled:
            gc.enable()


def unsealed_attempts(rows: Sequence[Row], seals: SealCheck) -> frozenset[str]:
    """Return the attempts without a seal: all of a run without seals, else those that it has not sealed."""
    return frozenset(seals.not_sealed_yet() if seals.present else (row.attempt_id for row in rows))


def _rows(file: BinaryIO, path: Path, seals: SealCheck) -> Records:
    interned: dict[str, str] = {}
    finals: list[Row] = []
    superseded_cost: dict[str, float] = {}
    superseded = offset = 0
    read = _VALIDATOR.validate_json
    for number, raw in enumerate(file, start=1):
        if not raw.endswith(b"\n") and len(raw) < MAX_LINE:
            break
        try:
            value = read(raw)
        except ValidationError as error:
            raise _refused(f"{path}:{number}", raw, error) from None
        final = value["final"]
        seals.compare(number, raw[:-1], value["attempt_id"], final=final, supersedes=value["supersedes"])
        if final:
            finals.append(_row(value, interned, offset, len(raw) - 1))
        else:
            superseded += 1
            cost = _new(Cost, value["cost"])
            superseded_cost[cost.unit] = superseded_cost.get(cost.unit, 0.0) + cost.total
        offset += len(raw)
    return Records(tuple(finals), superseded, superseded_cost, seals)


def _row(value: Mapping[str, Any], interned: dict[str, str], offset: int, length: int) -> Row:
    """Flatten a validated record. Text shared by many rows is stored once."""
    (
        attempt_id, suite, task, repeat, variant, agent, model, status, (passed, reason), cause, attribution, badge, needs_review,
        contract, digest, acceptance, env, config, harness, observability, commands, safety, seed, duration, score, mean_score, gates, progress,
        checks, coverage, ending, (timeout, tool_timeout), workspace, judge, usage, cost, tags, task_dir,
    ) = _select(value)  # fmt: skip
    intern = interned.setdefault
    assurances = [assurance for mandatory, assurance in checks if mandatory]
    needs_review = needs_review and ending not in REPEATED_ON_RESUME
    # Positional, because keyword arguments make reading a run 10% slower.
    return _new(
        Row,
        (
            attempt_id, intern(suite, suite), intern(task, task), repeat, intern(variant, variant), intern(agent, agent), model, status, passed, reason, cause,
            attribution, badge, needs_review, intern(contract, contract), intern(digest, digest), intern(acceptance, acceptance),
            env and intern(env, env), config and intern(config, config), intern(harness, harness), observability, commands, safety, seed, duration, score,
            mean_score, gates, progress, max(assurances, key=_WEAKNESS.__getitem__) if assurances else None, coverage, ending, timeout, tool_timeout,
            workspace, judge, _new(Usage, usage), _new(Cost, cost), OVERRUN in tags, task_dir, offset, length,
        ),
    )  # fmt: skip


_new = tuple.__new__


def is_safe(gate: Outcome, cause: InvalidCause | None) -> bool | None:
    """Return whether an attempt was safe, given its gate G4 and why it is invalid; None if that was not decided."""
    if cause == "safety":
        return False
    return None if gate == "error" else gate == "pass"


def trial_of(row: Row) -> Trial:
    """Return what statistics needs of a row."""
    return Trial(row.task, row.repeat, row.status, row.passed, row.cause, row.cost.known_total, row.safe)


def read_records(folder: Path, rows: Sequence[Row]) -> Iterator[AttemptRecord]:
    """Read the full records of some rows, in their order.

    Raises:
        InputError: a record changed since its row was read, or cannot be parsed in full.
    """
    path = folder / ATTEMPTS
    if not rows:  # as in `read_rows`, the file may be missing
        return
    try:
        with open_regular(path) as file:
            for row in rows:
                file.seek(row.offset)
                yield parse_record(file.read(row.length))
    except RecordError as error:
        raise InputError(f"{path}: {error.message}", remedy=VERIFY) from error
    except OSError as error:
        raise RecordError.of("read", path, error) from error


def _refused(place: str, raw: bytes, error: ValidationError) -> InputError:
    """Describe why a line cannot be read, and whether it needs another version."""
    first = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(map(str, first["loc"])) or "record"
    version = _version(raw)
    if version is not None and version != SCHEMA_VERSION:
        msg = f"{place}: schema_version {version} is not supported, expected {SCHEMA_VERSION}"
        remedy = "upgrade agentbench-harness to read newer records" if version > SCHEMA_VERSION else VERIFY
        return InputError(msg, remedy=remedy)
    msg = f"{place}: {where}: {first['msg']}"
    return InputError(msg, remedy=VERIFY)


def _version(raw: bytes) -> int | None:
    try:
        version: int = SchemaValidator(_members(schema_version=_WHOLE)).validate_json(raw)["schema_version"]
    except ValidationError:
        return None
    return version
