"""A SARIF 2.1.0 log: one result for each attempt that did not pass, at the file of its task."""

from __future__ import annotations

from urllib.parse import quote

from agentbench import __version__
from agentbench.core.canonical import Json, sha256_hex
from agentbench.record.headline import headline
from agentbench.record.schema import AttemptRecord
from agentbench.reports.ci_comment import doubts, not_passed, severity
from agentbench.reports.escape import plain
from agentbench.reports.sources import Run

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
MAX_TEXT = 1000
ALTERED = "RECORDS_ALTERED"
"""The rule of a result without a task: records were edited, or nothing shows that they were not."""


def sarif_log(run: Run, folder: str) -> dict[str, Json]:
    """Return the log. `folder` has the folders of the tasks, relative to the root of the repository."""
    failed, doubt = not_passed(run.finals), doubts(run)
    rules: list[Json] = [
        {"id": rule, "shortDescription": {"text": rule.replace("_", " ").capitalize()}}
        for rule in sorted({*map(_rule, failed), *([ALTERED] if doubt else [])})
    ]
    results: list[Json] = [_result(record, folder) for record in failed]
    if doubt:
        results.insert(0, {"ruleId": ALTERED, "level": "error", "message": {"text": plain(doubt, MAX_TEXT)}})
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "AgentBench", "version": __version__, "rules": rules}},
                # The part before the last slash is the category, in which a new upload replaces the older one.
                "automationDetails": {"id": f"agentbench/{quote(run.suite)}/{run.run_id}"},
                "results": results,
            }
        ],
    }


def _rule(record: AttemptRecord) -> str:
    """Return the reason; results of other tools have none."""
    return str(record.result.failure_reason or "NOT_PASSED")


def _result(record: AttemptRecord, folder: str) -> dict[str, Json]:
    identity = f"{record.task_id}\n{record.variant}\n{record.repeat}"
    return {
        "ruleId": _rule(record),
        "level": severity(record),
        "message": {"text": plain(f"{record.variant}, repeat {record.repeat}: {headline(record)}", MAX_TEXT)},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": quote(f"{folder}/{record.task_id}/task.yaml")},
                    "region": {"startLine": 1},
                }
            }
        ],
        "partialFingerprints": {"attempt/v1": sha256_hex(identity.encode("utf-8", "surrogatepass"))},
        "properties": {
            "attempt_id": record.attempt_id,
            "run_status": str(record.run_status),
            "contract_id": record.contract_id,
        },
    }
