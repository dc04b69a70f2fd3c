"""The plugin that the session sees: no state, no way to the recorder, and nothing of it on the stack while tests run.

Code under test can come to every object that a frame or a function leads to. So this file knows nothing but sealed functions, keeps no
generator of the recorder suspended, and hands over plain values alone: what belongs to code under test is asked here, where
an answer that runs code finds nothing worth having.
"""

# Paths are the strings that pytest reports.
# ruff: noqa: PTH117
from __future__ import annotations

import os
import pathlib
import random
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from typing import Any

import pytest

TEXT = 1000
PATHS_SINCE = 7


def face(
    way: Mapping[str, Callable[..., Any]], canary: str, only: Collection[str], *, survey: bool
) -> tuple[object, list[Any]]:
    """The plugin, and its functions for whoever watches over them.

    `way`: sealed functions by name. `canary`: the module of tests whose outcome is known. `only`: tests to run, if not
    all. `survey`: nothing but canaries is run.
    """
    starting, started, collected, collecting = way["starting"], way["started"], way["collected"], way["collecting"]
    calling, called, reported, shown = way["calling"], way["called"], way["reported"], way["shown"]
    broken, finished = way["broken"], way["finished"]

    class Face:
        __slots__ = ()

        @staticmethod
        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> Generator[None, Any, None]:
            starting(early_config, args)
            outcome = yield
            started("" if outcome.excinfo is None else _said(outcome.excinfo[1]) or "failed")

        @staticmethod
        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_collection_modifyitems(
            session: pytest.Session, items: list[pytest.Item]
        ) -> Generator[None, Any, None]:
            yield
            ids = [_plain(item.nodeid) for item in items]
            if only:
                items[:] = [item for item in items if item.nodeid in only]
            # Collecting runs what code under test may have put into the runner, so it is done out here.
            canaries = list(_items(_module_at(session, canary)))
            names = [(_plain(item.nodeid), _plain(item.name)) for item in canaries]
            everything = [*items, *canaries]
            if survey:
                items[:] = canaries
            else:
                _mix(items, canaries)
            collected(session, everything, ids, names)

        @staticmethod
        def pytest_collectreport(report: pytest.CollectReport) -> None:
            if report.failed:
                collecting(_plain(report.nodeid), _text(report.longrepr))

        @staticmethod
        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, None]:
            calling(item, _plain(item.nodeid))
            outcome = yield
            called(item, _plain(item.nodeid), outcome.excinfo is not None)

        @staticmethod
        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_logreport(report: pytest.TestReport) -> None:
            expected = hasattr(report, "wasxfail")
            outcome = _plain(report.outcome)
            why = "" if outcome == "passed" and not expected else _why(report)
            kind = type(report).__name__
            reported(_plain(report.nodeid), _plain(report.when), outcome, _plain(kind), expected, why)

        @staticmethod
        @pytest.hookimpl(tryfirst=True)
        def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
            return shown(_plain(report.nodeid))  # type: ignore[no-any-return]

        @staticmethod
        def pytest_internalerror(excrepr: object) -> None:
            broken(_text(excrepr))

        @staticmethod
        @pytest.hookimpl(trylast=True)
        def pytest_sessionfinish(exitstatus: int) -> None:
            finished(int(exitstatus))

    return Face(), [value.__func__ for value in vars(Face).values() if isinstance(value, staticmethod)]


def _module_at(session: Any, file: str) -> pytest.Module:  # noqa: ANN401
    """Commits of some years ago are judged by the pytest of their day, which takes a path of another kind before 7."""
    if int(pytest.__version__.split(".")[0]) >= PATHS_SINCE:
        return pytest.Module.from_parent(session, path=pathlib.Path(file))
    return pytest.Module.from_parent(session, fspath=type(session.fspath)(file))


def _items(collector: pytest.Collector) -> Iterator[pytest.Item]:
    for node in collector.collect():
        if isinstance(node, pytest.Item):
            yield node
        else:
            yield from _items(node)


def _mix(items: list[pytest.Item], canaries: list[pytest.Item]) -> None:
    """Put canaries first, last and between: only where the module changes, for the sake of module fixtures."""
    dice = random.SystemRandom()
    dice.shuffle(canaries)
    borders = [index for index in range(1, len(items)) if _module(items[index]) != _module(items[index - 1])]
    places = [0, len(items), *(dice.choice([0, len(items), *borders]) for _ in canaries[2:])]
    for place, canary in sorted(zip(places, canaries), key=lambda pair: -pair[0]):  # noqa: B905
        items.insert(place, canary)


def _module(item: pytest.Item) -> str:
    return item.nodeid.split("::")[0]


def _plain(text: Any) -> str:  # noqa: ANN401
    """Text that is nothing but text."""
    return "".join(str(text))


def _said(error: object) -> str:
    """What an error says, if it can be made to."""
    try:
        return _plain(error)[:TEXT]
    except BaseException:  # noqa: BLE001 - it may be anybody's
        return type(error).__name__


def _why(report: pytest.TestReport) -> str:
    """Where and why a test failed or was skipped, in a line or two."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        return _plain(f"{_place(report.longrepr, crash)}: {crash.message}")[:TEXT]
    if isinstance(report.longrepr, tuple):
        return _said(report.longrepr[2])
    return _text(report.longrepr)


def _place(longrepr: Any, crash: Any) -> str:  # noqa: ANN401
    """The last line of the project on the way to the failure: helpers of the standard library say little."""
    entries = getattr(getattr(longrepr, "reprtraceback", None), "reprentries", ())
    places = [entry.reprfileloc for entry in entries if getattr(entry, "reprfileloc", None) is not None]
    own = [place for place in places if not os.path.isabs(place.path) and not place.path.startswith("..")]
    last = own[-1] if own else crash
    path = os.path.relpath(last.path) if os.path.isabs(last.path) else last.path
    return f"{path}:{last.lineno}"


def _text(longrepr: object) -> str:
    return _plain(longrepr)[-TEXT:] if longrepr is not None else ""
