"""Dependencies as they were on a day: what had come out by then, as far as the configured indexes tell.

pip knows no day. So every distribution that came out later is kept away by a constraint on the newest version of that day; which
distributions there are is only known after an installation, so this takes rounds until nothing newer is left.
"""

from __future__ import annotations

import datetime as dt
import re
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from agentbench.authoring.environment.python_versions import released
from agentbench.core.package_settings import PackageSettings, host_settings
from agentbench.workspace.source.package_index import Release, find_project, normal_name, version_of

_FINAL = re.compile(r"v?(\d+(?:\.\d+)*)(?:\.post(\d+))?")
_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9][A-Za-z0-9._+!-]*)")
TOOLS = ("pip", "setuptools", "wheel", "pytest", "pluggy", "iniconfig", "packaging", "attrs", "py")
"""Nearly every environment has them; asked for at once, so that they take no round of their own."""
ADOPTION_DAYS = 180
"""What is older than an interpreter does not know it; so long after its release most projects had followed."""
PATIENCE = 2
CONSTRAINTS = '"$HOME/as-of.txt"'

Order = tuple[tuple[int, ...], int]


@dataclass(frozen=True, slots=True)
class Known:
    """Final releases of one project: version as spelled, its order, and the day it came out ("" where nobody says)."""

    versions: tuple[tuple[str, Order, str], ...]

    @property
    def dated(self) -> bool:
        return any(day for _, _, day in self.versions)


@dataclass
class Calendar:
    """When releases came out. Each project is asked for once."""

    settings: PackageSettings = field(default_factory=host_settings)
    _known: dict[str, Known] = field(default_factory=dict)
    _troubles: int = 0
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def project(self, name: str) -> Known:
        key = normal_name(name)
        with self._guard:
            known = self._known.get(key)
            # An index out of reach may take its time to say so: it is not asked about everything.
            silent = self._troubles >= PATIENCE
        if known is None:
            files, troubles = ([], []) if silent else find_project(key, self.settings)
            known = read_releases(key, files)
            with self._guard:
                self._known[key] = known
                self._troubles = self._troubles + 1 if troubles and not files else 0 if files else self._troubles
        return known

    def newest(self, name: str, day: str) -> str | None:
        """The highest final version that was out on a day; None when none was, or nobody says."""
        out = [(order, version) for version, order, came in self.project(name).versions if came and came <= day]
        return max(out)[1] if out else None

    def constraint(self, name: str, day: str) -> str | None:
        """What keeps a project at its state of a day; None when nothing has to."""
        newest = self.newest(name, day)
        if newest is None:
            return None
        # A version without a time (another index has it) may be of any day: it is kept away too.
        later = any(order > order_of(newest) for _, order, _ in self.project(name).versions)
        return f"{normal_name(name)}<={newest}" if later else None

    def constraints(self, names: Iterable[str], day: str) -> tuple[str, ...]:
        found = (self.constraint(name, day) for name in sorted({normal_name(name) for name in names}))
        return tuple(one for one in found if one is not None)

    def undated(self, names: Iterable[str]) -> tuple[str, ...]:
        """Of these projects, those for which no index tells when anything came out."""
        return tuple(sorted({name for name in map(normal_name, names) if not self.project(name).dated}))

    def newer(self, freeze: Sequence[str], day: str) -> tuple[str, ...]:
        """What is installed though it came out after a day, as `name==version`."""
        found = []
        for line in freeze:
            match = _PIN.fullmatch(line.strip())
            newest = self.newest(match[1], day) if match else None
            if match and newest is not None and order_of(match[2]) > order_of(newest):
                found.append(match[0])
        return tuple(found)


def read_releases(name: str, files: Iterable[Release]) -> Known:
    """A project's files as releases; a release is as old as its first file. Pure."""
    first: dict[str, str] = {}
    for file in files:
        version = version_of(file.filename, name)
        if version is None or _FINAL.fullmatch(version) is None:
            continue
        day = (file.uploaded or "")[:10]
        first[version] = min(day, first[version]) if day and first.get(version) else day or first.get(version, "")
    return Known(tuple((version, order_of(version), day) for version, day in first.items()))


def order_of(version: str) -> Order:
    """Orders final versions; what is none comes first."""
    match = _FINAL.match(version)
    if match is None:
        return (), 0
    numbers = [int(part) for part in match[1].split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers), int(match[2] or 0)


def day_for(date: str, python: str) -> str:
    """The day to go back to: the commit's, but not before other projects could know the interpreter."""
    out = released(python)
    if out is None:
        return date[:10]
    known = dt.date.fromisoformat(f"{out}-01") + dt.timedelta(days=ADOPTION_DAYS)
    return max(date[:10], known.isoformat())


def constrained(commands: Sequence[str], constraints: Sequence[str]) -> tuple[str, ...]:
    """The same commands with every installation, builds included, held to some constraints."""
    if not constraints:
        return tuple(commands)
    lines = "\n".join(constraints)
    return (
        f"cat > {CONSTRAINTS} <<'DAY'\n{lines}\nDAY",
        *(f"PIP_CONSTRAINT={CONSTRAINTS} {one}" if one.startswith("python -m pip") else one for one in commands),
    )
