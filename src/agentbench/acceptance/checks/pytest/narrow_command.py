"""Narrow a pytest call to the files that matter, so that pytest does not import the others. Pure.

A call with anything that might change what its paths mean stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from agentbench.acceptance.checks.pytest.item_ids import function_id

_FLAGS = re.compile(r"-[qvxsl]+|-r[a-zA-Z]+|--(?:verbose|quiet|exitfirst|showlocals|strict|strict-markers|no-header)")
"""Options without a value."""
_VALUED = frozenset({"-k", "-m", "-p", "-o", "-W", "-n", "-r", "--tb", "--maxfail", "--durations", "--deselect"})
"""Options whose value is the next argument."""
_WITH_VALUE = re.compile(
    r"--(?:tb|maxfail|durations|durations-min|deselect|import-mode|color|override-ini|verbosity|log-level)=.*"
    r"|-[knpoW].+|--cov(?:-\w+)?(?:=.*)?",
    re.DOTALL,
)
"""Options with their value in the same argument."""
_SPECIAL = re.compile(r"^-|::|\[")
"""Parts of an argument that make it more than a path."""


def narrow_arguments(arguments: Sequence[str], files: Collection[str], collected: Sequence[str]) -> tuple[str, ...]:
    """Replace the paths among the arguments by `files`, in the order of `collected`.

    `collected` are the files that the call collects, as paths from the folder in which pytest is started. The arguments
    stay as they are if a file is not among them, if all of them are needed, or if the arguments are not plain paths.
    """
    paths = _path_indices(arguments)
    wanted = frozenset(files)
    chosen = [file for file in collected if file in wanted]
    needed = chosen and len(chosen) == len(wanted) < len(collected)
    if (
        paths is None
        or not needed
        or any(_SPECIAL.search(file) for file in (*chosen, *(arguments[at] for at in paths)))
    ):
        return tuple(arguments)
    return (*(argument for at, argument in enumerate(arguments) if at not in paths), *chosen)


def without_parameters(arguments: Sequence[str]) -> tuple[str, ...]:
    """Select whole functions in place of rows: `t.py::test_x[1-2]` would show the row's values to code under test."""
    paths = _path_indices(arguments) or ()
    stripped = [
        function_id(argument) if at in paths and "::" in argument else argument for at, argument in enumerate(arguments)
    ]
    return tuple(argument for at, argument in enumerate(stripped) if at not in paths or argument not in stripped[:at])


def _path_indices(arguments: Sequence[str]) -> list[int] | None:
    """Return which arguments are paths or test ids, or None if an option is not known here."""
    paths: list[int] = []
    at = 0
    while at < len(arguments):
        argument = arguments[at]
        if argument in _VALUED:
            at += 1
        elif not argument.startswith("-"):
            paths.append(at)
        elif not _FLAGS.fullmatch(argument) and not _WITH_VALUE.fullmatch(argument):
            return None
        at += 1
    return paths
