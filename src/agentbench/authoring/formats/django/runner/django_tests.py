"""Run tests with the runner of Django's own repository, and write a JUnit report with the ids of the SWE-bench row.

This is a hidden file of a task. It is started as `python -I -S django_tests.py` at the root of the workspace, with its job in
`tests.json` beside it. The parent process imports nothing of the workspace. It starts this file again as a child, which runs the
tests and sends their results through a pipe. The parent writes the report only if the child ran to its end.
"""

# Paths are the strings that sys.path holds; names and arguments are those of unittest.
# ruff: noqa: PTH100, PTH105, PTH108, PTH118, PTH120, PTH123, S606, N802, ANN401
from __future__ import annotations

import sys

if sys.path[:1] == [__file__.rpartition("/")[0]]:  # do not import files beside this one
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
MAX_REASON = 900
"""Characters of a traceback in the report. The last ones are kept: they name the error."""
_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NAMED = re.compile(r"(?s)(\w+) \(([\w.]+)\)")
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
_RANK = {SKIPPED: 0, PASSED: 1, FAILED: 2}
Results = Dict[str, Tuple[str, str]]  # noqa: UP006 - of Python 3.8
"""Outcome and reason by test id."""


# --- child process: run the tests ----------------------------------------------------------------------------------


def names_of(test: Any) -> list[str]:
    """Return every name of a test: its id as unittest prints it since 3.11 and before, and the first line of its docstring."""
    method = getattr(test, "_testMethodName", None)
    if method is None:  # a class or module that could not be set up
        return [str(test)]
    where = f"{type(test).__module__}.{type(test).__qualname__}"
    lines = [str(test), f"{method} ({where})", f"{method} ({where}.{method})", (test.shortDescription() or "").strip()]
    return [line for line in dict.fromkeys(lines) if line]


class Result(unittest.TextTestResult):
    """Sends the outcome of each test when it ends: the worst of the test, its subtests and its teardown."""

    send: Callable[..., None]

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
        self.send(test=names_of(test), outcome=outcome, why=why)

    def _note(self, test: Any, outcome: str, why: str = "") -> None:
        test = getattr(test, "test_case", test)  # of a subtest
        if test is not self._running:  # fixtures of a class or a module, and errors before a test begins
            self.send(test=names_of(test), outcome=outcome, why=why)
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
            trace = self._exc_info_to_string(err, subtest)  # type: ignore[attr-defined] # as for whole tests
            self._note(test, FAILED, f"{subtest}\n{trace[-MAX_REASON // 2 :]}")


class _RunnerModule(types.ModuleType):
    """The module that `TEST_RUNNER` names. Its class is created on first use: Django cannot be imported before its settings."""

    base = "django.test.runner.DiscoverRunner"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.finished: list[object] = []
        """The runner, once it has run all its tests. Empty if the code under test exits before."""

    def __getattr__(self, name: str) -> Any:
        if name != "Runner":
            raise AttributeError(name)
        module, _, class_name = self.base.rpartition(".")
        base = getattr(importlib.import_module(module), class_name)
        runners: list[object] = []
        finished = self.finished

        def get_resultclass(runner: Any) -> Any:
            """Return `Result` for the first runner only: tests that start another one are not reported."""
            runners.append(runner)
            return Result if len(runners) == 1 else base.get_resultclass(runner)

        def run_tests(runner: Any, *labels: Any, **options: Any) -> Any:
            failures = base.run_tests(runner, *labels, **options)
            finished.extend(runners[:1] if runner is runners[0] else [])
            return failures

        self.Runner = type(name, (base,), {"get_resultclass": get_resultclass, "run_tests": run_tests})
        return self.Runner


def start_site() -> None:
    """Initialise `site`, but without `sitecustomize`, which could be a file of the workspace."""
    import site  # noqa: PLC0415 - with -S, the import alone does nothing

    sys.modules["sitecustomize"] = types.ModuleType("sitecustomize")
    site.main()
    del sys.modules["sitecustomize"]


