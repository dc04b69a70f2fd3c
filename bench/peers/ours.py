"""The same work by ours: calls through the session with their events, attempts and gradings through the command line.

Attempts are graded in a fresh sandbox that the agent never touched, and leave a log, a manifest and a record on disk.
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
from bench.peers.work import ATTEMPT, CHECK, PATCH, QUESTION, Found, Work
from bench.trivial import Ran, ab

LIMITS = Limits(memory_mb=256, disk_mb=64)
MORE = 5
"""So many times the attempts: who is quicker needs more of them, or the start of the command is most of what is measured."""
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


def measured(backend: str, work: Work) -> Found:
    found = Found()
    image = work.image if backend == "docker" else None
    with tempfile.TemporaryDirectory(prefix="peer-ours-") as made:
        folder = Path(made)
        calls(found, backend, image, folder, work.times)
        suite(folder, image)
        attempts(folder, backend, 1, 1)
        for workers, count in work.attempts.items():
            ran = attempts(folder, backend, MORE * count, int(workers))
            found.attempts[workers] = {"count": MORE * count, "seconds": ran.seconds}
            ran = gradings(folder, backend, MORE * count, int(workers))
            found.gradings[workers] = {"count": MORE * count, "seconds": ran.seconds}
    return found


def calls(found: Found, backend: str, image: str | None, folder: Path, times: int) -> None:
    source, record = folder / "source", folder / "record"
    source.mkdir()
    record.mkdir()
    (source / "question.txt").write_text(QUESTION, encoding="utf-8")
    opened = open_backend(backend, state=default_state(), needs_image=image is not None)
    try:
        plan = SetupPlan(f"bench-peers-{image}", source, (), (), 60)
        prepared = opened.prepare(plan, SandboxSpec(Phase.SETUP, LIMITS, image=image), on_step=lambda _: None)
        with session(opened, prepared, record, SandboxSpec(Phase.AGENT, LIMITS, image=image)) as agent:

            def call(line: str) -> None:
                done = agent.run(line)
                if not done.ok:
                    raise SystemExit(f"{line}: {done}")

            found.repeat(call, times)
    finally:
        opened.close()


def suite(folder: Path, image: str | None) -> None:
    task = folder / "tasks" / "bench" / "trivial"
    (task / "repo").mkdir(parents=True)
    (task / "repo" / "question.txt").write_text(QUESTION, encoding="utf-8")
    named = f", docker_image: {json.dumps(image)}" if image else ""
    (task / "task.yaml").write_text(TASK.format(image=named, check=json.dumps(CHECK)), encoding="utf-8")
    # JSON is YAML.
    script = {"steps": [{"run": {"command": line}} for line in ATTEMPT]}
    (folder / "script.yaml").write_text(json.dumps(script), encoding="utf-8")


def attempts(folder: Path, backend: str, count: int, workers: int) -> Ran:
    arguments = ["run", "--suite", "bench", "--tasks-dir", str(folder / "tasks"), "--agent", "scripted"]
    arguments += ["--script", str(folder / "script.yaml"), "--repeats", str(count), "--workers", str(workers)]
    ran = ab(folder, [*arguments, "--sandbox", backend])
    ran.expect_passed(count)
    return ran


def gradings(folder: Path, backend: str, count: int, workers: int) -> Ran:
    predictions = folder / f"predictions-{count}.jsonl"
    rows = [{"instance_id": "trivial", "model_name_or_path": "m", "model_patch": PATCH}] * count
    predictions.write_text("".join(json.dumps(row) + os.linesep for row in rows), encoding="utf-8")
    arguments = ["grade", "--task", str(folder / "tasks" / "bench"), "--predictions", str(predictions)]
    ran = ab(folder, [*arguments, "--workers", str(workers), "--sandbox", backend])
    ran.expect_passed(count)
    return ran
