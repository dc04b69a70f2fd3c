"""Create suites from a repository's history: choose candidates, verify them in parallel, hold out a share.

Whether a task is held out is decided by its commit and the seed alone, before it is created. It therefore does not depend on
interruptions, on the number of tasks or on their order.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import asdict, field
from pathlib import Path
from typing import get_args

from agentbench.authoring.commit.commit_reader import TaskRequest, repository_name, task_id_of
from agentbench.authoring.commit.from_commit import FoundTask, Notify, find_created, from_commit
from agentbench.authoring.commit.language import require_python
from agentbench.authoring.commit.split import Kind, UnsuitableCommit, is_test, split, text_of
from agentbench.authoring.commit.task_draft import check_name
from agentbench.authoring.environment.resolver import EnvironmentResolver
from agentbench.authoring.task_lock import TaskExists, TaskLocation
from agentbench.contract.json_schema import write_suite_schemas
from agentbench.contract.problem import did_you_mean
from agentbench.core.atomic_file import write_atomic
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import ContractError, InputError, PatchInvalid, SourceError, TaskError
from agentbench.core.file_lock import try_lock
from agentbench.core.package_settings import without_credentials
from agentbench.core.threads import threads
from agentbench.execution.lab import Lab
from agentbench.workspace.source.history import Commit, Histories

LEDGER_SCHEMA = 1
MAX_COMMITS = 5000
"""Commits that are read; their changes are held in memory."""
KINDS = (*get_args(Kind), "exists already", "repository", "task")
"""Possible reasons for rejecting a candidate."""
_SHOW_SEC = 1.0
"""Interval at which the steps of running candidates are shown."""
_REVERTS = re.compile(r"(?i)this reverts commit ([0-9a-f]{7,40})")


@dataclass(frozen=True, slots=True)
class HarvestRequest:
    """Options of a harvest."""

    task: TaskRequest
    """Options for each task; `suite_dir` is the folder of the development suite."""
    heldout_dir: Path
    ledger: Path
    maximum: int = 20
    since: str | None = None
    start: str | None = None
    workers: int = 1
    examine: int = 200
    """Maximum number of candidates to run."""
    heldout: float = 0.3
    seed: int = 20260307
    retry: tuple[str, ...] = ()
    """Kinds of rejection to run again, for instance because an index can be reached today."""

    def task_for(self, commit_id: str) -> TaskRequest:
        """Return the options of one task, with the suite that it belongs to."""
        dev, heldout = self.both_suites()
        return heldout if is_held_out(commit_id, self.heldout, self.seed) else dev

    def both_suites(self) -> tuple[TaskRequest, TaskRequest]:
        return self.task, dataclasses.replace(self.task, suite_dir=self.heldout_dir)


def is_held_out(commit_id: str, share: float, seed: int) -> bool:
    """Decide by a keyed hash whether the task of a commit is held out, with probability `share`. Pure."""
    drawn = hashlib.sha256(f"{seed}:{commit_id}".encode()).digest()[:8]
    return int.from_bytes(drawn) < share * 2**64


@dataclass(frozen=True, slots=True)
class Verdict:
    commit: str
    date: str
    subject: str
    accepted: bool
    kind: str
    reason: str = ""
    task_id: str = ""
    stratum: str = ""
    suite: str = ""
    flags: tuple[str, ...] = ()
    seed: int | None = None
    """With `share`: the settings of `is_held_out` for an accepted task; None if its suite was decided in another way."""
    share: float | None = None
    unpinned: str = ""
    """Why the environment of an accepted task is not pinned by digest; empty if it is."""


@dataclass
class Ledger:
    """All verdicts so far. Written after each one, so that an interrupted harvest can continue."""

    path: Path
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def open(cls, path: Path) -> Ledger:
        """Read a ledger, or start an empty one.

        Raises:
            InputError: the file is not a ledger, or has another schema version.
        """
        if not path.exists():
            return cls(path)
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            schema = data["schema_version"]
            if schema != LEDGER_SCHEMA:
                raise InputError(
                    f"{path}: schema_version: expected {LEDGER_SCHEMA}; got {schema!r} from another version of ab",
                    remedy="use that version, or pass another --name to start over",
                )
            verdicts = [Verdict(**{**row, "flags": tuple(row["flags"])}) for row in data["verdicts"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} is not a harvest ledger: {error}", remedy="remove it to start over") from None
        return cls(path, {verdict.commit: verdict for verdict in verdicts})

    def put(self, *verdicts: Verdict) -> None:
        """Add verdicts and write the ledger.

        Raises:
            InputError: the file cannot be written.
        """
        with self._lock:
            self.verdicts |= {verdict.commit: verdict for verdict in verdicts}
            rows = [asdict(verdict) for verdict in self.verdicts.values()]
            text = json.dumps({"schema_version": LEDGER_SCHEMA, "verdicts": rows}, indent=1)
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                write_atomic(self.path, text.encode())
            except OSError as error:
                raise InputError(f"{self.path}: cannot write: {error.strerror}") from None

    @property
    def accepted(self) -> list[Verdict]:
        return [verdict for verdict in self.verdicts.values() if verdict.accepted]


@dataclass(frozen=True, slots=True)
class Harvest:
    verdicts: tuple[Verdict, ...]
    passed_over: Counter[str]
    candidates: int
    left: int
    """Candidates that were not run, because enough were accepted or examined."""


def harvest(request: HarvestRequest, lab: Lab, *, notify: Notify, show_running: Notify = lambda _line: None) -> Harvest:
    """Find candidates, verify them, and hold out a share of the accepted tasks.

    `show_running` is called every second with counts and the current steps of the running commits.

    Raises:
        SourceError: the repository cannot be fetched.
        UnsuitableCommit: the repository's language is not supported.
        InputError: a file cannot be written, or `retry` names an unknown kind.
        SandboxError, WorkspaceError: harness errors.
    """
    unknown = [kind for kind in request.retry if kind not in KINDS]
    if unknown:
        raise InputError(
            f"--retry: unknown kind {unknown[0]!r}{did_you_mean(unknown[0], KINDS)}",
            remedy=f"expected one of: {', '.join(sorted(KINDS))}",
        )
    with _exclusive(request.ledger):
        return _harvest(request, lab, notify, show_running)


@contextlib.contextmanager
def _exclusive(ledger: Path) -> Iterator[None]:
    """Lock a ledger, because two harvests with one ledger would overwrite each other's verdicts.

    Raises:
        InputError: another harvest holds the lock, or the folder cannot be written.
    """
    with contextlib.ExitStack() as stack:
        try:
            ledger.parent.mkdir(parents=True, exist_ok=True)
            file = stack.enter_context(ledger.with_name(f".{ledger.name}.lock").open("w"))
            locked = try_lock(file.fileno())
        except OSError as error:
            raise InputError(f"{ledger}: cannot write: {error.strerror}") from None
        if not locked:
            raise InputError(f"another harvest is using {ledger}", remedy="wait for it, or pass another --name")
        yield


def _harvest(request: HarvestRequest, lab: Lab, notify: Notify, show_running: Notify) -> Harvest:
    for folder in (request.task.suite_dir, request.heldout_dir):
        check_name(folder.absolute().name, "suite name")
    ledger = Ledger.open(request.ledger)
    candidates = _candidates(request, lab, notify)
    retried = {
        verdict.commit for verdict in ledger.verdicts.values() if not verdict.accepted and verdict.kind in request.retry
    }
    pending = [commit for commit in candidates.commits if commit.id not in ledger.verdicts or commit.id in retried]
    notify(f"{len(candidates.commits)} candidates, {len(ledger.verdicts)} already in the ledger")
    if not candidates.commits:
        notify(_no_candidates(request, candidates))
    ran = _CandidateRuns(request, lab, ledger, notify, show_running).run(pending[: request.examine])
    left = len([commit for commit in candidates.commits if commit.id not in ledger.verdicts])
    notify(f"{ran} candidates run")
    return Harvest(tuple(ledger.verdicts.values()), candidates.passed_over, len(candidates.commits), left)


def _no_candidates(request: HarvestRequest, candidates: Candidates) -> str:
    skipped = candidates.passed_over.total()
    if not skipped:
        span = f"since {request.since}" if request.since else f"up to {request.start or 'the head of the main branch'}"
        return f"no usable commits found: there are none {span}, not counting merges (see --since, --start)"
    reasons = ", ".join(f"{kind} {count}" for kind, count in candidates.passed_over.most_common())
    return f"no usable commits found among {skipped} ({reasons}): a commit must contain both a fix and its tests"


def _candidates(request: HarvestRequest, lab: Lab, notify: Notify) -> Candidates:
    notify(f"reading the history of {without_credentials(request.task.repo)}")
    with Histories(lab.state / "snapshots").open(request.task.repo, Path.cwd()) as history:
        start = history.commit(request.start or history.head()).id
        require_python(history.paths(start), repository_name(request.task.repo))
        commits = history.commits(start, since=request.since, limit=MAX_COMMITS + 1)
        if len(commits) > MAX_COMMITS:
            following = commits[MAX_COMMITS].id[:12]
            notify(f"reading only the newest {MAX_COMMITS} commits; pass --start {following} for older ones")
            del commits[MAX_COMMITS:]
        notify(f"looking for candidates among {len(commits)} commits")
        return choose(commits, lambda commit, paths: history.patch(commit.parents[0], commit.id, paths))


# --- candidates, chosen without running anything --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Candidates:
    """Commits worth a run, and how many others were skipped, by reason."""

    commits: tuple[Commit, ...]
    passed_over: Counter[str]


def choose(history: Sequence[Commit], patch: Callable[[Commit, Sequence[bytes]], bytes]) -> Candidates:
    """Choose the commits worth a run, newest first, without reverted fixes and without copies from other branches.

    `patch` returns what a commit changes at some paths. It is called only to compare commits with equal subjects and
    files.
    """
    reverted = [match[1] for commit in history for match in _REVERTS.finditer(commit.message)]
    chosen: list[Commit] = []
    by_key: dict[tuple[object, ...], list[Commit]] = {}
    passed_over: Counter[str] = Counter()
    for commit in history:
        reason = _reason(commit, reverted)
        key = _key(commit)
        similar = by_key.get(key, ())
        if reason is None and any(_added_tests(commit, patch) == _added_tests(other, patch) for other in similar):
            reason = "duplicate"
        if reason is None:
            by_key.setdefault(key, []).append(commit)
            chosen.append(commit)
        else:
            passed_over[reason] += 1
    return Candidates(tuple(chosen), passed_over)


def _reason(commit: Commit, reverted: Sequence[str]) -> str | None:
    if _REVERTS.search(commit.message) or commit.subject.lower().startswith('revert "'):
        return "revert"
    if any(commit.id.startswith(name) for name in reverted):
        return "reverted later"
    try:
        split(commit)
    except UnsuitableCommit as error:
        return error.kind
    return None


def _key(commit: Commit) -> tuple[object, ...]:
    """Return a key that a commit shares with its copies on other branches: subject and files."""
    return (commit.subject, *sorted(text_of(change.path) for change in commit.changes))


def _added_tests(commit: Commit, patch: Callable[[Commit, Sequence[bytes]], bytes]) -> list[bytes]:
    """Return the lines that a commit adds to tests. Copies on other branches add the same; namesakes do not."""
    paths = [change.path for change in commit.changes if is_test(text_of(change.path))]
    return [line for line in patch(commit, paths).splitlines() if line[:1] == b"+" and line[:3] != b"+++"]


# --- verification -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _CandidateRuns:
    """Verifies candidates in parallel."""

    request: HarvestRequest
    lab: Lab
    ledger: Ledger
    notify: Notify
    show_running: Notify
    environments: EnvironmentResolver = field(default_factory=EnvironmentResolver)
    steps: dict[str, str] = field(default_factory=dict)
    """The running candidates by commit, with their current step."""

    def run(self, pending: Sequence[Commit]) -> int:
        """Verify candidates until enough are accepted; return how many were run."""
        ran = 0
        queue = iter(pending)
        with threads(self.request.workers, "harvest", self.lab.cancel) as pool:
            running: dict[Future[Verdict], Commit] = {}
            while True:
                missing = self.request.maximum - len(self.ledger.accepted)
                while len(running) < min(self.request.workers, missing) and (commit := next(queue, None)) is not None:
                    self.steps[commit.id] = f"{commit.id[:10]} {commit.subject[:40]}"
                    running[pool.submit(self._verify, commit)] = commit
                counts = f"{len(self.ledger.accepted)} of {self.request.maximum} accepted, {ran} of {len(pending)} run"
                self._show(counts)
                if not running:
                    return ran
                done, _ = wait(running, timeout=_SHOW_SEC, return_when=FIRST_COMPLETED)
                for future in done:
                    self.steps.pop(running.pop(future).id)
                    verdict = future.result()
                    self.ledger.put(verdict)
                    ran += 1
                    accepted = f"{len(self.ledger.accepted)} of {self.request.maximum} accepted"
                    self.notify(f"{summary_line(verdict)} ({accepted}, {ran} of {len(pending)} run)")

    def _show(self, counts: str) -> None:
        running = ", ".join(list(self.steps.values()))
        self.show_running(f"{counts} · {running}" if running else "")

    def _verify(self, commit: Commit) -> Verdict:
        verdict = Verdict(commit.id, commit.date, commit.subject[:100], accepted=False, kind="task")
        task = self.request.task_for(commit.id)
        try:
            for request in self.request.both_suites():
                TaskLocation(request.suite_dir, task_id_of(request, commit)).target()
            created = from_commit(
                task, commit.id, self.lab, notify=self._step_of(commit), environments=self.environments
            )
        except TaskExists as error:
            # Created before this harvest was interrupted, or by another command in the meantime.
            return self._existing(verdict, commit, error)
        except UnsuitableCommit as error:
            reason = error.message + (f"\n{error.remedy}" if error.kind == "setup failed" else "")
            return dataclasses.replace(verdict, kind=error.kind, reason=reason)
        except SourceError as error:
            return dataclasses.replace(verdict, kind="repository", reason=error.message)
        except (TaskError, ContractError, PatchInvalid) as error:
            return dataclasses.replace(verdict, reason=error.message)
        found = FoundTask(created.draft.id, created.draft.strata, created.flags, created.environment.unpinned)
        return self._accepted(verdict, task, found)

    def _step_of(self, commit: Commit) -> Notify:
        def report(step: str) -> None:
            self.steps[commit.id] = f"{commit.id[:10]} {commit.subject[:40]} ({step.partition(': ')[2] or step})"

        return report

    def _existing(self, verdict: Verdict, commit: Commit, error: TaskExists) -> Verdict:
        """Accept a task of this commit where it is: a task never changes suites."""
        for task in self.request.both_suites():
            found = find_created(task, commit)
            if found is not None:
                return self._accepted(verdict, task, found)
        return dataclasses.replace(verdict, kind="exists already", reason=error.message)

    def _accepted(self, verdict: Verdict, task: TaskRequest, found: FoundTask) -> Verdict:
        # With each task, so that the suite of an interrupted harvest has them.
        write_suite_schemas(task.suite_dir)
        drawn = task == self.request.task_for(verdict.commit)
        return dataclasses.replace(
            verdict,
            accepted=True,
            kind="accepted",
            task_id=found.id,
            stratum=f"{found.strata['kind']}/{found.strata['test_runtime']}",
            suite=task.suite_dir.absolute().name,
            flags=found.flags,
            seed=self.request.seed if drawn else None,
            share=self.request.heldout if drawn else None,
            unpinned=found.unpinned,
        )


def summary_line(verdict: Verdict) -> str:
    result = (
        f"accepted {verdict.task_id}"
        if verdict.accepted
        else f"rejected ({verdict.kind}): {_shortened(verdict.reason.splitlines()[0], 160)}"
    )
    return f"{verdict.commit[:10]} {verdict.date[:10]} {result} | {_shortened(verdict.subject, 60)}"


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
