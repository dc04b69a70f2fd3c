"""The plugin that the session sees: no state, no way to the recorder, and nothing of it on the stack while tests run.

Code under test can come to every object that a frame or a function leads to. So this file knows nothing but sealed functions, keeps no
generator of the recorder suspended, and hands over plain values alone: what belongs to code under test is asked here, where
an answer that runs code finds nothing worth having.
"""

# Paths are the strings that pytest reports.
# ruff: noqa: PTH117
from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping
from typing import Any

import pytest

TEXT = 1000


def face(way: Mapping[str, Callable[..., Any]]) -> tuple[object, list[Any]]:
    """The plugin, and its functions for whoever watches over them. `way`: sealed functions by name."""
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
            collected(session, items)

        @staticmethod
        def pytest_collectreport(report: pytest.CollectReport) -> None:
            if report.failed:
                collecting(_plain(report.nodeid), _text(report.longrepr))

        @staticmethod
        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, None]:
            calling(item)
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
