"""Environments for a commit's tests, the most faithful first: its own requirements on the day of the commit, then what still installs.

What was found for one commit is remembered: the next one with the same packaging, of a day with the same releases, gets the same
lock at once.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentbench.authoring.commit.split import Unsuitable
from agentbench.authoring.commit.task_draft import Draft, write
from agentbench.authoring.commit.verification import set_up
from agentbench.authoring.environment.detection import Detected, Plan
from agentbench.authoring.environment.pinning import Pinner
from agentbench.authoring.environment.release_dates import TOOLS, Calendar, constrained, day_for
from agentbench.authoring.environment.requirements import bringing, distribution_of, names_of, naming, unique
from agentbench.core.canonical import Json, digest
from agentbench.run.lab import Lab, PreparedTask
from agentbench.workspace.source.package_index import normal_name

ROUNDS = 4
_WORD = re.compile(r"[A-Za-z0-9](?:[\w.-]*\w)?")


@dataclass(frozen=True, slots=True)
class Wish:
    """One commit's environment, asked for."""

    draft: Draft
    detected: Detected
    date: str
    packaging: str
    """A digest of everything that decides what is installed."""
    folder: Path
    pin: bool = True


@dataclass(frozen=True, slots=True)
class Ready:
    """An environment that stands."""

    draft: Draft
    prepared: PreparedTask
    plan: str
    remark: str
    """For people: what day the dependencies are of, and why not of the commit's if they are not."""
    newer: tuple[str, ...] = ()
    """What is newer than the commit's day, as `name==version`."""
    undated: tuple[str, ...] = ()
    """What no index tells the age of, as `name==version`."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A lock that was made for some packaging on some day."""

    day: str
    commands: tuple[str, ...]
    names: tuple[str, ...]
    plan: str
    remark: str
    newer: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Stands:
    """What was installed, not pinned yet. `limits`: constraints that kept it at its day."""

    draft: Draft
    prepared: PreparedTask
    limits: tuple[str, ...]


