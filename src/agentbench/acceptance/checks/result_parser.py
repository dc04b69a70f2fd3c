"""Parsers of test results: from the output of a test runner, or its report files, to one outcome per test.

`junit` is built in; those of other runners are plug-ins. Everything a parser reads was written by the code under test.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import ClassVar, Protocol

from agentbench.acceptance.checks.junit import MAX_TESTS, ReportRefused, read_junit, worse_outcome
from agentbench.contract.parsers import OTHER_PARSERS
from agentbench.core.command import MIB
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import HarnessError

KEPT_OUTPUT = 16 * MIB
"""Bytes of each stream that a parser gets. A command that writes more is refused."""
OUTCOMES = frozenset({"passed", "failed", "skipped"})


@dataclass(frozen=True, slots=True)
class RunnerOutput:
    """The output of the command of a check."""

    stdout: bytes = b""
    stderr: bytes = b""
    exit_code: int | None = 0
    """None if the command timed out."""
    reports: Mapping[str, bytes] = field(default_factory=dict)
    """Content of the files that match the check's `report`, by path."""


@dataclass(frozen=True, slots=True)
class TestResults:
    """Outcomes (`passed`, `failed` or `skipped`) and messages of failures, by the id of the test."""

    __test__: ClassVar[bool] = False  # keeps pytest from collecting it
    outcomes: Mapping[str, str]
    messages: Mapping[str, str] = field(default_factory=dict)


class ResultParser(Protocol):
    r"""Reads the results of a test runner; the plug-in of kind `check`, named by `parser` in `task.yaml`.

    The output is untrusted: it may have been written to deceive or to exhaust the parser. A `ValueError` fails the check;
    any other exception is an error of the harness.

    Examples:
        >>> import agentbench as ab
        >>> def tap(output: ab.RunnerOutput) -> ab.TestResults:
        ...     lines = [line.split(" ", 2) for line in output.stdout.decode().splitlines()]
        ...     tests = [line for line in lines if line[0] in {"ok", "not"}]
        ...     return ab.TestResults({line[-1]: "passed" if line[0] == "ok" else "failed" for line in tests})
        >>> tap(ab.RunnerOutput(stdout=b"1..2\nok 1 adds\nnot ok 2\n")).outcomes
        {'adds': 'passed', '2': 'failed'}
    """

    def __call__(self, output: RunnerOutput, /) -> TestResults: ...


def parse_results(parser: str, output: RunnerOutput) -> TestResults:
    """Read the results with the parser of that name.

    Raises:
        ReportRefused: the output cannot be used.
        HarnessError: the parser itself failed.
    """
    if parser == "junit":
        return _parse_junit(output)
    try:
        results = OTHER_PARSERS.get(parser)(output)
    except ValueError as error:
        raise ReportRefused(f"the output cannot be read by parser '{parser}': {error}") from error
    except Exception as error:
        raise HarnessError(f"parser '{parser}' raised {type(error).__name__}: {error}") from error
    if not isinstance(results, TestResults) or not OUTCOMES.issuperset(results.outcomes.values()):
        expected = ", ".join(sorted(OUTCOMES))
        raise HarnessError(f"parser '{parser}' did not return TestResults with the outcomes {expected}")
    return results


def _parse_junit(output: RunnerOutput) -> TestResults:
    outcomes: dict[str, str] = {}
    messages: dict[str, str] = {}
    for path, content in output.reports.items():
        try:
            reported, whys = read_junit(content, max_tests=MAX_TESTS - len(outcomes))
        except ReportRefused as error:
            raise ReportRefused(f"the report {path} {error}") from None
        for test, outcome in reported.items():
            outcomes[test] = worse_outcome(outcomes.get(test), outcome)
        messages |= whys
    return TestResults(outcomes, messages)
