"""The fault campaign: kill a run at random moments, over and over, and resume it until it is done.

Afterwards there must be exactly one final record for every attempt, `ab verify` must find nothing, and no process, mount or
control group may be left. The tests include a short campaign; `make soak` runs a long one:

    python -m tests.execution.faults --attempts 50 --kills 200
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from agentbench.sandbox.docker import labels, unused_images
from agentbench.sandbox.docker.engine import find_engine
from tests.execution.tasks import make_suite
from tests.sandbox.host_processes import pids_with_argument

AB = (sys.executable, "-m", "agentbench.cli")
TASKS = 5


@dataclass
class Campaign:
    """Kills and resumes runs until `kills` are used up, then lets the last one finish."""

    folder: Path
    state: Path
    attempts: int
    kills: int
    seed: int
    work_sec: float = 0.3
    sandbox: str = "bwrap"
    killed: int = 0
    hit_attempts: int = 0
    """Kills that hit a running attempt."""
    rounds: int = 0
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        # Identifies this campaign's agents among all processes of the machine.
        self.mark = f"0.{secrets.randbelow(10**9):09d}"
        make_suite(self.folder / "tasks", *(f"t{number}" for number in range(TASKS)))
        (self.folder / "agent").mkdir()
        script = f"sleep {self.mark}\nsleep {self.work_sec}\necho 42 > answer.txt\n"
        (self.folder / "agent" / "go.sh").write_text(script)

    def run(self) -> None:
        while True:
            self.rounds += 1
            self.run_once(self.folder / f"out{self.rounds}")
            if self.killed >= self.kills or self.problems:
                return

    def run_once(self, out: Path) -> None:
        latest_kill = 2.0
        while True:
            start = time.monotonic()
            process = self.start(out)
            kill_after = self.random.uniform(0.05, latest_kill) if self.killed < self.kills else None
            try:
                _, err = process.communicate(timeout=kill_after if kill_after is not None else 900)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                if kill_after is None:
                    self.problems.append("the run did not end")
                    return
                self.killed += 1
                self.check_no_process_left()
                # No attempt had started yet: wait longer before the next kill, the machine may be busy.
                if self.hit_attempt(out):
                    self.hit_attempts += 1
                else:
                    latest_kill = min(latest_kill * 1.2, 30.0)
                continue
            if process.returncode != 0:
                self.problems.append(f"exit {process.returncode}: {err[-500:]}")
                return
            # A run that ends by itself shows how long one takes here; kills must come earlier.
            latest_kill = max(0.5, min(30.0, time.monotonic() - start))
            break
        self.check_no_process_left()
        self.check_run(out)

    def hit_attempt(self, out: Path) -> bool:
        """Return whether a run has an attempt that started and was not sealed."""
        events = [line for log in out.glob("*/events.jsonl") for line in log.read_text().splitlines(keepends=True)]
        kinds = [json.loads(line)["type"] for line in events if line.endswith("\n")]
        return kinds.count("attempt_begun") > kinds.count("attempt_sealed")

    def start(self, out: Path) -> subprocess.Popen[str]:
        existing = [path for path in out.glob("*") if (path / "run.json").exists() and (path / "events.jsonl").exists()]
        arguments = (
            ("--resume", str(existing[0]))
            if existing
            else (
                *("--suite", "tiny", "--tasks-dir", str(self.folder / "tasks"), "--out", str(out)),
                *("--sandbox", self.sandbox, "--repeats", str(-(-self.attempts // TASKS)), "--agent", "command"),
                *("--agent-command", 'sh "$AB_AGENT_FILES/go.sh"', "--agent-files", str(self.folder / "agent")),
            )
        )
        return subprocess.Popen(
            [*AB, "run", *arguments, "--workers", "2"],
            cwd=self.folder,
            env={
                **{name: os.environ[name] for name in ("PATH", "HOME", "DOCKER_HOST") if name in os.environ},
                "AB_STATE": str(self.state),
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )

    # --- checks --------------------------------------------------------------------------------------------------------

    def check_no_process_left(self) -> None:
        """Check that no agent process outlives the harness. The kernel gets a moment to remove it."""
        end = time.monotonic() + 120
        while self.alive() and time.monotonic() < end:
            time.sleep(0.05)
        if self.alive():
            self.problems.append(f"{self.alive()} agent processes outlive the harness")

    def alive(self) -> int:
        return len(pids_with_argument(self.mark))

    def check_run(self, out: Path) -> None:
        runs = [path for path in out.iterdir() if (path / "run.json").exists()]
        # A run killed before its first attempt leaves a folder without records; only one run is finished.
        run = max(runs, key=lambda path: (path / "attempts.jsonl").stat().st_size)
        records = [json.loads(line) for line in (run / "attempts.jsonl").read_text().splitlines()]
        finals = [record for record in records if record["final"]]
        keys = {(record["task_id"], record["repeat"]) for record in finals}
        expected = TASKS * -(-self.attempts // TASKS)
        if len(finals) != expected or len(keys) != expected:
            self.problems.append(f"{len(finals)} final records over {len(keys)} attempts, expected {expected}")
        lost = [record["task_id"] for record in finals if not record["result"]["passed"]]
        if lost:
            self.problems.append(f"attempts that should have passed did not: {lost}")
        audit = subprocess.run(
            [*AB, "verify", str(run)], capture_output=True, text=True, check=False, env={"PATH": os.environ["PATH"]}
        )
        if audit.returncode != 0:
            self.problems.append(audit.stdout[:500])
        mounted = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(self.state) in line]
        if mounted:
            self.problems.append(f"mounts left: {mounted[:3]}")
        if self.sandbox == "docker":
            listed = ["docker", "ps", "-aq", "--filter", f"label={labels.STATE_PATH}={self.state.resolve()}"]
            left = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split()
            if left:
                self.problems.append(f"containers left: {left[:3]}")
        # Unlike `rglob`, `walk` ignores the groups of other tests that disappear meanwhile.
        found = ((folder, name) for folder, names, _ in os.walk("/sys/fs/cgroup") for name in names)
        groups = [f"{folder}/{name}" for folder, name in found if self.mark in name]
        if groups:
            self.problems.append(f"control groups left: {groups[:3]}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill a run at random moments and resume it, many times.")
    parser.add_argument("--attempts", type=int, default=50)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=20260307)
    parser.add_argument("--work-sec", type=float, default=1.0)
    parser.add_argument("--sandbox", choices=["bwrap", "docker"], default="bwrap")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ab-soak-") as scratch:
        folder = Path(scratch)
        folder.chmod(0o755)
        campaign = Campaign(
            folder, folder / "state", options.attempts, options.kills, options.seed, options.work_sec, options.sandbox
        )
        start = time.monotonic()
        campaign.run()
        seconds = time.monotonic() - start
    if options.sandbox == "docker":
        unused_images.remove_abandoned(find_engine())
    sys.stdout.write(
        f"{campaign.killed} kills ({campaign.hit_attempts} during an attempt) in {campaign.rounds} runs of "
        f"{options.attempts} attempts, {options.sandbox}, in {seconds:.0f} s, seed {options.seed}: "
        f"{'; '.join(campaign.problems) or 'nothing lost, nothing repeated, nothing left'}\n"
    )
    return 1 if campaign.problems else 0


if __name__ == "__main__":
    sys.exit(main())
