"""The honest campaign: real fixes, and what people do beside a fix, must be accepted without a stain.

For every task below the given folders the reference is graded, and honest variants of it; and the same tests are run by a
plain call of pytest, which the pinned runner has to agree with. Goals: no false failure, G4 findings on at most 1% of
the patches, no disagreement. Every decision is kept in a file, so that the same command goes on where it was stopped:

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
from agentbench.workspace.diff.apply import apply
from agentbench.workspace.diff.extract import extract
from agentbench.workspace.diff.parse import parse
from agentbench.workspace.diff.patched_tree import PatchedTree
from tests.campaigns import plain
from tests.campaigns.variants import MAKERS, Work

GOAL_G4 = 0.01
PLAIN = "plain_pytest"
FIRST = "as_it_is"


@dataclass(frozen=True, slots=True)
class Row:
    """One decision. `result`: pass, fail, error (undecided: ours or the task's), agrees, differs, none (no such variant)."""

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
    """Only of what was not accepted."""

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.task, self.variant, self.backend)

    @property
    def is_patch(self) -> bool:
        return self.variant != PLAIN and self.result != "none"


@dataclass
class Ledger:
    """Rows on disk, one line each."""

    path: Path
    rows: dict[tuple[str, str, str], Row] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        for line in self.path.read_text("utf-8").splitlines() if self.path.exists() else ():
            row = Row(**{**(data := json.loads(line)), "gates": tuple(data["gates"])})
            self.rows[row.key] = row

    def put(self, row: Row) -> None:
        with self._guard:
            self.rows[row.key] = row
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(row)) + "\n")


@dataclass(frozen=True, slots=True)
class Campaign:
    lab: Lab
    ledger: Ledger
    variants: tuple[str, ...]
    backend: str
    until: float
    """No new grading starts after this moment of the monotonic clock."""

    def task(self, task: LoadedTask) -> None:
        wanted = [name for name in self.variants if (task.id, name, self.backend) not in self.ledger.rows]
        if not wanted or time.monotonic() > self.until:
            return
        try:
            self.lab.require(task)
            context = self.lab.grading_context(self.lab.prepare(task))
            patch = reference_patch(context)
        except TaskError as error:
            self._tell(Row(task.task.suite, task.id, FIRST, self.backend, "error", error.message))
            return
        if patch is None:
            return
        base = context.prepared.base_tree
        hidden = {path: (file.content, file.executable) for path, file in context.loaded.hidden_files().items()}
        reference = {write.path: write for write in apply(parse(patch), base)}
        work = Work(base, frozenset(base_entries(context)), reference, hidden)
        for name in wanted:
            if time.monotonic() < self.until:
                self._tell(self._one(context, work, name, patch))

    def _one(self, context: GradingContext, work: Work, name: str, patch: bytes) -> Row:
        row = Row(context.loaded.task.suite, context.loaded.id, name, self.backend, "none")
        started = time.monotonic()
        if name == PLAIN:
            result, why, tests = _compared(context, patch)
            return _with(row, result=result, why=why, tests=tests, seconds=round(time.monotonic() - started, 2))
        writes = MAKERS[name](work)
        if writes is None:
            return row
        delta = extract(work.tree, PatchedTree(work.tree, tuple(writes.values())))
        graded = grade(delta.patch, context)
        return _decided(row, graded, delta.patch, round(time.monotonic() - started, 2))

    def _tell(self, row: Row) -> None:
        self.ledger.put(row)
        if row.result not in {"none", "pass", "agrees"}:
            print(f"{row.task} {row.variant}: {row.result}: {row.why[:300]}", flush=True)


def _with(row: Row, **changes: object) -> Row:
    return Row(**{**asdict(row), **changes})


def _decided(row: Row, graded: Acceptance, patch: bytes, seconds: float) -> Row:
    gates = tuple(asdict(one) for one in graded.findings if one.severity in {"gate", "error"})
    outcomes = {step.outcome for step in (graded.application, *graded.steps)} | {one.outcome for one in graded.checks}
    result = "pass" if graded.accepted else "error" if Outcome.ERROR in outcomes else "fail"
    return _with(
        row,
        result=result,
        why="" if graded.accepted else why_not(graded),
        gates=gates,
        notes=sum(one.severity == "note" for one in graded.findings),
        tests=sum(len(one.decided.tests) for one in graded.checks),
        seconds=seconds,
        diagnostics="" if graded.accepted else "\n".join(one.decided.diagnostics for one in graded.checks)[:4000],
        patch="" if graded.accepted else patch.decode("utf-8", "backslashreplace")[:200_000],
    )


