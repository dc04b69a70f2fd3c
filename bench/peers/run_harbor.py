"""Measure Harbor: a job of trials on one task, with an agent that makes the calls through `environment.exec`.

Uses no model; tests/test.sh is the check. Harbor verifies in the agent's container. Its `no-network` policy needs a second
container from a registry, so an overlay removes the network instead, which costs less.
"""
# ruff: noqa: ANN401 - the peer's protocols, whose types are not here

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from harbor.agents.base import BaseAgent  # type: ignore[import-not-found]
from harbor.job import Job  # type: ignore[import-not-found]
from harbor.models.job.config import JobConfig  # type: ignore[import-not-found]

from bench.peers.work import ATTEMPT, CHECK, Measurements, read_arguments

TASK = """\
schema_version = "1.4"
[task]
name = "bench/trivial"
[environment]
docker_image = "{image}"
workdir = "/workspace"
"""
TEST = f"""\
#!/bin/sh
cd /workspace
if {CHECK}; then reward=1; else reward=0; fi
echo $reward > /logs/verifier/reward.txt
"""
# Harbor runs `sh -c 'sleep infinity'` as PID 1, which ignores SIGTERM, so compose waits ten seconds. With an init it stops at
# once, which is the best case for Harbor.
QUICK = "services: {main: {network_mode: none, init: true}}\n"
AS_IT_IS = "services: {main: {network_mode: none}}\n"
MEASUREMENTS = Measurements()
NAME = "bench.peers.run_harbor"


async def call(environment: Any, line: str) -> None:
    done = await environment.exec(line)
    if done.return_code != 0:
        raise RuntimeError(f"{line}: {done.stderr}")


class Caller(BaseAgent):  # type: ignore[misc]
    """Make the calls of a trivial attempt."""

    @staticmethod
    def name() -> str:
        return "caller"

    def version(self) -> str:
        return "1"

    async def setup(self, environment: Any) -> None: ...

    async def run(self, instruction: str, environment: Any, context: Any) -> None:
        for line in ATTEMPT:
            await call(environment, line)


class Repeater(Caller):
    """Make each kind of call many times, then those that the check needs."""

    async def run(self, instruction: str, environment: Any, context: Any) -> None:
        work, _ = read_arguments()
        await MEASUREMENTS.repeat_async(lambda line: call(environment, line), work.times)
        await super().run(instruction, environment, context)


def task(folder: Path, image: str) -> None:
    root = folder / "trivial"
    (root / "tests").mkdir(parents=True)
    (root / "environment").mkdir()
    (root / "task.toml").write_text(TASK.format(image=image), encoding="utf-8")
    (root / "instruction.md").write_text("Write done into answer.txt.\n", encoding="utf-8")
    (root / "tests" / "test.sh").write_text(TEST, encoding="utf-8")


def job(folder: Path, agent: type[Caller], count: int, workers: int, overlay: str) -> float:
    """Run a job with this many trials and return its seconds."""
    jobs = Path(tempfile.mkdtemp(dir=folder))
    (jobs / "overlay.yaml").write_text(overlay, encoding="utf-8")
    settings = {
        "jobs_dir": jobs,
        "n_attempts": count,
        "n_concurrent_trials": workers,
        "quiet": True,
        "environment": {"type": "docker", "extra_docker_compose": [jobs / "overlay.yaml"]},
        "agents": [{"import_path": f"{NAME}:{agent.__name__}"}],
        "tasks": [{"path": folder / "trivial"}],
    }

    async def run() -> None:
        await (await Job.create(JobConfig.model_validate(settings))).run()

    start = time.perf_counter()
    asyncio.run(run())
    took = time.perf_counter() - start
    results = [json.loads(path.read_text(encoding="utf-8")) for path in jobs.glob("*/*/result.json")]
    rewards = [((result.get("verifier_result") or {}).get("rewards") or {}).get("reward") for result in results]
    if rewards != [1] * count:
        errors = [result["exception_info"] for result in results if result.get("exception_info")]
        raise SystemExit(f"Harbor's trials: rewards {rewards}, {str(errors)[-1500:]}")
    return took


def main() -> None:
    # Harbor imports the agents by module name; it must get this module, which holds MEASUREMENTS, not a second copy.
    sys.modules[NAME] = sys.modules["__main__"]
    work, out = read_arguments()
    with tempfile.TemporaryDirectory(prefix="peer-harbor-") as directory:
        folder = Path(directory)
        task(folder, work.image)
        job(folder, Repeater, 1, 1, QUICK)
        for workers, count in work.attempts.items():
            took = job(folder, Caller, count, int(workers), QUICK)
            MEASUREMENTS.attempts[workers] = {"count": count, "seconds": took}
        each = job(folder, Caller, 2, 2, AS_IT_IS) / 2
        MEASUREMENTS.notes.append(
            f"an init is added so that containers end at once; as it comes: {each:.1f} s per attempt at two workers"
        )
    MEASUREMENTS.write(out)


if __name__ == "__main__":
    main()
