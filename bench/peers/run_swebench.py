"""Measure SWE-bench: grading of predictions only, because it has no agent.

`run_instances`, unchanged, on our own instances: a container per prediction, the patch applied by git, the evaluation script
run, its log parsed. Calls use its `exec_run_with_timeout`.
"""
# ruff: noqa: ANN401 - the peer's arguments, whose types are not here

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from docker.models.containers import ContainerCollection  # type: ignore[import-not-found]
from swebench.harness.docker_utils import exec_run_with_timeout  # type: ignore[import-not-found]
from swebench.harness.run_evaluation import run_instances  # type: ignore[import-not-found]

from bench.peers.work import CHECK, PATCH, Measurements, read_arguments
from docker import from_env  # type: ignore[attr-defined]  # the package, not this repository's folder

SCRIPT = f"""\
#!/bin/bash
set -uxo pipefail
cd /testbed
: '>>>>> Start Test Output'
if {CHECK}; then echo PASSED answer; else echo FAILED answer; fi
: '>>>>> End Test Output'
"""
CREATE = ContainerCollection.create


def instance(number: int, image: str) -> dict[str, Any]:
    return {
        "instance_id": f"bench__trivial-{number}",
        "image": image,
        "repo": "bench/trivial",
        "version": "1",
        "FAIL_TO_PASS": ["answer"],
        "PASS_TO_PASS": [],
        "log_parser": "parse_log_pytest",
        "eval_type": "pass_and_fail",
        "eval_script": SCRIPT,
    }


def grade(name: str, image: str, count: int, workers: int) -> float:
    """Grade this many predictions and return the seconds."""
    instances = [instance(number, image) for number in range(count)]
    names = [row["instance_id"] for row in instances]
    patches = {
        instance_id: {"instance_id": instance_id, "model_name_or_path": "m", "model_patch": PATCH}
        for instance_id in names
    }
    start = time.perf_counter()
    run_instances(patches, instances, workers, name, 60)
    took = time.perf_counter() - start
    for instance_id in names:
        report = Path("logs/run_evaluation", name, "m", instance_id, "report.json")
        if not report.exists() or not json.loads(report.read_text(encoding="utf-8"))[instance_id]["resolved"]:
            log = report.with_name("run_instance.log")
            raise SystemExit(f"SWE-bench did not resolve {instance_id}: {log.read_text(encoding='utf-8')[-1500:]}")
    return took


def calls(measurements: Measurements, image: str, times: int) -> None:
    """Measure calls in a container created as SWE-bench does, with an init so that it can be stopped."""
    container = from_env().containers.create(image, "tail -f /dev/null", detach=True, init=True)
    try:
        container.start()
        measurements.repeat(lambda line: exec_run_with_timeout(container, ["sh", "-c", line], 60), times)
    finally:
        container.remove(force=True)


def settings(**more: Any) -> None:
    """Create containers without a network: the engine may have none."""
    ContainerCollection.create = lambda self, *args, **kwargs: CREATE(
        self, *args, **{"network_mode": "none", **more, **kwargs}
    )


def main() -> None:
    work, out = read_arguments()
    measurements = Measurements()
    with tempfile.TemporaryDirectory(prefix="peer-swebench-") as directory:
        os.chdir(directory)
        settings()
        calls(measurements, work.image, work.times)
        as_it_is = grade("as-it-is", work.image, 2, 2) / 2
        settings(init=True)
        for workers, count in work.attempts.items():
            took = grade(f"workers-{workers}", work.image, count, int(workers))
            measurements.gradings[workers] = {"count": count, "seconds": took}
        measurements.notes.append("grades only: it has no agent")
        measurements.notes.append(
            f"an init is added so that containers end at once; as it comes: {as_it_is:.1f} s per patch at two workers"
        )
        measurements.write(out)


if __name__ == "__main__":
    main()
