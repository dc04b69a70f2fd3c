"""Which of the interpreters here a repository of some day is run with. Pure."""

from __future__ import annotations

import configparser
import re
from collections.abc import Mapping, Sequence

from agentbench.authoring.commit.split import Unsuitable

_RELEASED = {6: "2016-12", 7: "2018-06", 8: "2019-10", 9: "2020-10", 10: "2021-10", 11: "2022-10", 12: "2023-10", 13: "2024-10", 14: "2025-10"}  # fmt: skip
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
    """The interpreter's version, and a remark where it is not the usual one.

    Raises:
        Unsuitable: none that is here fits.
    """
    wanted = _requires(project, config, script)
    minors = [int(version.split(".")[1]) for version in present if version.startswith("3.")]
    fitting = [minor for minor in minors if allows(wanted, minor)]
    if not fitting:
        raise Unsuitable(
            "python",
            f"the project wants Python {wanted}; here are {', '.join(present) or 'none'}",
            remedy="install one that fits (a package, pyenv or `uv python install`)",
        )
    usual = int(default.split(".")[1])
    named = {
        int(minor)
        for minor in _CLASSIFIER.findall(f"{project} {script} {[config.items(one) for one in config.sections()]}")
    }
    # What was not out yet on the commit's day was not tried with it: the newest of that day, but not past the usual one.
    newest = max((minor for minor, day in _RELEASED.items() if day <= date[:7]), default=6)
    newest = max([newest, *named])
    preferred = min(usual, newest)
    best = min(fitting, key=lambda minor: (abs(minor - preferred), -minor))
    remark = (
        ""
        if best == usual
        else f"Python 3.{best} was chosen: the commit is of {date[:10]}" + (f" and wants {wanted}" if wanted else "")
    )
    return f"3.{best}", remark


def released(python: str) -> str | None:
    """Year and month in which an interpreter came out."""
    return _RELEASED.get(int(python.split(".")[1])) if re.fullmatch(r"3\.\d+", python) else None


def _requires(project: Mapping[str, object], config: configparser.RawConfigParser, script: str) -> str:
    for keys in (("project", "requires-python"), ("tool", "poetry", "dependencies", "python")):
        value: object = project
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        if isinstance(value, str):
            return value
    if config.has_option("options", "python_requires"):
        return str(config.get("options", "python_requires"))
    match = re.search(r"""python_requires\s*=\s*["']([^"']+)["']""", script)
    return match[1] if match else ""


def allows(wanted: str, minor: int) -> bool:
    """Whether some 3.minor satisfies a specifier of versions; what is not understood allows everything.

    Poetry joins alternatives by bars, and a version without an operator is that one alone.
    """
    return any(_all_hold(part, minor) for part in re.split(r"\|\|?", wanted))


def _all_hold(wanted: str, minor: int) -> bool:
    return all(
        _holds(operator, (3, minor), (int(major), int(found)) if found else (int(major),), patch=patch)
        for operator, major, found, patch, _star in _CLAUSE.findall(wanted)
    )


def _holds(operator: str, mine: tuple[int, int], theirs: tuple[int, ...], *, patch: str) -> bool:
    """Patch releases of an interpreter are not told apart: what one of them satisfies is satisfied."""
    same = mine[: len(theirs)] == theirs
    if operator == "!=":
        return bool(patch) or not same
    if operator in {"", "==", "==="}:
        return same
    if operator in {"^", "~", "~="}:
        # `~3.8` of Poetry and `~=3.8.1` stay at 3.8; `^3.8` and `~=3.8` stay at 3.
        return mine >= theirs and (same if operator == "~" or (operator == "~=" and patch) else mine[0] == theirs[0])
    later = patch.strip(".0") != ""
    # 3.11.4 is past `>3.11` though 3.11 is not; 3.11.3 is before `<3.11.4`, and nothing of 3.11 before `<3.11.0`.
    return {
        ">=": mine >= theirs,
        ">": mine >= theirs,
        "<": mine < theirs or (later and same),
        "<=": mine <= theirs or same,
    }[operator]
