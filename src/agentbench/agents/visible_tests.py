"""The tests that an agent may run itself: the command that the task's hints name."""

from __future__ import annotations

from dataclasses import dataclass

from agentbench.agents.test_output import Failures, read_failures
from agentbench.tools.session import Session

SAME_FAILURE = 4
"""Test runs in a row that may fail in the same way before an agent gives up."""


@dataclass(frozen=True, slots=True)
class TestRun:
    """What one run said. `known` is false when there was no way to run them; then nothing is known."""

    __test__ = False

    known: bool
    failures: Failures | None = None

    @property
    def passed(self) -> bool:
        return self.known and self.failures is None

    @property
    def text(self) -> str:
        if not self.known:
            return "there is no known way to run the tests"
        return "the tests pass" if self.failures is None else self.failures.text


def run_tests(session: Session, command: str | None) -> TestRun:
    """Run them once, as a tool call of the agent.

    Raises:
        SessionEnded, SandboxError.
    """
    if command is None or "run" not in session.tools:
        return TestRun(known=False)
    result = session.run(command)
    if result.ok:
        return TestRun(known=True)
    told = "\n".join(part for part in (result.stdout, result.stderr) if part) or result.error_message or ""
    return TestRun(known=True, failures=read_failures(told))


@dataclass(slots=True)
class Progress:
    """How often the same tests failed in a row."""

    signature: tuple[str, ...] = ()
    times: int = 0

    def saw(self, run: TestRun) -> bool:
        """Whether it is time to give up."""
        if run.failures is None:
            self.signature, self.times = (), 0
            return False
        same = run.failures.signature == self.signature
        self.signature, self.times = run.failures.signature, self.times + 1 if same else 1
        return self.times >= SAME_FAILURE

    @property
    def why(self) -> str:
        return f"the same tests failed {self.times} times in a row"
