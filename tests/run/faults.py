"""The fault campaign: a run is killed at random moments, over and over, and resumed until it is done.

Afterwards there must be exactly one final record for every attempt, an audit that finds nothing, and no process, mount or
control group left. A short one is part of the tests; `make soak` runs the long one:

    python -m tests.run.faults --attempts 50 --kills 200
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
from tests.run.tasks import make_suite

AB = (sys.executable, "-m", "agentbench.cli")
TASKS = 5


@dataclass
class Campaign:
    """Kills and resumes one run until `kills` are used up; then lets it finish."""

    folder: Path
    state: Path
    attempts: int
    kills: int
    seed: int
    work_sec: float = 0.3
    sandbox: str = "bwrap"
    killed: int = 0
    in_flight: int = 0
    """Kills that fell while an attempt was under way."""
    rounds: int = 0
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        # Recognisable among all processes of the machine.
        self.mark = f"0.{secrets.randbelow(10**9):09d}"
        make_suite(self.folder / "tasks", *(f"t{number}" for number in range(TASKS)))
        (self.folder / "agent").mkdir()
        script = f"sleep {self.mark}\nsleep {self.work_sec}\necho 42 > answer.txt\n"
        (self.folder / "agent" / "go.sh").write_text(script)

    def carry_out(self) -> None:
        while True:
            self.rounds += 1
            self.one_run(self.folder / f"out{self.rounds}")
            if self.killed >= self.kills or self.problems:
                return

    def one_run(self, out: Path) -> None:
        longest = 2.0
        while True:
            begin = time.monotonic()
            process = self.start(out)
            kill_after = self.chance.uniform(0.05, longest) if self.killed < self.kills else None
            try:
                _, err = process.communicate(timeout=kill_after if kill_after is not None else 900)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                if kill_after is None:
                    self.problems.append("the run did not end")
                    return
                self.killed += 1
                self.nothing_left()
                # A process that had not begun anything by then was killed too early: on a busy machine it takes longer.
                if self.caught(out):
                    self.in_flight += 1
                else:
                    longest = min(longest * 1.2, 30.0)
                continue
            if process.returncode != 0:
                self.problems.append(f"exit {process.returncode}: {err[-500:]}")
                return
            # A process that ends by itself tells how long one lives here: kills must fall into its life.
            longest = max(0.5, min(30.0, time.monotonic() - begin))
            break
        self.nothing_left()
        self.sound(out)

    def caught(self, out: Path) -> bool:
        """Whether a run has an attempt that began and has no seal."""
        events = [line for log in out.glob("*/events.jsonl") for line in log.read_text().splitlines(keepends=True)]
        kinds = [json.loads(line)["type"] for line in events if line.endswith("\n")]
        return kinds.count("attempt_begun") > kinds.count("attempt_sealed")

    def start(self, out: Path) -> subprocess.Popen[str]:
        begun = [path for path in out.glob("*") if (path / "run.json").exists() and (path / "events.jsonl").exists()]
        what = (
            ("--resume", str(begun[0]))
            if begun
            else (
                *("--suite", "tiny", "--tasks-dir", str(self.folder / "tasks"), "--out", str(out)),
                *("--sandbox", self.sandbox, "--repeats", str(-(-self.attempts // TASKS)), "--agent", "command"),
                *("--agent-command", 'sh "$AB_AGENT_FILES/go.sh"', "--agent-files", str(self.folder / "agent")),
            )
        )
        return subprocess.Popen(
            [*AB, "run", *what, "--workers", "2"],
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

    # --- what must hold -----------------------------------------------------------------------------------------------

    def nothing_left(self) -> None:
        """No process of an agent lives on when its harness is dead; a moment is allowed for the kernel to say so."""
        end = time.monotonic() + 15
        while self.alive() and time.monotonic() < end:
            time.sleep(0.05)
        if self.alive():
            self.problems.append(f"{self.alive()} processes of agents outlive the harness")

    def alive(self) -> int:
        found = 0
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                try:
                    found += self.mark.encode() in (folder / "cmdline").read_bytes().split(b"\0")
                except OSError:
                    continue
        return found

    def sound(self, out: Path) -> None:
        runs = [path for path in out.iterdir() if (path / "run.json").exists()]
        # A run that was killed before it was begun leaves a folder without attempts; one is finished.
        run = max(runs, key=lambda path: (path / "attempts.jsonl").stat().st_size)
        records = [json.loads(line) for line in (run / "attempts.jsonl").read_text().splitlines()]
        finals = [one for one in records if one["final"]]
        keys = {(one["task_id"], one["repeat"]) for one in finals}
        wanted = TASKS * -(-self.attempts // TASKS)
        if len(finals) != wanted or len(keys) != wanted:
            self.problems.append(f"{len(finals)} final records over {len(keys)} attempts, expected {wanted}")
        lost = [one["task_id"] for one in finals if not one["result"]["passed"]]
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
        groups = [str(path) for path in Path("/sys/fs/cgroup").rglob(f"*{self.mark}*")]
        if groups:
            self.problems.append(f"control groups left: {groups[:3]}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill a run at random moments and resume it, many times.")
    parser.add_argument("--attempts", type=int, default=50)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=20260307)
    parser.add_argument("--work-sec", type=float, default=1.0)
    parser.add_argument("--sandbox", choices=["bwrap", "docker"], default="bwrap")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ab-soak-") as scratch:
        folder = Path(scratch)
        folder.chmod(0o755)
        campaign = Campaign(
            folder, folder / "state", asked.attempts, asked.kills, asked.seed, asked.work_sec, asked.sandbox
        )
        begin = time.monotonic()
        campaign.carry_out()
        took = time.monotonic() - begin
    if asked.sandbox == "docker":
        unused_images.remove_abandoned(find_engine())
    sys.stdout.write(
        f"{campaign.killed} kills ({campaign.in_flight} with attempts in flight) over {campaign.rounds} runs of "
        f"{asked.attempts} attempts, {asked.sandbox}, in {took:.0f} s, seed {asked.seed}: "
        f"{'; '.join(campaign.problems) or 'nothing lost, nothing repeated, nothing left'}\n"
    )
    return 1 if campaign.problems else 0


if __name__ == "__main__":
    sys.exit(main())
