"""`ab demo`: tasks are valid, honest agents and the cheater get the right verdicts, and all runs verify."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.cli.snapshots import Output, check_snapshot, render
from tests.session_state import link_interpreter_layer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
    pytest.mark.end_to_end,
]

PASSED = {
    "partial": {"toy-median", "invoice-tax-table", "slug-accents"},
    "reference": {
        *("toy-median", "invoice-tax-table", "duration-compound"),
        *("siteconf-tomllib", "shelf-cents", "slug-accents"),
    },
    "cheater": set[str](),
}


@pytest.mark.req("C-15", "C-16", "G-02", "G-03a", "G-09", "E-12", "R-13", "A-02", "L-02")
def test_demo_separates_honest_agents_from_the_cheater(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    link_interpreter_layer(tmp_path_factory, tmp_path / "state")
    ab = Path(sys.executable).with_name("ab")
    # As in a fresh checkout: the program is not on the PATH, so the commands that it prints start with its path.
    path = os.pathsep.join(part for part in os.environ["PATH"].split(os.pathsep) if Path(part) != ab.parent)
    environment = {**os.environ, "PATH": path, "AB_STATE": str(tmp_path / "state")}
    done = subprocess.run(
        [str(ab), "demo"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=1100
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    output = Output(done.returncode, done.stdout, "")  # progress on stderr comes in any order
    check_snapshot("demo", render("ab demo", output, {str(tmp_path): "<dir>", sys.prefix: "<prefix>"}))
    assert done.stdout.startswith("This takes about a minute")
    decisions = [line.split(":")[0].strip() for line in done.stdout.splitlines() if "95% CI" in line]
    assert decisions == ["B IS BETTER", "INCONCLUSIVE"]
    assert "PROVISIONAL" not in done.stdout
    assert "exact test is not" not in done.stdout
    assert done.stdout.count("VERIFIED") == len(PASSED)
    (page,) = tmp_path.glob("artifacts/runs/*__reference__none/report/index.html")
    assert page.relative_to(tmp_path).as_posix() in done.stdout
    passed: dict[str, set[str]] = {name: set() for name in PASSED}
    attempts: Counter[str] = Counter()
    for file in tmp_path.glob("artifacts/runs/*/attempts.jsonl"):
        for line in file.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            attempts[record["variant"]] += 1
            assert record["run_status"] in {"success", "failure"}, record["result"]
            if record["result"]["passed"]:
                passed[record["variant"]].add(record["task_id"])
    assert passed == PASSED
    assert attempts == dict.fromkeys(PASSED, len(PASSED["reference"]))
