"""One pytest session under watch: pinned plugins and configuration, canaries, every report on the channel.

Loaded by `run.py` after pytest and before anything of the workspace.
"""

# Paths are the strings that sys.path holds.
# ruff: noqa: PTH117
from __future__ import annotations

import importlib.metadata
import os
import pathlib
import random
from collections.abc import Callable, Generator, Iterable, Iterator
from importlib.machinery import PathFinder
from typing import Any

import _pytest.config as configuration
import pytest
from _pytest.assertion.rewrite import AssertionRewritingHook

TEXT = 1000
ALWAYS, OFTEN = 64, 64
Job = dict[str, Any]


def installed_plugins(frozen: list[str]) -> list[list[str]]:
    """Every pytest plugin that the distributions on `frozen` declare: name and target."""
    return [
        [point.name, point.value]
        for found in importlib.metadata.distributions(path=frozen)
        for point in found.entry_points
        if point.group == "pytest11"
    ]


def run(
    job: Job,
    send: Callable[..., None],
    frozen: list[str],
    watch: Any,  # noqa: ANN401
    sealed: Callable[[Callable[..., Any]], Callable[..., Any]],
) -> int | str:
    """Run pytest; its exit status, or the name of what ended it."""
    recorder = Recorder(job, send, watch)
    recorder.undo = [_pin_distributions(job, frozen), _pin_configuration(job)]
    _pin_rewriting(job, frozen)
    try:
        status = int(pytest.main(_arguments(job), plugins=[_face(recorder, watch, sealed)]))
    except BaseException as error:  # noqa: BLE001 - SystemExit of a conftest included: it is told, not obeyed
        send("crash", f"{type(error).__name__}: {error}"[:TEXT])
        return type(error).__name__
    # Once more from here: a session whose hooks were taken from us has not looked.
    recorder.look()
    return status


def _arguments(job: Job) -> list[str]:
    arguments = list(job["arguments"])
    if job["configuration"] is not None:
        arguments += ["-c", job["configuration"]["copy"]]
        arguments += ["--rootdir", job["configuration"]["rootdir"], "--confcutdir", job["configuration"]["confcutdir"]]
    # Every required test must get its chance, also after one that fails (a canary does) or that cannot be imported.
    arguments += ["--maxfail=0", "--continue-on-collection-errors", "-o", f"cache_dir={job['cache']}"]
    return arguments


# --- pins ---------------------------------------------------------------------------------------------------------------


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


def _pin_distributions(job: Job, frozen: list[str]) -> Callable[[], None]:
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


def _pin_configuration(job: Job) -> Callable[[], None]:
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


def _pin_rewriting(job: Job, frozen: list[str]) -> None:
    """Plugins are rewritten for better messages, by a finder of its own: let it look where ours looks."""
    pinned = frozenset(job["pinned"])

    def find_spec(name: str, path: Any = None) -> Any:  # noqa: ANN401
        return PathFinder.find_spec(name, frozen if path is None and name in pinned else path)

    AssertionRewritingHook._find_spec = staticmethod(find_spec)  # type: ignore[assignment]  # noqa: SLF001


# --- the recorder -------------------------------------------------------------------------------------------------------


