"""Harbor: a job of trials on one task, with an agent that makes the calls through `environment.exec`; tests/test.sh is the check.

No model takes part. Harbor verifies in the container that the agent worked in. Its network policy `no-network` needs a second
container from a registry, so an overlay takes the network away instead, which costs less.
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

from bench.peers.work import ATTEMPT, CHECK, Found, given

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
# Its command is `sh -c 'sleep infinity'` as process 1, which does not hear the signal to end: compose then waits for ten
# seconds. With an init it ends at once, which is the best that Harbor can do.
QUICK = "services: {main: {network_mode: none, init: true}}\n"
AS_IT_IS = "services: {main: {network_mode: none}}\n"
FOUND = Found()
NAME = "bench.peers.run_harbor"


async def call(environment: Any, line: str) -> None:
    done = await environment.exec(line)
    if done.return_code != 0:
        raise RuntimeError(f"{line}: {done.stderr}")


class Caller(BaseAgent):  # type: ignore[misc]
    """Makes the calls of a trivial attempt."""

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
    """Makes each kind of call many times, then what the check wants."""

    async def run(self, instruction: str, environment: Any, context: Any) -> None:
        work, _ = given()
        await FOUND.repeat_async(lambda line: call(environment, line), work.times)
        await super().run(instruction, environment, context)


def task(folder: Path, image: str) -> None:
    made = folder / "trivial"
    (made / "tests").mkdir(parents=True)
    (made / "environment").mkdir()
    (made / "task.toml").write_text(TASK.format(image=image), encoding="utf-8")
    (made / "instruction.md").write_text("Write done into answer.txt.\n", encoding="utf-8")
    (made / "tests" / "test.sh").write_text(TEST, encoding="utf-8")


def job(folder: Path, agent: type[Caller], count: int, workers: int, overlay: str) -> float:
    """Seconds of a job of so many trials."""
    place = Path(tempfile.mkdtemp(dir=folder))
    (place / "overlay.yaml").write_text(overlay, encoding="utf-8")
    settings = {
        "jobs_dir": place,
        "n_attempts": count,
        "n_concurrent_trials": workers,
        "quiet": True,
        "environment": {"type": "docker", "extra_docker_compose": [place / "overlay.yaml"]},
        "agents": [{"import_path": f"{NAME}:{agent.__name__}"}],
        "tasks": [{"path": folder / "trivial"}],
    }

    async def run() -> None:
        await (await Job.create(JobConfig.model_validate(settings))).run()

    start = time.perf_counter()
    asyncio.run(run())
    took = time.perf_counter() - start
    results = [json.loads(path.read_text(encoding="utf-8")) for path in place.glob("*/*/result.json")]
    rewards = [((one.get("verifier_result") or {}).get("rewards") or {}).get("reward") for one in results]
    if rewards != [1] * count:
        why = [one.get("exception_info") for one in results if one.get("exception_info")]
        raise SystemExit(f"Harbor's trials: rewards {rewards}, {str(why)[-1500:]}")
    return took


def main() -> None:
    # The agents are named by their module: there must be one of it, with what they measured.
    sys.modules[NAME] = sys.modules["__main__"]
    work, out = given()
    with tempfile.TemporaryDirectory(prefix="peer-harbor-") as made:
        folder = Path(made)
        task(folder, work.image)
        job(folder, Repeater, 1, 1, QUICK)
        for workers, count in work.attempts.items():
            took = job(folder, Caller, count, int(workers), QUICK)
            FOUND.attempts[workers] = {"count": count, "seconds": took}
        each = job(folder, Caller, 2, 2, AS_IT_IS) / 2
        FOUND.notes.append(
            f"an init is added so that containers end at once; as it comes: {each:.1f} s per attempt at two workers"
        )
    FOUND.write(out)


if __name__ == "__main__":
    main()
