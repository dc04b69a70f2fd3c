"""JUnit reports: of any language, written by code under test."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.oracle.junit import ReportRefused, read_report


def suite(body: str) -> bytes:
    return f'<?xml version="1.0"?><testsuites><testsuite name="s">{body}</testsuite></testsuites>'.encode()


@pytest.mark.req("C-06")
def test_outcomes_are_read_by_class_and_name() -> None:
    outcomes, whys = read_report(
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
    assert whys["a.B::bad"] == "1 != 2"


def test_a_test_listed_twice_is_no_pass() -> None:
    assert read_report(suite('<testcase name="a"/><testcase name="a"/>'))[0] == {"a": "broken"}
    assert read_report(suite('<testcase name="a"/><testcase name="a"><failure/></testcase>'))[0] == {"a": "failed"}


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
    ],
)
def test_what_is_no_plain_report_is_refused(data: bytes) -> None:
    with pytest.raises(ReportRefused):
        read_report(data)


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    try:
        outcomes, _ = read_report(data)
    except ReportRefused:
        return
    assert isinstance(outcomes, dict)
