"""Grades real fixes, and honest variants of them, all of which must be accepted without findings.

For every task below the given folders, the reference and honest variants of it are graded. The same tests also run in
plain pytest, whose results the runner must match. Goals: no false failure, gate findings on at most 1% of the patches,
no differing result. Every decision is written to a file, so that the same command continues where it was stopped:

    python -m tests.campaigns.honest ../harvest/attrs-dev ../harvest/click-dev --out build/honest --workers 2
"""

# ruff: noqa: T201 - a program for the terminal
from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

from agentbench.acceptance.grade import grade
from agentbench.acceptance.grading_context import Acceptance, GradingContext
from agentbench.acceptance.reference import reference_patch
from agentbench.acceptance.replica import base_entries
from agentbench.acceptance.validation import why_not
from agentbench.contract.load import LoadedTask, load_task
from agentbench.contract.pytest_command import parse_pytest_command
from agentbench.core.canonical import sha256_hex
from agentbench.core.errors import AgentBenchError, TaskError
from agentbench.core.reasons import Outcome
from agentbench.run.lab import Lab
from agentbench.workspace.diff.apply import PatchedTree, plan_writes
from agentbench.workspace.diff.extract import extract
from agentbench.workspace.diff.parse import parse
from tests.campaigns import plain_pytest
from tests.campaigns.variants import MAKERS, Work

MAX_GATED = 0.01
PLAIN = "plain_pytest"
REFERENCE = "unchanged"


@dataclass(frozen=True, slots=True)
class Row:
    """One decision.

    `result` is pass, fail, error (undecided because of the harness or the task), agrees, differs, or none (no such
    variant).
    """

    suite: str
    task: str
    variant: str
    backend: str
    result: str
    why: str = ""
    gates: tuple[dict[str, object], ...] = ()
    """Findings of severity `gate`, with their lines."""
    notes: int = 0
    tests: int = 0
    seconds: float = 0.0
    diagnostics: str = ""
    patch: str = ""
    """Only for patches that were not accepted."""

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.task, self.variant, self.backend)

    @property
    def is_patch(self) -> bool:
        return self.variant != PLAIN and self.result != "none"


@dataclass
class Ledger:
    """Decisions on disk, one row per line."""

    path: Path
    rows: dict[tuple[str, str, str], Row] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        for line in self.path.read_text("utf-8").splitlines() if self.path.exists() else ():
            row = Row(**{**(data := json.loads(line)), "gates": tuple(data["gates"])})
            self.rows[row.key] = row

    def put(self, row: Row) -> None:
        with self._lock:
            self.rows[row.key] = row
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(row)) + "\n")


@dataclass(frozen=True, slots=True)
class Campaign:
    lab: Lab
    ledger: Ledger
    variants: tuple[str, ...]
    backend: str
    deadline: float
    """Monotonic time after which no new grading starts."""

    def task(self, task: LoadedTask) -> None:
        wanted = [name for name in self.variants if (task.id, name, self.backend) not in self.ledger.rows]
        if not wanted or time.monotonic() > self.deadline:
            return
        try:
            self.lab.require(task)
            context = self.lab.grading_context(self.lab.prepare(task))
            patch = reference_patch(context)
        except TaskError as error:
            self._record(Row(task.task.suite, task.id, REFERENCE, self.backend, "error", error.message))
            return
        if patch is None:
            return
        base = context.prepared.base_tree
        hidden = {path: (file.content, file.executable) for path, file in context.loaded.hidden_files().items()}
        reference = {write.path: write for write in plan_writes(parse(patch), base).writes}
        work = Work(base, frozenset(base_entries(context)), reference, hidden)
        for name in wanted:
            if time.monotonic() < self.deadline:
                self._record(self._grade_variant(context, work, name, patch))

    def _grade_variant(self, context: GradingContext, work: Work, name: str, patch: bytes) -> Row:
        row = Row(context.loaded.task.suite, context.loaded.id, name, self.backend, "none")
        started = time.monotonic()
        if name == PLAIN:
            result, why, tests = _compare_with_plain(context, patch)
            return _updated(row, result=result, why=why, tests=tests, seconds=round(time.monotonic() - started, 2))
        writes = MAKERS[name](work)
        if writes is None:
            return row
        delta = extract(work.tree, PatchedTree(work.tree, tuple(writes.values())))
        graded = grade(delta.patch, context)
        return _row_of(row, graded, delta.patch, round(time.monotonic() - started, 2))

    def _record(self, row: Row) -> None:
        self.ledger.put(row)
        if row.result not in {"none", "pass", "agrees"}:
            print(f"{row.task} {row.variant}: {row.result}: {row.why[:300]}", flush=True)


def _updated(row: Row, **changes: object) -> Row:
    return Row(**{**asdict(row), **changes})


def _row_of(row: Row, graded: Acceptance, patch: bytes, seconds: float) -> Row:
    gates = tuple(asdict(check) for check in graded.findings if check.severity in {"gate", "error"})
    outcomes = {step.outcome for step in (graded.application, *graded.steps)} | {
        check.outcome for check in graded.checks
    }
    result = "pass" if graded.accepted else "error" if Outcome.ERROR in outcomes else "fail"
    return _updated(
        row,
        result=result,
        why="" if graded.accepted else why_not(graded),
        gates=gates,
        notes=sum(check.severity == "note" for check in graded.findings),
        tests=sum(len(check.decided.tests) for check in graded.checks),
        seconds=seconds,
        diagnostics="" if graded.accepted else "\n".join(check.decided.diagnostics for check in graded.checks)[:4000],
        patch="" if graded.accepted else patch.decode("utf-8", "backslashreplace")[:200_000],
    )


