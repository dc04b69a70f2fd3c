"""What holds pytest to what R has: its plugins, its configuration, the modules that setup installed.

A file of its own: functions that stay behind in pytest lead to what stands beside them, and here is nothing of the recorder.
"""

from __future__ import annotations

import importlib.metadata
import pathlib
from collections.abc import Callable, Iterable
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

import _pytest.config as configuration
from _pytest.assertion.rewrite import AssertionRewritingHook

if TYPE_CHECKING:
    Job = dict[str, Any]  # Python 3.8 cannot say it at run time


def installed_plugins(frozen: list[str]) -> list[list[str]]:
    """Every pytest plugin that the distributions on `frozen` declare: name and target."""
    return [
        [point.name, point.value]
        for found in importlib.metadata.distributions(path=frozen)
        for point in found.entry_points
        if point.group == "pytest11"
    ]


class _Frozen:
    """A distribution with only those pytest plugins that were there after setup."""

    def __init__(self, distribution: importlib.metadata.Distribution, plugins: set[tuple[str, str]]) -> None:
        self._distribution = distribution
        self.entry_points = [
            point
            for point in distribution.entry_points
            if point.group != "pytest11" or (point.name, point.value) in plugins
        ]

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the distribution has
        return getattr(self._distribution, name)


def pin_distributions(job: Job, frozen: list[str]) -> Callable[[], None]:
    """While pytest looks for plugins it sees the distributions of the frozen paths alone; the way back."""
    if job["mode"] == "survey":
        return lambda: None
    original = importlib.metadata.distributions
    plugins = {(name, target) for name, target in job["plugins"]}

    def distributions(**arguments: Any) -> Iterable[Any]:  # noqa: ANN401
        return [_Frozen(found, plugins) for found in original(**{"path": frozen, **arguments})]

    importlib.metadata.distributions = distributions

    def undo() -> None:
        importlib.metadata.distributions = original

    return undo


def pin_configuration(job: Job) -> Callable[[], None]:
    """Let paths in R's configuration mean what they meant beside the original, not beside our copy; the way back."""
    if job["configuration"] is None:
        return lambda: None
    original = vars(configuration)["determine_setup"]
    place = job["configuration"]["original"]

    def determine_setup(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401
        root, _, *rest = original(*arguments, **named)
        return (root, None if place is None else pathlib.Path(place), *rest)

    configuration.determine_setup = determine_setup  # type: ignore[attr-defined]

    def undo() -> None:
        configuration.determine_setup = original  # type: ignore[attr-defined]

    return undo


def pin_rewriting(job: Job, frozen: list[str]) -> None:
    """Plugins are rewritten for better messages, by a finder of its own: let it look where ours looks."""
    pinned = frozenset(job["pinned"])

    def find_spec(name: str, path: Any = None) -> Any:  # noqa: ANN401
        return PathFinder.find_spec(name, frozen if path is None and name in pinned else path)

    AssertionRewritingHook._find_spec = staticmethod(find_spec)  # type: ignore[assignment]  # noqa: SLF001
