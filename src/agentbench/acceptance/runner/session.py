"""One pytest session under watch: pinned plugins and configuration, canaries, every report on the channel.

Loaded by `run.py` after pytest and before anything of the workspace. While code under test runs, no frame on the stack and no
suspended generator leads here: whoever walks there finds `pytest_plugin.py`, which can only tell.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

ALWAYS, OFTEN = 64, 64
OWN_REPORT = "TestReport"
_frame = sys._getframe  # noqa: SLF001
if TYPE_CHECKING:
    import pytest

    Job = dict[str, Any]  # Python 3.8 cannot say it at run time


def arguments(job: Job) -> list[str]:
    """What pytest is called with."""
    found = list(job["arguments"])
    if job["configuration"] is not None:
        found += ["-c", job["configuration"]["copy"]]
        found += ["--rootdir", job["configuration"]["rootdir"], "--confcutdir", job["configuration"]["confcutdir"]]
    # Every required test must get its chance, also after one that fails (a canary does) or that cannot be imported.
    return [*found, "--maxfail=0", "--continue-on-collection-errors", "-o", f"cache_dir={job['cache']}"]


class Recorder:
    """Tells everything and decides nothing. The session has its face alone: nothing here can be reached from there."""

    def __init__(self, job: Job, send: Callable[..., None], watch: Any, begin: Callable[[], None]) -> None:  # noqa: ANN401
        self._begin = begin
        self._job = job
        self._send = send
        self._watch = watch
        self._closely = frozenset(job["closely"])
        """Tests that have to come to pass: nothing of them goes without a look."""
        self._canaries: set[str] = set()
        self._raised: set[str] = set()
        """Tests whose call ended with an exception, as seen where it came out."""
        self._seen = 0
        self._failed = 0
        self._ran = 0
        self.undo: list[Callable[[], None]] = []
        """Pins that hold while pytest starts and must not be seen by the code under test."""

    def ways(self) -> dict[str, Callable[..., Any]]:
        """What the session may call, by name."""
        names = ("starting", "started", "collected", "collecting", "calling", "called", "reported", "shown", "broken")
        return {name: getattr(self, name) for name in (*names, "finished")}

    def starting(self, early_config: pytest.Config, args: list[str]) -> None:
        for undo in self.undo:
            undo()
        if early_config.pluginmanager.hasplugin("xdist"):
            args.append("-n0")  # workers would not have the recorder
        self._watch.manager = early_config.pluginmanager
        self._watch()
        for plugin, distribution in early_config.pluginmanager.list_plugin_distinfo():
            name = early_config.pluginmanager.get_name(plugin)
            self._send("plugin", name, getattr(distribution, "project_name", ""))
        if self._job["mode"] == "survey":
            self._send("loaded", self._watch.installed())
        root, ini = _places(early_config)
        self._send("config", root, ini, str(early_config.known_args_namespace.confcutdir or root))

    def started(self, trouble: str) -> None:
        self.look()
        if trouble:
            self._send("conftest", trouble)

    def collected(
        self, session: pytest.Session, everything: list[pytest.Item], ids: list[str], canaries: list[tuple[str, str]]
    ) -> None:
        # First of all: what code under test has changed by now is asked nothing.
        self.look()
        self._came()
        for nodeid in ids:
            self._send("item", nodeid)
        self._canaries = {nodeid for nodeid, _ in canaries}
        for nodeid, name in canaries:
            self._send("canary", nodeid, name)
        if self._job["mode"] == "survey":
            for name, file, functions in self._watch.test_code():
                self._send("tests", name, file, functions)
        strange = self._watch.strange_tests(self._job["tests"], self._job["support"])
        if strange:
            self._send("changed", strange[:50])
        self._watch.watch_tests()
        self._tell(self._watch.watch_session(session, everything))
        self._begin()

    def collecting(self, nodeid: str, why: str) -> None:
        self._send("uncollected", nodeid, why)
        self._failed += 1

    def reported(self, nodeid: str, when: str, outcome: str, kind: str, expected: bool, why: str) -> None:  # noqa: FBT001 - what a report is
        if kind == OWN_REPORT:
            # Others (subtests) are reported while the test runs, and can only do harm to it.
            self._came()
        self._send("report", nodeid, when, outcome, kind, expected, why)
        if nodeid not in self._canaries:
            self._ran += when == "setup"
            self._failed += outcome == "failed" and not expected
        if when == "call" and outcome == "passed" and nodeid in self._raised:
            self._send("changed", [f"report of {nodeid}"])
        if when == "teardown":
            self._look_around(nodeid)

    def calling(self, item: pytest.Item, nodeid: str) -> None:
        """Look when the code under test is about to run and as soon as it did: who restores things comes later."""
        self._came()
        self._raised.discard(nodeid)  # it may have been run before, by whoever repeats what fails
        self._tell(self._watch.item(item))
        if nodeid in self._closely:
            self.look(testing=True)

    def called(self, item: pytest.Item, nodeid: str, raised: bool) -> None:  # noqa: FBT001
        self._came()
        if raised:
            self._raised.add(nodeid)
        self._tell(self._watch.item(item))
        self._look_around(nodeid)

    def shown(self, nodeid: str) -> tuple[str, str, str] | None:
        """Keep canaries out of what people read; they count all the same."""
        return ("", "", "") if nodeid in self._canaries else None

    def broken(self, why: str) -> None:
        self._send("internal", why)

    def finished(self, status: int) -> None:
        self.look()
        self._send("finish", status, self._own_status(status))

    def ended(self, status: int | None, crash: str, kind: str) -> None:
        """The last record, once pytest has come back: how it ended, or what it died of."""
        if status is None:
            self._send("crash", f"{kind}: {crash}")
        else:
            # Once more from here: a session whose hooks were taken from us has not looked.
            self.look()
        self._send("end", kind if status is None else status)

    def _own_status(self, status: int) -> int:
        """What pytest would have returned without canaries."""
        if status not in (0, 1):
            return status
        return 1 if self._failed else 0 if self._ran else 5

    def failed(self, why: str) -> None:
        """A call into this that went wrong: the session has none that do."""
        self._send("changed", [f"a part of ours: {why}"])

    def _came(self) -> None:
        """Tell if somebody else than the session calls."""
        self._tell(self._watch.callers(_frame(1)))

    def look(self, *, testing: bool = False) -> None:
        self._tell(self._watch(testing=testing))

    def _look_around(self, nodeid: str) -> None:
        """At first always, later now and then; at what the patch is about always."""
        self._seen += 1
        if self._seen <= ALWAYS or self._seen % OFTEN == 0 or nodeid in self._closely:
            self.look(testing=True)

    def _tell(self, changed: list[str]) -> None:
        if changed:
            self._send("changed", changed[:50])


def _places(config: Any) -> tuple[str, str]:  # noqa: ANN401 - of any pytest
    """Root and configuration file; before 6.1 pytest had them as other objects only."""
    if hasattr(config, "rootpath"):
        return str(config.rootpath), str(config.inipath or "")
    return str(config.rootdir), str(config.inifile or "")
