"""An executor that starts at most one attempt per interval, for model services that reject bursts of requests.

The interval is $AGENTBENCH_PACE_SEC seconds, 10 by default.
"""

import os
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Semaphore

import agentbench as ab


def paced(attempts: Iterable[ab.AttemptCall], workers: int) -> None:
    interval = float(os.environ.get("AGENTBENCH_PACE_SEC", "10"))
    free = Semaphore(workers)

    def make(attempt: ab.AttemptCall) -> None:
        try:
            attempt()
        finally:
            free.release()

    with ThreadPoolExecutor(workers) as pool:
        free.acquire()
        for number, attempt in enumerate(attempts):
            if number:
                time.sleep(interval)
            pool.submit(make, attempt)
            free.acquire()
