"""Measure SWE-ReX: its docker deployment with a bash session, as in SWE-agent. It has no grading: the check is one more call.

It reaches the server in its container over a published port, which an engine without a bridge cannot provide: containers
share the host's network instead, each with its own port. Its packages come from a folder that the driver prepared (third
argument), because containers have no index to install them from.
"""

from __future__ import annotations

import asyncio
import logging
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from swerex.deployment.docker import DockerDeployment  # type: ignore[import-not-found]
from swerex.runtime.abstract import BashAction, Command, CreateBashSessionRequest  # type: ignore[import-not-found]
from swerex.utils.free_port import find_free_port  # type: ignore[import-not-found]

from bench.peers.work import ATTEMPT, CHECK, Measurements, read_arguments

PACKAGES = sys.argv[3] if len(sys.argv) > 3 else ""
INSIDE = "/opt/swerex"


class HostDeployment(DockerDeployment):  # type: ignore[misc]
    """A docker deployment whose server listens on a port of the host's network."""

    def _get_swerex_start_cmd(self, token: str) -> list[str]:
        program = "from swerex.server import main; main()"
        options = ["--auth-token", token, "--host", "127.0.0.1", "--port", str(self._config.port)]
        return ["python3", "-c", program, *options]


@asynccontextmanager
async def deployed(image: str) -> AsyncIterator[DockerDeployment]:
    arguments = ["--network=host", "--init", "-v", f"{PACKAGES}:{INSIDE}:ro", "-e", f"PYTHONPATH={INSIDE}"]
    quiet = logging.getLogger("quiet")
    quiet.setLevel(logging.CRITICAL)
    deployment = HostDeployment(image=image, pull="never", port=find_free_port(), docker_args=arguments, logger=quiet)
    # The default timeout of its health check, 0.15 s, is too short for two servers on a busy machine.
    deployment._runtime_timeout = 2.0  # noqa: SLF001
    await deployment.start()
    try:
        await deployment.runtime.create_session(CreateBashSessionRequest())
        yield deployment
    finally:
        await deployment.stop()


async def call(deployment: DockerDeployment, line: str) -> None:
    done = await deployment.runtime.run_in_session(BashAction(command=line))
    if done.exit_code != 0:
        raise SystemExit(f"{line}: {done}")


async def attempt(image: str, turns: asyncio.Semaphore) -> None:
    async with turns, deployed(image) as deployment:
        for line in (*ATTEMPT, CHECK):
            await call(deployment, line)


async def measure() -> None:
    work, out = read_arguments()
    measurements = Measurements()
    async with deployed(work.image) as deployment:
        await measurements.repeat_async(lambda line: call(deployment, line), work.times)
        alone = []
        for _ in range(work.times):
            start = time.perf_counter()
            await deployment.runtime.execute(Command(command=["true"]))
            alone.append((time.perf_counter() - start) * 1000)
        measurements.notes.append(
            f"calls are in its bash session; `true` as a process of its own: p50 {statistics.median(alone):.0f} ms"
        )
    for workers, count in work.attempts.items():
        turns = asyncio.Semaphore(int(workers))
        start = time.perf_counter()
        await asyncio.gather(*(attempt(work.image, turns) for _ in range(count)))
        measurements.attempts[workers] = {"count": count, "seconds": time.perf_counter() - start}
    measurements.notes.append("no grading, no log of its own: the check is one more call in the same container")
    measurements.notes.append("containers share the host's network: its server is reached over a port")
    measurements.write(out)


if __name__ == "__main__":
    asyncio.run(measure())