class Recorder:
    """Tells everything and decides nothing. The session has its face alone: nothing here can be reached from there."""

    def __init__(self, job: Job, send: Callable[..., None], watch: Any) -> None:  # noqa: ANN401
        self._job = job
        self._send = send
        self._watch = watch
        self._canaries: set[str] = set()
        self._raised: set[str] = set()
        """Tests whose call ended with an exception, as seen where it came out."""
        self._seen = 0
        self._failed = 0
        self._ran = 0
        self.undo: list[Callable[[], None]] = []
        """Pins that hold while pytest starts and must not be seen by the code under test."""

    def starting(self, early_config: pytest.Config, args: list[str]) -> Generator[None, Any, None]:
        for undo in self.undo:
            undo()
        if early_config.pluginmanager.hasplugin("xdist"):
            args.append("-n0")  # workers would not have the recorder
        self._watch.manager = early_config.pluginmanager
        self._watch()
        for plugin, distribution in early_config.pluginmanager.list_plugin_distinfo():
            name = early_config.pluginmanager.get_name(plugin)
            self._send("plugin", name, getattr(distribution, "project_name", ""))
        cut = early_config.known_args_namespace.confcutdir or early_config.rootpath
        self._send("config", str(early_config.rootpath), str(early_config.inipath or ""), str(cut))
        outcome = yield
        self.look()
        if outcome.excinfo is not None:
            self._send("conftest", str(outcome.excinfo[1])[:TEXT])

    def collected(self, session: pytest.Session, items: list[pytest.Item]) -> Generator[None, None, None]:
        yield
        for item in items:
            self._send("item", item.nodeid)
        canaries = self._collect_canaries(session)
        everything = [*items, *canaries]
        if self._job["mode"] == "survey":
            items[:] = canaries
        else:
            _mix(items, canaries)
        self.look()
        if self._job["mode"] == "survey":
            for name, file, functions in self._watch.test_code():
                self._send("tests", name, file, functions)
        strange = self._watch.strange_tests(self._job["tests"])
        if strange:
            self._send("changed", strange[:50])
        self._watch.watch_tests()
        self._tell(self._watch.watch_session(session, everything))

    def _collect_canaries(self, session: pytest.Session) -> list[pytest.Item]:
        module = pytest.Module.from_parent(session, path=pathlib.Path(self._job["canary"]))
        found = list(_items(module))
        self._canaries = {node.nodeid for node in found}
        for node in found:
            self._send("canary", node.nodeid, node.name)
        return found

    def collecting(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._send("uncollected", report.nodeid, _text(report.longrepr))
            self._failed += 1

    def reported(self, report: pytest.TestReport) -> None:
        expected = hasattr(report, "wasxfail")
        why = "" if report.passed and not expected else _why(report)
        self._send("report", report.nodeid, report.when, report.outcome, type(report).__name__, expected, why)
        if report.nodeid not in self._canaries:
            self._ran += report.when == "setup"
            self._failed += report.failed and not expected
        if report.when == "call" and report.outcome == "passed" and report.nodeid in self._raised:
            self._send("changed", [f"report of {report.nodeid}"])
        if report.when == "teardown":
            self._look_around()

    def calling(self, item: pytest.Item) -> Generator[None, Any, None]:
        """Look when the code under test is about to run and as soon as it did: who restores things comes later."""
        self._tell(self._watch.item(item))
        outcome = yield
        if outcome.excinfo is not None:
            self._raised.add(item.nodeid)
        self._tell(self._watch.item(item))
        self._look_around()

    def shown(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Keep canaries out of what people read; they count all the same."""
        return ("", "", "") if report.nodeid in self._canaries else None

    def broken(self, excrepr: object) -> None:
        self._send("internal", str(excrepr)[-TEXT:])

    def finished(self, exitstatus: int) -> None:
        self.look()
        self._send("finish", int(exitstatus), self._own_status(int(exitstatus)))

    def _own_status(self, status: int) -> int:
        """What pytest would have returned without canaries."""
        if status not in (0, 1):
            return status
        return 1 if self._failed else 0 if self._ran else 5

    def look(self) -> None:
        self._tell(self._watch())

    def _look_around(self) -> None:
        """At first always, later now and then."""
        self._seen += 1
        if self._seen <= ALWAYS or self._seen % OFTEN == 0:
            self.look()

    def _tell(self, changed: list[str]) -> None:
        if changed:
            self._send("changed", changed[:50])


def _face(recorder: Recorder, watch: Any, sealed: Callable[[Callable[..., Any]], Callable[..., Any]]) -> object:  # noqa: ANN401
    """The plugin that the session sees. It holds sealed functions only, and the watch knows each of them."""
    starting, collected, collecting = sealed(recorder.starting), sealed(recorder.collected), sealed(recorder.collecting)
    calling, reported, shown = sealed(recorder.calling), sealed(recorder.reported), sealed(recorder.shown)
    broken, finished = sealed(recorder.broken), sealed(recorder.finished)

    class Face:
        __slots__ = ()

        @staticmethod
        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> Generator[None, Any, None]:
            yield from starting(early_config, args)

        @staticmethod
        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_collection_modifyitems(
            session: pytest.Session, items: list[pytest.Item]
        ) -> Generator[None, Any, None]:
            yield from collected(session, items)

        @staticmethod
        def pytest_collectreport(report: pytest.CollectReport) -> None:
            collecting(report)

        @staticmethod
        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, None]:
            yield from calling(item)

        @staticmethod
        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_logreport(report: pytest.TestReport) -> None:
            reported(report)

        @staticmethod
        @pytest.hookimpl(tryfirst=True)
        def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
            return shown(report)  # type: ignore[no-any-return]

        @staticmethod
        def pytest_internalerror(excrepr: object) -> None:
            broken(excrepr)

        @staticmethod
        @pytest.hookimpl(trylast=True)
        def pytest_sessionfinish(exitstatus: int) -> None:
            finished(exitstatus)

    watch.functions = [value.__func__ for value in vars(Face).values() if isinstance(value, staticmethod)]
    return Face()


def _mix(items: list[pytest.Item], canaries: list[pytest.Item]) -> None:
    """Put canaries first, last and between: only where the module changes, for the sake of module fixtures."""
    dice = random.SystemRandom()
    dice.shuffle(canaries)
    borders = [index for index in range(1, len(items)) if _module(items[index]) != _module(items[index - 1])]
    places = [0, len(items), *(dice.choice([0, len(items), *borders]) for _ in canaries[2:])]
    for place, canary in sorted(zip(places, canaries), key=lambda pair: -pair[0]):  # noqa: B905
        items.insert(place, canary)


def _items(collector: pytest.Collector) -> Iterator[pytest.Item]:
    for node in collector.collect():
        if isinstance(node, pytest.Item):
            yield node
        else:
            yield from _items(node)


def _module(item: pytest.Item) -> str:
    return item.nodeid.split("::")[0]


def _why(report: pytest.TestReport) -> str:
    """Where and why a test failed or was skipped, in a line or two."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        return f"{_place(report.longrepr, crash)}: {crash.message}"[:TEXT]
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])[:TEXT]
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
    return str(longrepr)[-TEXT:] if longrepr is not None else ""
