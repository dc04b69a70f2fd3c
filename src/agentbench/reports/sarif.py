"""A SARIF 2.1.0 log: one result for each attempt that did not pass, at the file of its task.

Besides what the schema demands, the log has what code scanning of GitHub documents as required.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from agentbench import __version__
from agentbench.core.canonical import Json, sha256_hex
from agentbench.record.headline import headline
from agentbench.record.schema import AttemptRecord
from agentbench.reports.ci_findings import doubts, not_passed, severity
from agentbench.reports.escape import plain
from agentbench.reports.sources import Run

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
MAX_TEXT = 1000
ALTERED = "RECORDS_ALTERED"
"""The rule of a result without a task: records were edited, or nothing shows that they were not."""


def sarif_log(run: Run, tasks_dir: str) -> dict[str, Json]:
    """Return the log. `tasks_dir` has the folders of the suites, relative to the root of the repository."""
    failed, doubt = not_passed(run.finals), doubts(run)
    used = sorted({*map(_rule, failed), *([ALTERED] if doubt else [])})
    results: list[Json] = [_result(record, tasks_dir) for record in failed]
    if doubt:
        tasks = [_task_file(record, tasks_dir) for record in run.finals[:1]]
        results.insert(0, _marked(ALTERED, "error", doubt, (tasks or [tasks_dir])[0], (run.run_id,)))
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {"name": "AgentBench", "version": __version__, "rules": list(map(_described, used))}
                },
                # The part before the last slash is the category, in which a new upload replaces the older one.
                "automationDetails": {"id": f"agentbench/{quote(run.suite)}/{run.run_id}"},
                "results": results,
            }
        ],
    }


def _described(rule: str) -> dict[str, Json]:
    words = rule.replace("_", " ").capitalize()
    return {
        "id": rule,
        "shortDescription": {"text": words},
        "fullDescription": {"text": f"{words}. The message has the cause."},
        "help": {"text": "`ab show RUN --task ID` explains the verdict of an attempt; `ab verify RUN` checks the run."},
    }


def _rule(record: AttemptRecord) -> str:
    """Return the reason; results of other tools have none."""
    return str(record.result.failure_reason or "NOT_PASSED")


def _task_file(record: AttemptRecord, tasks_dir: str) -> str:
    return f"{tasks_dir}/{record.suite}/{record.task_id}/task.yaml"


def _result(record: AttemptRecord, tasks_dir: str) -> dict[str, Json]:
    message = f"{record.variant}, repeat {record.repeat}: {headline(record)}"
    identity = (record.task_id, record.variant, str(record.repeat))
    place = _task_file(record, tasks_dir)
    properties: dict[str, Json] = {
        "attempt_id": record.attempt_id,
        "run_status": str(record.run_status),
        "contract_id": record.contract_id,
    }
    return {**_marked(_rule(record), severity(record), message, place, identity), "properties": properties}


def _marked(rule: str, level: str, message: str, place: str, identity: Sequence[str]) -> dict[str, Json]:
    """Return a result. `identity` tells whether a result of another run is the same."""
    fingerprint = sha256_hex("\n".join((rule, *identity)).encode("utf-8", "surrogatepass"))
    return {
        "ruleId": rule,
        "level": level,
        "message": {"text": plain(message, MAX_TEXT)},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": quote(place)},
                    "region": {"startLine": 1, "startColumn": 1, "endLine": 1, "endColumn": 2},
                }
            }
        ],
        # The only fingerprint that GitHub reads. Without it, all attempts at a task would be one alert.
        "partialFingerprints": {"primaryLocationLineHash": fingerprint},
    }
