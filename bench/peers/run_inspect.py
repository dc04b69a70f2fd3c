"""Measure Inspect AI: the solver makes the calls through `sandbox().exec` and the scorer runs the check.

Uses no model. Inspect scores in the solver's container. With `local` as third argument, its sandbox without isolation is
used instead of docker.
"""
# ruff: noqa: ANN401, ARG001 - the peer's protocols, whose types are not here

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from inspect_ai import Task, eval  # type: ignore[import-not-found]  # noqa: A004
from inspect_ai.dataset import Sample  # type: ignore[import-not-found]
from inspect_ai.scorer import Score, accuracy, scorer  # type: ignore[import-not-found]
from inspect_ai.solver import solver  # type: ignore[import-not-found]
from inspect_ai.util import sandbox  # type: ignore[import-not-found]
from inspect_ai.util._sandbox.docker import prereqs  # type: ignore[import-not-found]

from bench.peers.work import ATTEMPT, CHECK, QUESTION, Measurements, read_arguments

# The file that Inspect generates for a task without its own, with our image.
COMPOSE = """\
services:
  default:
    image: {image}
    x-local: true
    command: tail -f /dev/null
    init: true
    network_mode: none
    stop_grace_period: 1s
"""
LOCAL = sys.argv[3:] == ["local"]
FACTOR = 5 if LOCAL else 1
"""Multiplies the number of attempts, as in bench.peers.ours: with few fast attempts, start-up would dominate."""


async def _any_engine() -> None:
    """Skip the engine's version check: the measured features also work with the older engines of some distributions."""


async def call(line: str) -> None:
    done = await sandbox().exec(["sh", "-c", line])
    if not done.success:
        raise RuntimeError(f"{line}: {done.stderr}")


@solver  # type: ignore[untyped-decorator]
def ten_calls() -> Any:
    async def solve(state: Any, generate: Any) -> Any:
        for line in ATTEMPT:
            await call(line)
        return state

    return solve


@solver  # type: ignore[untyped-decorator]
def many_calls(measurements: Measurements, times: int) -> Any:
    async def solve(state: Any, generate: Any) -> Any:
        await measurements.repeat_async(call, times)
        return state

    return solve


@scorer(metrics=[accuracy()])  # type: ignore[untyped-decorator]
def check() -> Any:
    async def score(state: Any, target: Any) -> Any:
        done = await sandbox().exec(["sh", "-c", CHECK])
        return Score(value=1 if done.success else 0)

    return score


def evaluate(work: Any, count: int, workers: int, folder: Path, *, scored: bool = True) -> float:
    """Run an evaluation with this many samples and return its seconds."""
    # The local sandbox starts as an empty folder; the docker image already has the file.
    files = {"question.txt": QUESTION} if LOCAL else {}
    environment: Any = "local" if LOCAL else ("docker", str(folder / "compose.yaml"))
    task = Task(
        dataset=[Sample(input="Write done into answer.txt.", id=number + 1, files=files) for number in range(count)],
        solver=work,
        scorer=check() if scored else None,
        sandbox=environment,
    )
    options = {"model": "mockllm/model", "display": "none", "log_dir": str(folder / "logs"), "log_level": "error"}
    start = time.perf_counter()
    (log,) = eval(task, max_samples=workers, max_sandboxes=workers, **options)
    took = time.perf_counter() - start
    if log.status != "success" or (scored and log.results.scores[0].metrics["accuracy"].value != 1):
        raise SystemExit(f"Inspect's evaluation: {log.status} {log.error.message if log.error else log.results}")
    return took


def main() -> None:
    work, out = read_arguments()
    measurements = Measurements()
    if not LOCAL:
        prereqs.validate_docker_engine = _any_engine
        measurements.notes.append("its check of the engine's version is left out")
    with tempfile.TemporaryDirectory(prefix="peer-inspect-") as directory:
        folder = Path(directory)
        (folder / "compose.yaml").write_text(COMPOSE.format(image=work.image), encoding="utf-8")
        evaluate(ten_calls(), 1, 1, folder)
        evaluate(many_calls(measurements, work.times), 1, 1, folder, scored=False)
        for workers, count in work.attempts.items():
            took = evaluate(ten_calls(), FACTOR * count, int(workers), folder)
            measurements.attempts[workers] = {"count": FACTOR * count, "seconds": took}
    measurements.write(out)


if __name__ == "__main__":
    main()
