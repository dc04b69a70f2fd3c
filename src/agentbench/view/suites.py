"""Suites and their tasks for the page: statement, checks, strata, problems, validation, audit, pass rates of the served runs.

Validation and audit are the last results that `ab validate-tasks` and `ab task audit` kept for the task as it is now.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from agentbench.contract.load import TASK_NAME, LoadedTask, load_task
from agentbench.contract.suite import available, suite_folder
from agentbench.core.canonical import Json
from agentbench.core.errors import AgentBenchError, ContractError
from agentbench.execution.task_results import Kind, kept_result
from agentbench.reports.html.bounded import bounded
from agentbench.sandbox.state import default_state
from agentbench.view.explorer import Explorer

MAX_TASKS = 500
RESULTS_SEC = 3.0
"""Time for finding the kept results: a task is identified by the content of its files."""
_RATES = """
SELECT suite, task, variant, sum((passed AND counted)::int), sum(counted::int), count(*), avg(duration_sec)
FROM attempts WHERE retry_of IS NULL GROUP BY ALL ORDER BY ALL
"""

Rates = Mapping[tuple[str, str], list[Json]]


def suites_json(tasks_dir: Path, explorer: Explorer) -> dict[str, Json]:
    """List the suites: those with task folders, and those that only runs know."""
    rates = _rates(explorer)
    attempted: dict[str, int] = {}
    for suite, _task in rates:
        attempted[suite] = attempted.get(suite, 0) + 1
    names = available(tasks_dir)
    return {
        "tasks_dir": str(tasks_dir),
        "suites": [
            {"name": name, "tasks": _count(name, tasks_dir), "attempted": attempted.get(name, 0)} for name in names
        ],
    }


def suite_json(name: str, folder: Path, explorer: Explorer) -> dict[str, Json]:
    """Return the tasks of a suite. A task that is not valid is listed with its problems."""
    rates = _rates(explorer)
    files = sorted(folder.glob(f"*/{TASK_NAME}"))
    until = time.monotonic() + RESULTS_SEC
    tasks: list[Json] = [_task(file, name, rates, results=time.monotonic() < until) for file in files[:MAX_TASKS]]
    return {"name": name, "folder": str(folder), "tasks": tasks, "left_out": max(0, len(files) - MAX_TASKS)}


def _task(file: Path, suite: str, rates: Rates, *, results: bool) -> dict[str, Json]:
    try:
        loaded = load_task(file)
    except ContractError as error:
        problems = error.problems or (error.message,)
        return {"id": file.parent.name, "problems": bounded(list(problems), text=1000), "rates": []}
    return {
        "id": loaded.id,
        "title": bounded(loaded.task.title, text=300),
        "statement": bounded(loaded.statement, text=12_000),
        "problems": [],
        "locked": loaded.lock is not None,
        "strata": {
            key: value for key, value in loaded.task.strata.model_dump(mode="json").items() if value is not None
        },
        "checks": _checks(loaded),
        "scorers": [f"{scorer.name} ({scorer.type})" for scorer in loaded.scorers],
        "limits": f"{loaded.wall_sec} s, {loaded.max_tool_calls} tool calls",
        "rates": list(rates.get((suite, loaded.id), [])),
        "validation": _result(loaded, "validation") if results else None,
        "audit": _result(loaded, "audit") if results else None,
    }


def _result(loaded: LoadedTask, kind: Kind) -> Json:
    try:
        return bounded(kept_result(default_state(), loaded, kind), text=4000)
    except (AgentBenchError, OSError):
        return None


def _checks(loaded: LoadedTask) -> list[Json]:
    return [
        {
            "id": check.id,
            "layer": check.layer,
            "mandatory": check.mandatory,
            "command": bounded(check.command or (f"driver {check.driver}" if check.driver else ""), text=1000),
            "fail_to_pass": len(check.fail_to_pass or ()),
            "pass_to_pass": len(check.pass_to_pass or ()),
        }
        for check in loaded.checks
    ]


def _count(name: str, tasks_dir: Path) -> int:
    try:
        return sum(1 for _ in suite_folder(name, tasks_dir).glob(f"*/{TASK_NAME}"))
    except (ContractError, OSError):
        return 0


def _rates(explorer: Explorer) -> Rates:
    rates: dict[tuple[str, str], list[Json]] = {}
    for suite, task, variant, passed, counted, attempts, seconds in explorer.ask(_RATES, max_rows=100_000).rows:
        line: Json = {
            "variant": bounded(variant, text=120),
            "passed": int(str(passed or 0)),
            "counted": int(str(counted or 0)),
            "attempts": int(str(attempts)),
            "seconds": float(str(seconds or 0)),
        }
        rates.setdefault((str(suite), str(task)), []).append(line)
    return rates
