"""Measure mini-swe-agent: its docker environment, driven directly. It has no grading, so the check is one more call.

Two workers are two threads, as in its own batch mode. It stops containers in the background, outside of the measured time.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from minisweagent.environments.docker import DockerEnvironment  # type: ignore[import-not-found]

from bench.peers.work import ATTEMPT, CHECK, Measurements, read_arguments

# `sleep` as PID 1 ignores SIGTERM; an init saves the ten seconds that the engine would wait.
ARGUMENTS = ["--rm", "--network=none", "--init"]


def call(environment: DockerEnvironment, line: str) -> None:
    done = environment.execute({"command": line})
    if done["returncode"] != 0:
        raise SystemExit(f"{line}: {done}")


def attempt(image: str) -> None:
    environment = DockerEnvironment(image=image, cwd="/workspace", run_args=ARGUMENTS)
    for line in (*ATTEMPT, CHECK):
        call(environment, line)


def main() -> None:
    work, out = read_arguments()
    measurements = Measurements()
    environment = DockerEnvironment(image=work.image, cwd="/workspace", run_args=ARGUMENTS)
    measurements.repeat(lambda line: call(environment, line), work.times)
    for workers, count in work.attempts.items():
        start = time.perf_counter()
        with ThreadPoolExecutor(int(workers)) as pool:
            list(pool.map(attempt, [work.image] * count))
        measurements.attempts[workers] = {"count": count, "seconds": time.perf_counter() - start}
    measurements.notes.append("no grading, no log of its own: the check is one more call in the same container")
    measurements.notes.append("containers end in the background, not in these times")
    measurements.write(out)


if __name__ == "__main__":
    main()