def _compare_with_plain(context: GradingContext, patch: bytes) -> tuple[str, str, int]:
    """Compare each test result with plain pytest."""
    graded = grade(patch, context)
    different: list[str] = []
    count = 0
    for check in graded.checks:
        command = parse_pytest_command(check.check.command or "") if check.check.parser == "pytest" else None
        if command is None:
            continue
        plain_outcomes = plain_pytest.outcomes(context, patch, command, check.check.timeout_sec)
        if plain_outcomes is None:
            different.append(f"{check.check.id}: plain pytest did not finish")
            continue
        count += len(plain_outcomes)
        runner_outcomes = check.decided.tests
        different += [
            f"{test}: plain {plain_outcomes.get(test, 'missing')}, runner {runner_outcomes.get(test, 'missing')}"
            for test in sorted(plain_outcomes.keys() | runner_outcomes.keys())
            if plain_outcomes.get(test, "missing") != runner_outcomes.get(test, "missing")
        ]
    return ("differs" if different else "agrees"), "; ".join(different[:20]), count


def find_tasks(paths: Sequence[Path]) -> Iterator[LoadedTask]:
    """Yield every task at or below the paths, without the drafts of a running harvest."""
    for path in paths:
        for file in sorted(path.rglob("task.yaml")):
            if not any(part.startswith(".") for part in file.relative_to(path).parts):
                yield load_task(file.parent)


def table(rows: Sequence[Row]) -> tuple[list[str], bool]:
    """Return counts per repository, and whether the goals are reached."""
    head = (
        f"{'repository':<26}{'fixes':>6}{'patches':>9}{'passed':>8}{'false failures':>16}{'gate findings':>15}"
        f"{'undecided':>11}{'tests by plain_pytest pytest':>23}{'differ':>8}"
    )
    lines = [head]
    total: Counter[str] = Counter()
    for suite in sorted({row.suite for row in rows}):
        counts = _counts([row for row in rows if row.suite == suite])
        total += counts
        lines.append(_line(suite, counts))
    lines.append(_line("total", total))
    share = total["gated"] / total["patches"] if total["patches"] else 1.0
    reached = not total["false"] and share <= MAX_GATED and not total["undecided"] and not total["differ"]
    lines.append(
        f"gate findings on {share:.2%} of the patches (at most {MAX_GATED:.0%}); goals {'reached' if reached else 'MISSED'}"
    )
    return lines, reached


def _counts(rows: Sequence[Row]) -> Counter[str]:
    patches = [row for row in rows if row.is_patch]
    return Counter(
        {
            "fixes": len({row.task for row in patches}),
            "patches": len(patches),
            "passed": sum(row.result == "pass" for row in patches),
            "false": sum(row.result == "fail" and not row.gates for row in patches),
            "gated": sum(bool(row.gates) for row in patches),
            "undecided": sum(row.result == "error" for row in patches),
            "plain": sum(row.tests for row in rows if row.variant == PLAIN),
            "differ": sum(row.result == "differs" for row in rows),
        }
    )


def _line(name: str, counts: Counter[str]) -> str:
    return (
        f"{name:<26}{counts['fixes']:>6}{counts['patches']:>9}{counts['passed']:>8}{counts['false']:>16}{counts['gated']:>15}"
        f"{counts['undecided']:>11}{counts['plain_pytest']:>23}{counts['differ']:>8}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("tasks", nargs="+", type=Path, help="folders that hold tasks, at any depth")
    parser.add_argument("--out", type=Path, default=Path("build/honest"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--sandbox", choices=("bwrap", "docker"), default="bwrap")
    parser.add_argument("--variants", default=",".join([*MAKERS, PLAIN]), help="names, or how many to take in turn")
    parser.add_argument("--only", default="", help="tasks whose id contains this")
    parser.add_argument("--minutes", type=float, default=24 * 60.0, help="start no new grading after this time")
    options = parser.parse_args()
    ledger = Ledger(options.out / "decisions.jsonl")
    tasks = [task for task in find_tasks(options.tasks) if options.only in task.id]
    with Lab(sandbox=options.sandbox) as lab, ThreadPoolExecutor(options.workers) as pool:
        deadline = time.monotonic() + options.minutes * 60
        running = [
            pool.submit(
                Campaign(lab, ledger, choose_variants(options.variants, _number(task)), options.sandbox, deadline).task,
                task,
            )
            for task in tasks
        ]
        for number, (task, future) in enumerate(zip(tasks, running, strict=True), start=1):
            try:
                future.result()
            except AgentBenchError as error:
                print(f"{task.id}: {error.message}", flush=True)
            print(f"[{number}/{len(tasks)}] {task.id}", file=sys.stderr, flush=True)
    rows = [row for row in ledger.rows.values() if row.backend == options.sandbox]
    lines, reached = table(rows)
    print("\n".join(lines))
    bad = [asdict(row) for row in rows if row.result not in {"pass", "agrees", "none"}]
    (options.out / f"not-accepted.{options.sandbox}.json").write_text(json.dumps(bad, indent=1), "utf-8")
    return 0 if reached else 1


def _number(task: LoadedTask) -> int:
    """Return a number that is the same for a task in every run, whichever other tasks there are."""
    return int(sha256_hex(task.id.encode())[:8], 16)


def choose_variants(wanted: str, number: int) -> tuple[str, ...]:
    """Return the named variants; for a number, the reference, plain pytest and that many others in turn."""
    if not wanted.isdigit():
        return tuple(name for name in wanted.split(",") if name)
    others = [name for name in MAKERS if name != REFERENCE]
    count = min(int(wanted), len(others))
    return (REFERENCE, PLAIN, *(others[(number * count + step) % len(others)] for step in range(count)))


if __name__ == "__main__":
    sys.exit(main())
