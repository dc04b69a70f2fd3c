"""Calls in a thread next to their caller."""

from __future__ import annotations

import threading

import pytest

from agentbench.core.background import BackgroundCalls


def test_calls_run_in_order_in_a_thread_of_their_own() -> None:
    with BackgroundCalls[tuple[int, str]]("beside") as calls:
        assert calls.results() == []
        calls.start([lambda n=n: (n, threading.current_thread().name) for n in range(3)])  # type: ignore[misc]
        assert calls.results() == [(0, "beside"), (1, "beside"), (2, "beside")]


def test_error_of_a_call_is_raised_and_ends_the_calls() -> None:
    made: list[int] = []
    with BackgroundCalls[object]("beside") as calls:
        calls.start([lambda: made.append(1), lambda: made.remove(0), lambda: made.append(2)])
        with pytest.raises(ValueError, match="not in list"):
            calls.results()
    assert made == [1]


def test_leaving_early_waits_for_the_current_call_and_drops_the_others() -> None:
    started, made = threading.Event(), list[str]()

    def current() -> None:
        started.set()
        assert calls.closing.wait(60)
        made.append("current")

    with pytest.raises(ValueError, match="failed"), BackgroundCalls[None]("beside") as calls:  # noqa: PT012
        calls.start([current, lambda: made.append("other")])
        assert started.wait(60)
        raise ValueError("failed")
    assert made == ["current"]
