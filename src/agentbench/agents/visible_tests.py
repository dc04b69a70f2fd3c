"""Run the visible tests of a project with the command that the task names, and read their output."""

from __future__ import annotations

import re

from agentbench.core.dataclass import dataclass
from agentbench.tools.session import Session

SAME_FAILURE = 4
"""Test runs in a row that fail in the same way before an agent gives up."""
_FAILED = re.compile(r"^(?:FAILED|ERROR) (?P<test>\S+\.py\b.*?)(?: - (?P<why>.*))?$", re.MULTILINE)
_PLACE = re.compile(r"(?P<path>(?:[\w.-]+/)*[\w.-]+\.py)[:\"](?:, line )?(?P<line>\d+)?")
_SHOWN_TESTS = 20
_SHOWN_CHARS = 6000


@dataclass(frozen=True, slots=True)
class Failures:
    """The failures of one test run. `files` are the paths in its output, in the order of their first mention."""

    tests: tuple[str, ...]
    files: tuple[str, ...]
    text: str

    @property
    def signature(self) -> tuple[str, ...]:
        """A value that is equal for two runs that failed in the same way."""
        return tuple(sorted(self.tests)) or (self.text[-500:],)


def read_failures(output: str) -> Failures:
    """Read the output of a test run. Output that is not pytest's is searched for file names only."""
    tests = tuple(dict.fromkeys(match["test"] for match in _FAILED.finditer(output)))
    named = (match["path"] for match in _PLACE.finditer(output))
    files = tuple(dict.fromkeys(path for path in named if "site-packages" not in path))
    return Failures(tests, files, _short(output, tests))


def _short(output: str, tests: tuple[str, ...]) -> str:
    """Shorten output to the names of the failing tests and its end, where the reasons are."""
    head = ""
    if tests:
        more = len(tests) - _SHOWN_TESTS
        head = (
            "Failing tests:\n" + "\n".join(tests[:_SHOWN_TESTS]) + (f"\n… and {more} more" if more > 0 else "") + "\n\n"
        )
    cut = output[-_SHOWN_CHARS:]
    return head + ("[…]\n" if len(cut) < len(output) else "") + cut


@dataclass(frozen=True, slots=True)
class TestRun:
    """The result of one test run. `known` is false if there was no way to run the tests, or none yet: see `later`."""

    __test__ = False

    known: bool
    failures: Failures | None = None
    later: bool = False
    """Whether the tests can run only in a later stage."""

    @property
    def passed(self) -> bool:
        return self.known and self.failures is None

    @property
    def text(self) -> str:
        if self.later:
            return "the tests cannot run in the current stage"
        if not self.known:
            return "there is no known way to run the tests"
        return "the tests pass" if self.failures is None else self.failures.text


def run_tests(session: Session, command: str | None) -> TestRun:
    """Run the visible tests once, as a tool call of the agent.

    Raises:
        SessionEnded, SandboxError.
    """
    if command is None or "run" not in session.tools:
        return TestRun(known=False)
    if not session.allows("run"):
        return TestRun(known=False, later=True)
    result = session.run(command)
    if result.ok:
        return TestRun(known=True)
    output = "\n".join(part for part in (result.stdout, result.stderr) if part) or result.error_message or ""
    return TestRun(known=True, failures=read_failures(output))


@dataclass(slots=True)
class Progress:
    """Counts how often the same tests failed in a row."""

    signature: tuple[str, ...] = ()
    times: int = 0

    def is_stuck(self, run: TestRun) -> bool:
        """Add a test run. Return whether the same failure has repeated too often."""
        if run.failures is None:
            self.signature, self.times = (), 0
            return False
        same = run.failures.signature == self.signature
        self.signature, self.times = run.failures.signature, self.times + 1 if same else 1
        return self.times >= SAME_FAILURE

    @property
    def why(self) -> str:
        return f"the same tests failed {self.times} times in a row"
