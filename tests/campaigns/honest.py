"""Grades real fixes, variants of them and independent solutions, all of which must be accepted without findings.

For every task below the given folders, the reference, honest variants of it and an alternative solution, if there is
one, are graded. The same tests also run in plain pytest, whose results the runner must match. Every decision is written
to a file, so that the same command continues where it was stopped:

    python -m tests.campaigns.honest ../harvest/attrs-dev ../harvest/click-dev --out build/honest --workers 2
"""

# ruff: noqa: T201 - a program for the terminal
from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path

from agentbench.acceptance.grade import grade
from agentbench.acceptance.grading_context import Acceptance, GradingContext
from agentbench.acceptance.reference import reference_patch
from agentbench.acceptance.replica import base_entries
from agentbench.acceptance.validation import why_not
from agentbench.contract.load import LoadedTask, load_task
from agentbench.contract.pytest_command import parse_pytest_command
from agentbench.core.canonical import sha256_hex
from agentbench.core.errors import AgentBenchError
from agentbench.core.reasons import Outcome
from agentbench.execution.lab import Lab
from agentbench.workspace.diff.apply import PatchedTree, plan_writes
from agentbench.workspace.diff.compare import Globs
from agentbench.workspace.diff.extract import extract
from agentbench.workspace.diff.parse import parse
from tests.campaigns import plain_pytest
from tests.campaigns.decisions import PLAIN, Decision, Ledger, goals_reached, summarize, table
from tests.campaigns.variants import MAKERS, Work, Writes

ALTERNATIVE = "alternative"
REFERENCE = "unchanged"
ADDING_DEPENDENCIES = ("adds_dependency", "does_it_all")
BACKENDS = ("bwrap", "docker")
REPOSITORY = Path(__file__).parents[2]
BUNDLED_TASKS = [REPOSITORY / "tasks", REPOSITORY / "src/agentbench/demo"]
BUNDLED_ALTERNATIVES = REPOSITORY / "tests/campaigns/alternatives"


@dataclass(frozen=True, slots=True)
class Job:
    """The patches of one task that are to be graded on one backend."""

    task: LoadedTask
    variants: tuple[str, ...]
    backend: str
    alternative: bytes | None = None


@dataclass
class Campaign:
    """Grades the jobs of one backend."""

    lab: Lab
    ledger: Ledger
    deadline: float
    """Monotonic time after which no new grading starts."""
    planned: int
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def run(self, job: Job) -> None:
        undecided = Decision(job.task.task.suite, job.task.id, job.variants[0], job.backend)
        started = time.monotonic()
        if started > self.deadline:
            return
        try:
            self.lab.require(job.task)
            context = self.lab.grading_context(self.lab.prepare(job.task))
            patch = reference_patch(context)
            work = _work(context, patch or b"")
        except AgentBenchError as error:
            for name in job.variants:
                self._record(dataclasses.replace(undecided, variant=name, result="error", why=error.message))
            return
        for name in job.variants:
            started = time.monotonic()
            if started > self.deadline:
                return
            decision = dataclasses.replace(undecided, variant=name)
            if patch is not None or name == ALTERNATIVE:
                decision = _decide(decision, context, work, job.alternative if name == ALTERNATIVE else patch)
            self._record(dataclasses.replace(decision, seconds=round(time.monotonic() - started, 2)))

    def _record(self, decision: Decision) -> None:
        self.ledger.put(decision)
        text = f"[{next(self._numbers)}/{self.planned}] {decision.task} {decision.variant} ({decision.backend})"
        why = "" if decision.as_expected else f": {decision.why[:300]}"
        print(f"{text}: {decision.result}, {decision.seconds:.1f} s{why}", file=sys.stderr, flush=True)


def _work(context: GradingContext, patch: bytes) -> Work:
    base = context.prepared.base_tree
    hidden = {path: (file.content, file.executable) for path, file in context.loaded.hidden_files().items()}
    reference = {write.path: write for write in plan_writes(parse(patch), base).writes}
    return Work(base, frozenset(base_entries(context)), reference, hidden)


def _decide(decision: Decision, context: GradingContext, work: Work, patch: bytes | None) -> Decision:
    """Grade the variant that the decision names, made from the patch. Harness errors are decisions too."""
    if patch is None:
        return decision
    try:
        if decision.variant == PLAIN:
            return _compare_with_plain(decision, context, patch)
        if decision.variant != ALTERNATIVE:
            writes = MAKERS[decision.variant](work)
            if writes is None or not _allows(context.loaded, decision.variant, writes):
                return decision
            patch = extract(work.tree, PatchedTree(work.tree, tuple(writes.values()))).patch
        return decided(decision, grade(patch, context), patch)
    except AgentBenchError as error:
        return dataclasses.replace(decision, result="error", why=error.message)


def _allows(task: LoadedTask, variant: str, writes: Writes) -> bool:
    """Return whether the task lets an agent make this variant: edit all of these files, add dependencies."""
    if variant in ADDING_DEPENDENCIES and not task.task.policy.dependencies.allow_new:
        return False
    editable = Globs(task.editable_globs)
    return not task.editable_globs or all(editable.match(path) for path in writes)