@dataclass
class Environments:
    """Shared by the commits of one harvest."""

    pinner: Pinner = field(default_factory=Pinner)
    calendar: Calendar = field(default_factory=Calendar)
    _found: dict[str, list[_Found]] = field(default_factory=dict)
    _names: set[str] = field(default_factory=lambda: set(TOOLS))
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def of(self, wish: Wish, lab: Lab) -> Iterator[Ready]:
        """Environments to try, each really set up. The second is there for when the tests cannot live with the first.

        Raises:
            Unsuitable: none can be set up; with the reason of the first.
        """
        day = day_for(wish.date, wish.draft.python or "")
        troubles: list[Unsuitable] = []
        tried: set[tuple[str, ...]] = set()
        for known in self._known(wish, day):
            ready = self._again(wish, known, lab, troubles)
            if ready is not None:
                tried.add(known.names)
                yield ready
                break
        plans, used = wish.detected.plans, ""
        for wanted, kind in ((day, "own"), (day, "locked"), ("", "own"), (day, "rest")):
            some = {"own": plans, "locked": _by_lock(wish.detected), "rest": _after(plans, used)}[kind]
            ready = self._first(wish, some, wanted, lab, troubles)
            if ready is None:
                continue
            used = ready.plan if kind == "own" else used
            listing = tuple(freeze(ready.prepared))
            if listing not in tried:
                tried.add(listing)
                yield ready
        if not tried:
            raise troubles[0]

    # --- from what is known -----------------------------------------------------------------------------------

    def _known(self, wish: Wish, day: str) -> list[_Found]:
        with self._guard:
            found = list(self._found.get(_key(wish), ()))
        return [one for one in found if wish.pin and self._same_releases(one, day)]

    def _same_releases(self, found: _Found, day: str) -> bool:
        """Whether resolving on another day would come to the same: nothing of it came out between the two."""
        if found.day == day:
            return True
        names = [line.split("==")[0] for line in found.names]
        return all(self.calendar.newest(name, found.day) == self.calendar.newest(name, day) for name in names)

    def _again(self, wish: Wish, known: _Found, lab: Lab, troubles: list[Unsuitable]) -> Ready | None:
        draft = dataclasses.replace(wish.draft, setup=known.commands, env=wish.detected.plans[0].env)
        try:
            return Ready(draft, set_up(write(draft, wish.folder), lab), known.plan, known.remark, known.newer)
        except Unsuitable as error:
            troubles.append(error)
            return None

    # --- anew -------------------------------------------------------------------------------------------------

    def _first(self, wish: Wish, plans: Sequence[Plan], day: str, lab: Lab, troubles: list[Unsuitable]) -> Ready | None:
        """The first plan that works: on a day, or (no day) with what is newest."""
        for plan in plans:
            try:
                return self._resolve(wish, plan, day, lab)
            except Unsuitable as error:
                troubles.append(error)
        return None

    def _resolve(self, wish: Wish, plan: Plan, day: str, lab: Lab) -> Ready:
        stands = self._installed(wish, plan, day, lab)
        listing = freeze(stands.prepared)
        wanted = day or day_for(wish.date, wish.draft.python or "")
        newer = self.calendar.newer(listing, wanted)
        remark = self._remark(listing, day, wanted, newer)
        draft, prepared, pinned = (
            self._pinned(wish, stands, lab) if wish.pin else (stands.draft, stands.prepared, False)
        )
        if pinned and day:
            found = _Found(day, draft.setup, tuple(listing), plan.name, remark, newer)
            with self._guard:
                self._found.setdefault(_key(wish), []).append(found)
        silent = self.calendar.undated([line.split("==")[0] for line in listing if "==" in line])
        undated = tuple(line for line in listing if normal_name(line.split("==")[0]) in silent)
        return Ready(draft, prepared, plan.name, remark, newer, undated)

    def _installed(self, wish: Wish, plan: Plan, day: str, lab: Lab) -> _Stands:
        """Install; on a day, until nothing is left that came out later and nobody asked for."""
        own = {normal_name(name) for name in wish.detected.own}
        with self._guard:
            names = {normal_name(name) for name in (*self._names, *wish.detected.named)} - own
        rounds = 0
        while True:
            rounds += 1
            limits = self._limits(names, day, plan)
            draft = dataclasses.replace(wish.draft, setup=constrained(plan.commands, limits), env=plan.env)
            stands = _Stands(draft, set_up(write(draft, wish.folder), lab), limits)
            installed = {normal_name(line.split("==")[0]) for line in freeze(stands.prepared) if "==" in line} - own
            with self._guard:
                self._names |= installed
            if not day or rounds == ROUNDS or self._limits(names | installed, day, plan) == limits:
                return stands
            names |= installed

    def _limits(self, names: Iterable[str], day: str, plan: Plan) -> tuple[str, ...]:
        held = {normal_name(line.split("==")[0]) for line in plan.locked}
        dated = self.calendar.constraints(set(names) - held, day) if day else ()
        return (*dated, *plan.locked)

    def _remark(self, listing: Sequence[str], day: str, wanted: str, newer: Sequence[str]) -> str:
        silent = self.calendar.undated([line.split("==")[0] for line in listing if "==" in line])
        if not day:
            return f"Dependencies are the newest, not those of {wanted}: with those it could not be set up or proven."
        parts = [f"Dependencies as of {day}."]
        if newer:
            parts.append(f"Newer all the same, since they are asked for: {', '.join(newer)}.")
        if silent:
            parts.append(f"No index tells when releases came out, so the newest were taken: {', '.join(silent)}.")
        return " ".join(parts)

    def _pinned(self, wish: Wish, stands: _Stands, lab: Lab) -> tuple[Draft, PreparedTask, bool]:
        """The same environment by versions and digests, where everything in it can be pinned and installed so."""
        draft, listing = stands.draft, freeze(stands.prepared)
        commands = self.pinner.commands(
            listing, draft.python or "", editable=wish.detected.editable, limits=stands.limits
        )
        if commands is None:
            return draft, stands.prepared, False
        pinned = dataclasses.replace(draft, setup=commands)
        try:
            return pinned, set_up(write(pinned, wish.folder), lab), True
        except Unsuitable:
            return draft, set_up(write(draft, wish.folder), lab), False


