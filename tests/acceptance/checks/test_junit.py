"""Read JUnit reports of any language, written by the code under test."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.acceptance.checks.junit import ReportRefused, read_junit

pytestmark = pytest.mark.component


def suite(body: str) -> bytes:
    return f'<?xml version="1.0"?><testsuites><testsuite name="s">{body}</testsuite></testsuites>'.encode()


@pytest.mark.req("C-06")
def test_ids_are_class_and_name() -> None:
    outcomes, whys = read_junit(
        suite(
            '<testcase classname="a.B" name="ok &amp; [x y] é" time="1"/>'
            '<testcase name="alone"><system-out>x</system-out></testcase>'
            '<testcase classname="a.B" name="bad"><failure message="1 != 2">trace</failure></testcase>'
            '<testcase classname="a.B" name="err"><error/></testcase>'
            '<testcase classname="a.B" name="skip"><skipped/></testcase>'
            '<testcase classname="a.B" name="both"><skipped/><failure/></testcase>'
        )
    )
    assert outcomes == {
        "a.B::ok & [x y] é": "passed",
        "alone": "passed",
        "a.B::bad": "failed",
        "a.B::err": "failed",
        "a.B::skip": "skipped",
        "a.B::both": "failed",
    }
    assert whys["a.B::bad"] == "1 != 2\n    trace"


@pytest.mark.req("E-06")
@pytest.mark.parametrize(
    "failure, why",
    [
        ('<failure message="1 != 2"/>', "1 != 2"),
        ("<failure>\n  a_test.go:5:\n  got 1\n</failure>", "a_test.go:5:\n      got 1"),
        ('<failure message="Failed">got 1</failure>', "Failed\n    got 1"),
        ('<error message="got 1&#10;a::b: failed">E: got 1&#10;a::b: failed&#10;at x</error>', "E: got 1\n    a::b: failed\n    at x"),
        ("<failure/>", ""),
        ("<failure>one</failure><failure>two</failure>", "one"),
        (f"<failure>{'x' * 5000}</failure>", "x" * 1000),
    ],
    ids=["message", "text", "both", "text with the message", "nothing", "two", "long"],
)  # fmt: skip
def test_failure_message_combines_message_and_text(failure: str, why: str) -> None:
    """jest, phpunit and gotestsum put it in the text. Further lines are indented, so that none looks like another test."""
    _, whys = read_junit(suite(f'<testcase name="t">{failure}<system-out>noise</system-out></testcase>'))
    assert whys["t"] == why


def test_listed_test_that_did_not_run_is_skipped() -> None:
    assert read_junit(suite('<testcase name="a" status="notrun"/><testcase name="b" status="run"/>'))[0] == {
        "a": "skipped",
        "b": "passed",
    }


def test_worst_outcome_counts_for_a_repeated_id() -> None:
    """Two suites may each have a test of that name, and writers leave out the names of suites."""
    assert read_junit(suite('<testcase name="a"/><testcase name="a"/>')) == ({"a": "passed"}, {})
    assert read_junit(suite('<testcase name="a"/><testcase name="a"><skipped/></testcase>'))[0] == {"a": "skipped"}
    assert read_junit(suite('<testcase name="a"/><testcase name="a"><failure/></testcase>'))[0] == {"a": "failed"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not xml",
        b"<a>",
        b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><testsuite><testcase name="&b;"/></testsuite>',
        b'<!DOCTYPE x SYSTEM "file:///etc/passwd"><testsuite/>',
        b"<a>" * 100 + b"</a>" * 100,
        b"<a>\x00</a>",
        b'<?xml version="1.0" encoding="unknown"?><testsuite><testcase name="a"/></testsuite>',
        b'<?xml version="1.0" encoding="utf-7"?><testsuite><testcase name="a"/></testsuite>',
    ],
)
def test_anything_but_a_plain_report_is_refused(data: bytes) -> None:
    with pytest.raises(ReportRefused):
        read_junit(data)


@given(st.binary(max_size=200))
def test_reader_handles_any_bytes(data: bytes) -> None:
    try:
        outcomes, _ = read_junit(data)
    except ReportRefused:
        return
    assert isinstance(outcomes, dict)


def test_number_of_tests_is_limited() -> None:
    data = b"<testsuite>" + b"".join(b'<testcase name="%d"/>' % number for number in range(4)) + b"</testsuite>"
    assert len(read_junit(data, max_tests=4)[0]) == 4
    with pytest.raises(ReportRefused, match="more tests than the limit"):
        read_junit(data, max_tests=3)
