"""The pytest plugin that the session sees, without state and without access to the recorder.

It leaves no frame of the recorder on the stack while tests run. Code under test can reach every object that a frame or
a function refers to. So this file refers only to sealed functions, keeps no generator of the recorder suspended, and
passes on plain values alone. Objects that belong to code under test are read here: if reading them runs code, that code
finds nothing of value.
"""

from __future__ import annotations

import os
import pathlib
import random
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from typing import Any, Dict, Tuple  # noqa: UP035

import pytest

MAX_TEXT = 1000
FIRST_VERSION_WITH_PATH = 7
Rows = Dict[int, Tuple[Any, int, Dict[str, int]]]  # noqa: UP006 - evaluated on Python 3.8
"""Parameter sets by identity, with their position among those of their function, and each parameter's row in its table.
Empty once tests run."""


def make_plugin(
    callbacks: Mapping[str, Callable[..., Any]],
    canary: str,
    only: Collection[str],
    named: Collection[str],
    *,
    survey: bool,
) -> object:
    """Return the plugin.

    `callbacks` are sealed functions by name, `canary` is the module of the canary tests, `only` are the tests to run if
    not all, `named` are the functions and files whose tests keep their ids. With `survey`, only canaries run.
    """
    before_conftests, after_conftests = callbacks["before_conftests"], callbacks["after_conftests"]
    collected, collection_failed = callbacks["collected"], callbacks["collection_failed"]
    before_call, after_call = callbacks["before_call"], callbacks["after_call"]
    reported, status_text = callbacks["reported"], callbacks["status_text"]
    internal_error, finished = callbacks["internal_error"], callbacks["finished"]
    rows: Rows = {}
    folder = os.getcwd() + "/"  # noqa: PTH109 - compared with the files of code

    class Plugin:
        __slots__ = ()

        @staticmethod
        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> Generator[None, Any, None]:
            before_conftests(early_config, args)
            outcome = yield
            after_conftests("" if outcome.excinfo is None else _error_text(outcome.excinfo[1]) or "failed")

        @staticmethod
        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_generate_tests(metafunc: pytest.Metafunc) -> Generator[None, Any, None]:
            yield
            _note_rows(rows, metafunc)

        @staticmethod
        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_collection_modifyitems(
            session: pytest.Session, items: list[pytest.Item]
        ) -> Generator[None, Any, None]:
            yield
            announced = [_make_opaque(item, rows, named) for item in items]
            rows.clear()
            items[:] = _selected(items, only)
            # Collecting runs whatever code under test may have put into pytest, so it happens here and
            # not in the recorder.
            canaries = list(_collected_items(_module_collector(session, canary)))
            names = [(_plain(item.nodeid), _plain(item.name)) for item in canaries]
            watched = [(item, _plain(item.nodeid)) for item in (*items, *canaries)]
            _insert_canaries(items, canaries, alone=survey)
            collected(watched, announced, names)

        @staticmethod
        def pytest_collectreport(report: pytest.CollectReport) -> None:
            if report.failed:
                collection_failed(_plain(report.nodeid), _text(report.longrepr))

        @staticmethod
        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, None]:
            before_call(item, _plain(item.nodeid))
            outcome = yield
            after_call(item, _plain(item.nodeid), outcome.excinfo is not None)

        @staticmethod
        @pytest.hookimpl(hookwrapper=True)
        def pytest_runtest_makereport(call: Any) -> Generator[None, Any, None]:  # noqa: ANN401 - of any pytest version
            outcome = yield
            _note_project_line(call.excinfo, outcome, folder)

        @staticmethod
        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_logreport(report: pytest.TestReport) -> None:
            expected = hasattr(report, "wasxfail")
            outcome = _plain(report.outcome)
            reason = _failure_reason(report)
            report_type = type(report).__name__
            reported(_plain(report.nodeid), _plain(report.when), outcome, _plain(report_type), expected, reason)

        @staticmethod
        @pytest.hookimpl(tryfirst=True)
        def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
            return status_text(_plain(report.nodeid))  # type: ignore[no-any-return]

        @staticmethod
        def pytest_internalerror(excrepr: object) -> None:
            internal_error(_text(excrepr))

        @staticmethod
        @pytest.hookimpl(trylast=True)
        def pytest_sessionfinish(exitstatus: int) -> None:
            finished(int(exitstatus))

    return Plugin()


def _module_collector(session: Any, file: str) -> pytest.Module:  # noqa: ANN401
    """Create the collector of a file.

    Old commits are graded with the pytest of their time, which takes another path type before version 7.
    """
    if int(pytest.__version__.split(".")[0]) >= FIRST_VERSION_WITH_PATH:
        return pytest.Module.from_parent(session, path=pathlib.Path(file))
    fspath = type(session.fspath)(file)
    if hasattr(pytest.Module, "from_parent"):
        return pytest.Module.from_parent(session, fspath=fspath)
    return pytest.Module(fspath, parent=session)  # before version 5.4


