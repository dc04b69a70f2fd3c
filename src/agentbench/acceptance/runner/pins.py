"""Pins pytest to the plugins, configuration and installed modules of the base repository.

This is a separate file because functions that stay behind in pytest lead to everything in their module, and this one
holds nothing of the recorder.
"""

from __future__ import annotations

import importlib._bootstrap_external as import_system
import importlib.metadata
import os
import pathlib
import time
from collections.abc import Callable, Iterable
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

import _pytest.assertion.rewrite as rewriting
import _pytest.config as configuration
from _pytest.assertion.rewrite import AssertionRewritingHook

if TYPE_CHECKING:
    Job = dict[str, Any]  # not valid at run time on Python 3.8


def installed_plugins(trusted_paths: list[str]) -> list[list[str]]:
    """Return name and target of every pytest plugin that the distributions on `trusted_paths` declare."""
    return [
        [point.name, point.value]
        for distribution in importlib.metadata.distributions(path=trusted_paths)
        for point in distribution.entry_points
        if point.group == "pytest11"
    ]


class _PinnedDistribution:
    """A distribution that shows only the pytest plugins that were installed after setup."""

    def __init__(self, distribution: importlib.metadata.Distribution, plugins: set[tuple[str, str]]) -> None:
        self._distribution = distribution
        self.entry_points = [
            point
            for point in distribution.entry_points
            if point.group != "pytest11" or (point.name, point.value) in plugins
        ]

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any attribute of the distribution
        return getattr(self._distribution, name)


def pin_distributions(job: Job, trusted_paths: list[str]) -> Callable[[], None]:
    """Restrict pytest's plugin search to the distributions on the trusted paths. Return a function that undoes it."""
    if job["mode"] == "survey":
        return lambda: None
    original = importlib.metadata.distributions
    plugins = {(name, target) for name, target in job["plugins"]}

    def distributions(**arguments: Any) -> Iterable[Any]:  # noqa: ANN401
        return [
            _PinnedDistribution(distribution, plugins)
            for distribution in original(**{"path": trusted_paths, **arguments})
        ]

    importlib.metadata.distributions = distributions

    def undo() -> None:
        importlib.metadata.distributions = original

    return undo


def pin_configuration(job: Job) -> Callable[[], None]:
    """Resolve paths in the configuration relative to the original file, not to the mounted copy.

    Return a function that undoes it.
    """
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


def pin_rewriting(job: Job, trusted_paths: list[str]) -> None:
    """Make pytest's assertion rewriting, which has its own finder, look for pinned modules in the trusted paths."""
    pinned = frozenset(job["pinned"])

    def find_spec(name: str, path: Any = None) -> Any:  # noqa: ANN401
        return PathFinder.find_spec(name, trusted_paths if path is None and name in pinned else path)

    AssertionRewritingHook._find_spec = staticmethod(find_spec)  # type: ignore[assignment]  # noqa: SLF001


def ignore_bytecode(workspace: str, trusted_paths: list[str]) -> None:
    """Compile modules of the workspace from source: a build or code under test can write bytecode for tests and helpers.

    Bytecode of installed packages is used, also if they are in the workspace, unless it was written while tests run. A
    child process of honest tests may write it; code under test could plant it.
    """
    started, stat = time.time(), os.stat
    find_bytecode = import_system.cache_from_source
    installed = tuple(path.rstrip("/") + "/" for path in trusted_paths)

    def cache_from_source(path: Any, *args: Any, **options: Any) -> str:  # noqa: ANN401
        file = os.path.abspath(path)  # noqa: PTH100
        if file.startswith(workspace.rstrip("/") + "/") and not file.startswith(installed):
            raise NotImplementedError  # tells the import system to compile the source
        cached = find_bytecode(path, *args, **options)
        try:
            is_new = stat(cached).st_ctime >= started
        except OSError:
            return cached
        if is_new:
            raise NotImplementedError  # as above
        return cached

    import_system.cache_from_source = cache_from_source
    rewriting._read_pyc = lambda *_: None  # noqa: SLF001
