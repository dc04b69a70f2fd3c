"""Grade one prediction with SWE-bench's `run_instances`: `python -m bench.peers.run_swebench_task INSTANCE OUT`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from swebench.harness.run_evaluation import run_instances  # type: ignore[import-not-found]

from bench.peers.run_swebench import settings

TIMEOUT_SEC = 1200


def main() -> None:
    instance = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    name = instance["instance_id"]
    prediction = {"instance_id": name, "model_name_or_path": "m", "model_patch": instance.pop("model_patch")}
    settings(init=True)  # containers without an init take ten seconds to stop
    start = time.perf_counter()
    run_instances({name: prediction}, [instance], 1, "real", TIMEOUT_SEC)
    seconds = time.perf_counter() - start
    report = Path("logs/run_evaluation/real/m", name, "report.json")
    resolved = report.exists() and json.loads(report.read_text(encoding="utf-8"))[name]["resolved"]
    Path(sys.argv[2]).write_text(json.dumps({"seconds": seconds, "resolved": resolved}), encoding="utf-8")


if __name__ == "__main__":
    main()
