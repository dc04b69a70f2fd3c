"""An attacker who can write every file of a run and knows the formats, but has no key.

`reseal` makes a run consistent with itself again after any edit: it recomputes every digest, chain, record and seal.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from agentbench.core.canonical import canonical, sha256_hex
from agentbench.record.attempt_folder import FILES, FINAL_PATCH, MANIFEST, RECORD, evidence_files, hash_file
from agentbench.trace.chain import GENESIS, read_line, write_line

Payload = dict[str, Any]


def reseal(run: Path) -> None:
    """Recompute everything that a run says about its own files."""
    seals = {path.name: _reseal_attempt(path) for path in sorted((run / "tasks").iterdir())}
    old = {record["attempt_id"]: record["final"] for record in _lines(run / "attempts.jsonl")}
    records: dict[str, Payload] = {}

    def fix(kind: str, payload: Payload, seq: int, prev: str) -> None:
        if kind == "run_opened" and (run / "run.json").is_file():
            payload["run_json_sha256"] = hash_file(run / "run.json")[0]
        elif kind == "attempt_sealed" and payload["task_dir"].removeprefix("tasks/") in seals:
            seal, record = seals[payload["task_dir"].removeprefix("tasks/")]
            payload.update(seal, attempt_id=record["attempt_id"])
            records[record["attempt_id"]] = record
        elif kind == "run_closed":
            payload.update(events=seq - 1, head=prev)

    _rewrite(run / "events.jsonl", fix)
    lines = [canonical({**record, "final": old.get(key, True)}) for key, record in records.items()]
    (run / "attempts.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))


def _reseal_attempt(folder: Path) -> tuple[Payload, Payload]:
    record = json.loads((folder / RECORD).read_bytes())
    patch = hash_file(folder / FINAL_PATCH)[0] if (folder / FINAL_PATCH).is_file() else ""
    if record.get("patch"):
        record["patch"]["sha256"] = patch
    (folder / RECORD).write_bytes(canonical(record))

    def fix(kind: str, payload: Payload, seq: int, prev: str) -> None:
        if kind == "identity_bound" and (folder / MANIFEST).is_file():
            payload["manifest_sha256"] = hash_file(folder / MANIFEST)[0]
        elif kind == "patch_extracted":
            payload["sha256"] = patch
        elif kind == "attempt_closed":
            payload.update(events=seq - 1, head=prev, record_sha256=hash_file(folder / RECORD)[0])

    events, head = _rewrite(folder / "events.jsonl", fix)
    listed = {name: hash_file(folder / name) for name in evidence_files(folder)}
    files: dict[str, Any] = {name: {"sha256": sha256, "size": size} for name, (sha256, size) in listed.items()}
    data = canonical({"files": files, "schema_version": 1}) + b"\n"
    (folder / FILES).write_bytes(data)
    seal = {
        "events": events,
        "head": head,
        "record_sha256": hash_file(folder / RECORD)[0],
        "files_sha256": sha256_hex(data),
    }
    return seal, {**record, "trace_head": head}


def _rewrite(path: Path, fix: Callable[[str, Payload, int, str], None]) -> tuple[int, str]:
    lines, prev, seq = [], GENESIS, 0
    for seq, raw in enumerate(path.read_bytes().splitlines(), start=1):
        line = read_line(raw)
        payload = json.loads(line.payload)
        fix(line.type, payload, seq, prev)
        written, prev = write_line(
            canonical(payload), event_type=line.type, actor=line.actor, seq=seq, t=line.t, prev=prev
        )
        lines.append(written)
    path.write_bytes(b"".join(lines))
    return seq, prev


def _lines(path: Path) -> Iterator[Payload]:
    for raw in path.read_bytes().splitlines() if path.is_file() else ():
        try:
            yield json.loads(raw)
        except ValueError:
            continue


def turn_failure_into_pass(run: Path, failed: str, passed: str) -> None:
    """Rewrite the verdict of one attempt as that of another, in its trace and its record, and reseal the run."""
    source, target = run / "tasks" / passed, run / "tasks" / failed
    models = {read_line(raw).type: json.loads(read_line(raw).payload) for raw in _raw(source)}

    def fix(kind: str, payload: Payload, _seq: int, _prev: str) -> None:
        if kind in {"acceptance_check", "gates_decided", "task_finished"}:
            payload.clear()
            payload.update(models[kind])

    _rewrite(target / "events.jsonl", fix)
    record = json.loads((target / RECORD).read_bytes())
    model = json.loads((source / RECORD).read_bytes())
    own = ("attempt_id", "task_id", "repeat", "supersedes", "timestamps", "patch", "artifact_paths")
    (target / RECORD).write_bytes(canonical({**model, **{name: record[name] for name in own}}))
    reseal(run)


def _raw(folder: Path) -> list[bytes]:
    return (folder / "events.jsonl").read_bytes().splitlines()
