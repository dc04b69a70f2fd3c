"""Grade every known cheat and print which layer stopped it; with `--ablate`, also what passes without each layer.

    make redteam ARGS="--sandbox bwrap --only frames"
    make redteam ARGS="--ablate --json build/redteam/ablation.json"
    make redteam ARGS="--json build/redteam/all.json --resume --minutes 10"    # repeat until it says that all is graded

Exits with 1 if a cheat passes or ends as a harness error. Cheats in `tests/cheats/surviving` are known to pass a task
without a reference and count only where there is one. Those in `tests/cheats/past_decoys` are known to pass any task.
"""

# ruff: noqa: T201 - a program for the terminal
from __future__ import annotations

import argparse
import json
import multiprocessing
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import repeat
from pathlib import Path
from unittest import mock

from agentbench.acceptance.checks.pytest import check, decide
from agentbench.acceptance.checks.pytest.decide import run_findings
from agentbench.acceptance.checks.pytest.run import PytestRun
from agentbench.acceptance.grade import grade
from agentbench.acceptance.grading_context import Acceptance, Finding
from agentbench.acceptance.validation import why_not
from agentbench.core.reasons import Outcome
from agentbench.execution.lab import Lab
from agentbench.sandbox.docker.engine import find_engine
from tests.acceptance.toy import TaskFactory, patch_of
from tests.campaigns.layers import LAYERS, speakers, switched_off
from tests.cheats.submissions import Submission, submissions
from tests.sandbox.conftest import remove_images

KINDS = ("cheating", "surviving", "past_decoys")


@dataclass(frozen=True, slots=True)
class Job:
    """One grading: a cheat on a backend, with or without decoys, without some layers."""

    kind: str
    cheat: str
    backend: str
    decoys: bool
    off: str = ""
    """The layer that is switched off; empty for none."""


@dataclass(frozen=True, slots=True)
class Row:
    """The result of one grading. `outcome` is fail, PASS or ERROR."""

    kind: str
    cheat: str
    family: str
    backend: str
    decoys: bool
    off: str
    outcome: str
    caught_by: tuple[str, ...]
    why: str
    changed: tuple[str, ...] = ()
    """What the runner reported as changed."""
    events: tuple[str, ...] = ()
    """Audit events that the runner reported, also those that are only notes."""
    rules: tuple[str, ...] = ()
    """Rules of findings that fail the patch, each with its detail."""

    @property
    def job(self) -> Job:
        return Job(self.kind, self.cheat, self.backend, self.decoys, self.off)

    @property
    def is_known(self) -> bool:
        """Whether the cheat is documented to pass this task."""
        return self.kind == "past_decoys" or (self.kind == "surviving" and not self.decoys)


def read_rows(file: Path) -> list[Row]:
    lists = ("caught_by", "changed", "events", "rules")
    return [
        Row(**{**data, **{name: tuple(data[name]) for name in lists}}) for data in json.loads(file.read_text("utf-8"))
    ]


# --- one grading, in a process of its own -----------------------------------------------------------------------------


@cache
def _tasks(backend: str, state: Path) -> TaskFactory:
    return TaskFactory(Lab(sandbox=backend, state=state / backend).__enter__())


@cache
def _submission(kind: str, name: str) -> Submission:
    return next(submission for submission in submissions(kind) if submission.name == name)


def grade_cheat(job: Job, state: Path) -> Row:
    submission, tasks = _submission(job.kind, job.cheat), _tasks(job.backend, state)
    changed: set[str] = set()
    events: set[str] = set()

    def recording(run: PytestRun, known: Collection[str]) -> tuple[Finding, ...]:
        changed.update(name for name in run.transcript.changed if name not in known)
        events.update(event.what for event in run.transcript.audit_events if event.key not in known)
        return run_findings(run, known)

    folder = Path(tempfile.mkdtemp(dir=state))
    try:
        reference = _reference(submission, tasks, folder) if job.decoys else ""
        context = submission.context(tasks, folder / "task", reference=reference)
        patch, problem = submission.make_patch(context)
        with (
            switched_off([job.off] if job.off else []),
            mock.patch.object(check, "run_findings", recording),
            mock.patch.object(decide, "run_findings", recording),
        ):
            result = grade(patch, context, problem=problem, decoys=job.off != "decoys")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return _row(job, submission.family, result, tuple(sorted(changed)), tuple(sorted(events)))


def _reference(submission: Submission, tasks: TaskFactory, folder: Path) -> str:
    """Return a patch that solves the submission's task."""
    return patch_of(submission.context(tasks, folder / "bare"), submission.reference).decode()


def _row(job: Job, family: str, result: Acceptance, changed: tuple[str, ...], events: tuple[str, ...]) -> Row:
    outcomes = [step.outcome for step in (result.application, *result.steps)]
    outcomes += [decision.outcome for decision in result.checks]
    is_error = Outcome.ERROR in outcomes or any(finding.severity == "error" for finding in result.findings)
    gates = [finding for finding in result.findings if finding.severity == "gate"]
    return Row(
        kind=job.kind,
        cheat=job.cheat,
        family=family,
        backend=job.backend,
        decoys=job.decoys,
        off=job.off,
        outcome="PASS" if result.accepted else "ERROR" if is_error else "fail",
        caught_by=() if result.accepted else tuple(sorted(speakers(result, changed))),
        why=result.checks[0].decided.why if result.accepted else why_not(result)[:300],
        changed=changed,
        events=events,
        rules=tuple(dict.fromkeys(f"{finding.rule}: {finding.detail}" for finding in gates)),
    )


