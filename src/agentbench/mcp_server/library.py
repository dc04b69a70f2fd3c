"""Read suites, tasks, runs and traces of the served folders. Clients send names and ids, never paths."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Literal

import agentbench as ab
from agentbench.agents.registry import canonical_name
from agentbench.contract.load import TASK_NAME
from agentbench.contract.problem import did_you_mean
from agentbench.contract.selection import strata_of
from agentbench.contract.suite import available, suite_folder
from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.core.regular_file import open_regular
from agentbench.core.text import printable
from agentbench.mcp_server.answer import UNTRUSTED, Answer, answer, fitting, visible
from agentbench.record.attempt_folder import EVENTS
from agentbench.record.find_run import LATEST, matching_runs, newest_first
from agentbench.record.headline import headline
from agentbench.reports.html.bounded import bounded
from agentbench.reports.html.detail import Trace, event_json
from agentbench.reports.provenance import evidence
from agentbench.reports.run_list import run_entry
from agentbench.reports.sources import open_run
from agentbench.trace.events import AcceptanceCheck, BuildFinished, StaticFinished, TestsFinished
from agentbench.view.roots import Roots

EVENT_TEXT = 1_500
MAX_TASKS = 500
GRADING_TEXT = ("stdout", "stderr", "diagnostics")
_GRADED = frozenset({BuildFinished.type, StaticFinished.type, TestsFinished.type, AcceptanceCheck.type})
WITHHELD = "withheld: output of checks may quote hidden tests; `ab show` has it"
SUMMARY = (
    "decision", "attempts", "tasks", "scorable", "rates", "invalid_by_cause", "failure_reasons", "hardest", "flaky", "cost",
    "altered", "incomplete", "deviations",
)  # fmt: skip
"""Keys of `ab report summary --format json` that an answer has."""


@dataclass(frozen=True, slots=True)
class Library:
    """The folders of runs and of suites that the server may read."""

    roots: Roots
    tasks_dir: Path

    # --- suites and tasks ----------------------------------------------------------------------------------------------

    def suites(self) -> Answer:
        names = available(self.tasks_dir)
        return answer({"suites": [{"name": name, "tasks": len(list(_files(name, self.tasks_dir)))} for name in names]})

    def tasks(self, suite: str) -> Answer:
        """List the tasks of a suite; one that is not valid is listed with its problems."""
        tasks: list[Json] = []
        files = sorted(_files(suite, self.tasks_dir))
        for file in files[:MAX_TASKS]:
            try:
                task = ab.load_task(file)
            except ab.ContractError as error:
                tasks.append({"id": file.parent.name, "problems": list(error.problems)[:5]})
            else:
                strata: dict[str, Json] = dict(strata_of(task))
                tasks.append({"id": task.id, "title": task.task.title, "strata": strata, "locked": bool(task.lock)})
        return answer({"suite": suite, "tasks": tasks, "left_out": max(0, len(files) - MAX_TASKS)}, text=500)

    def task(self, suite: str, task_id: str) -> Answer:
        """Describe a task as far as an agent may know it: no test ids, no hidden files, no reference."""
        task = self._task(suite, task_id)
        checks = [
            {
                "id": check.id,
                "layer": check.layer,
                "kind": check.kind,
                "mandatory": check.mandatory,
                "command": check.command,
                "fail_to_pass": len(check.fail_to_pass),
                "pass_to_pass": len(check.pass_to_pass),
                "timeout_sec": check.timeout_sec,
            }
            for check in task.checks
        ]
        limits = {"wall_sec": task.wall_sec, "tool_calls": task.max_tool_calls, "usd": task.task.budget.usd}
        return answer(
            {
                "note": UNTRUSTED,
                "id": task.id,
                "suite": task.task.suite,
                "title": task.task.title,
                "statement": task.statement,
                "strata": dict(strata_of(task)),
                "hints": task.task.hints.model_dump(mode="json", exclude_none=True),
                "checks": checks,
                "limits": limits,
                "network": task.task.environment.network_policy,
            },
            text=20_000,
        )

    def _task(self, suite: str, task_id: str) -> ab.LoadedTask:
        ids: list[str] = []
        for file in sorted(_files(suite, self.tasks_dir)):
            try:
                task = ab.load_task(file)
            except ab.ContractError:
                if file.parent.name == task_id:
                    raise
                continue
            if task.id == task_id:
                return task
            ids.append(task.id)
        raise ab.InputError(f"no task '{printable(task_id)}' in suite {suite}{did_you_mean(task_id, ids)}")

    # --- runs ----------------------------------------------------------------------------------------------------------

    def runs(self, limit: int, offset: int) -> Answer:
        """List runs, newest first."""
        paths = self._newest_first()
        entries = [asdict(run_entry(path)) for path in paths[offset : offset + limit]]
        runs = [{key: value for key, value in entry.items() if key != "path"} for entry in entries]
        following = offset + len(runs)
        return answer({"runs": runs, "total": len(paths), "next_offset": following if following < len(paths) else None})

    def run(self, name: str, limit: int, offset: int) -> Answer:
        """Return the summary of a run and a page of its attempts."""
        run = self.open(name)
        summary = json.loads(run.report("json"))
        attempts = run.attempts
        lines: list[Json] = [_line(attempt) for attempt in attempts[offset : offset + limit]]
        page = fitting(lines)
        following = offset + len(page)
        return answer(
            {
                "note": UNTRUSTED,
                "run": run.path.name,
                "headline": run.headline,
                "summary": {key: summary.get(key) for key in SUMMARY},
                "attempts": page,
                "next_offset": following if following < len(attempts) else None,
            }
        )

    def attempt(self, name: str, attempt: str) -> Answer:
        """Return the record of an attempt."""
        run = self.open(name)
        record = _attempt(run, attempt)
        return answer(
            {
                "note": UNTRUSTED,
                "altered": _alteration(run, record),
                "headline": headline(record),
                "record": record.model_dump(mode="json"),
            }
        )

    def comparison(self, a: str, b: str, rate: Literal["contract", "acceptance"]) -> Answer:
        """Compare two runs, as `ab report paired` does."""
        compared = ab.compare(self.open(a), self.open(b), rate=rate)
        return answer(
            {
                "headline": compared.headline,
                "better": compared.better,
                "tasks": compared.tasks,
                "rate": rate,
                "rate_a": compared.rate_a,
                "rate_b": compared.rate_b,
                "difference": compared.difference,
                "interval": compared.interval,
                "p_value": compared.p_value,
                "differing_tasks": compared.differing_tasks[:200],
                "notes": compared.notes,
            }
        )

    def trace(self, name: str, attempt: str, limit: int, offset: int) -> Answer:
        """Return a page of an attempt's events, without the output of checks."""
        run = self.open(name)
        record = _attempt(run, attempt)
        if canonical_name(record.agent) == "reference":
            raise ab.InputError("the trace of agent 'reference' contains the reference solution and is not served")
        path = evidence(run.path, f"{record.artifact_paths.task_dir}/{EVENTS}")
        if path is None or not path.is_file():
            raise ab.InputError(f"attempt {record.attempt_id} has no events")
        events = list(islice(_events(path), offset, offset + limit + 1))
        page = fitting(events[:limit])
        more = len(events) > len(page)
        return {
            "note": UNTRUSTED,
            "run": visible(run.path.name),
            "attempt_id": record.attempt_id,
            "altered": _alteration(run, record),
            "events": page,
            "next_offset": offset + len(page) if more else None,
        }

    def open(self, name: str) -> ab.Run:
        """Open a run by name, id, unique prefix or as `latest`.

        Raises:
            InputError: no run of the served folders matches, or several do.
        """
        runs = self._newest_first()
        matches = runs[:1] if name == LATEST else matching_runs(name, runs) if name else []
        if len(matches) == 1:
            return ab.open_run(matches[0])
        if matches:
            raise ab.InputError(f"'{printable(name)}' is ambiguous: {len(matches)} runs match")
        raise ab.InputError(f"no run '{printable(name)}'{did_you_mean(name, [run.name for run in runs])}")

    def _newest_first(self) -> list[Path]:
        return newest_first([folder.path for folder in self.roots.scan().runs.values() if not folder.refused])


