"""Records in bulk: of each line only what reports count, checked and flat.

A full record costs some 150 microseconds to read; a hundred thousand of them are a report nobody waits for. A row is the same line read
for its numbers alone; what it does not hold (failing tests, whys, tags) is read from the line when somebody looks at it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from pydantic_core import CoreConfig, CoreSchema, SchemaValidator, ValidationError, core_schema

from agentbench.core.errors import InputError, RecordError
from agentbench.core.reasons import Assurance, InvalidCause, Outcome, Reason, RunStatus
from agentbench.record.durable import failed
from agentbench.record.naming import ATTEMPTS
from agentbench.record.schema import SCHEMA_VERSION, AttemptRecord, parse_record

VERIFY = "ab verify names what was changed in a run directory"


class Row(NamedTuple):
    """One attempt, flat."""

    attempt_id: str
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
    contract_id: str
    task_digest: str
    acceptance_id: str
    env_digest: str | None
    config_class: str | None
    harness_version: str
    observability: str
    seed: int
    duration: float
    score: float | None
    mean_score: float | None
    gates: tuple[Outcome, Outcome, Outcome, Outcome]
    progress: tuple[int, int, int, int]
    """Required tests: mended, to mend, kept, to keep."""
    assurance: Assurance | None
    """Of the weakest mandatory check: a verdict is as strong as that."""
    ending: str
    timeout_sec: float
    tool_timeout_sec: float
    workspace_verdict: str
    judge: str | None
    usage: Usage
    cost: Cost
    task_dir: str
    offset: int
    length: int
    """Where the whole record lies in `attempts.jsonl`."""


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
    total: float
    unit: str


# --- reading ------------------------------------------------------------------------------------------------------------

_TEXT, _FLAG, _WHOLE = core_schema.str_schema(), core_schema.bool_schema(strict=True), core_schema.int_schema()
_REAL = core_schema.float_schema(allow_inf_nan=False)


def _maybe(schema: CoreSchema) -> CoreSchema:
    return core_schema.nullable_schema(schema)


def _members(**fields: CoreSchema) -> CoreSchema:
    """An object of which only these members are looked at."""
    return core_schema.typed_dict_schema(
        {name: core_schema.typed_dict_field(schema, required=True) for name, schema in fields.items()},
        extra_behavior="ignore",
    )


def _words(words: Sequence[str]) -> CoreSchema:
    return core_schema.literal_schema(list(words))


_GATE = _members(outcome=_words(list(Outcome)))
_SCHEMA = _members(
    schema_version=core_schema.literal_schema([SCHEMA_VERSION]),
    attempt_id=_TEXT,
    task_id=_TEXT,
    repeat=core_schema.int_schema(ge=1),
    variant=_TEXT,
    agent=_TEXT,
    model=_members(name=_maybe(_TEXT)),
    final=_FLAG,
    run_status=_words(list(RunStatus)),
    result=_members(passed=_FLAG, failure_reason=_maybe(_words(list(Reason)))),
    invalid_cause=_maybe(_words(list(InvalidCause))),
    attribution=_maybe(_TEXT),
    run_badge=_TEXT,
    needs_review=_FLAG,
    contract_id=_TEXT,
    task_digest=_TEXT,
    acceptance_id=_TEXT,
    env_digest=_maybe(_TEXT),
    config_class=_maybe(_TEXT),
    harness_version=_TEXT,
    observability=_TEXT,
    seed=_WHOLE,
    duration_sec=_REAL,
    score=_maybe(_REAL),
    mean_score=_maybe(_REAL),
    gates=_members(G1=_GATE, G2=_GATE, G3=_GATE, G4=_GATE),
    progress=_members(f2p_passed=_WHOLE, f2p_total=_WHOLE, p2p_kept=_WHOLE, p2p_total=_WHOLE),
    checks=core_schema.list_schema(_members(mandatory=_FLAG, assurance=_words(list(Assurance)))),
    termination=_members(code=_TEXT),
    limits=_members(timeout_sec=_REAL, tool_timeout_sec=_REAL),
    workspace_verdict=_TEXT,
    judge=_maybe(_members(verdict=_TEXT)),
    usage=_members(**{name: _REAL if name.endswith("_sec") else _WHOLE for name in Usage._fields}),
    cost=_members(**{name: _TEXT if name == "unit" else _REAL for name in Cost._fields}),
    artifact_paths=_members(task_dir=_TEXT),
)
# Few values repeat that are kept as text: looking each one up in a cache takes longer than making it.
_VALIDATOR = SchemaValidator(_SCHEMA, CoreConfig(cache_strings="keys"))
_WEAKEST = {one: rank for rank, one in enumerate(Assurance)}
_STATUS = {str(one): one for one in RunStatus}
_REASONS = {str(one): one for one in Reason}
_CAUSES = {str(one): one for one in InvalidCause}
_OUTCOMES = {str(one): one for one in Outcome}
_USAGE, _COST = itemgetter(*Usage._fields), itemgetter(*Cost._fields)
_ASSURANCES = {str(one): one for one in Assurance}


def read_rows(folder: Path) -> tuple[tuple[Row, ...], int]:
    """The final records as rows, and how many others there are. A torn last line is no record.

    Raises:
        InputError: a line is not a record that this version can read.
    """
    finals: list[Row] = []
    superseded = 0
    # Rows hold no cycles: looking for some while hundreds of thousands of them come in would take as long as reading.
    collecting = gc.isenabled()
    gc.disable()
    try:
        for row, final in _rows(folder / ATTEMPTS):
            if final:
                finals.append(row)
            else:
                superseded += 1
    finally:
        if collecting:
            gc.enable()
    return tuple(finals), superseded


def _rows(path: Path) -> Iterator[tuple[Row, bool]]:
    known: dict[str, str] = {}
    offset = 0
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                if not raw.endswith(b"\n"):
                    return
                try:
                    value = _VALIDATOR.validate_json(raw)
                except ValidationError as error:
                    raise _refused(f"{path}:{number}", raw, error) from None
                yield _row(value, known, offset, len(raw) - 1), value["final"]
                offset += len(raw)
    except FileNotFoundError:
        return
    except OSError as error:
        raise failed("read", path, error) from error


def _row(one: Mapping[str, Any], known: dict[str, str], offset: int, length: int) -> Row:
    """Flatten what the validator let through. Text that many rows share is kept once."""
    keep = known.setdefault
    gates, progress = one["gates"], one["progress"]
    used = [check["assurance"] for check in one["checks"] if check["mandatory"]]
    reason, cause, judge, env, config = (
        one["result"]["failure_reason"],
        one["invalid_cause"],
        one["judge"],
        one["env_digest"],
        one["config_class"],
    )
    # By place, in the order of the fields: by name it takes a tenth longer to read a run.
    return Row._make(
        (
            one["attempt_id"],
            keep(one["task_id"], one["task_id"]),
            one["repeat"],
            keep(one["variant"], one["variant"]),
            keep(one["agent"], one["agent"]),
            one["model"]["name"],
            _STATUS[one["run_status"]],
            one["result"]["passed"],
            _REASONS[reason] if reason else None,
            _CAUSES[cause] if cause else None,
            one["attribution"],
            one["run_badge"],
            one["needs_review"],
            keep(one["contract_id"], one["contract_id"]),
            keep(one["task_digest"], one["task_digest"]),
            keep(one["acceptance_id"], one["acceptance_id"]),
            env and keep(env, env),
            config and keep(config, config),
            keep(one["harness_version"], one["harness_version"]),
            one["observability"],
            one["seed"],
            one["duration_sec"],
            one["score"],
            one["mean_score"],
            (
                _OUTCOMES[gates["G1"]["outcome"]],
                _OUTCOMES[gates["G2"]["outcome"]],
                _OUTCOMES[gates["G3"]["outcome"]],
                _OUTCOMES[gates["G4"]["outcome"]],
            ),
            (progress["f2p_passed"], progress["f2p_total"], progress["p2p_kept"], progress["p2p_total"]),
            _ASSURANCES[used[0] if len(used) == 1 else max(used, key=_WEAKEST.__getitem__)] if used else None,
            one["termination"]["code"],
            one["limits"]["timeout_sec"],
            one["limits"]["tool_timeout_sec"],
            one["workspace_verdict"],
            judge["verdict"] if judge else None,
            Usage._make(_USAGE(one["usage"])),
            Cost._make(_COST(one["cost"])),
            one["artifact_paths"]["task_dir"],
            offset,
            length,
        )
    )


def read_records(folder: Path, rows: Sequence[Row]) -> Iterator[AttemptRecord]:
    """The whole records of some rows, in their order.

    Raises:
        InputError: a record is not what its row was read from, or says more that cannot be read.
    """
    path = folder / ATTEMPTS
    try:
        with path.open("rb") as file:
            for row in rows:
                file.seek(row.offset)
                yield parse_record(file.read(row.length))
    except RecordError as error:
        msg = f"{path}: {error.message}"
        raise InputError(msg, remedy=VERIFY) from error
    except OSError as error:
        raise failed("read", path, error) from error


def _refused(place: str, raw: bytes, error: ValidationError) -> InputError:
    """What is wrong with a line, and whether a newer version would understand it."""
    first = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(map(str, first["loc"])) or "record"
    version = _version(raw)
    if version is not None and version != SCHEMA_VERSION:
        msg = f"{place}: schema_version {version}; this version reads {SCHEMA_VERSION}"
        remedy = "read it with the version of ab that made it, or a newer one" if version > SCHEMA_VERSION else VERIFY
        return InputError(msg, remedy=remedy)
    msg = f"{place}: {where}: {first['msg']}"
    return InputError(msg, remedy=VERIFY)


def _version(raw: bytes) -> int | None:
    try:
        found: int = SchemaValidator(_members(schema_version=_WHOLE)).validate_json(raw)["schema_version"]
    except ValidationError:
        return None
    return found
