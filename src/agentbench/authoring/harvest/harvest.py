"""A repository's history as a suite: candidates verified in parallel, every verdict kept, the accepted split in two."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import get_args

from agentbench.authoring.commit.from_commit import Tell, Wanted, finished, from_commit, task_id_of
from agentbench.authoring.commit.split import Kind, Unsuitable
from agentbench.authoring.commit.task_draft import named
from agentbench.authoring.environment.candidates import Environments
from agentbench.authoring.harvest.candidates import Candidates, choose
from agentbench.authoring.task_lock import PlaceTaken, Site
from agentbench.contract.load import TASK_NAME
from agentbench.contract.problem import did_you_mean
from agentbench.core.errors import ContractError, InputError, PatchInvalid, SourceError, TaskError
from agentbench.core.threads import threads
from agentbench.run.lab import Lab
from agentbench.workspace.source.history import Commit, Histories

LEDGER_SCHEMA = 1
REACH = 5000
"""Commits that are looked at: what they changed is held in memory."""
KINDS = (*get_args(Kind), "exists already", "repository", "task")
"""Why a candidate may have been refused."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to harvest and how."""

    wanted: Wanted
    """`suite_dir` is the folder of the development suite."""
    heldout_dir: Path
    ledger: Path
    maximum: int = 20
    since: str | None = None
    start: str | None = None
    workers: int = 1
    examine: int = 200
    """Candidates that are run at most."""
    heldout: float = 0.3
    seed: int = 20260307
    retry: tuple[str, ...] = ()
    """Kinds of refusal that are run again: an index out of reach yesterday may be there today."""


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