def _files(suite: str, tasks_dir: Path) -> Iterator[Path]:
    return suite_folder(suite, tasks_dir).glob(f"*/{TASK_NAME}")


def _alteration(run: ab.Run, record: ab.AttemptRecord) -> str | None:
    """Return how the record or an evidence file of an attempt differs from its seal, or that it has none."""
    records = open_run(run.path)
    altered = records.evidence_alteration(record) or records.doubt(record.attempt_id)
    return str(visible(str(altered))) if altered else None


def _attempt(run: ab.Run, name: str) -> ab.AttemptRecord:
    """Find an attempt by its id or its task; of several repeats the first.

    Raises:
        InputError: there is none.
    """
    attempts: Sequence[ab.AttemptRecord] = run.attempts
    for attempt in attempts:
        if name == attempt.attempt_id:
            return attempt
    for attempt in sorted(attempts, key=lambda attempt: attempt.repeat):
        if name == attempt.task_id:
            return attempt
    raise ab.InputError(f"no attempt or task '{printable(name)}' in {run.path.name}")


def _line(attempt: ab.AttemptRecord) -> dict[str, Json]:
    return {
        "attempt_id": attempt.attempt_id,
        "task_id": attempt.task_id,
        "variant": attempt.variant,
        "repeat": attempt.repeat,
        "headline": headline(attempt)[:500],
        "passed": attempt.result.passed,
        "duration_sec": attempt.duration_sec,
        "cost": attempt.cost.total,
        "cost_unit": attempt.cost.unit,
    }


def _events(path: Path) -> Iterator[Json]:
    with open_regular(path) as file:
        for raw in file:
            if not raw.endswith(b"\n"):
                return
            event = json.loads(event_json(raw[:-1], Trace()))
            payload = event.get("payload")
            if event.get("type") in _GRADED and isinstance(payload, dict):
                event["payload"] = {**payload, **{key: WITHHELD for key in GRADING_TEXT if key in payload}}
            yield visible(bounded(event, text=EVENT_TEXT))
