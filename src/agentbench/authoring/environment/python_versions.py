"""Choose a Python version for a repository at the date of a commit. Pure."""

from __future__ import annotations

import configparser
import datetime as dt
import re
from collections.abc import Mapping, Sequence

from agentbench.authoring.commit.split import UnsuitableCommit
from agentbench.authoring.environment.requirements import at

_RELEASED = {6: "2016-12", 7: "2018-06", 8: "2019-10", 9: "2020-10", 10: "2021-10", 11: "2022-10", 12: "2023-10", 13: "2024-10", 14: "2025-10"}  # fmt: skip
ADOPTION_DAYS = 180
"""Days after the release of an interpreter until most projects supported it."""
_CLAUSE = re.compile(r"(>=|<=|===?|!=|~=|>|<|\^|~|(?<![\w.*]))\s*(\d+)(?:\.(\d+))?(\.\d+)?[\d.]*(\.\*)?")
_CLASSIFIER = re.compile(r"Programming Language :: Python :: 3\.(\d+)")


def choose_python(
    project: Mapping[str, object],
    config: configparser.RawConfigParser,
    script: str,
    date: str,
    present: Sequence[str],
    default: str,
) -> tuple[str, str]:
    """Return the chosen version, and a remark if it is not the default.

    Raises:
        UnsuitableCommit: no available version fits.
    """
    required = _requires(project, config, script)
    minors = [int(version.split(".")[1]) for version in present if version.startswith("3.")]
    fitting = [minor for minor in minors if allows(required, minor)]
    if not fitting:
        raise UnsuitableCommit(
            "python",
            f"the project requires Python {required}; available: {', '.join(present) or 'none'}",
            remedy="install a matching version (from a package, with pyenv or `uv python install`)",
        )
    usual = int(default.split(".")[1])
    named = {
        int(minor)
        for minor in _CLASSIFIER.findall(
            f"{project} {script} {[config.items(section) for section in config.sections()]}"
        )
    }
    # Projects are not tested with interpreters that do not exist yet: prefer the newest that was usual on the commit's
    # day, or the default if that is older.
    newest = max((minor for minor in _RELEASED if str(supported_since(f"3.{minor}")) <= date[:10]), default=6)
    newest = max([newest, *named])
    preferred = min(usual, newest)
    best = min(fitting, key=lambda minor: (abs(minor - preferred), -minor))
    if best == usual:
        return f"3.{best}", ""
    requirement = f" and requires {required}" if required else ""
    return f"3.{best}", f"Python 3.{best} was chosen because the commit is of {date[:10]}{requirement}."


def released(python: str) -> str | None:
    """Return the year and month of an interpreter's release."""
    return _RELEASED.get(int(python.split(".")[1])) if re.fullmatch(r"3\.\d+", python) else None


def supported_since(python: str) -> str | None:
    """Return the day from which most projects supported an interpreter; None if its release is unknown."""
    month = released(python)
    if month is None:
        return None
    return (dt.date.fromisoformat(f"{month}-01") + dt.timedelta(days=ADOPTION_DAYS)).isoformat()


def _requires(project: Mapping[str, object], config: configparser.RawConfigParser, script: str) -> str:
    for keys in (("project", "requires-python"), ("tool", "poetry", "dependencies", "python")):
        if isinstance(value := at(project, *keys), str):
            return value
    if config.has_option("options", "python_requires"):
        return str(config.get("options", "python_requires"))
    match = re.search(r"""python_requires\s*=\s*["']([^"']+)["']""", script)
    return match[1] if match else ""


def allows(specifier: str, minor: int) -> bool:
    """Return whether some 3.minor satisfies a version specifier. Clauses that cannot be parsed allow everything.

    Poetry joins alternatives by bars, and a version without an operator means exactly that version.
    """
    return any(
        all(
            _holds(operator, (3, minor), tuple(int(part) for part in (major, stated_minor) if part), patch=patch)
            for operator, major, stated_minor, patch, _star in _CLAUSE.findall(alternative)
        )
        for alternative in re.split(r"\|\|?", specifier)
    )


def _holds(operator: str, mine: tuple[int, int], theirs: tuple[int, ...], *, patch: str) -> bool:
    """Return whether any patch release of an interpreter satisfies one clause."""
    same = mine[: len(theirs)] == theirs
    if operator == "!=":
        return bool(patch) or not same
    if operator in {"", "==", "==="}:
        return same
    if operator in {"^", "~", "~="}:
        # Poetry's `~3.8` and `~=3.8.1` mean 3.8; `^3.8` and `~=3.8` mean any 3.x from 3.8 on.
        return mine >= theirs and (same if operator == "~" or (operator == "~=" and patch) else mine[0] == theirs[0])
    later = patch.strip(".0") != ""
    # 3.11.4 satisfies `>3.11` although 3.11 does not; 3.11.3 satisfies `<3.11.4`, but no 3.11 satisfies `<3.11.0`.
    return {
        ">=": mine >= theirs,
        ">": mine >= theirs,
        "<": mine < theirs or (later and same),
        "<=": mine <= theirs or same,
    }[operator]