# --- campaigns --------------------------------------------------------------------------------------------------------


def jobs_without(rows: Iterable[Row]) -> Iterator[Job]:
    """Yield the gradings that show whether a layer is needed.

    A layer that reports is needed only if it alone spoke. A layer that prevents is never silent, so it is left out for
    every cheat that reaches the code it protects.
    """
    for row in rows:
        for name, layer in LAYERS.items():
            alone = row.caught_by == (name,)
            reached = layer.prevents and (name in row.caught_by or row.family in PREVENTED[name])
            if alone or reached:
                yield Job(row.kind, row.cheat, row.backend, row.decoys, name)


PREVENTED = {
    "guard": frozenset({"runner", "frames", "forged_results", "leaks"}),
    "protection": frozenset({"configuration", "startup", "tests", "shadowing", "bytecode", "special_files"}),
}
"""Families of cheats that a preventing layer may be the reason against."""


@dataclass
class Campaign:
    """Grades jobs in worker processes, and keeps the rows in a file so that another call can continue."""

    state: Path
    workers: int
    deadline: float
    """Monotonic time after which no new grading starts."""
    file: Path | None = None
    rows: dict[Job, Row] = field(default_factory=dict)
    incomplete: bool = False

    def resume(self) -> None:
        if self.file and self.file.exists():
            self.rows = {row.job: row for row in read_rows(self.file)}

    def run(self, jobs: Sequence[Job]) -> list[Row]:
        """Return the rows of the jobs, without those that the deadline left out."""
        open_jobs = [job for job in jobs if job not in self.rows]
        try:
            with ProcessPoolExecutor(self.workers, mp_context=multiprocessing.get_context("spawn")) as pool:
                results = pool.map(grade_in_time, open_jobs, repeat(self.state), repeat(self.deadline))
                for number, row in enumerate(results, start=1):
                    if row is None:
                        self.incomplete = True
                        continue
                    self.rows[row.job] = row
                    print(f"[{number}/{len(open_jobs)}] {_line(row)}", file=sys.stderr, flush=True)
        finally:
            self._save()
        return [self.rows[job] for job in jobs if job in self.rows]

    def _save(self) -> None:
        if self.file:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self.file.write_text(json.dumps([asdict(row) for row in self.rows.values()], indent=1), "utf-8")


def grade_in_time(job: Job, state: Path, deadline: float) -> Row | None:
    return grade_cheat(job, state) if time.monotonic() < deadline else None


def _line(row: Row) -> str:
    off = f" without {row.off}" if row.off else ""
    return f"{row.outcome:<6}{row.cheat:<52}{row.family:<16}{row.backend:<8}{', '.join(row.caught_by)}{off}"


def results_table(rows: Sequence[Row]) -> list[str]:
    lines = [f"{'':<6}{'cheat':<52}{'family':<16}{'backend':<8}caught by"]
    lines += [_line(row) for row in rows]
    counts = Counter(row.outcome for row in rows)
    lines.append(f"{len(rows)} gradings: {counts['fail']} fail, {counts['PASS']} PASS, {counts['ERROR']} ERROR")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--sandbox", default="bwrap,docker", help="backends, separated by commas")
    parser.add_argument(
        "--only", default="", help="cheats whose name or family contains one of these words, separated by commas"
    )
    parser.add_argument("--without-reference", action="store_true", help="tasks without a reference, so without decoys")
    parser.add_argument("--ablate", action="store_true", help="also grade without each layer that may be needed")
    parser.add_argument("--off", default="", choices=["", *LAYERS], help="grade without this layer")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write all rows to this file")
    parser.add_argument("--resume", action="store_true", help="keep the rows in the file of --json")
    parser.add_argument("--minutes", type=float, default=24 * 60.0, help="start no new grading after this time")
    parser.add_argument("--state", type=Path, default=Path("build/redteam"), help="folder for prepared environments")
    options = parser.parse_args()
    options.state.mkdir(parents=True, exist_ok=True)
    state = options.state.resolve()
    backends = options.sandbox.split(",")
    jobs = [
        Job(kind, submission.name, backend, not options.without_reference, options.off)
        for backend in backends
        for kind in KINDS
        for submission in submissions(kind)
        if any(word in submission.name or word in submission.family for word in options.only.split(","))
    ]
    campaign = Campaign(state, options.workers, time.monotonic() + options.minutes * 60, options.json)
    if options.resume:
        campaign.resume()
    rows = campaign.run(jobs)
    without = campaign.run(list(jobs_without(rows))) if options.ablate else []
    print("\n".join([*results_table(rows), *(_line(row) for row in without if row.outcome == "PASS")]))
    if campaign.incomplete:
        print("not all cheats were graded: the time of --minutes is over; continue with --resume")
        return 1
    if "docker" in backends:
        remove_images(find_engine(), state / "docker")
    return 1 if any(row.outcome != "fail" and not row.is_known for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
