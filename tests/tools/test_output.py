from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.tools.result import OutputPolicy, shorten

pytestmark = [pytest.mark.req("R-16"), pytest.mark.component]

SMALL = OutputPolicy(first_lines=2, last_lines=3, line_chars=20, max_chars=200)


def test_short_output_is_unchanged() -> None:
    shown = shorten(b"one\ntwo\n", SMALL)
    assert shown.text == "one\ntwo\n"
    assert not shown.truncated


def test_middle_lines_are_omitted_and_counted() -> None:
    shown = shorten(b"".join(b"%d\n" % number for number in range(100)), SMALL)
    assert shown.text == "0\n1\n[... 95 lines not shown ...]\n97\n98\n99\n"
    assert shown.truncated


def test_long_line_keeps_both_ends() -> None:
    shown = shorten(b"a" * 500 + b"z" * 500, SMALL)
    assert shown.text == "a" * 10 + "[... 980 characters ...]" + "z" * 10
    assert shown.truncated


def test_dropped_bytes_count_as_truncated() -> None:
    assert shorten(b"x", SMALL, dropped_bytes=7).truncated


@given(st.binary(max_size=3000))
def test_shown_text_is_always_bounded(data: bytes) -> None:
    shown = shorten(data, SMALL)
    assert len(shown.text) <= SMALL.max_chars + 60
    assert shown.truncated or shown.text == data.decode("utf-8", "replace")
