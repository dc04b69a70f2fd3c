"""Threads that nobody has to wait out: Ctrl-C and errors end what they do."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor


@contextlib.contextmanager
def threads(count: int, name: str, stop: Callable[[], None]) -> Iterator[ThreadPoolExecutor]:
    """A pool. When something is raised inside, what has not begun never begins, and `stop` ends what is under way.

    Without `stop` the pool would wait for a command in a sandbox to come to its end, which can be many minutes.
    """
    with ThreadPoolExecutor(max(1, count), thread_name_prefix=name) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            stop()
            raise
