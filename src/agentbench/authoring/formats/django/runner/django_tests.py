"""Runs tests by the runner of Django's own repository and writes how each went as a JUnit report, under the ids asked for.

A hidden file of a task, started as `python -I -S django_tests.py` at the root of the workspace; the job is `tests.json`
beside it. The process that is started so imports nothing of the workspace: it starts itself once more, that second
process runs the tests and tells the first one of each, and the first writes the report when the second has come to its
end. A run that ends early, however it ends, leaves no report.
"""

# Paths are the strings that sys.path holds; names and arguments are those of unittest.
# ruff: noqa: PTH100, PTH105, PTH108, PTH118, PTH120, PTH123, S606, N802, ANN401
from __future__ import annotations

import sys

if sys.path[:1] == [__file__.rpartition("/")[0]]:  # nothing is imported from beside this file
    del sys.path[0]

import importlib
import json
import os
import re
import runpy
import types
import unittest
from typing import Any, Callable, Dict, Iterator, Tuple  # noqa: UP035 - of Python 3.8

HERE = os.path.dirname(os.path.abspath(__file__))
REPORT = os.path.join(HERE, "report.xml")
TOLD = 900
"""Characters of a traceback, its last ones: those that say what happened, in what a reader of reports keeps."""
_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NAMED = re.compile(r"(?s)(\w+) \(([\w.]+)\)")
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
_RANK = {SKIPPED: 0, PASSED: 1, FAILED: 2}
Found = Dict[str, Tuple[str, str]]  # noqa: UP006 - of Python 3.8


# --- the second process: tests -----------------------------------------------------------------------------------


def names_of(test: Any) -> list[str]:
    """Everything a test is called: as unittest writes it since 3.11 and before, and the first line of its docstring."""
    method = getattr(test, "_testMethodName", None)
    if method is None:  # a class or module that could not be set up
        return [str(test)]
    where = f"{type(test).__module__}.{type(test).__qualname__}"
    lines = [str(test), f"{method} ({where})", f"{method} ({where}.{method})", (test.shortDescription() or "").strip()]
    return [line for line in dict.fromkeys(lines) if line]


class Result(unittest.TextTestResult):
    """Tells of each test when it is over; of subtests and of errors in teardown the worst counts."""

    tell: Callable[..., None]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._running: Any = None
        self._worst: tuple[str, str] | None = None

    def startTest(self, test: Any) -> None:
        self._running, self._worst = test, None
        super().startTest(test)

    def stopTest(self, test: Any) -> None:
        super().stopTest(test)
        outcome, why = self._worst or (FAILED, "it ended without an outcome")
        self._running = None
        self.tell(test=names_of(test), outcome=outcome, why=why)

    def _note(self, test: Any, outcome: str, why: str = "") -> None:
        test = getattr(test, "test_case", test)  # of a subtest
        if test is not self._running:  # fixtures of a class or a module, and what fails before a test begins
            self.tell(test=names_of(test), outcome=outcome, why=why)
        elif self._worst is None or outcome == FAILED != self._worst[0]:
            self._worst = (outcome, why)

    def addSuccess(self, test: Any) -> None:
        super().addSuccess(test)
        self._note(test, PASSED)

    def addError(self, test: Any, err: Any) -> None:
        super().addError(test, err)
        self._note(test, FAILED, self.errors[-1][1])

    def addFailure(self, test: Any, err: Any) -> None:
        super().addFailure(test, err)
        self._note(test, FAILED, self.failures[-1][1])

    def addSkip(self, test: Any, reason: str) -> None:
        super().addSkip(test, reason)
        self._note(test, SKIPPED, str(reason))

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        super().addExpectedFailure(test, err)
        self._note(test, SKIPPED, "expected to fail, and failed")

    def addUnexpectedSuccess(self, test: Any) -> None:
        super().addUnexpectedSuccess(test)
        self._note(test, FAILED, "expected to fail, and passed")

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            trace = self._exc_info_to_string(err, subtest)  # type: ignore[attr-defined] # as it does for whole tests
            self._note(test, FAILED, f"{subtest}\n{trace[-TOLD // 2 :]}")


class _Home(types.ModuleType):
    """The module that `TEST_RUNNER` names. Django can be imported only when its settings are there, so the class is made late."""

    base = "django.test.runner.DiscoverRunner"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.done: list[object] = []
        """The runner, when it has run its tests: `sys.exit` in the code under test ends it before."""

    def __getattr__(self, name: str) -> Any:
        if name != "Runner":
            raise AttributeError(name)
        module, _, usual = self.base.rpartition(".")
        base = getattr(importlib.import_module(module), usual)
        given: list[object] = []
        done = self.done

        def get_resultclass(runner: Any) -> Any:
            """Ours for the run itself; tests that run tests do so on their own account."""
            given.append(runner)
            return Result if len(given) == 1 else base.get_resultclass(runner)

        def run_tests(runner: Any, *labels: Any, **options: Any) -> Any:
            failures = base.run_tests(runner, *labels, **options)
            done.extend(given[:1] if runner is given[0] else [])
            return failures

        self.Runner = type(name, (base,), {"get_resultclass": get_resultclass, "run_tests": run_tests})
        return self.Runner


def start_site() -> None:
    """As an ordinary start does, without a `sitecustomize`: a file of the workspace could be one."""
    import site  # noqa: PLC0415 - under -S it does nothing by itself

    sys.modules["sitecustomize"] = types.ModuleType("sitecustomize")
    site.main()
    del sys.modules["sitecustomize"]


