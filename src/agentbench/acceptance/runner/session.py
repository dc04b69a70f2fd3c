"""Records one pytest session: pinned plugins and configuration, canary tests, every report on the result channel.

Loaded by `run.py` after pytest and before anything of the workspace. While code under test runs, no frame on the stack
and no suspended generator refers to this module. Code that walks the stack finds `pytest_plugin.py`, which can only
send reports.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

CHECKED_TESTS, CHECK_INTERVAL = 8, 64
"""The runner is checked around some fail-to-pass tests, drawn at random, and regularly in between. If it is not known
which tests those are, it is checked at the first steps.
"""
if TYPE_CHECKING:
    import pytest

    Job = dict[str, Any]  # not valid at run time on Python 3.8


def pytest_arguments(job: Job) -> list[str]:
    """Return the arguments for pytest."""
    options = list(job["arguments"])
    if job["configuration"] is not None:
        options += ["-c", job["configuration"]["copy"]]
        options += ["--rootdir", job["configuration"]["rootdir"], "--confcutdir", job["configuration"]["confcutdir"]]
    # Every required test must run, also after one that fails (a canary does) or that cannot be imported.
    return [*options, "--maxfail=0", "--continue-on-collection-errors", "-o", f"cache_dir={job['cache']}"]


class Recorder:
    """Reports everything and decides nothing.

    The session holds only the plugin, from which nothing here can be reached.
    """

    def __init__(self, job: Job, send: Callable[..., None], monitor: Any) -> None:  # noqa: ANN401
        self._job = job
        self._send = send
        self._monitor = monitor
        self._fail_to_pass = frozenset(job["closely"])
        """Functions with fail-to-pass tests."""
        self._checked_tests: frozenset[str] = frozenset()
        """Fail-to-pass tests around which the runner is checked."""
        self._canaries: set[str] = set()
        self._returned: dict[str, bool] = {}
        """Tests that were called, and whether the call returned, recorded where an exception would have come out."""
        self._running = ""
        """The test that is being called. pytest calls no other one meanwhile."""
        self._all_called_here = True
        """Whether no installed plugin runs tests in its own way, perhaps in another process."""
        self._steps = 0
        self._failures = 0
        self._started_tests = 0
        self.undo: list[Callable[[], None]] = []
        """Undo functions of pins that hold while pytest starts and must not be visible to the code under test."""

    def callbacks(self) -> dict[str, Callable[..., Any]]:
        """Return the functions that the plugin may call, by name."""
        names = (
            *("before_conftests", "after_conftests", "collected", "collection_failed", "before_call", "after_call"),
            *("reported", "status_text", "internal_error", "finished"),
        )
        return {name: getattr(self, name) for name in names}

    def before_conftests(self, early_config: pytest.Config, args: list[str]) -> None:
        for undo in self.undo:
            undo()
        if early_config.pluginmanager.hasplugin("xdist"):
            args.append("-n0")  # xdist workers would not have the recorder
        protocols = early_config.pluginmanager.hook.pytest_runtest_protocol.get_hookimpls()
        self._all_called_here = all(_is_part_of_pytest(protocol) for protocol in protocols)
        self._monitor.manager = early_config.pluginmanager
        self._monitor.changes()
        for plugin, distribution in early_config.pluginmanager.list_plugin_distinfo():
            name = early_config.pluginmanager.get_name(plugin)
            self._send("plugin", name, getattr(distribution, "project_name", ""))
        if self._job["mode"] == "survey":
            self._send("loaded", self._monitor.installed_modules())
        root, ini = _config_paths(early_config)
        self._send("config", root, ini, str(early_config.known_args_namespace.confcutdir or root))

    def after_conftests(self, error: str) -> None:
        self.check_runner()
        if error:
            self._send("conftest", error)

    def collected(
        self,
        items: list[tuple[pytest.Item, str]],
        announced: list[tuple[str, str, dict[str, int]]],
        canaries: list[tuple[str, str]],
    ) -> None:
        # Check before reading anything: objects that code under test has changed by now must not be called.
        self.check_runner()
        for opaque, nodeid, rows in announced:
            self._send("item", opaque, nodeid, rows)
        self._canaries = {nodeid for nodeid, _ in canaries}
        for nodeid, name in canaries:
            self._send("canary", nodeid, name)
        self._report_changes(self._monitor.foreign_modules(self._job["support"]))
        self._monitor.watch_session(items)
        required = [nodeid for _, nodeid in items if _function_id(nodeid) in self._fail_to_pass]
        self._checked_tests = frozenset(random.SystemRandom().sample(required, min(len(required), CHECKED_TESTS)))

    def collection_failed(self, nodeid: str, reason: str) -> None:
        self._send("uncollected", nodeid, reason)
        self._failures += 1

    def reported(self, nodeid: str, when: str, outcome: str, report_type: str, expected: bool, reason: str) -> None:  # noqa: FBT001 - fields of a report
        self._send("report", nodeid, when, outcome, report_type, expected, reason)
        if nodeid not in self._canaries:
            self._started_tests += when == "setup"
            self._failures += outcome == "failed" and not expected
        if (when, outcome, report_type) == ("call", "passed", "TestReport"):
            self._report_changes(
                [] if self._returned.get(nodeid, not self._all_called_here) else [f"report of {nodeid}"]
            )

    def before_call(self, item: pytest.Item, nodeid: str) -> None:
        """Check right before and right after the code under test runs: cleanup that restores things comes later."""
        self._report_changes([f"call of {nodeid} inside {self._running}"] if self._running else [])
        self._running = nodeid
        self._returned.pop(nodeid, None)  # a plugin that repeats failing tests may have run it before
        self._check_test(item, nodeid)

    def after_call(self, item: pytest.Item, nodeid: str, raised: bool) -> None:  # noqa: FBT001
        self._running = ""
        self._returned[nodeid] = not raised
        self._check_test(item, nodeid)

    def _check_test(self, item: pytest.Item, nodeid: str) -> None:
        """Check the test, and sometimes the whole runner, which takes about a millisecond."""
        self._report_changes(self._monitor.item_changes(item, nodeid))
        self._steps += 1
        is_first = not self._fail_to_pass and self._steps < CHECK_INTERVAL
        if nodeid in self._checked_tests or is_first or self._steps % CHECK_INTERVAL == 0:
            self.check_runner(testing=True)

    def status_text(self, nodeid: str) -> tuple[str, str, str] | None:
        """Hide canaries in the terminal output. They count all the same."""
        return ("", "", "") if nodeid in self._canaries else None

    def internal_error(self, reason: str) -> None:
        self._send("internal", reason)

    def finished(self, status: int) -> None:
        self.check_runner()
        self._send("finish", status, self._own_status(status))

    def end(self, status: int | None, crash: str, kind: str) -> None:
        """Send the last record once pytest is done: its status, or the error that ended it."""
        if status is None:
            self._send("crash", f"{kind}: {crash}")
        else:
            # Check again from here: if the session's hooks were removed, none of them has checked.
            self.check_runner()
        self._send("end", kind if status is None else status)

    def _own_status(self, status: int) -> int:
        """Return the status that pytest would have returned without canaries."""
        if status not in (0, 1):
            return status
        return 1 if self._failures else 0 if self._started_tests else 5

    def callback_failed(self, reason: str) -> None:
        """Report a call into the recorder that went wrong. The session makes no such calls."""
        self._send("changed", [f"harness runner: {reason}"])

    def check_runner(self, *, testing: bool = False) -> None:
        self._report_changes(self._monitor.changes(testing=testing))

    def _report_changes(self, changed: list[str]) -> None:
        if changed:
            self._send("changed", changed[:50])


def _function_id(nodeid: str) -> str:
    """Return the id of a test without its position among the tests of its function."""
    file, separator, name = nodeid.partition("::")
    return file + separator + name.split("[", 1)[0]


def _is_part_of_pytest(hook: Any) -> bool:  # noqa: ANN401 - a hook of any pluggy version
    """Return whether a function of a hook belongs to pytest, or only wraps the others."""
    wraps = hook.hookwrapper or getattr(hook, "wrapper", False)
    return wraps or hook.function.__module__.startswith("_pytest.")


def _config_paths(config: Any) -> tuple[str, str]:  # noqa: ANN401 - a config of any pytest version
    """Return root folder and configuration file. Before 6.1, pytest had them only as another type."""
    if hasattr(config, "rootpath"):
        return str(config.rootpath), str(config.inipath or "")
    return str(config.rootdir), str(config.inifile or "")