def _by_lock(detected: Detected) -> tuple[Plan, ...]:
    """What the lock file holds: its versions may be older than those of the day."""
    own = {normal_name(name) for name in detected.own}
    locked = tuple(line for line in detected.locked if normal_name(line.split("==")[0]) not in own)
    name = "the project's own test requirements, by its lock file"
    return tuple(dataclasses.replace(plan, name=name, locked=locked) for plan in detected.plans[:1] if locked)


def _after(plans: Sequence[Plan], used: str) -> Sequence[Plan]:
    """What a project pins may be what its tests cannot live with here: then what comes after the plan that was used."""
    names = [plan.name for plan in plans]
    return plans[names.index(used) + 1 :] if used in names else ()


def with_modules(wish: Wish, modules: Sequence[str], imported: Iterable[str] = ()) -> Wish:
    """The same, with some modules that tests import and no requirement names.

    `imported`: all that tests import. What an extra of the project brings for it is taken along, one round for all.
    """
    extras = wish.detected.extras
    known = {module: bringing(module, extras) for module in (*modules, *sorted(imported))}
    known |= {module: known[module] or tuple(naming([module], wish.detected.groups)) for module in modules}
    named = [line for lines in known.values() for line in lines]
    named += [
        name
        for module in modules
        if not known[module] and (name := distribution_of(module)) and module not in sys.stdlib_module_names
    ]
    return _with_lines(wish, unique(named))


def with_skipped(wish: Wish, reasons: Iterable[str]) -> Wish:
    """The same, with what tests are skipped for want of and the project itself names, in an extra or a group."""
    words = {word for reason in reasons for word in _WORD.findall(reason)}
    installed = {normal_name(name) for name in names_of(shlex.split(wish.detected.plans[0].commands[0]))}
    lines = naming(words, {**wish.detected.groups, **wish.detected.extras})
    return _with_lines(wish, [line for line in lines if normal_name(names_of([line])[0]) not in installed])


def _with_lines(wish: Wish, named: Sequence[str]) -> Wish:
    words = " ".join(shlex.quote(name) for name in named)
    plans = tuple(
        Plan(f"{plan.name}, and {', '.join(names_of(named))}", (f"{plan.commands[0]} {words}",), plan.env)
        for plan in wish.detected.plans
        if f" {words}" not in plan.commands[0]
    )
    if not named or not plans:
        return wish
    more = wish.detected.named | set(names_of(named))
    return dataclasses.replace(wish, detected=dataclasses.replace(wish.detected, plans=plans, named=more))


def with_env(wish: Wish, env: Mapping[str, str]) -> Wish:
    """The same, with some variables more."""
    plans = tuple(dataclasses.replace(plan, env={**plan.env, **env}) for plan in wish.detected.plans)
    return dataclasses.replace(wish, detected=dataclasses.replace(wish.detected, plans=plans))


def freeze(prepared: PreparedTask) -> list[str]:
    """What setup installed, as `pip freeze` listed it."""
    listed = [step.stdout for step in prepared.environment.steps if step.capture and "pip freeze" in step.command]
    return listed[-1].decode("utf-8", "replace").splitlines() if listed else []


def _key(wish: Wish) -> str:
    plans: list[Json] = [[list(plan.commands), dict(plan.env)] for plan in wish.detected.plans]
    parts: list[Json] = [wish.packaging, wish.draft.python, plans]
    return digest(parts)
