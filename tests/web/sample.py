"""Run directories with scorers, judge, patch and trace, for page tests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentbench.core.reasons import Outcome, TerminationCode
from agentbench.record.schema import ArtifactPaths, AttemptRecord, Fact, Judge, ScorerRecord
from agentbench.trace.events import (
    AcceptanceCheck,
    AgentTurnStarted,
    Briefing,
    Excerpt,
    FileDigest,
    IntegrityFinding,
    LlmResponse,
    MonitorAlert,
    PatchExtracted,
    Payload,
    Termination,
    TestsFinished,
    ToolCallFinished,
    ToolCallStarted,
    WorkspaceMutated,
)
from agentbench.trace.log import EventLog
from tests.reports.runs import record as make_record
from tests.reports.runs import seal_run

PATCH = """diff --git a/src/core.py b/src/core.py
index 111..222 100644
--- a/src/core.py
+++ b/src/core.py
@@ -1,3 +1,4 @@
 def median(values):
-    return values[len(values) // 2]
+    middle = len(values) // 2
+    return values[middle]
 # the end
diff --git a/notes.txt b/notes.txt
new file mode 100644
--- /dev/null
+++ b/notes.txt
@@ -0,0 +1 @@
+hello
"""

SCORERS = (
    ScorerRecord(name="tests", type="command", required=True, verdict="FAIL", score=0.0, detail="2 failed, 12 passed"),
    ScorerRecord(name="scope", type="allowed_paths", required=True, verdict="PASS", score=1.0, detail="all inside"),
    ScorerRecord(name="skips", type="no_new_skips", required=False, verdict="FAIL", score=0.0, detail="one more skip"),
    ScorerRecord(name="secrets", type="forbid_secrets", required=True, verdict="N/A", score=None, detail=""),
)
JUDGE = Judge(
    verdict="PASS",
    task_completion=4,
    instruction_adherence=5,
    efficiency=3,
    failure_mode=None,
    facts=(
        Fact(claim="the median is right", verdict="supported", evidence="event 5"),
        Fact(claim="tests were run", verdict="refuted", evidence="no call"),
    ),
    reasoning="It looks right, mostly.",
    model="judge-1",
    scored_at="2026-01-01T00:00:03+00:00",
)


def excerpt(text: str) -> Excerpt:
    return Excerpt(text=text, total_bytes=len(text), sha256="0" * 64)


def events(text: str = "hello") -> list[tuple[Payload, Any]]:
    """Return a trace with most event types; `text` fills every untrusted field."""
    changed = FileDigest(path=text, change="modified", before_sha256="a" * 64, after_sha256="b" * 64)
    return [
        (Briefing(text=text, sha256="0" * 64, parts={"issue": text}), "harness"),
        (AgentTurnStarted(turn=1), "agent"),
        (LlmResponse(request_id=text, status="ok", content=excerpt(text), prompt_tokens=10, completion_tokens=5, cached_tokens=0, cost_micro_usd=3, duration_us=2000, conversation_index=0), "agent"),
        (ToolCallStarted(call_id="c1", tool="run", arguments={"command": text, text: {"__proto__": {"polluted": text}}}), "agent"),
        (WorkspaceMutated(call_id="c1", files=[changed], diff=excerpt(f"@@ -1 +1 @@\n-{text}\n+{text}")), "harness"),
        (ToolCallFinished(call_id="c1", tool="run", ok=False, exit_code=1, duration_us=90_000, stdout=excerpt(text), stderr=excerpt(text), changed_files=[text], error_type=text, error_message=text), "harness"),
        (MonitorAlert(monitor="policy", severity="note", rule=text, detail=text), "monitor"),
        (Termination(code=TerminationCode.AGENT_STOPPED, category=None, rationale=text, evidence=[6]), "agent"),
        (PatchExtracted(sha256="0" * 64, bytes=3, files=[changed], added=2, removed=1, generated=0), "harness"),
        (TestsFinished(step="unit", outcome=Outcome.FAIL, exit_code=1, timed_out=False, duration_us=300_000, stdout=excerpt(text), stderr=excerpt(text), why=text), "harness"),
        (AcceptanceCheck(check_id="unit", layer="unit", mandatory=True, outcome=Outcome.FAIL, why=text, command=text, started_at="x", failing_tests=[text], diagnostics=excerpt(text)), "harness"),
        (IntegrityFinding(rule=text, severity="gate", path=text, line=3, detail=text, excerpt=text), "harness"),
    ]  # fmt: skip


def write_run(
    folder: Path,
    records: Sequence[AttemptRecord],
    *,
    traces: Mapping[str, Sequence[tuple[Payload, Any]]] | None = None,
    patch: str = PATCH,
    output: str = "E   assert 3 == 2.5\n",
) -> Path:
    """Write a run directory. `traces` maps task directories to events; the default is the same short trace for all."""
    folder.mkdir(parents=True)
    meta = {"schema_version": 1, "run_id": f"01R-{folder.name}", "study_id": "01S", "suite": "demo"}
    (folder / "run.json").write_text(json.dumps(meta), encoding="utf-8")
    (folder / "attempts.jsonl").write_bytes(b"".join(record.line() + b"\n" for record in records))
    for record in records:
        task_folder = folder / record.artifact_paths.task_dir
        (task_folder / "diffs").mkdir(parents=True)
        (task_folder / "logs").mkdir()
        (task_folder / "diffs/final.patch").write_text(patch, encoding="utf-8")
        (task_folder / "logs/passing_stdout.txt").write_text(output, encoding="utf-8")
        with EventLog.create(task_folder / "events.jsonl") as log:
            for payload, actor in (traces or {}).get(record.artifact_paths.task_dir, events()):
                log.append(payload, actor)
    seal_run(folder)
    return folder


def sample(task: str, kind: str = "pass", **more: Any) -> AttemptRecord:
    """Return a record whose patch and output are where `write_run` puts them."""
    task_folder = f"tasks/{task}"
    values: dict[str, Any] = {
        "artifact_paths": ArtifactPaths(task_dir=task_folder, passing_stdout=f"{task_folder}/logs/passing_stdout.txt"),
        "patch": {"path": f"{task_folder}/diffs/final.patch", "sha256": "d", "files": 2, "added": 3, "removed": 1},
        "variant": "baseline",
    }
    return make_record(task, kind, **{**values, **more})