def run(channel: int, nonce: str, job: dict[str, Any]) -> int:
    """Run `tests/runtests.py` in this process and send the outcome of each test to the channel. Return the exit code."""
    os.set_inheritable(channel, False)
    sent = 0
    own_pid = os.getpid()

    def send(**record: object) -> None:
        nonlocal sent
        if os.getpid() != own_pid:  # a test forked
            return
        sent += "test" in record
        line = json.dumps({"nonce": nonce, **record}).encode() + b"\n"
        while line:
            line = line[os.write(channel, line) :]

    Result.send = staticmethod(send)
    start_site()
    folder = os.path.abspath(job["folder"])
    sys.path.insert(0, folder)
    settings: Any = importlib.import_module(job["settings"])
    runner = sys.modules["agentbench_runner"] = _RunnerModule("agentbench_runner")
    runner.base = getattr(settings, "TEST_RUNNER", _RunnerModule.base)
    settings.TEST_RUNNER = "agentbench_runner.Runner"
    script = os.path.join(folder, "runtests.py")
    options = ["--verbosity=2", f"--settings={job['settings']}", "--parallel=1", "--noinput"]
    sys.argv = [script, *options, *job["labels"]]
    try:
        runpy.run_path(script, run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    if runner.finished:
        send(end=sent, code=code)
    return code


# --- parent process: write the report ------------------------------------------------------------------------------


def start(job: dict[str, Any]) -> tuple[int | None, list[dict[str, Any]]]:
    """Run the child. Return its exit code, or None if it did not run to its end, and the records that it sent."""
    nonce = os.urandom(16).hex()
    results, child_results = os.pipe()
    child_job, job_writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(child_job, 0)
        os.set_inheritable(child_results, True)
        os.execv(sys.executable, [sys.executable, "-s", "-S", os.path.abspath(__file__), str(child_results)])
    os.close(child_results)
    os.close(child_job)
    with os.fdopen(job_writer, "w") as stream:
        json.dump({"nonce": nonce, "job": job}, stream)
    records: list[dict[str, Any]] = []
    end: dict[str, Any] | None = None
    with os.fdopen(results, "rb") as channel:
        for record in _records(channel, nonce):
            if "end" in record:
                end = record
                break
            records.append(record)
    _, status = os.waitpid(pid, 0)
    exit_code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1
    complete = end is not None and end["end"] == len(records) and end["code"] == exit_code
    return exit_code if complete else None, records


def _records(channel: Any, nonce: str) -> Iterator[dict[str, Any]]:
    for line in channel:
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and record.pop("nonce", None) == nonce:
            yield record


def outcomes(records: list[dict[str, Any]], wanted: list[str]) -> Results:
    """Return the result of each test under the wanted ids that are names of it, else under its first name.

    Tests can share an id, which is then a sentence in both docstrings. Such an id has the worst of their outcomes.
    """
    known = set(wanted)
    results: Results = {}
    for record in records:
        names = record["test"]
        for name in [name for name in names if name in known] or names[:1]:
            before = results.get(name)
            if before is None or _RANK[record["outcome"]] > _RANK[before[0]]:
                results[name] = (record["outcome"], record["why"])
    broken = {name: result for name, result in results.items() if name.startswith(("setUpClass (", "setUpModule ("))}
    for test in wanted:
        result = None if test in results else _fixture_result(test, broken)
        if result is not None:
            results[test] = result
    return results


def _fixture_result(test: str, broken: Results) -> tuple[str, str] | None:
    """Return the result of the broken class or module fixture because of which a test did not run; None if there is none."""
    match = _NAMED.fullmatch(test)
    for name, (outcome, why) in broken.items():
        place = name[name.index("(") + 1 : -1]
        if match and f"{match[2]}.".startswith(f"{place}."):
            return outcome, f"{name}: {why}"
    return None


def as_junit(results: Results) -> str:
    lines = ['<?xml version="1.0" encoding="utf-8"?>', f'<testsuite name="django" tests="{len(results)}">']
    for test, (outcome, why) in results.items():
        reason = why.strip()
        tag = {FAILED: "failure", SKIPPED: "skipped"}.get(outcome)
        last = reason.splitlines()[-1] if reason else ""
        inner = f"<{tag} message={_quoted(last)}>{_escaped(reason[-MAX_REASON:])}</{tag}>" if tag else ""
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
        request = json.load(sys.stdin)
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
        return run(int(sys.argv[1]), request["nonce"], request["job"])
    with open(os.path.join(HERE, "tests.json"), encoding="utf-8") as file:
        job = json.load(file)
    code, records = start(job)
    if os.path.lexists(REPORT):  # forged: the report is written below
        os.unlink(REPORT)
    if code is None:
        sys.stderr.write("the test run ended early: no report\n")
        return 3
    results = outcomes(records, job["tests"])
    temporary = f"{REPORT}.{os.getpid()}"
    with open(temporary, "w", encoding="utf-8") as report:
        report.write(as_junit(results))
    os.replace(temporary, REPORT)
    # The runner can also fail by itself, although all tests passed.
    return code or int(any(outcome == FAILED for outcome, _ in results.values()))


if __name__ == "__main__":
    sys.exit(main())
