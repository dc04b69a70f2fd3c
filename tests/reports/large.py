"""Large runs, written quickly by varying a few real record lines."""

from __future__ import annotations

import json
import random
from pathlib import Path

from tests.reports.runs import record, seal_run

KINDS = {"pass": 45, "fail": 40, "policy": 5, "error": 3, "harness": 3, "task": 2, "safety": 2}


def large_run(folder: Path, attempts: int, tasks: int, *, variant: str = "baseline", seed: int = 3) -> Path:
    """Write a run directory with many records and no evidence."""
    rng = random.Random(seed)
    lines = {kind: record("TASK", kind, variant=variant).line() for kind in KINDS}
    folder.mkdir(parents=True)
    meta = {"schema_version": 1, "run_id": f"01R-{folder.name}", "study_id": "01S", "suite": "demo"}
    (folder / "run.json").write_text(json.dumps(meta), encoding="utf-8")
    with (folder / "attempts.jsonl").open("wb") as file:
        for index in range(attempts):
            line = lines[rng.choices(list(KINDS), list(KINDS.values()))[0]]
            line = line.replace(b"TASK", b"task-%05d" % (index % tasks))
            line = line.replace(b'"repeat":1', b'"repeat":%d' % (index // tasks + 1))
            line = line.replace(b'"attempt_id":"01-', b'"attempt_id":"%d-' % index)
            line = line.replace(b'"duration_sec":2,', b'"duration_sec":%d.5,' % int(rng.expovariate(0.01)))
            file.write(line + b"\n")
    seal_run(folder)
    return folder
