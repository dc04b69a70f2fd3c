"""Concurrent parsing of Python source."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from agentbench.core.python_syntax import MAX_SOURCE, affordable, parse, parse_size

SOURCE = "x = [" + ", ".join(f"f({number}, a=[1, (2, 3)], **{{'a': lambda q: q + 1}})" for number in range(150)) + "]\n"


@pytest.fixture
def frequent_switches() -> Iterator[None]:
    """Switch threads and collect garbage as often as possible."""
    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-5)
    gc.set_threshold(20)
    yield
    gc.set_threshold(*threshold)
    sys.setswitchinterval(interval)


class Cycle:
    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        time.sleep(0)


def test_threads_can_parse_concurrently(frequent_switches: None) -> None:
    failed: list[str] = []

    def work() -> None:
        for _ in range(15):
            Cycle()
            try:
                parse(SOURCE)
            except SystemError as error:
                failed.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_invalid_source_raises_syntax_error() -> None:
    with pytest.raises(SyntaxError):
        parse(b"def")


def test_dense_source_counts_as_more_than_its_bytes() -> None:
    ordinary = b"average_of_values = total_of_values / number_of_values\n"
    assert parse_size(ordinary) == len(ordinary)
    assert parse_size(b"x=[" + b"0," * 1000 + b"]") > 8000


def test_large_untrusted_sources_do_not_displace_small_ones() -> None:
    large = b"word " * (MAX_SOURCE // 5)
    sources = [large + b" " * 100, large, large, b"small", large]
    assert affordable(sources) == [False, True, False, True, False]
    assert affordable([]) == []


def test_parsing_prints_no_warnings(recwarn: pytest.WarningsRecorder) -> None:
    parse("x = 0if 0else 1")
    parse("'\\d'")
    assert not recwarn.list
