"""Measure AgentBench on the shared work: calls through the session with their events, attempts and gradings through `ab`.

Attempts are graded in a fresh sandbox and leave a log, a manifest and a record on disk.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from agentbench.sandbox.protocol import Limits, Phase, SandboxSpec, SetupPlan
from agentbench.sandbox.registry import open_backend
from agentbench.sandbox.state import default_state
from bench.calls import session
from bench.peers.work import ATTEMPT, CHECK, PATCH, QUESTION, Measurements, Work
from bench.trivial import AbRun, run_ab

LIMITS = Limits(memory_mb=256, disk_mb=64)
FACTOR = 5
"""Multiplies the number of attempts: with few fast attempts, the start of the command would dominate the measurement."""
TASK = """\
id: trivial
suite: bench
statement: Write done into answer.txt.
repo: {{path: repo/}}
environment: {{mem_limit_mb: 256, disk_limit_mb: 64{image}}}
oracle:
  checks:
    - {{id: answer, layer: script, command: {check}, parser: exit_code}}
"""


def measure(backend: str, work: Work) -> Measurements:
    measurements = Measurements()
    image = work.image if backend == "docker" else None
    with tempfile.TemporaryDirectory(prefix="peer-ours-") as directory:
        folder = Path(directory)
        calls(measurements, backend, image, folder, work.times)
        suite(folder, image)
        attempts(folder, backend, 1, 1)
        for workers, count in work.attempts.items():
            ran = attempts(folder, backend, FACTOR * count, int(workers))
            measurements.attempts[workers] = {"count": FACTOR * count, "seconds": ran.seconds}
            ran = gradings(folder, backend, FACTOR * count, int(workers))
            measurements.gradings[workers] = {"count": FACTOR * count, "seconds": ran.seconds}
    return measurements


def calls(measurements: Measurements, backend: str, image: str | None, folder: Path, times: int) -> None:
    source, record = folder / "source", folder / "record"
    source.mkdir()
    record.mkdir()
    (source / "question.txt").write_text(QUESTION, encoding="utf-8")
    opened = open_backend(backend, state=default_state(), needs_image=image is not None)
    try:
        plan = SetupPlan(f"bench-peers-{image}", source, (), (), 60)
        prepared = opened.prepare(plan, SandboxSpec(Phase.SETUP, LIMITS, image=image), on_step=lambda _: None)
        with session(opened, prepared, record, SandboxSpec(Phase.AGENT, LIMITS, image=image)) as (agent, _):

            def call(line: str) -> None:
                done = agent.run(line)
                if not done.ok:
                    raise SystemExit(f"{line}: {done}")

            measurements.repeat(call, times)
    finally:
        opened.close()


def suite(folder: Path, image: str | None) -> None:
    task = folder / "tasks" / "bench" / "trivial"
    (task / "repo").mkdir(parents=True)
    (task / "repo" / "question.txt").write_text(QUESTION, encoding="utf-8")
    image_line = f", docker_image: {json.dumps(image)}" if image else ""
    (task / "task.yaml").write_text(TASK.format(image=image_line, check=json.dumps(CHECK)), encoding="utf-8")
    # JSON is YAML.
    script = {"steps": [{"run": {"command": line}} for line in ATTEMPT]}
    (folder / "script.yaml").write_text(json.dumps(script), encoding="utf-8")


def attempts(folder: Path, backend: str, count: int, workers: int) -> AbRun:
    arguments = ["run", "--suite", "bench", "--tasks-dir", str(folder / "tasks"), "--agent", "scripted"]
    arguments += ["--script", str(folder / "script.yaml"), "--repeats", str(count), "--workers", str(workers)]
    ran = run_ab(folder, [*arguments, "--sandbox", backend])
    ran.expect_passed(count)
    return ran


def gradings(folder: Path, backend: str, count: int, workers: int) -> AbRun:
    predictions = folder / f"predictions-{count}.jsonl"
    rows = [{"instance_id": "trivial", "model_name_or_path": "m", "model_patch": PATCH}] * count
    predictions.write_text("".join(json.dumps(row) + os.linesep for row in rows), encoding="utf-8")
    arguments = ["grade", "--task", str(folder / "tasks" / "bench"), "--predictions", str(predictions)]
    ran = run_ab(folder, [*arguments, "--workers", str(workers), "--sandbox", backend])
    ran.expect_passed(count)
    return ran
