from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agentbench.acceptance.checks.junit import ReportRefused
from agentbench.acceptance.checks.result_parser import RunnerOutput, TestResults, parse_results
from agentbench.contract.parsers import OTHER_PARSERS
from agentbench.core.errors import HarnessError

pytestmark = pytest.mark.component


def raising(error: Exception) -> Callable[[RunnerOutput], TestResults]:
    def parser(_output: RunnerOutput) -> TestResults:
        raise error

    return parser


def test_reports_of_several_files_are_joined_and_the_worse_outcome_counts() -> None:
    reports = {
        "a.xml": b'<testsuite><testcase name="t"/><testcase name="u"/></testsuite>',
        "b.xml": b'<testsuite><testcase name="t"><failure message="no"/></testcase></testsuite>',
    }
    results = parse_results("junit", RunnerOutput(reports=reports))
    assert results.outcomes == {"t": "failed", "u": "passed"}
    assert results.messages == {"t": "no"}


def test_refused_report_is_named() -> None:
    with pytest.raises(ReportRefused, match=r"the report b\.xml is not well-formed"):
        parse_results("junit", RunnerOutput(reports={"b.xml": b"<"}))


def test_number_of_tests_is_limited_for_all_reports_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentbench.acceptance.checks.result_parser.MAX_TESTS", 3)
    reports = {f"{name}.xml": f'<t><testcase name="{name}1"/><testcase name="{name}2"/></t>'.encode() for name in "ab"}
    with pytest.raises(ReportRefused, match=r"the report b\.xml lists more tests"):
        parse_results("junit", RunnerOutput(reports=reports))


WRONG: dict[str, tuple[Callable[..., Any], type[Exception], str]] = {
    "output that cannot be read fails the check": (raising(ValueError("cut")), ReportRefused, "by parser 'mine': cut"),
    "a bug of the parser is a harness error": (raising(KeyError("x")), HarnessError, "parser 'mine' raised KeyError"),
    "another return value": (lambda _output: {"t": "passed"}, HarnessError, "did not return TestResults"),
    "an unknown outcome": (lambda _output: TestResults({"t": "ok"}), HarnessError, "failed, passed, skipped"),
}


@pytest.mark.parametrize("name", WRONG)
def test_faults_of_a_parser(name: str) -> None:
    parser, error, message = WRONG[name]
    OTHER_PARSERS.register("mine", parser)
    with pytest.raises(error, match=message):
        parse_results("mine", RunnerOutput())