def decided(decision: Decision, graded: Acceptance, patch: bytes) -> Decision:
    """Return the decision with the result of grading."""
    gates = tuple(asdict(finding) for finding in graded.findings if finding.severity == "gate")
    outcomes = {step.outcome for step in (graded.application, *graded.steps)}
    outcomes |= {check.outcome for check in graded.checks}
    undecided = Outcome.ERROR in outcomes or any(finding.severity == "error" for finding in graded.findings)
    checks = [check.decided for check in graded.checks]
    decision = dataclasses.replace(
        decision,
        result="accepted",
        gates=gates,
        notes=sum(finding.severity == "note" for finding in graded.findings),
        tests=sum(len(check.tests) for check in checks),
        fail_to_pass=sum(check.f2p_total for check in checks),
        decoys=sum(check.decoys for check in checks),
    )
    if graded.accepted:
        return decision
    return dataclasses.replace(
        decision,
        result="accused" if gates else "error" if undecided else "rejected",
        why=why_not(graded),
        diagnostics="\n".join(check.diagnostics for check in checks)[:4000],
        patch=patch.decode("utf-8", "backslashreplace")[:200_000],
    )


def _compare_with_plain(decision: Decision, context: GradingContext, patch: bytes) -> Decision:
    """Compare each test result with plain pytest."""
    graded = grade(patch, context)
    different: list[str] = []
    tests = 0
    for check in graded.checks:
        command = parse_pytest_command(check.check.command or "") if check.check.parser == "pytest" else None
        if command is None:
            continue
        plain_outcomes = plain_pytest.outcomes(context, patch, command, check.check.timeout_sec)
        if plain_outcomes is None:
            different.append(f"{check.check.id}: plain pytest did not finish")
            continue
        runner_outcomes = check.decided.tests
        # The runner leaves out files without required tests.
        files = {test.partition("::")[0] for test in runner_outcomes}
        plain_outcomes = {test: text for test, text in plain_outcomes.items() if test.partition("::")[0] in files}
        tests += len(plain_outcomes)
        different += [
            f"{test}: plain {plain_outcomes.get(test, 'missing')}, runner {runner_outcomes.get(test, 'missing')}"
            for test in sorted(plain_outcomes.keys() | runner_outcomes.keys())
            if plain_outcomes.get(test, "missing") != runner_outcomes.get(test, "missing")
        ]
    result = "differs" if different else "agrees"
    return dataclasses.replace(decision, result=result, why="; ".join(different[:20]), tests=tests)


def find_tasks(paths: Sequence[Path]) -> Iterator[LoadedTask]:
    """Yield every task at or below the paths, without the drafts of a running harvest."""
    for path in paths:
        for file in sorted(path.rglob("task.yaml")):
            if not any(part.startswith(".") for part in file.relative_to(path).parts):
                yield load_task(file.parent)


def find_alternatives(folders: Sequence[Path]) -> dict[str, bytes]:
    """Return the patches in the folders by the id of their task."""
    return {file.name.removesuffix(".patch"): file.read_bytes() for path in folders for file in path.glob("*.patch")}


def plan_jobs(
    tasks: Sequence[LoadedTask], variants: str, backend: str, alternatives: Mapping[str, bytes], decided: set[str]
) -> list[Job]:
    """Return the jobs of one backend, without the patches of `decided` ("TASK VARIANT")."""
    jobs = []
    for task in tasks:
        names = choose_variants(variants, _number(task))
        names += (ALTERNATIVE,) if task.id in alternatives else ()
        open_names = tuple(name for name in names if f"{task.id} {name}" not in decided)
        if open_names:
            jobs.append(Job(task, open_names, backend, alternatives.get(task.id)))
    return jobs


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


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("tasks", nargs="*", type=Path, help="folders of tasks, at any depth [default: bundled tasks]")
    parser.add_argument("--alternatives", action="append", type=Path, help="folder of TASK.patch files")
    parser.add_argument("--out", type=Path, default=Path("build/honest"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--sandbox", choices=(*BACKENDS, "both"), default="both")
    parser.add_argument("--variants", default=",".join([*MAKERS, PLAIN]), help="names, or how many to take in turn")
    parser.add_argument("--only", default="", help="tasks whose id contains this")
    parser.add_argument("--retry", action="store_true", help="grade again what was not accepted")
    parser.add_argument("--minutes", type=float, default=24 * 60.0, help="start no new grading after this time")
    options = parser.parse_args()
    options.tasks = options.tasks or BUNDLED_TASKS
    options.alternatives = options.alternatives or [BUNDLED_ALTERNATIVES]
    return options


def main() -> int:
    options = _options()
    ledger = Ledger(options.out / "decisions.jsonl")
    tasks = [task for task in find_tasks(options.tasks) if options.only in task.id]
    alternatives = find_alternatives(options.alternatives)
    deadline = time.monotonic() + options.minutes * 60
    for backend in BACKENDS if options.sandbox == "both" else (options.sandbox,):
        kept = {
            f"{decision.task} {decision.variant}"
            for decision in ledger.decisions.values()
            if decision.backend == backend and (decision.as_expected or not options.retry)
        }
        jobs = plan_jobs(tasks, options.variants, backend, alternatives, kept)
        planned = sum(len(job.variants) for job in jobs)
        print(f"{backend}: {planned} decisions to make, {len(kept)} in the ledger", file=sys.stderr, flush=True)
        with Lab(sandbox=backend) as lab, ThreadPoolExecutor(options.workers) as pool:
            list(pool.map(Campaign(lab, ledger, deadline, planned).run, jobs))
    decisions = list(ledger.decisions.values())
    print("\n".join(table(decisions)))
    (options.out / "honest.json").write_text(json.dumps(summarize(decisions), indent=1) + "\n", "utf-8")
    return 0 if goals_reached(decisions) else 1


if __name__ == "__main__":
    sys.exit(main())
