"""The soak of the Ray executor: nodes are killed, frozen and added at random while a run makes hundreds of attempts.

Afterwards every attempt must have exactly one final record with a result, `ab verify` must find nothing, and no sandbox, no folder
and no hidden file may be left on a node. The seed is printed, so that a failure can be repeated.

    python -m tests.execution.cluster.soak --attempts 300 [--workers 8] [--every 15] [--seed N]
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from agentbench.record.run_directory import RunDirectory
from tests.execution.cluster.conftest import RayAb, driver
from tests.execution.cluster.ray_nodes import Cluster, missing, start_cluster
from tests.execution.tasks import make_suite

TASKS = 5
MIN_NODES, MAX_NODES = 2, 4
"""Nodes beside the head, which is never killed: without it there is no cluster."""
WORK = "sleep 1; sed -i s/41/42/ answer.txt"


@dataclass
class Soak:
    cluster: Cluster
    ab: RayAb
    attempts: int
    workers: int
    every_sec: float
    random: random.Random
    nodes: list[str] = field(default_factory=list)
    added: int = 0
    faults: Counter[str] = field(default_factory=Counter)

    def run(self) -> list[str]:
        """Run to the end and return every problem."""
        make_suite(self.ab.cwd / "tasks", *(f"t{number}" for number in range(TASKS)))
        while len(self.nodes) < MAX_NODES:
            self.add()
        repeats = str(self.attempts // TASKS)
        options = ("--agent", "command", "--agent-command", WORK, "--repeats", repeats, "--out", "out")
        process = self.ab.start("run", "--suite", "tiny", "--workers", str(self.workers), *options)
        while not self.ended(process):
            self.disturb()
        self.show(f"ab run ended with exit code {process.returncode}")
        (run,) = (self.ab.cwd / "out").iterdir()
        return [*self.problems_of(run, process.returncode), *self.left_behind()]

    def ended(self, process: subprocess.Popen[str]) -> bool:
        """Wait for the next fault. Return whether the run has ended before."""
        try:
            process.wait(self.random.uniform(0.2, 1.8) * self.every_sec)
        except subprocess.TimeoutExpired:
            return False
        return True

    def disturb(self) -> None:
        if len(self.nodes) <= MIN_NODES or (len(self.nodes) < MAX_NODES and self.random.random() < 0.5):
            self.add()
            return
        node = self.nodes.pop(self.random.randrange(len(self.nodes)))
        if self.random.random() < 0.3:
            self.faults["frozen"] += 1
            self.cluster.command("freeze", node)
        else:
            self.faults["killed"] += 1
            self.cluster.command("kill", node)

    def add(self) -> None:
        self.added += 1
        self.faults["added"] += 1
        name = f"node-{self.added}"
        self.cluster.add(name)
        self.nodes.append(name)

    def problems_of(self, run: Path, code: int) -> list[str]:
        records = list(RunDirectory.open(run).records())
        finals = [record for record in records if record.final]
        planned = TASKS * (self.attempts // TASKS)
        keys = Counter(record.key for record in finals)
        self.show(f"{len(records)} records, {len(finals)} final, {len(records) - len(finals)} superseded")
        problems = [f"exit code {code}"] if code else []
        problems += [f"{planned - len(keys)} attempts lost"] if len(keys) != planned else []
        problems += [f"{key} has {count} final records" for key, count in keys.items() if count > 1]
        problems += [f"{record.key}: {record.result.failure_reason}" for record in finals if not record.result.passed]
        problems += ["unfinished attempts"] if RunDirectory.open(run).unfinished() else []
        verified = self.ab("verify", run)
        self.show(verified.stdout.splitlines()[0])
        return problems + ([verified.stdout] if verified.code else [])

    def left_behind(self) -> list[str]:
        """List sandboxes, folders and hidden files on nodes that live, once they had time to end them."""
        alive = ["head", *self.nodes]
        end = time.monotonic() + 60
        while True:
            left = [f"sandbox {pid} on {node}" for node in alive for pid in self.cluster.sandboxed(node, "bwrap")]
            left += [f"{path}" for node in alive for path in self.cluster.state(node).glob("live/*")]
            find = "find /dev/shm/agentbench-0 -type f 2>/dev/null"
            left += [f"{node}: {files}" for node in alive if (files := self.cluster.command("inside", node, find))]
            if not left or time.monotonic() > end:
                return left
            time.sleep(0.5)

    def show(self, line: str) -> None:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attempts", type=int, default=300)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--every", type=float, default=15.0, help="seconds between faults, on average")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    options = parser.parse_args()
    if why := missing():
        sys.stdout.write(f"skipped: {why}\n")
        return 1
    with tempfile.TemporaryDirectory(prefix="ab-soak-") as name:
        cluster = start_cluster(os.getpid(), ("head",))
        ab = driver(cluster, Path(name), Path(name) / "state")
        soak = Soak(cluster, ab, options.attempts, options.workers, options.every, random.Random(options.seed))
        soak.show(f"seed {options.seed}, load {os.getloadavg()[0]:.1f}")
        began = time.monotonic()
        try:
            problems = soak.run()
        finally:
            cluster.command("stop")
            if (ab.cwd / "stderr").exists():
                soak.show((ab.cwd / "stderr").read_text()[-4000:])
        shown = ", ".join(f"{count} nodes {fault}" for fault, count in soak.faults.items())
        soak.show(f"{shown}; {time.monotonic() - began:.0f} s")
        soak.show("\n".join(problems) or "0 lost, 0 repeated, 0 left behind")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