def run(channel: int, nonce: str, job: dict[str, Any]) -> int:
    """Run the tests as `tests/runtests.py` is run by hand, one process, and tell of each."""
    os.set_inheritable(channel, False)
    told = 0
    ours = os.getpid()

    def tell(**record: object) -> None:
        nonlocal told
        if os.getpid() != ours:
            return
        told += "test" in record
        line = json.dumps({"nonce": nonce, **record}).encode() + b"\n"
        while line:
            line = line[os.write(channel, line) :]

    Result.tell = staticmethod(tell)
    start_site()
    folder = os.path.abspath(job["folder"])
    sys.path.insert(0, folder)
    settings: Any = importlib.import_module(job["settings"])
    home = sys.modules["agentbench_home"] = _Home("agentbench_home")
    home.base = getattr(settings, "TEST_RUNNER", _Home.base)
    settings.TEST_RUNNER = "agentbench_home.Runner"
    script = os.path.join(folder, "runtests.py")
    options = ["--verbosity=2", f"--settings={job['settings']}", "--parallel=1", "--noinput"]
    sys.argv = [script, *options, *job["labels"]]
    try:
        runpy.run_path(script, run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    if home.done:
        tell(end=told, code=code)
    return code


# --- the first process: the report -------------------------------------------------------------------------------


def start(job: dict[str, Any]) -> tuple[int | None, list[dict[str, Any]]]:
    """Run the second process; how it ended, if it came to its end, and what it told."""
    nonce = os.urandom(16).hex()
    ours, theirs = os.pipe()
    asked, asking = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(asked, 0)
        os.set_inheritable(theirs, True)
        os.execv(sys.executable, [sys.executable, "-s", "-S", os.path.abspath(__file__), str(theirs)])
    os.close(theirs)
    os.close(asked)
    with os.fdopen(asking, "w") as stream:
        json.dump({"nonce": nonce, "job": job}, stream)
    records: list[dict[str, Any]] = []
    end: dict[str, Any] | None = None
    with os.fdopen(ours, "rb") as channel:
        for record in _records(channel, nonce):
            if "end" in record:
                end = record
                break
            records.append(record)
    _, status = os.waitpid(pid, 0)
    ended = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1
    whole = end is not None and end["end"] == len(records) and end["code"] == ended
    return ended if whole else None, records


def _records(channel: Any, nonce: str) -> Iterator[dict[str, Any]]:
    for line in channel:
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and record.pop("nonce", None) == nonce:
            yield record


def outcomes(records: list[dict[str, Any]], wanted: list[str]) -> Found:
    """Outcome and reason by id. A test is called as it is asked for, and otherwise by its name.

    Tests that share an id (a sentence in the docstrings of two) share its outcome: one that fails is enough to fail it.
    """
    asked = set(wanted)
    found: Found = {}
    for record in records:
        names = record["test"]
        for name in [one for one in names if one in asked] or names[:1]:
            before = found.get(name)
            if before is None or _RANK[record["outcome"]] > _RANK[before[0]]:
                found[name] = (record["outcome"], record["why"])
    broken = [(name, told) for name, told in found.items() if name.startswith(("setUpClass (", "setUpModule ("))]
    for test in wanted:
        why = None if test in found else _kept_from(test, broken)
        if why is not None:
            found[test] = why
    return found


def _kept_from(test: str, broken: list[tuple[str, tuple[str, str]]]) -> tuple[str, str] | None:
    """What became of the class or the module of a test that did not run."""
    match = _NAMED.fullmatch(test)
    for name, (outcome, why) in broken:
        place = name[name.index("(") + 1 : -1]
        if match and f"{match[2]}.".startswith(f"{place}."):
            return outcome, f"{name}: {why}"
    return None


def written(found: Found) -> str:
    lines = ['<?xml version="1.0" encoding="utf-8"?>', f'<testsuite name="django" tests="{len(found)}">']
    for test, (outcome, why) in found.items():
        said = why.strip()
        tag = {FAILED: "failure", SKIPPED: "skipped"}.get(outcome)
        last = said.splitlines()[-1] if said else ""
        inner = f"<{tag} message={_quoted(last)}>{_escaped(said[-TOLD:])}</{tag}>" if tag else ""
        lines.append(f"<testcase name={_quoted(test)}>{inner}</testcase>")
    return "\n".join([*lines, "</testsuite>", ""])


def _escaped(text: str) -> str:
    text = _ILLEGAL.sub("\ufffd", text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _quoted(text: str) -> str:
    text = _escaped(text).replace('"', "&quot;")
    return '"' + text.replace("\n", "&#10;").replace("\r", "&#13;").replace("\t", "&#9;") + '"'


def main() -> int:
    if len(sys.argv) > 1:
        asked = json.load(sys.stdin)
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
        return run(int(sys.argv[1]), asked["nonce"], asked["job"])
    with open(os.path.join(HERE, "tests.json"), encoding="utf-8") as file:
        job = json.load(file)
    code, records = start(job)
    if os.path.lexists(REPORT):  # somebody else's: ours is not written yet
        os.unlink(REPORT)
    if code is None:
        sys.stderr.write("the tests did not come to their end: no report\n")
        return 3
    found = outcomes(records, job["tests"])
    whole = f"{REPORT}.{os.getpid()}"
    with open(whole, "w", encoding="utf-8") as report:
        report.write(written(found))
    os.replace(whole, REPORT)
    # What the runner itself is not content with is a failure too, whatever the tests say.
    return code or int(any(outcome == FAILED for outcome, _ in found.values()))


if __name__ == "__main__":
    sys.exit(main())
