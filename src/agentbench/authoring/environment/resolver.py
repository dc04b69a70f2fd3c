"""Pin and install candidate environments for a commit's tests, starting with the project's own requirements on its day.

A lock that worked for one commit is reused, also by later commands, for commits with the same packaging on days with the same
releases.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from agentbench.authoring.commit.split import UnsuitableCommit
from agentbench.authoring.commit.task_draft import TaskDraft, write_task
from agentbench.authoring.commit.verification import prepare
from agentbench.authoring.environment.detection import DetectedSetup, InstallPlan
from agentbench.authoring.environment.dry_run import find_releases, freeze
from agentbench.authoring.environment.known_locks import KnownLock, KnownLocks
from agentbench.authoring.environment.pinner import CannotPin, Pinner
from agentbench.authoring.environment.release_dates import TOOLS, ReleaseDates, cutoff_for, in_utc, with_constraints
from agentbench.authoring.environment.requirements import (
    distribution_of,
    lines_for_module,
    lines_naming,
    names_of,
    unique,
)
from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.core.package_name import normal_name
from agentbench.execution.lab import Lab, PreparedTask
from agentbench.workspace.source.package_index import ProjectFiles

ROUNDS = 4
_WORD = re.compile(r"[A-Za-z0-9](?:[\w.-]*\w)?")


@dataclass(frozen=True, slots=True)
class EnvironmentRequest:
    """The environment that one commit needs."""

    draft: TaskDraft
    detected: DetectedSetup
    date: str
    packaging: str
    """Digest of the files that decide what is installed."""
    folder: Path
    pin: bool = True
    notify: Callable[[str], None] = lambda _step: None
    """Called at the start of each step."""

    def step(self, text: str) -> None:
        self.notify(f"{self.draft.id}: {text}")


@dataclass(frozen=True, slots=True)
class PreparedEnvironment:
    """An installed environment."""

    draft: TaskDraft
    prepared: PreparedTask
    plan: str
    remark: str
    """The date of the dependencies, with the reason if it is not the commit's date."""
    newer: tuple[str, ...] = ()
    """Distributions released after the commit, as `name==version`."""
    undated: tuple[str, ...] = ()
    """Distributions whose release date no index publishes, as `name==version`."""
    unpinned: str = ""
    """Why the environment is not pinned by digest; empty if it is."""


