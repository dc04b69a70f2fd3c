"""Records in bulk: of each line only what reports count, checked and flat.

A full record costs some 150 microseconds to read; a hundred thousand of them are a report nobody waits for. A row is the same line read
for its numbers alone; what it does not hold (failing tests, whys, tags) is read from the line when somebody looks at it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

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
    judge: float
    total: float
    unit: str


# --- reading ------------------------------------------------------------------------------------------------------------

_TEXT, _FLAG, _WHOLE = core_schema.str_schema(), core_schema.bool_schema(strict=True), core_schema.int_schema()
_REAL = core_schema.float_schema(allow_inf_nan=False)
# A count that no float can hold would overflow where shares and means are taken.
_COUNT = core_schema.int_schema(le=2**63)


def _maybe(schema: CoreSchema) -> CoreSchema:
    return core_schema.nullable_schema(schema)


def _members(**fields: CoreSchema) -> CoreSchema:
    """An object of which only these members are looked at."""
    return core_schema.typed_dict_schema(
        {
            name: core_schema.typed_dict_field(schema, required=schema["type"] != "default")
            for name, schema in fields.items()
        },
        extra_behavior="ignore",
    )


def _values(**fields: CoreSchema) -> CoreSchema:
    """The same, as the tuple of the members (or the only one) instead of an object."""
    return core_schema.no_info_after_validator_function(itemgetter(*fields), _members(**fields))


def _words(words: Sequence[str]) -> CoreSchema:
    """One of some words, which becomes the member of the enumeration they are taken from."""
    return core_schema.literal_schema(list(words))


_GATE = _values(outcome=_words(list(Outcome)))
# Records made before judges had an item of their own do not name it.
_COSTS = dict.fromkeys(Cost._fields, _REAL) | {
    "judge": core_schema.with_default_schema(_REAL, default=0.0),
    "unit": _TEXT,
}
_FIELDS = {
    "attempt_id": _TEXT,
    "task_id": _TEXT,
    "repeat": core_schema.int_schema(ge=1, le=2**63),
    "variant": _TEXT,
    "agent": _TEXT,
    "model": _values(name=_maybe(_TEXT)),
    "run_status": _words(list(RunStatus)),
    "result": _values(passed=_FLAG, failure_reason=_maybe(_words(list(Reason)))),
    "invalid_cause": _maybe(_words(list(InvalidCause))),
    "attribution": _maybe(_TEXT),
    "run_badge": _TEXT,
    "needs_review": _FLAG,
    "contract_id": _TEXT,
    "task_digest": _TEXT,
    "acceptance_id": _TEXT,
    "env_digest": _maybe(_TEXT),
    "config_class": _maybe(_TEXT),
    "harness_version": _TEXT,
    "observability": _TEXT,
    "seed": _WHOLE,
    "duration_sec": _REAL,
    "score": _maybe(_REAL),
    "mean_score": _maybe(_REAL),
    "gates": _values(G1=_GATE, G2=_GATE, G3=_GATE, G4=_GATE),
    "progress": _values(f2p_passed=_COUNT, f2p_total=_COUNT, p2p_kept=_COUNT, p2p_total=_COUNT),
    "checks": core_schema.list_schema(_values(mandatory=_FLAG, assurance=_words(list(Assurance)))),
    "termination": _values(code=_TEXT),
    "limits": _values(timeout_sec=_REAL, tool_timeout_sec=_REAL),
    "workspace_verdict": _TEXT,
    "judge": _maybe(_values(verdict=_TEXT)),
    "usage": _values(**{name: _REAL if name.endswith("_sec") else _COUNT for name in Usage._fields}),
    "cost": _values(**_COSTS),
    "artifact_paths": _values(task_dir=_TEXT),
}
_VALIDATOR = SchemaValidator(
    _members(schema_version=core_schema.literal_schema([SCHEMA_VERSION]), final=_FLAG, **_FIELDS),
    # Few values repeat that are kept as text: looking each one up in a cache takes longer than making it.
    CoreConfig(cache_strings="keys"),
)
_PICKED = itemgetter(*_FIELDS)
_WEAKEST = {one: rank for rank, one in enumerate(Assurance)}


def read_rows(folder: Path) -> tuple[tuple[Row, ...], int]:
    """The final records as rows, and how many others there are. A torn last line is no record.

    Raises:
        InputError: a line is not a record that this version can read.
    """
    path = folder / ATTEMPTS
    # Rows hold no cycles: looking for some while hundreds of thousands of them come in would take as long as reading.
    collecting = gc.isenabled()
    gc.disable()
    try:
        with path.open("rb") as file:
            return _rows(file, path)
    except FileNotFoundError:
        return (), 0
    except OSError as error:
        raise failed("read", path, error) from error
    finally:
        if collecting:
            gc.enable()


def _rows(file: BinaryIO, path: Path) -> tuple[tuple[Row, ...], int]:
    known: dict[str, str] = {}
    finals: list[Row] = []
    superseded = offset = 0
    read = _VALIDATOR.validate_json
    for number, raw in enumerate(file, start=1):
        if not raw.endswith(b"\n"):
            break
        try:
            value = read(raw)
        except ValidationError as error:
            raise _refused(f"{path}:{number}", raw, error) from None
        if value["final"]:
            finals.append(_row(value, known, offset, len(raw) - 1))
        else:
            superseded += 1
        offset += len(raw)
    return tuple(finals), superseded


def _row(one: Mapping[str, Any], known: dict[str, str], offset: int, length: int) -> Row:
    """Flatten what the validator let through. Text that many rows share is kept once."""
    (
        attempt_id, task, repeat, variant, agent, model, status, (passed, reason), cause, attribution, badge, needs_review,
        contract, digest, acceptance, env, config, harness, observability, seed, duration, score, mean_score, gates, progress,
        checks, ending, (timeout, tool_timeout), workspace, judge, usage, cost, task_dir,
    ) = _PICKED(one)  # fmt: skip
    keep = known.setdefault
    used = [assurance for mandatory, assurance in checks if mandatory]
    # By place, in the order of the fields: by name it takes a tenth longer to read a run.
    return _new(
        Row,
        (
            attempt_id, keep(task, task), repeat, keep(variant, variant), keep(agent, agent), model, status, passed, reason, cause,
            attribution, badge, needs_review, keep(contract, contract), keep(digest, digest), keep(acceptance, acceptance),
            env and keep(env, env), config and keep(config, config), keep(harness, harness), observability, seed, duration, score,
            mean_score, gates, progress, max(used, key=_WEAKEST.__getitem__) if used else None, ending, timeout, tool_timeout,
            workspace, judge, _new(Usage, usage), _new(Cost, cost), task_dir, offset, length,
        ),
    )  # fmt: skip


_new = tuple.__new__


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