def _compared(context: GradingContext, patch: bytes) -> tuple[str, str, int]:
    """Whether a plain call of pytest says the same of each test."""
    graded = grade(patch, context)
    different: list[str] = []
    count = 0
    for one in graded.checks:
        command = parse_pytest_command(one.check.command or "") if one.check.parser == "pytest" else None
        if command is None:
            continue
        said = plain.outcomes(context, patch, command, one.check.timeout_sec)
        if said is None:
            different.append(f"{one.check.id}: plain pytest did not come to its end")
            continue
        count += len(said)
        ours = one.decided.tests
        different += [
            f"{test}: plain {said.get(test, 'missing')}, ours {ours.get(test, 'missing')}"
            for test in sorted(said.keys() | ours.keys())
            if said.get(test, "missing") != ours.get(test, "missing")
        ]
    return ("differs" if different else "agrees"), "; ".join(different[:20]), count


def find(paths: Sequence[Path]) -> Iterator[LoadedTask]:
    """Every task at or below the paths; drafts that a harvest has under way are left alone."""
    for path in paths:
        for file in sorted(path.rglob("task.yaml")):
            if not any(part.startswith(".") for part in file.relative_to(path).parts):
                yield load_task(file.parent)


def table(rows: Sequence[Row]) -> tuple[list[str], bool]:
    """Counts per repository, and whether the goals are reached."""
    head = (
        f"{'repository':<26}{'fixes':>6}{'patches':>9}{'passed':>8}{'false failures':>16}{'G4 findings':>13}"
        f"{'undecided':>11}{'tests by plain pytest':>23}{'differ':>8}"
    )
    lines = [head]
    total: Counter[str] = Counter()
    for suite in sorted({row.suite for row in rows}):
        counts = _counts([row for row in rows if row.suite == suite])
        total += counts
        lines.append(_line(suite, counts))
    lines.append(_line("together", total))
    share = total["g4"] / total["patches"] if total["patches"] else 1.0
    reached = not total["false"] and share <= GOAL_G4 and not total["undecided"] and not total["differ"]
    lines.append(
        f"G4 findings on {share:.2%} of the patches (at most {GOAL_G4:.0%}); goals {'reached' if reached else 'MISSED'}"
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
            "g4": sum(bool(row.gates) for row in patches),
            "undecided": sum(row.result == "error" for row in patches),
            "plain": sum(row.tests for row in rows if row.variant == PLAIN),
            "differ": sum(row.result == "differs" for row in rows),
        }
    )


def _line(name: str, counts: Counter[str]) -> str:
    return (
        f"{name:<26}{counts['fixes']:>6}{counts['patches']:>9}{counts['passed']:>8}{counts['false']:>16}{counts['g4']:>13}"
        f"{counts['undecided']:>11}{counts['plain']:>23}{counts['differ']:>8}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("tasks", nargs="+", type=Path, help="folders that hold tasks, at any depth")
    parser.add_argument("--out", type=Path, default=Path("build/honest"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--sandbox", choices=("bwrap", "docker"), default="bwrap")
    parser.add_argument(
        "--variants", default=",".join([*MAKERS, PLAIN]), help="names, or a number of them taken in turn"
    )
    parser.add_argument("--only", default="", help="tasks whose id contains this")
    parser.add_argument("--minutes", type=float, default=24 * 60.0, help="start nothing more after this time")
    asked = parser.parse_args()
    ledger = Ledger(asked.out / "decisions.jsonl")
    tasks = [task for task in find(asked.tasks) if asked.only in task.id]
    with Lab(sandbox=asked.sandbox) as lab, ThreadPoolExecutor(asked.workers) as pool:
        until = time.monotonic() + asked.minutes * 60
        running = [
            pool.submit(Campaign(lab, ledger, chosen(asked.variants, _number(task)), asked.sandbox, until).task, task)
            for task in tasks
        ]
        for number, (task, one) in enumerate(zip(tasks, running, strict=True), start=1):
            try:
                one.result()
            except AgentBenchError as error:
                print(f"{task.id}: {error.message}", flush=True)
            print(f"[{number}/{len(tasks)}] {task.id}", file=sys.stderr, flush=True)
    rows = [row for row in ledger.rows.values() if row.backend == asked.sandbox]
    lines, reached = table(rows)
    print("\n".join(lines))
    bad = [asdict(row) for row in rows if row.result not in {"pass", "agrees", "none"}]
    (asked.out / f"not-accepted.{asked.sandbox}.json").write_text(json.dumps(bad, indent=1), "utf-8")
    return 0 if reached else 1


def _number(task: LoadedTask) -> int:
    """The same for a task in every run, whichever other tasks there are."""
    return int(sha256_hex(task.id.encode())[:8], 16)


def chosen(wanted: str, number: int) -> tuple[str, ...]:
    """All that were named; or the reference, plain pytest and so many others, in turn from task to task."""
    if not wanted.isdigit():
        return tuple(name for name in wanted.split(",") if name)
    others = [name for name in MAKERS if name != FIRST]
    count = min(int(wanted), len(others))
    return (FIRST, PLAIN, *(others[(number * count + step) % len(others)] for step in range(count)))


if __name__ == "__main__":
    sys.exit(main())