@dataclass
class EnvironmentResolver:
    """Finds environments for commits. Shared by all commits of one harvest."""

    files: ProjectFiles = field(default_factory=ProjectFiles)
    locks: KnownLocks = field(default_factory=KnownLocks)
    _names: set[str] = field(default_factory=lambda: set(TOOLS))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.releases, self.pinner = ReleaseDates(self.files), Pinner(self.files)

    def candidates(self, request: EnvironmentRequest, lab: Lab) -> Iterator[PreparedEnvironment]:
        """Install and yield environments, so that the caller can try the next one if the tests fail in the first.

        Raises:
            UnsuitableCommit: no environment can be installed; with the reason of the first.
        """
        cutoff = cutoff_for(request.date, request.draft.python or "")
        errors: list[UnsuitableCommit] = []
        tried: set[tuple[str, ...]] = set()
        for lock in self._matching_locks(request, cutoff, lab):
            environment = self._install_lock(request, lock, cutoff, lab, errors)
            if environment is not None:
                tried.add(lock.freeze)
                yield environment
                break
        plans, used = request.detected.plans, ""
        for latest, kind in ((cutoff, "own"), (cutoff, "locked"), ("", "own"), (cutoff, "rest")):
            group = {"own": plans, "locked": _lock_file_plans(request.detected), "rest": _plans_after(plans, used)}[
                kind
            ]
            environment = self._install_first(request, group, latest, lab, errors)
            if environment is None:
                continue
            used = environment.plan if kind == "own" else used
            listing = tuple(freeze(environment.prepared.environment))
            if listing not in tried:
                tried.add(listing)
                yield environment
        if not tried:
            raise errors[0]

    # --- known locks ------------------------------------------------------------------------------------------

    def _matching_locks(self, request: EnvironmentRequest, cutoff: str, lab: Lab) -> list[KnownLock]:
        locks = self.locks.find(lab.state, _asked(request)) if request.pin and not lab.fresh_setup else ()
        return [lock for lock in locks if self._same_releases(lock, cutoff)]

    def _same_releases(self, lock: KnownLock, cutoff: str) -> bool:
        """Return whether resolving at another time would give the same, because nothing in the lock has a newer release."""
        if lock.cutoff == cutoff:
            return True
        names = [line.split("==")[0] for line in lock.freeze]
        return all(self.releases.newest(name, lock.cutoff) == self.releases.newest(name, cutoff) for name in names)

    def _install_lock(
        self, request: EnvironmentRequest, lock: KnownLock, cutoff: str, lab: Lab, errors: list[UnsuitableCommit]
    ) -> PreparedEnvironment | None:
        draft = dataclasses.replace(request.draft, setup=lock.commands, env=request.detected.plans[0].env)
        request.step(f"installing {len(lock.freeze)} dependencies of a known lock")
        try:
            prepared = prepare(write_task(draft, request.folder), lab)
        except UnsuitableCommit as error:
            errors.append(error)
            return None
        newer = self.releases.newer(lock.freeze, cutoff)
        return PreparedEnvironment(
            draft,
            prepared,
            lock.plan,
            self._remark(request, lock.freeze, cutoff, newer),
            newer,
            self._undated(lock.freeze),
        )

    # --- resolving --------------------------------------------------------------------------------------------

    def _install_first(
        self,
        request: EnvironmentRequest,
        plans: Sequence[InstallPlan],
        cutoff: str,
        lab: Lab,
        errors: list[UnsuitableCommit],
    ) -> PreparedEnvironment | None:
        """Install the first plan that works, with the releases before a moment or, without one, the newest ones."""
        for plan in plans:
            try:
                return self._resolve(request, plan, cutoff, lab)
            except UnsuitableCommit as error:
                errors.append(error)
        return None

    def _resolve(self, request: EnvironmentRequest, plan: InstallPlan, cutoff: str, lab: Lab) -> PreparedEnvironment:
        """Choose the releases of a plan, pin them, and install them."""
        plain, releases, limits = self._choose_releases(request, plan, cutoff, lab)
        draft, prepared, unpinned = self._pin_and_install(request, plain, releases, limits, lab)
        listing = freeze(prepared.environment)
        newer = self.releases.newer(listing, cutoff or cutoff_for(request.date, request.draft.python or ""))
        if cutoff and not unpinned:
            lock = KnownLock(cutoff=cutoff, commands=draft.setup, freeze=tuple(listing), plan=plan.name)
            self.locks.add(lab.state, _asked(request), lock)
        remark = self._remark(request, listing, cutoff, newer)
        return PreparedEnvironment(draft, prepared, plan.name, remark, newer, self._undated(listing), unpinned)

    def _undated(self, listing: Sequence[str]) -> tuple[str, ...]:
        without_dates = self.releases.undated([line.split("==")[0] for line in listing if "==" in line])
        return tuple(line for line in listing if normal_name(line.split("==")[0]) in without_dates)

    def _choose_releases(
        self, request: EnvironmentRequest, plan: InstallPlan, cutoff: str, lab: Lab
    ) -> tuple[TaskDraft, list[str], tuple[str, ...]]:
        """Return a draft that installs a plan, the releases that it installs, and the constraints that keep newer ones out.

        With a cutoff, repeat until no later release is left that nothing pins.
        """
        own = {normal_name(name) for name in request.detected.own}
        with self._lock:
            names = {normal_name(name) for name in (*self._names, *request.detected.named)} - own
        limits, rounds = self._limits(names, cutoff, plan), 0
        while True:
            rounds += 1
            draft = dataclasses.replace(request.draft, setup=with_constraints(plan.commands, limits), env=plan.env)
            request.step(
                f"choosing dependencies{f' as of {cutoff[:10]}' if cutoff else ''}{f', round {rounds}' if rounds > 1 else ''}"
            )
            releases = _releases(request, draft, lab)
            new = {normal_name(line.split("==")[0]) for line in releases if "==" in line} - own - names
            with self._lock:
                self._names |= new
            names |= new
            limits = self._limits(names, cutoff, plan)
            late = {normal_name(line.split("==")[0]) for line in self.releases.newer(releases, cutoff)}
            if not cutoff or rounds == ROUNDS or not late & new:
                return draft, releases, limits

    def _pin_and_install(
        self,
        request: EnvironmentRequest,
        plain: TaskDraft,
        releases: Sequence[str],
        limits: Sequence[str],
        lab: Lab,
    ) -> tuple[TaskDraft, PreparedTask, str]:
        """Install the lock of some releases; if there is none or it does not install, install the plain draft.

        Return what was installed, and why it is not pinned.
        """
        if not request.pin:
            return plain, prepare(write_task(plain, request.folder), lab), "--no-pin was given"
        try:
            commands = self.pinner.commands(
                releases, plain.python or "", editable=request.detected.editable, limits=limits
            )
            pinned = dataclasses.replace(plain, setup=commands)
            request.step(f"installing {len(releases)} pinned dependencies")
            return pinned, prepare(write_task(pinned, request.folder), lab), ""
        except CannotPin as error:
            unpinned = str(error)
        except UnsuitableCommit as error:
            last_line = next((line.strip() for line in reversed(error.remedy.splitlines()) if line.strip()), "")
            unpinned = f"the lock did not install: {last_line or error.message}"
        request.step(f"installing dependencies without pins, because {unpinned}")
        return plain, prepare(write_task(plain, request.folder), lab), unpinned

    def _limits(self, names: Iterable[str], cutoff: str, plan: InstallPlan) -> tuple[str, ...]:
        locked = {normal_name(line.split("==")[0]) for line in plan.locked}
        dated = self.releases.constraints(set(names) - locked, cutoff) if cutoff else ()
        return (*dated, *plan.locked)

    def _remark(self, request: EnvironmentRequest, listing: Sequence[str], cutoff: str, newer: Sequence[str]) -> str:
        commit, python = in_utc(request.date), request.draft.python or ""
        if not cutoff:
            day = cutoff_for(request.date, python)[:10]
            return f"Dependencies are the newest, because those of {day} did not install or did not work."
        because = f", because Python {python} is newer than the commit" if cutoff > commit else ""
        parts = [f"Dependencies as of {cutoff[:10]}{because}."]
        if newer:
            parts.append(f"Newer, because requirements ask for them: {', '.join(newer)}.")
        without_dates = self.releases.undated([line.split("==")[0] for line in listing if "==" in line])
        if without_dates:
            parts.append(f"The newest, because no index publishes their upload times: {', '.join(without_dates)}.")
        return " ".join(parts)


