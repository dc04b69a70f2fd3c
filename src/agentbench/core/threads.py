"""A thread pool that ends promptly on errors and Ctrl-C."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor


@contextlib.contextmanager
def threads(count: int, name: str, stop: Callable[[], None]) -> Iterator[ThreadPoolExecutor]:
    """Open a thread pool. On an exception, pending work is cancelled and `stop` is called to end running work.

    Without `stop`, leaving the pool would wait for running sandbox commands, which can take minutes.
    """
    with ThreadPoolExecutor(max(1, count), thread_name_prefix=name) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            stop()
            raise
