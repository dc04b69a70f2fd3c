"""Write results of another tool as a run directory that says so.

An imported run has `run.json` (with `imported`), `attempts.jsonl`, and for each attempt its conversation and what the source said of it.
It has no hash chain and no evidence, so reports mark it as imported, and nothing can be verified, signed or graded again. Verdict, gates and
conditions of attempts that AgentBench exported are kept. Another tool states one decision, which `result.passed` repeats: all gates
are undecided, and there is no configuration class, so the seed means nothing either. Ids of contracts and tasks start with `imported:`,
so that imported results are only compared with results for the same task of the same tool.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agentbench.core.canonical import Json, sha256_hex
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError
from agentbench.core.ids import new_ulid, now_iso
from agentbench.core.reasons import (
    Attribution,
    Gate,
    InvalidCause,
    Observability,
    Outcome,
    Reason,
    RunStatus,
    TerminationCode,
)
from agentbench.core.text import printable
from agentbench.exchange.attempt_trace import CONVERSATION, TraceMessage
from agentbench.exchange.exported_attempt import ExportedAttempt
from agentbench.exchange.imported_result import ImportedAttempt, ImportedLog
from agentbench.record.attempt_folder import hash_file, task_dir_name
from agentbench.record.manifest import indented_json
from agentbench.record.naming import ATTEMPTS, RUN_JSON, new_run_folder, run_name
from agentbench.record.run_state import IMPORTED_ID
from agentbench.record.schema import (
    ArtifactPaths,
    AttemptRecord,
    Cost,
    LimitsRecord,
    Model,
    Result,
    ScorerRecord,
    TerminationRecord,
    Timestamps,
)
from agentbench.statistics.trials import contract_value
from agentbench.trace.events import GateResult
from agentbench.trace.json_safe import valid_utf8
from agentbench.verdict.headline import headline

SOURCE = "meta/imported.json"
_NOT_IN_ID = re.compile(r"[^A-Za-z0-9._-]+")
MAX_ID = 100
MAX_TEXT = 2000
MAX_NAME = 200

_RESULTS: dict[str, tuple[RunStatus, Reason | None, InvalidCause | None, Attribution | None]] = {
    "pass": (RunStatus.SUCCESS, None, None, None),
    "fail": (RunStatus.FAILURE, None, None, Attribution.AGENT),
    "error": (RunStatus.INVALID, Reason.SANDBOX_ERROR, InvalidCause.HARNESS, Attribution.HARNESS),
    "undecided": (RunStatus.INVALID, Reason.ACCEPTANCE_ERROR, InvalidCause.HARNESS, Attribution.HARNESS),
}


@dataclass(frozen=True, slots=True)
class ImportedRun:
    path: Path
    attempts: int
    passed: int
    invalid: int
    """Attempts outside the contract rate."""


def write_imported_run(log: ImportedLog, source: Path, out: Path) -> ImportedRun:
    """Write the results as a new run directory below `out`.

    Raises:
        InputError: the source cannot be read, has no results or the same result twice, or `out` cannot be used.
    """
    attempts = log.attempts()
    first = next(attempts, None)
    if first is None:
        raise InputError(f"{source} has no results")
    writer = _Writer(log, source, out)
    try:
        writer.add(first)
        for attempt in attempts:
            writer.add(attempt)
        return writer.finish()
    except BaseException as error:
        shutil.rmtree(writer.path, ignore_errors=True)
        if isinstance(error, OSError):
            raise InputError(f"cannot write {writer.path}: {error.strerror or error}") from error
        raise
    finally:
        writer.close()


class _Writer:
    def __init__(self, log: ImportedLog, source: Path, out: Path) -> None:
        self.log = log
        self.run_id = new_ulid()
        self.study_id = new_ulid()
        self.variant = _name(log.method or (f"{log.agent}@{log.model}" if log.model else log.agent))
        self.suite = _name(log.suite)
        self.path = new_run_folder(out, run_name(self.suite, self.variant, log.model))
        self.version = f"imported:{valid_utf8(log.tool)}"
        self._source = source
        self._records = (self.path / ATTEMPTS).open("xb")
        self._seen: set[tuple[str, int]] = set()
        self._passed = self._invalid = 0

    def add(self, attempt: ImportedAttempt) -> None:
        task = safe_id(attempt.task)
        if (task, attempt.repeat) in self._seen:
            place = f"{self._source}: {attempt.task!r}, repeat {attempt.repeat}"
            raise InputError(f"{place} occurs twice")
        self._seen.add((task, attempt.repeat))
        record = self._record(attempt, task)
        self._write_files(self.path / record.artifact_paths.task_dir, attempt)
        self._records.write(record.line() + b"\n")
        self._passed += record.result.passed
        value = contract_value(record.run_status, record.invalid_cause, passed=record.result.passed)
        self._invalid += value is None

    def finish(self) -> ImportedRun:
        """Write `run.json` last: a folder without it is not a run."""
        self._records.flush()
        tasks = sorted({task for task, _ in self._seen})
        meta: dict[str, Json] = {
            "schema_version": 1,
            "run_id": self.run_id,
            "study_id": self.study_id,
            "harness_version": self.version,
            "created_at": now_iso(),
            "suite": self.suite,
            "variant": self.variant,
            "model": None if self.log.model is None else valid_utf8(self.log.model),
            "imported": {
                "format": self.log.format,
                "tool": valid_utf8(self.log.tool),
                "source": valid_utf8(self._source.name),
                "sha256": hash_file(self._source)[0] if self._source.is_file() else None,
                **self.log.meta,
            },
            "tasks": tasks,
        }
        (self.path / RUN_JSON).write_bytes(indented_json(meta))
        return ImportedRun(self.path, len(self._seen), self._passed, self._invalid)

    def close(self) -> None:
        self._records.close()

    def _record(self, attempt: ImportedAttempt, task: str) -> AttemptRecord:
        verdict = self._stated(attempt) if attempt.exported is None else self._restored(attempt.exported)
        task_dir = task_dir_name(task, attempt.repeat, 1)
        method_id = f"imported:{self.log.format}"
        return AttemptRecord(
            study_id=self.study_id,
            run_id=self.run_id,
            attempt_id=new_ulid(),
            task_id=task,
            suite=self.suite,
            variant=self.variant,
            agent=valid_utf8(self.log.agent),
            repeat=attempt.repeat,
            observability=Observability.GATEWAY if attempt.messages else Observability.PROCESS,
            model=Model(
                provider=None if self.log.provider is None else valid_utf8(self.log.provider),
                name=None if self.log.model is None else valid_utf8(self.log.model),
            ),
            timestamps=Timestamps(started_at=attempt.started_at, ended_at=attempt.ended_at),
            duration_sec=attempt.duration_sec,
            run_badge="error" if attempt.decision == "error" else "completed",
            scorers=tuple(_scorers(attempt, self.log.format)),
            limits=LimitsRecord(timeout_sec=0, tool_timeout_sec=0),
            usage=attempt.usage,
            cost=Cost() if attempt.cost is None else attempt.cost.model_copy(update={"method_id": method_id}),
            artifact_paths=ArtifactPaths(task_dir=task_dir),
            termination=TerminationRecord(
                code=verdict.pop("ended"), rationale=valid_utf8(_rationale(attempt)[:MAX_TEXT])
            ),
            **verdict,
        )

    def _stated(self, attempt: ImportedAttempt) -> dict[str, Any]:
        """Return the verdict of another tool. It says nothing about gates, configuration and seeds."""
        status, reason, cause, attribution = _RESULTS[attempt.decision]
        why = f"not graded here; {self.log.tool}: {attempt.why}"[:MAX_TEXT]
        gate = GateResult(outcome=Outcome.ERROR, passed=False, why=valid_utf8(why))
        return {
            "harness_version": self.version,
            **dict.fromkeys(("contract_id", "task_digest", "acceptance_id"), f"{IMPORTED_ID}{attempt.identity}"),
            "seed": 0,
            "result": Result(passed=attempt.decision == "pass", failure_reason=reason),
            "run_status": status,
            "invalid_cause": cause,
            "attribution": attribution,
            "gates": dict.fromkeys(Gate, gate),
            "ended": TerminationCode.SANDBOX_ERROR if attempt.decision == "error" else TerminationCode.AGENT_STOPPED,
        }

    def _restored(self, exported: ExportedAttempt) -> dict[str, Any]:
        """Return the verdict and the conditions that AgentBench exported."""
        version = exported.harness_version
        ids = {name: getattr(exported, name) for name in ("contract_id", "task_digest", "acceptance_id")}
        return {
            "harness_version": self.version if version is None else _imported_id(version),
            **{name: _imported_id(value) for name, value in ids.items()},
            "env_digest": exported.env_digest,
            "config_class": exported.config_class,
            "seed": exported.seed,
            "result": Result(passed=exported.result.passed, failure_reason=exported.result.failure_reason),
            "run_status": exported.run_status,
            "invalid_cause": exported.invalid_cause,
            "attribution": exported.attribution,
            "gates": exported.gates,
            "ended": exported.termination.code,
        }

    def _write_files(self, folder: Path, attempt: ImportedAttempt) -> None:
        (folder / "agent").mkdir(parents=True)
        (folder / "meta").mkdir()
        (folder / SOURCE).write_bytes(indented_json({"id": attempt.task, **attempt.original}))
        if attempt.messages:
            with (folder / CONVERSATION).open("xb") as file:
                for number, message in enumerate(attempt.messages):
                    file.write(_line(number, message) + b"\n")


def safe_id(text: str) -> str:
    """Return an id that can be a folder name. A changed text gets a digest, so that two texts never become the same id."""
    plain = _NOT_IN_ID.sub("-", text)[:MAX_ID].strip(".-_")
    if plain == text:
        return plain
    return f"{plain or 'id'}-{sha256_hex(text.encode('utf-8', 'backslashreplace'))[:8]}"


def _rationale(attempt: ImportedAttempt) -> str:
    """Return why an attempt ended. The line that AgentBench exported begins with the decision, which the record restores."""
    verdict = attempt.exported
    if verdict is None:
        return attempt.why
    result = verdict.result
    decision = headline(verdict.run_status, result.failure_reason, verdict.attribution, "", passed=result.passed)
    return attempt.why.removeprefix(decision).removeprefix(": ")


def _imported_id(text: str) -> str:
    """Return the id of an imported record. An imported run can be exported and imported again."""
    return IMPORTED_ID + text.removeprefix(IMPORTED_ID)


def _name(text: str) -> str:
    return printable(text)[:MAX_NAME] or "imported"


def _scorers(attempt: ImportedAttempt, form: str) -> Iterator[ScorerRecord]:
    for name, value in attempt.scores.items():
        score = _number(value)
        yield ScorerRecord(
            name=valid_utf8(name),
            type=f"imported:{form}",
            required=False,
            verdict="PASS" if value == "C" or score == 1 else "FAIL" if value == "I" or score == 0 else "N/A",
            score=score if score is not None and 0 <= score <= 1 else None,
            detail=valid_utf8(f"{name} = {value}")[:MAX_TEXT],
        )


def _number(value: str) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None


def _line(index: int, message: TraceMessage) -> bytes:
    line: dict[str, Json] = {"index": index, "parent": message.parent, "role": message.role, "text": message.text}
    line |= {"request": None, "response": index if message.role == "assistant" else None}
    if message.calls:
        line["tool_calls"] = [
            {
                "id": call.id,
                "name": call.name,
                "arguments": dict(call.arguments) if call.malformed is None else call.malformed,
            }
            for call in message.calls
        ]
    if message.answers is not None:
        line["tool_call_id"] = message.answers
    return json.dumps(line).encode()
