"""Answers are bounded, and nothing in them is invisible."""

from __future__ import annotations

import json

import pytest

from agentbench.core.errors import InputError
from agentbench.mcp_server.answer import MAX_ANSWER, MAX_PAGE, answer, fitting


def test_long_text_is_truncated() -> None:
    assert answer({"text": "x" * 10_000}, text=100)["text"] == "x" * 100 + "… (9900 more characters)"


def test_many_long_texts_are_shortened_until_they_fit() -> None:
    result = answer({"tests": ["x" * 3_000] * 500})
    assert len(json.dumps(result)) <= MAX_ANSWER
    assert result["truncated"] is True
    assert len(result["tests"]) == 500


def test_answer_that_cannot_fit_is_refused() -> None:
    with pytest.raises(InputError, match="more than 200000 characters"):
        answer({"lists": [["x" * 100] * 100] * 100})


def test_invisible_characters_are_escaped_in_keys_and_values() -> None:
    assert answer({"value": {"a\u200b": ["b\u202e\x1b[31m\n"]}}) == {"value": {"a\\u200b": ["b\\u202e\\x1b[31m\n"]}}


def test_page_has_the_items_that_fit_and_at_least_one() -> None:
    assert fitting(["x" * (MAX_PAGE // 2)] * 5) == ["x" * (MAX_PAGE // 2)]
    assert len(fitting(["x" * 2 * MAX_PAGE] * 5)) == 1
    assert len(fitting(["x"] * 5)) == 5