def _releases(request: EnvironmentRequest, draft: TaskDraft, lab: Lab) -> list[str]:
    """Return the releases that a draft installs. A draft that will not be pinned is installed to see them."""
    if request.pin:
        return find_releases(draft, request.folder, lab)
    return freeze(prepare(write_task(draft, request.folder), lab).environment)


def _lock_file_plans(detected: DetectedSetup) -> tuple[InstallPlan, ...]:
    """Return a plan with the versions of the project's lock file, which may be older than those of the day."""
    own = {normal_name(name) for name in detected.own}
    locked = tuple(line for line in detected.locked if normal_name(line.split("==")[0]) not in own)
    name = "the project's own test requirements, by its lock file"
    return tuple(dataclasses.replace(plan, name=name, locked=locked) for plan in detected.plans[:1] if locked)


def _plans_after(plans: Sequence[InstallPlan], used: str) -> Sequence[InstallPlan]:
    """Return the plans after the one that was used, for projects whose own pins do not work here."""
    names = [plan.name for plan in plans]
    return plans[names.index(used) + 1 :] if used in names else ()


def with_modules(
    request: EnvironmentRequest, modules: Sequence[str], imported: Iterable[str] = ()
) -> EnvironmentRequest:
    """Add modules that tests import and no requirement names.

    `imported` are all modules that tests import: extras of the project that provide any of them are added as well, to
    save rounds.
    """
    extras = request.detected.extras
    lines = {module: lines_for_module(module, extras) for module in (*modules, *sorted(imported))}
    lines |= {module: lines[module] or tuple(lines_naming([module], request.detected.groups)) for module in modules}
    added = [line for module_lines in lines.values() for line in module_lines]
    added += [
        name
        for module in modules
        if not lines[module] and (name := distribution_of(module)) and module not in sys.stdlib_module_names
    ]
    return _with_lines(request, unique(added))


def with_skipped(request: EnvironmentRequest, reasons: Iterable[str]) -> EnvironmentRequest:
    """Add requirements that skip reasons mention and that the project lists in an extra or a dependency group."""
    words = {word for reason in reasons for word in _WORD.findall(reason)}
    installed = {normal_name(name) for name in names_of(shlex.split(request.detected.plans[0].commands[0]))}
    lines = lines_naming(words, {**request.detected.groups, **request.detected.extras})
    return _with_lines(request, [line for line in lines if normal_name(names_of([line])[0]) not in installed])


def _with_lines(request: EnvironmentRequest, lines: Sequence[str]) -> EnvironmentRequest:
    words = " ".join(shlex.quote(line) for line in lines)
    plans = tuple(
        InstallPlan(f"{plan.name}, and {', '.join(names_of(lines))}", (f"{plan.commands[0]} {words}",), plan.env)
        for plan in request.detected.plans
        if f" {words}" not in plan.commands[0]
    )
    if not lines or not plans:
        return request
    named = request.detected.named | set(names_of(lines))
    return dataclasses.replace(request, detected=dataclasses.replace(request.detected, plans=plans, named=named))


def with_env(request: EnvironmentRequest, env: Mapping[str, str]) -> EnvironmentRequest:
    """Add environment variables to all plans."""
    plans = tuple(dataclasses.replace(plan, env={**plan.env, **env}) for plan in request.detected.plans)
    return dataclasses.replace(request, detected=dataclasses.replace(request.detected, plans=plans))


def _asked(request: EnvironmentRequest) -> Json:
    """Return what decides the releases of an environment besides the time."""
    plans: list[Json] = [[list(plan.commands), dict(plan.env)] for plan in request.detected.plans]
    return [request.packaging, request.draft.python, plans]
