"""SWE-bench: grading of predictions. It has no agent, so what is measured is the half of an attempt that grades.

A container per prediction, the patch applied by git, the evaluation script run, its log parsed: `run_instances` as it is, on
instances of ours. Calls are its `exec_run_with_timeout`.
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

from bench.peers.work import CHECK, PATCH, Found, given
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
    """Seconds to grade so many predictions."""
    instances = [instance(number, image) for number in range(count)]
    names = [one["instance_id"] for one in instances]
    patches = {one: {"instance_id": one, "model_name_or_path": "m", "model_patch": PATCH} for one in names}
    start = time.perf_counter()
    run_instances(patches, instances, workers, name, 60)
    took = time.perf_counter() - start
    for one in names:
        report = Path("logs/run_evaluation", name, "m", one, "report.json")
        if not report.exists() or not json.loads(report.read_text(encoding="utf-8"))[one]["resolved"]:
            log = report.with_name("run_instance.log")
            raise SystemExit(f"SWE-bench did not resolve {one}: {log.read_text(encoding='utf-8')[-1500:]}")
    return took


def calls(found: Found, image: str, times: int) -> None:
    """In a container as it makes them, with an init so that it can be ended."""
    container = from_env().containers.create(image, "tail -f /dev/null", detach=True, init=True)
    try:
        container.start()
        found.repeat(lambda line: exec_run_with_timeout(container, ["sh", "-c", line], 60), times)
    finally:
        container.remove(force=True)


def settings(**more: Any) -> None:
    """Containers without a network: the engine may have none to give."""
    ContainerCollection.create = lambda self, *args, **kwargs: CREATE(
        self, *args, **{"network_mode": "none", **more, **kwargs}
    )


def main() -> None:
    work, out = given()
    found = Found()
    with tempfile.TemporaryDirectory(prefix="peer-swebench-") as made:
        os.chdir(made)
        settings()
        calls(found, work.image, work.times)
        as_it_is = grade("as-it-is", work.image, 2, 2) / 2
        settings(init=True)
        for workers, count in work.attempts.items():
            took = grade(f"workers-{workers}", work.image, count, int(workers))
            found.gradings[workers] = {"count": count, "seconds": took}
        found.notes.append("grades only: it has no agent")
        found.notes.append(
            f"an init is added so that containers end at once; as it comes: {as_it_is:.1f} s per patch at two workers"
        )
        found.write(out)


if __name__ == "__main__":
    main()
