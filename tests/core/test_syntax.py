"""Threads that read Python at the same time do not get in each other's way."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from agentbench.core.python_syntax import parse

SOURCE = "x = [" + ", ".join(f"f({number}, a=[1, (2, 3)], **{{'a': lambda q: q + 1}})" for number in range(150)) + "]\n"


@pytest.fixture
def restless() -> Iterator[None]:
    """Other threads get their turn in the middle of everything, and rubbish is collected there."""
    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-5)
    gc.set_threshold(20)
    yield
    gc.set_threshold(*threshold)
    sys.setswitchinterval(interval)


class Rubbish:
    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        time.sleep(0)


def test_threads_may_parse_at_once(restless: None) -> None:
    failed: list[str] = []

    def work() -> None:
        for _ in range(15):
            Rubbish()
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


def test_what_is_no_python_is_said_to_be() -> None:
    with pytest.raises(SyntaxError):
        parse(b"def")
