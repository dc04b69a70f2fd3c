"""mini-swe-agent: its docker environment, driven directly. It grades nothing, so the check is one more call where it worked.

Two workers are two threads, as its own batch mode has them. Containers are stopped in the background, outside of its time.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from minisweagent.environments.docker import DockerEnvironment  # type: ignore[import-not-found]

from bench.peers.work import ATTEMPT, CHECK, Found, given

# `sleep` as process 1 does not hear the signal to end; an init spares the engine ten seconds of it.
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
    work, out = given()
    found = Found()
    environment = DockerEnvironment(image=work.image, cwd="/workspace", run_args=ARGUMENTS)
    found.repeat(lambda line: call(environment, line), work.times)
    for workers, count in work.attempts.items():
        start = time.perf_counter()
        with ThreadPoolExecutor(int(workers)) as pool:
            list(pool.map(attempt, [work.image] * count))
        found.attempts[workers] = {"count": count, "seconds": time.perf_counter() - start}
    found.notes.append("no grading, no log of its own: the check is one more call in the same container")
    found.notes.append("containers end in the background, not in these times")
    found.write(out)


if __name__ == "__main__":
    main()