@dataclass
class Ledger:
    """All verdicts so far, on disk after each: a harvest goes on where it was stopped."""

    path: Path
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def open(cls, path: Path) -> Ledger:
        """
        Raises:
            InputError: there is a file that is no ledger, or one of another version.
        """
        if not path.exists():
            return cls(path)
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            schema = data["schema_version"]
            if schema != LEDGER_SCHEMA:
                raise InputError(
                    f"{path}: schema_version: expected {LEDGER_SCHEMA}; got {schema!r}: another version of ab wrote it",
                    remedy="go on with that version, or give another --name to begin anew",
                )
            rows = [Verdict(**{**row, "flags": tuple(row["flags"])}) for row in data["verdicts"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            msg = f"{path} is not the ledger of a harvest: {error}"
            raise InputError(msg, remedy="remove it to begin anew") from None
        return cls(path, {row.commit: row for row in rows})

    def put(self, *verdicts: Verdict) -> None:
        """
        Raises:
            InputError: it cannot be written.
        """
        with self._guard:
            self.verdicts |= {verdict.commit: verdict for verdict in verdicts}
            rows = [asdict(one) for one in self.verdicts.values()]
            fresh = self.path.with_name(f".{self.path.name}.{os.getpid()}")
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                fresh.write_text(json.dumps({"schema_version": LEDGER_SCHEMA, "verdicts": rows}, indent=1), "utf-8")
                fresh.replace(self.path)
            except OSError as error:
                raise InputError(f"{self.path} cannot be written: {error.strerror}") from None

    @property
    def accepted(self) -> list[Verdict]:
        return [one for one in self.verdicts.values() if one.accepted]


@dataclass(frozen=True, slots=True)
class Harvest:
    verdicts: tuple[Verdict, ...]
    passed_over: Counter[str]
    candidates: int
    left: int
    """Candidates that were not run, because enough were accepted or examined."""


def harvest(request: Request, lab: Lab, *, tell: Tell, trying: Tell = lambda _what: None) -> Harvest:
    """Mine, verify, split. `trying` is told what is being run, whenever that changes.

    Raises:
        SourceError: the repository cannot be had.
        InputError: a place that cannot be written, or a kind of refusal that there is not.
        SandboxError, WorkspaceError: ours.
    """
    unknown = [kind for kind in request.retry if kind not in KINDS]
    if unknown:
        raise InputError(
            f"--retry: nothing is refused for {unknown[0]!r}{did_you_mean(unknown[0], KINDS)}",
            remedy=f"there are: {', '.join(sorted(KINDS))}",
        )
    with _alone(request.ledger):
        return _harvest(request, lab, tell, trying)


@contextlib.contextmanager
def _alone(ledger: Path) -> Iterator[None]:
    """Two harvests with one ledger would undo each other's split.

    Raises:
        InputError: another one is at work, or the folder cannot be written.
    """
    with contextlib.ExitStack() as held:
        try:
            ledger.parent.mkdir(parents=True, exist_ok=True)
            file = held.enter_context(ledger.with_name(f".{ledger.name}.lock").open("w"))
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"another harvest is at work on {ledger}", remedy="wait for it, or give another --name"
            ) from None
        except OSError as error:
            raise InputError(f"{ledger}: cannot be written: {error.strerror}") from None
        yield


def _harvest(request: Request, lab: Lab, tell: Tell, trying: Tell) -> Harvest:
    named(request.wanted.suite_dir.absolute().name, "the name of the suite")
    ledger = Ledger.open(request.ledger)
    found = _candidates(request, lab, tell)
    again = {one.commit for one in ledger.verdicts.values() if not one.accepted and one.kind in request.retry}
    waiting = [one for one in found.commits if one.id not in ledger.verdicts or one.id in again][: request.examine]
    tell(f"{len(found.commits)} candidates, {len(ledger.verdicts)} known already")
    if not found.commits:
        tell(_nothing_to_try(request, found))
    work = _Verification(request, lab, ledger, tell, trying)
    ran = work.run(waiting)
    _assign(request, ledger)
    left = len([commit for commit in found.commits if commit.id not in ledger.verdicts])
    tell(f"{ran} run now")
    return Harvest(tuple(ledger.verdicts.values()), found.passed_over, len(found.commits), left)


def _nothing_to_try(request: Request, found: Candidates) -> str:
    looked = found.passed_over.total()
    if not looked:
        asked = (
            f"since {request.since}" if request.since else f"before {request.start or 'the head of the main branch'}"
        )
        return f"there is no commit {asked}, merges apart: nothing can be made of this history (--since, --start)"
    reasons = ", ".join(f"{kind} {count}" for kind, count in found.passed_over.most_common())
    return f"none of {looked} commits can be tried ({reasons}): a fix must bring its tests along in the same commit"


def _candidates(request: Request, lab: Lab, tell: Tell) -> Candidates:
    with Histories(lab.state / "snapshots").open(request.wanted.repo, Path.cwd()) as history:
        commits = history.commits(request.start or history.head(), since=request.since, limit=REACH + 1)
        if len(commits) > REACH:
            tell(f"only the newest {REACH} commits are looked at; --start {commits[REACH].id[:12]} goes on behind them")
            del commits[REACH:]
        return choose(commits, lambda commit, paths: history.patch(commit.parents[0], commit.id, paths))


class _Verification:
    def __init__(self, request: Request, lab: Lab, ledger: Ledger, tell: Tell, trying: Tell) -> None:
        self._request = request
        self._lab = lab
        self._ledger = ledger
        self._tell = tell
        self._trying = trying
        self._environments = Environments()

    def run(self, waiting: Sequence[Commit]) -> int:
        """Verify one after another, several at a time, until enough are accepted; how many were run."""
        ran = 0
        todo = iter(waiting)
        with threads(self._request.workers, "harvest", self._lab.cancel) as pool:
            running: dict[Future[Verdict], Commit] = {}
            while True:
                missing = self._request.maximum - len(self._ledger.accepted)
                while len(running) < min(self._request.workers, missing) and (commit := next(todo, None)) is not None:
                    running[pool.submit(self._verify, commit)] = commit
                self._trying(", ".join(f"{one.id[:10]} {one.subject[:40]}" for one in running.values()))
                if not running:
                    return ran
                for one in wait(running, return_when=FIRST_COMPLETED).done:
                    del running[one]
                    verdict = one.result()
                    self._ledger.put(verdict)
                    ran += 1
                    counts = (
                        f"{len(self._ledger.accepted)} of {self._request.maximum} accepted, {ran} of {len(waiting)} run"
                    )
                    self._tell(f"{line_of(verdict)} ({counts})")

    def _verify(self, commit: Commit) -> Verdict:
        verdict = Verdict(commit.id, commit.date, commit.subject[:100], accepted=False, kind="task")
        try:
            Site(self._request.wanted.suite_dir, task_id_of(self._request.wanted, commit)).place()
            made = from_commit(self._request.wanted, commit.id, self._lab, environments=self._environments)
        except PlaceTaken as error:
            # Made before this harvest was stopped, or meanwhile by another command.
            known = finished(self._request.wanted, commit)
            other = dataclasses.replace(verdict, kind="exists already", reason=error.message)
            return other if known is None else self._accepted(verdict, *known)
        except Unsuitable as error:
            reason = error.message + (f"\n{error.remedy}" if error.kind == "setup failed" else "")
            return dataclasses.replace(verdict, kind=error.kind, reason=reason)
        except SourceError as error:
            return dataclasses.replace(verdict, kind="repository", reason=error.message)
        except (TaskError, ContractError, PatchInvalid) as error:
            return dataclasses.replace(verdict, reason=error.message)
        return self._accepted(verdict, made.draft.id, made.draft.strata, made.flags)

    def _accepted(self, verdict: Verdict, task_id: str, strata: Mapping[str, str], flags: tuple[str, ...]) -> Verdict:
        return dataclasses.replace(
            verdict,
            accepted=True,
            kind="accepted",
            task_id=task_id,
            stratum=f"{strata['kind']}/{strata['test_runtime']}",
            suite=self._request.wanted.suite_dir.absolute().name,
            flags=flags,
        )


def line_of(verdict: Verdict) -> str:
    what = (
        f"accepted {verdict.task_id}"
        if verdict.accepted
        else f"rejected ({verdict.kind}): {verdict.reason.splitlines()[0][:160]}"
    )
    return f"{verdict.commit[:10]} {verdict.date[:10]} {what} | {verdict.subject[:60]}"


# --- the split ---------------------------------------------------------------------------------------------------


def divide(strata: Mapping[str, str], share: float, seed: int) -> set[str]:
    """The ids that are held out: that share of every stratum, as near as whole tasks allow, drawn by the seed. Pure."""
    groups: dict[str, list[str]] = {}
    for task_id, stratum in strata.items():
        groups.setdefault(stratum, []).append(task_id)
    chosen: set[str] = set()
    due = 0.0
    for _, members in sorted(groups.items()):
        due += len(members) * share
        count = min(len(members), round(due) - len(chosen))
        order = sorted(members, key=lambda task_id: hashlib.sha256(f"{seed}:{task_id}".encode()).hexdigest())
        chosen |= set(order[: max(0, count)])
    return chosen


def _assign(request: Request, ledger: Ledger) -> None:
    """Move held-out tasks to their suite. What was held out stays so; what was seen in development is never held out."""
    heldout, dev = request.heldout_dir.absolute(), request.wanted.suite_dir.absolute()
    settled = {one.task_id for one in ledger.accepted if one.suite == heldout.name}
    fresh = {
        one.task_id: one.stratum
        for one in ledger.accepted
        if one.task_id not in settled and (dev / one.task_id).is_dir()
    }
    marker = request.ledger.with_name(f"{request.ledger.stem}.split.json")
    known = set(_settled_dev(marker))
    chosen = divide(
        {task: stratum for task, stratum in fresh.items() if task not in known}, request.heldout, request.seed
    )
    for one in ledger.accepted:
        if one.task_id in chosen:
            move(dev / one.task_id, heldout / one.task_id)
            ledger.put(dataclasses.replace(one, suite=heldout.name))
    kept = sorted(known | (fresh.keys() - chosen))
    marker.write_text(
        json.dumps({"seed": request.seed, "share": request.heldout, "dev": kept}, indent=1) + "\n", "utf-8"
    )


def _settled_dev(marker: Path) -> list[str]:
    with contextlib.suppress(OSError, ValueError, KeyError):
        return [str(one) for one in json.loads(marker.read_text(encoding="utf-8"))["dev"]]
    return []


def move(folder: Path, place: Path) -> None:
    """Move a task to another suite; its file says which.

    Raises:
        InputError: the place cannot be written.
    """
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        file = folder / TASK_NAME
        text = re.sub(r"(?m)^suite: .*$", f"suite: {place.parent.name}", file.read_text(encoding="utf-8"), count=1)
        file.write_text(text, encoding="utf-8")
        folder.rename(place)
    except OSError as error:
        raise InputError(f"{place}: cannot be written: {error.strerror}") from None
