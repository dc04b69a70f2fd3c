"""Hooks for all tests: check and report requirement marks, start slow tests first, and fail skipped sandbox tests in CI."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import re
import subprocess
from collections.abc import Generator
from itertools import islice
from pathlib import Path
from typing import cast

import pytest
from hypothesis import HealthCheck, settings

from tests.conformance.requirements import LEVELS, Level, Proofs, claimable, read_requirements

# Tests must not depend on the configuration of the user.
os.environ["AB_CONFIG"] = os.devnull
# Tests must not depend on the load of the machine.
settings.register_profile("no-deadline", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no-deadline")

TESTS = Path(__file__).parent
EXCHANGE_PEERS = TESTS.parent / "scripts/exchange-peers"
_SANDBOX_REASON = re.compile(r"sandbox|bwrap|bubblewrap|ripgrep|user namespace", re.IGNORECASE)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--conformance",
        metavar="FILE",
        default=None,
        help="print each requirement with its tests and result, and write the table as JSON to FILE",
    )


def pytest_configure(config: pytest.Config) -> None:
    target = cast("str | None", config.getoption("--conformance"))
    if target is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(RequirementTable(Path(target)), "requirement-table")
    if hasattr(config, "workerinput"):
        workers = config.workerinput["workercount"]
        config.pluginmanager.register(SlowTestsFirst(workers), "slow-tests-first")
        config.pluginmanager.register(FastCollection(config.workerinput["workerid"], workers), "fast-collection")


# --- requirement marks ----------------------------------------------------------------------------------------------------------


CLAIMS = pytest.StashKey[Proofs]()
"""The claims of all collected tests, as if every test passed."""
COLLECTED = pytest.StashKey[frozenset[Path]]()
"""The files of all collected tests."""


@pytest.hookimpl(tryfirst=True)  # before tests are deselected
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    requirements = read_requirements()
    known = claimable(requirements)
    claims = config.stash[CLAIMS] = Proofs()
    config.stash[COLLECTED] = frozenset(item.path for item in items)
    problems = []
    for item in items:
        ids = [requirement for mark in item.iter_markers("req") for requirement in mark.args]
        if not ids:
            continue
        problems += [
            f"{item.nodeid}: {name!r} has parts, claim one of {', '.join(requirements[name].parts)}"
            if name in requirements
            else f"{item.nodeid}: unknown requirement {name!r}"
            for name in ids
            if name not in known
        ]
        level = _level(item)
        if level is None:
            problems.append(f"{item.nodeid}: add the mark {', '.join(LEVELS[:-1])} or {LEVELS[-1]}")
            continue
        claims.add(item.nodeid, ids, level)
        # xdist sends user properties with the report from the worker to the process that prints the table.
        item.user_properties += [("req", requirement) for requirement in ids] + [("level", level)]
    if problems:
        raise pytest.UsageError("requirement marks do not match docs/protocol.md:\n  " + "\n  ".join(problems))


def _level(item: pytest.Item) -> Level | None:
    """Return how much a test shows. A mark on the test overrides the one of its module."""
    return next((level for mark in item.iter_markers() for level in LEVELS if mark.name == level), None)


class RequirementTable:
    """Collect the reports of all tests and print the table at the end."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._proofs = Proofs()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        claimed = [str(value) for name, value in report.user_properties if name == "req"]
        if not claimed or (report.when != "call" and report.passed):
            return
        level = next(value for name, value in report.user_properties if name == "level")
        outcome = "xfailed" if hasattr(report, "wasxfail") and report.skipped else report.outcome
        self._proofs.add(report.nodeid, claimed, cast("Level", level), outcome)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        requirements = read_requirements()
        terminalreporter.section("requirements")
        for line in self._proofs.as_table(requirements):
            terminalreporter.write_line(line)
        self._target.parent.mkdir(parents=True, exist_ok=True)
        self._target.write_text(self._proofs.as_json(requirements), encoding="utf-8")
        terminalreporter.write_line(f"Wrote {self._target}")


# --- order --------------------------------------------------------------------------------------------------------------


class SlowTestsFirst:
    """Start the slow tests first: a long test that starts last delays the end of the session.

    xdist gives each worker one part of the list. Slow tests of one folder go to the same worker, because those on a Ray
    cluster wait for each other.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers

    @pytest.hookimpl(trylast=True)  # after tests are deselected
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        slow: dict[Path, list[pytest.Item]] = {}
        for item in items:
            if item.get_closest_marker("slow"):
                slow.setdefault(item.path.parent, []).append(item)
        others = iter([item for item in items if not item.get_closest_marker("slow")])
        ordered: list[pytest.Item] = []
        for worker in range(self._workers):
            first = [item for folder in list(slow.values())[worker :: self._workers] for item in folder]
            part = (len(items) - len(ordered)) // (self._workers - worker)
            ordered += [*first, *islice(others, max(0, part - len(first)))]
        items[:] = [*ordered, *others]


# --- collection ---------------------------------------------------------------------------------------------------------


class FastCollection:
    """Save CPU time while every worker collects the same tests, and in garbage collections afterwards."""

    def __init__(self, worker: str, workers: int) -> None:
        self._share = int(worker.removeprefix("gw")) / workers

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self, session: pytest.Session) -> Generator[None, object, object]:
        gc.disable()
        if [Path(argument).resolve() for argument in session.config.args] == [TESTS]:
            self._import_test_modules()
        try:
            return (yield)
        finally:
            gc.enable()
            gc.freeze()  # the collected tests stay, so looking for garbage in them is lost time

    def pytest_sessionfinish(self) -> None:
        gc.unfreeze()  # DuckDB prints what is left of it when the interpreter ends

    def _import_test_modules(self) -> None:
        """Import all test modules, each worker from another point on.

        Without bytecode, workers that import in the same order would all rewrite and compile the same modules at the
        same time. So, each does its share, and loads what the others have written.
        """
        paths = sorted(TESTS.rglob("test_*.py"))
        first = int(len(paths) * self._share)
        for path in (*paths[first:], *paths[:first]):
            # Collection imports modules that failed or skip once more and reports them.
            with contextlib.suppress(Exception, pytest.skip.Exception):
                importlib.import_module(".".join(path.relative_to(TESTS.parent).with_suffix("").parts))


# --- sandbox tests in CI ---------------------------------------------------------------------------------------------


def _forbidden_skip(report: pytest.TestReport | pytest.CollectReport) -> str | None:
    """Return the reason why this skip is a failure in CI, or None."""
    if os.environ.get("CI") != "true" or not report.skipped or hasattr(report, "wasxfail"):
        return None
    reason = str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if not _SANDBOX_REASON.search(reason) or "docker" in reason.lower():
        return None
    return f"sandbox tests may not be skipped in CI: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if reason := _forbidden_skip(report):
        report.outcome, report.longrepr = "failed", reason
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if reason := _forbidden_skip(report):
        report.outcome, report.longrepr = "failed", reason
    return report


# --- other programs -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def peers_python() -> str:
    """The Python with Inspect AI, Harbor and OpenTelemetry: installed in CI, elsewhere used if it is installed."""
    cache = Path(os.environ.get("AB_PEERS_CACHE", Path.home() / ".cache/agentbench-peers"))
    if os.environ.get("CI") != "true" and not list(cache.glob("exchange-*/done")):
        pytest.skip("Inspect AI and Harbor are not installed: run scripts/exchange-peers")
    done = subprocess.run([EXCHANGE_PEERS], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()
