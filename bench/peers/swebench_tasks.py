"""Grade tasks of ours with SWE-bench's harness: an image per task, and one run of its `run_instances` per task."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from agentbench.acceptance.grading_context import GradingContext
from agentbench.acceptance.replica import base_tree
from bench.peers.image import docker
from bench.peers.install import PEERS, ensure_installed

ROOT = Path(__file__).parent.parent.parent
RUN_SEC = 1800
START, END = ">>>>> Start Test Output", ">>>>> End Test Output"


def build_image(context: GradingContext) -> str:
    """Make an image from the prepared one, with the hidden tests and /testbed as a git repository; return its name."""
    prepared = str(context.prepared.details["prepared_image"])
    name = f"agentbench/bench-swebench:{context.prepared.digest[-16:]}"
    workdir = context.spec.workdir
    commands = (
        f"ln -sfn {workdir} /testbed && cd {workdir} && git init -q && git config --global --add safe.directory '*' && "
        "git -c user.name=bench -c user.email=bench@localhost add -A && "
        "git -c user.name=bench -c user.email=bench@localhost commit -qm base"
    )
    container = docker("create", "--network", "none", "--user", "0", "--entrypoint", "", prepared, "sh", "-c", commands)
    try:
        docker("cp", "-", f"{container}:{workdir}", data=hidden_files(context))
        docker("start", "--attach", container)
        docker("commit", "--change", "USER root", "--change", f"WORKDIR {workdir}", container, name)
    finally:
        docker("rm", "--force", container)
    return name


def hidden_files(context: GradingContext) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for write in base_tree(context).writes:
            if write.data is not None:
                entry = tarfile.TarInfo(os.fsdecode(write.path))
                entry.size, entry.mode = len(write.data), 0o755 if write.executable else 0o644
                archive.addfile(entry, io.BytesIO(write.data))
    return stream.getvalue()


def instance(context: GradingContext, image: str) -> dict[str, object]:
    """Describe a task as SWE-bench does: its script prints the log that the parser of pytest reads."""
    check = context.loaded.checks[0]
    env = " ".join(f"{name}='{value}'" for name, value in context.spec.env.items())
    script = f"#!/bin/bash\ncd /testbed\n: '{START}'\necho '{START}'\n{env} {check.command} -rA\necho '{END}'\n"
    return {
        "instance_id": f"bench__{context.loaded.id}",
        "image": image,
        "repo": f"bench/{context.loaded.id}",
        "version": "1",
        "FAIL_TO_PASS": list(check.fail_to_pass),
        "PASS_TO_PASS": list(check.pass_to_pass),
        "log_parser": "parse_log_pytest",
        "eval_type": "pass_and_fail",
        "eval_script": script,
    }


def grade_with_swebench(tasks: Mapping[str, tuple[GradingContext, bytes]]) -> Iterator[tuple[str, float, bool]]:
    """Grade each reference alone; yield the task, the seconds, and whether SWE-bench resolved it."""
    peer = next(peer for peer in PEERS if peer.name == "SWE-bench")
    python = ensure_installed(peer)
    with tempfile.TemporaryDirectory(prefix="peer-swebench-") as directory:
        for task, (context, patch) in tasks.items():
            image = build_image(context)
            row = {**instance(context, image), "model_patch": patch.decode()}
            file, out = Path(directory) / "instance.json", Path(directory) / "out.json"
            file.write_text(json.dumps(row), encoding="utf-8")
            argv = [str(python), "-m", "bench.peers.run_swebench_task", str(file), str(out)]
            env = {**os.environ, "HOME": directory, "PYTHONPATH": str(ROOT)}
            try:
                subprocess.run(argv, cwd=directory, env=env, timeout=RUN_SEC, check=True, capture_output=True)
            finally:
                docker("image", "rm", "--force", image)
            result = json.loads(out.read_text(encoding="utf-8"))
            yield task, float(result["seconds"]), bool(result["resolved"])
