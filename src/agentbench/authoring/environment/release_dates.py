"""Constrain dependencies to the releases before a moment, as far as the configured indexes publish upload times.

pip cannot install "as of" a moment, so every distribution gets a constraint on its newest version of that time. Which
distributions are needed is known only after an installation, so this takes rounds until nothing newer is left.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from dataclasses import field

from agentbench.authoring.environment.python_versions import released, supported_since
from agentbench.core.dataclass import dataclass
from agentbench.core.package_name import normal_name
from agentbench.workspace.source.package_index import ProjectFiles, Release, version_of

_FINAL = re.compile(r"v?(\d+(?:\.\d+)*)(?:\.post(\d+))?")
PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9][A-Za-z0-9._+!-]*)")
TOOLS = (
    *("pip", "setuptools", "wheel", "pytest", "pluggy", "iniconfig", "packaging", "pygments", "attrs", "py"),
    *(
        "coverage",
        "sortedcontainers",
        "six",
        "exceptiongroup",
        "tomli",
        "typing-extensions",
        "importlib-metadata",
        "zipp",
    ),
)
"""Distributions that pytest and its usual plugins need, in some version; constrained from the start to save a round."""
CONSTRAINTS = '"$HOME/as-of.txt"'

Order = tuple[tuple[int, ...], int]
Releases = tuple[tuple[str, Order, str], ...]
"""Final releases of one project: version as written, sort key, and upload time in UTC (empty if unknown)."""


@dataclass
class ReleaseDates:
    """Release dates from the configured indexes."""

    files: ProjectFiles = field(default_factory=ProjectFiles)
    _known: dict[str, Releases] = field(default_factory=dict)

    def project(self, name: str) -> Releases:
        key = normal_name(name)
        if key not in self._known:
            self._known[key] = read_releases(key, self.files.of(key))
        return self._known[key]

    def newest(self, name: str, cutoff: str) -> str | None:
        """Return the highest final version released by a moment, or None if there is none or dates are unknown."""
        released_by = [
            (order, version) for version, order, uploaded in self.project(name) if uploaded and uploaded <= cutoff
        ]
        return max(released_by)[1] if released_by else None

    def constraint(self, name: str, cutoff: str) -> str | None:
        """Return the constraint that excludes releases after a moment, or None if none is needed or all are later."""
        newest = self.newest(name, cutoff)
        if newest is None:
            return None
        # Versions without a date (from another index) may be newer, so they are excluded too.
        later = any(order > order_of(newest) for _, order, _ in self.project(name))
        return f"{normal_name(name)}<={newest}" if later else None

    def constraints(self, names: Iterable[str], cutoff: str) -> tuple[str, ...]:
        projects = sorted({normal_name(name) for name in names})
        self.files.look_up(projects)
        constraints = (self.constraint(name, cutoff) for name in projects)
        return tuple(constraint for constraint in constraints if constraint is not None)

    def undated(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the projects whose release dates no index publishes."""
        undated = {
            name for name in map(normal_name, names) if not any(uploaded for _, _, uploaded in self.project(name))
        }
        return tuple(sorted(undated))

    def newer(self, freeze: Sequence[str], cutoff: str) -> tuple[str, ...]:
        """Return the installed distributions that were released after a moment, as `name==version`."""
        return tuple(
            match[0] for line in freeze if (match := PIN.fullmatch(line.strip())) and self._late(match, cutoff)
        )

    def _late(self, pin: re.Match[str], cutoff: str) -> bool:
        newest = self.newest(pin[1], cutoff)
        dated = any(uploaded for _, _, uploaded in self.project(pin[1]))
        return dated if newest is None else order_of(pin[2]) > order_of(newest)


def read_releases(name: str, files: Iterable[Release]) -> Releases:
    """Group a project's files into releases, each dated by its first file. Pure."""
    first: dict[str, str] = {}
    for file in files:
        version = version_of(file.filename, name)
        if version is None or _FINAL.fullmatch(version) is None:
            continue
        uploaded = in_utc(file.uploaded) if file.uploaded else ""
        known = first.get(version, "")
        first[version] = min(uploaded, known) if uploaded and known else uploaded or known
    return tuple((version, order_of(version), uploaded) for version, uploaded in first.items())


def order_of(version: str) -> Order:
    """Return the sort key of a final version; other versions sort first."""
    match = _FINAL.match(version)
    if match is None:
        return (), 0
    numbers = [int(part) for part in match[1].split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers), int(match[2] or 0)


def cutoff_for(date: str, python: str) -> str:
    """Return the moment after which no release is used: the commit's.

    If the interpreter is newer than the commit, it is the day from which most projects supported that interpreter.
    """
    moment, month = in_utc(date), released(python)
    return moment if month is None or month <= moment[:7] else str(supported_since(python))


def in_utc(date: str) -> str:
    """Return a date or time as `YYYY-MM-DDTHH:MM:SS` in UTC, so that moments compare as text. Other text is returned."""
    try:
        moment = dt.datetime.fromisoformat(date)
    except ValueError:
        return date
    moment = moment.astimezone(dt.UTC) if moment.tzinfo else moment
    return moment.strftime("%Y-%m-%dT%H:%M:%S")


def with_constraints(commands: Sequence[str], constraints: Sequence[str]) -> tuple[str, ...]:
    """Apply constraints to all pip commands, including the builds that they start."""
    if not constraints:
        return tuple(commands)
    lines = "\n".join(constraints)
    return (
        f"cat > {CONSTRAINTS} <<'DAY'\n{lines}\nDAY",
        *(
            f"PIP_CONSTRAINT={CONSTRAINTS} {command}" if command.startswith("python -m pip") else command
            for command in commands
        ),
    )