def _collected_items(collector: pytest.Collector) -> Iterator[pytest.Item]:
    for node in collector.collect():
        if isinstance(node, pytest.Item):
            yield node
        else:
            yield from _collected_items(node)


def _insert_canaries(items: list[pytest.Item], canaries: list[pytest.Item], *, alone: bool) -> None:
    """Insert canaries first, last and between modules, so that module fixtures are not split; or keep them `alone`."""
    if alone:
        items.clear()
    rng = random.SystemRandom()
    rng.shuffle(canaries)
    boundaries = [index for index in range(1, len(items)) if _module_id(items[index]) != _module_id(items[index - 1])]
    positions = [0, len(items), *(rng.choice([0, len(items), *boundaries]) for _ in canaries[2:])]
    for position, canary in sorted(zip(positions, canaries), key=lambda pair: -pair[0]):  # noqa: B905
        items.insert(position, canary)


def _make_opaque(
    item: Any,  # noqa: ANN401 - an item of any pytest version
    rows: Rows,
    named: Collection[str],
) -> tuple[str, str, dict[str, int]]:
    """Replace the part of a test's id that pytest derives from parameters by a position.

    Return the new id, the old one, and the row of each parameter in its table.
    """
    old = _plain(item.nodeid)
    function = _function_id(old)
    callspec: Any = getattr(item, "callspec", None)
    if id(callspec) not in rows:
        return old, old, {}
    _, at, indices = rows[id(callspec)]
    if function == old or not {function, function.partition("::")[0]}.isdisjoint(named):
        return old, old, indices
    position = f"#{at}"
    name = f"{_plain(item.name).split('[', 1)[0]}[{position}]"
    new = f"{function}[{position}]"
    markers = getattr(item.keywords, "_markers", {})
    for keyword in (item.name, callspec.id):
        markers.pop(keyword, None)
    markers[name] = True
    vars(item).pop("location", None)  # computed from the name when it is first read
    item.name = name
    structured = getattr(item, "_id", None)  # instead of a string since pytest 9.2
    if structured is None:
        item._nodeid = new  # noqa: SLF001
    else:
        item._id = type(structured).parse(new)  # noqa: SLF001
    object.__setattr__(callspec, "_idlist", [position])  # it is frozen in some versions
    return new, old, indices


def _selected(items: list[pytest.Item], only: Collection[str]) -> list[pytest.Item]:
    if not only:
        return items
    return [item for item in items if item.nodeid in only or _function_id(_plain(item.nodeid)) in only]


def _function_id(nodeid: str) -> str:
    """Return the id of a test without the part that pytest derives from parameters."""
    file, separator, name = nodeid.partition("::")
    return file + separator + name.split("[", 1)[0]


def _note_rows(rows: Rows, metafunc: Any) -> None:  # noqa: ANN401
    """Note the parameter sets of a function when they are made, before plugins reorder or deselect tests.

    pytest 8 and later replace the rows of parameters by positions afterwards.
    """
    for position, callspec in enumerate(getattr(metafunc, "_calls", ())):
        indices = {_plain(name): int(row) for name, row in callspec.indices.items()}
        rows[id(callspec)] = (callspec, position, indices)


def _module_id(item: pytest.Item) -> str:
    return item.nodeid.split("::")[0]


def _plain(text: Any) -> str:  # noqa: ANN401
    """Return a plain `str`, whatever subclass was given."""
    return "".join(str(text))


def _error_text(error: object) -> str:
    """Return the message of an error, or its type if the message cannot be read."""
    try:
        return _plain(error)[:MAX_TEXT]
    except BaseException:  # noqa: BLE001 - the error may belong to code under test
        return type(error).__name__


def _relative(path: str) -> str:
    """Return a path from the working folder, or as it is if a test removed that folder."""
    try:
        return os.path.relpath(path)
    except OSError:
        return path


def _failure_reason(report: pytest.TestReport) -> str:
    """Return in a line or two where and why a test failed or was skipped; empty if it simply passed."""
    if report.passed and not hasattr(report, "wasxfail"):
        return ""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        line = getattr(report, "project_line", "") or f"{_relative(crash.path)}:{crash.lineno}"
        return _plain(f"{line}: {crash.message}")[:MAX_TEXT]
    if isinstance(report.longrepr, tuple):
        return _error_text(report.longrepr[2])
    return _text(report.longrepr)


def _note_project_line(excinfo: Any, outcome: Any, folder: str) -> None:  # noqa: ANN401
    """Add file and number of the last line of the project in a traceback to the report: those of libraries say little."""
    if excinfo is None or outcome.excinfo is not None:
        return
    traceback, line = excinfo.tb, ""
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if file.startswith(folder):
            line = f"{file[len(folder) :]}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    outcome.get_result().project_line = line


def _text(longrepr: object) -> str:
    return _plain(longrepr)[-MAX_TEXT:] if longrepr is not None else ""
