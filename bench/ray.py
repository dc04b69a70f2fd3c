"""Measure the Ray executor: its overhead per attempt, the driver's throughput, and the driver's memory.

    python -m bench.ray [--attempts N] [--many N]

Overhead: trivial attempts on this machine, with threads and on a Ray cluster of one node at equal workers, in turns. The time of N
attempts minus that of one, so that the start of the command, of the node and of setup is left out.

Throughput and memory: the driver alone, with nodes that do nothing. They are processes of this bench that run the real node
without Ray and without a sandbox: an attempt is a closed log with a record. Everything on the driver is real apart from Ray's
call: registration, placement, the encrypted channel, evidence on disk, the record, the seals. Driver CPU per attempt counts this
process only, so it depends less on what else runs here than the rate does.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from agentbench.contract.suite import find_tasks
from agentbench.execution.cluster import executor
from agentbench.execution.cluster.node import Node, SentAttempt
from agentbench.execution.cluster.ray_cluster import RayNode
from agentbench.execution.config import CliChoices
from agentbench.execution.open_study import start_study
from agentbench.execution.request import RunRequest, plan_attempts
from agentbench.record.attempt_folder import AttemptFolder
from agentbench.record.schema import AttemptRecord
from agentbench.record.sealing import close_attempt
from bench.report import Report, argument_parser, open_report
from bench.trivial import Memory, run_ab, scripted, suite

ATTEMPTS, MANY = 100, 20_000
WORKERS = 2
NODES, DRIVER_WORKERS = 2, 32
WANTED_MS, WANTED_RATE, WANTED_MB = 50.0, 100.0, 150.0
PORT = 26379


# --- overhead ---------------------------------------------------------------------------------------------------------


@contextmanager
def ray_node() -> Iterator[str]:
    """Start a Ray cluster of one node that ends with this context, and return its address."""
    with tempfile.TemporaryDirectory(prefix="abr-", dir="/tmp") as folder:
        ray = Path(sys.executable).with_name("ray")
        options = f"--head --port={PORT} --num-cpus=4 --include-dashboard=false --block"
        line = [str(ray), "start", *options.split(), f"--temp-dir={folder}", "--disable-usage-stats"]
        with (Path(folder) / "log").open("wb") as log:
            process = subprocess.Popen(line, stdout=log, stderr=log)
        try:
            while b"Ray runtime started" not in (Path(folder) / "log").read_bytes():
                if process.poll() is not None:
                    sys.exit((Path(folder) / "log").read_text())
                time.sleep(0.2)
            text = (Path(folder) / "log").read_text()
            yield f"{text.partition('Local node IP: ')[2].split()[0]}:{PORT}"
        finally:
            process.terminate()
            process.wait()


def on_ray(folder: Path, address: str, repeats: int) -> float:
    arguments = ["run", "--suite", "bench", "--tasks-dir", str(folder / "tasks"), "--agent", "scripted"]
    arguments += ["--script", str(folder / "script.yaml"), "--repeats", str(repeats), "--workers", str(WORKERS)]
    ran = run_ab(folder, [*arguments, "--executor", "ray", "--ray-address", address])
    ran.expect_passed(repeats)
    return ran.seconds


def measure_overhead(count: int, report: Report) -> None:
    with suite() as folder, ray_node() as address:
        first = on_ray(folder, address, 1)
        report.value("one attempt, nothing prepared", first, "s", backend="ray")
        local = [scripted(folder, "bwrap", repeats, WORKERS).seconds for repeats in (1, count)]
        ray = [on_ray(folder, address, repeats) for repeats in (1, count)]
        report.value("one attempt, node warm, with the start of the command", ray[0], "s", backend="ray")
        report.value("the same with --executor local", local[0], "s", backend="local")
        each = [(many - single) / (count - 1) * 1000 for single, many in (local, ray)]
        report.value(f"{count} attempts, {WORKERS} workers, each", each[0], "ms", backend="local")
        report.value(f"{count} attempts, {WORKERS} workers, each", each[1], "ms", backend="ray")
        overhead = (each[1] - each[0]) * WORKERS
        report.value("overhead per attempt over local", overhead, "ms", backend="ray", most=WANTED_MS)


# --- driver -----------------------------------------------------------------------------------------------------------


class IdleNode(Node):
    """A node whose attempts do nothing."""

    def __init__(self, name: str, record: AttemptRecord) -> None:
        super().__init__(name)
        self._record = record

    def require(self, tasks: Mapping[str, object]) -> dict[str, str]:
        return dict.fromkeys(tasks, "")

    def _run(self, sent: SentAttempt, folder: AttemptFolder, running: object) -> str:
        ids = {name: getattr(sent, name) for name in ("study_id", "run_id", "attempt_id", "supersedes", "task_id")}
        record = self._record.model_copy(update={**ids, "repeat": sent.repeat, "seed": sent.seed})
        close_attempt(folder, folder.open_log(), record)
        return ""


def serve_node(name: str, record: AttemptRecord, messages: Connection) -> None:
    """Run a node in this process: carry out what the driver sends, until it hangs up."""
    node = IdleNode(name, record)
    while True:
        try:
            method, arguments, answers = messages.recv()
        except EOFError:
            os._exit(0)
        if method in {"close", "watch"}:
            continue
        result = getattr(node, method)(*arguments)
        if answers:
            messages.send(result)


@dataclass(eq=False)
class LocalActor:
    messages: Connection
    process: Any
    lock: threading.Lock


class LocalCluster:
    """Stands in for Ray: its nodes are processes of this bench."""

    address = "bench"
    driver_address = "127.0.0.1"
    record: AttemptRecord

    def __init__(self, _address: str) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._actors: list[LocalActor] = []

    def nodes(self) -> list[RayNode]:
        return [RayNode(str(number), f"node-{number}", 1000.0, 1 << 30) for number in range(NODES)]

    def start_node(self, node: RayNode, _cpus: float, _memory_mb: int) -> LocalActor:
        own, other = self._context.Pipe()
        process = self._context.Process(target=serve_node, args=(node.address, self.record, other), daemon=True)
        process.start()
        other.close()
        actor = LocalActor(own, process, threading.Lock())
        self._actors.append(actor)
        return actor

    def call(self, actor: LocalActor, method: str, *arguments: object) -> object:
        with actor.lock:
            actor.messages.send((method, arguments, True))
            return actor.messages.recv()

    def send(self, actor: LocalActor, method: str, *arguments: object) -> None:
        with actor.lock:
            actor.messages.send((method, arguments, False))

    def dead(self, actors: Sequence[LocalActor]) -> list[tuple[LocalActor, str]]:
        return [(actor, "it ended") for actor in actors if not actor.process.is_alive()]

    def kill(self, actor: LocalActor) -> None:
        actor.process.kill()

    def close(self) -> None:
        for actor in self._actors:
            actor.process.kill()


class Silent:
    """Observes nothing."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any method of an observer
        return lambda *_arguments: None


def measure_driver(count: int, report: Report) -> None:
    with suite() as folder:
        template = scripted(folder, "bwrap", 1, 1).records()[0]
        LocalCluster.record = AttemptRecord.model_validate(template)
        vars(executor)["RayCluster"] = LocalCluster
        request = RunRequest(
            suite="bench",
            tasks_dir=str(folder / "tasks"),
            task_paths=(),
            variants=(),
            choices=CliChoices(agent="scripted", script=folder / "script.yaml"),
            repeats=count,
            workers=DRIVER_WORKERS,
            executor="ray",
            out=folder / "out",
        )
        rows = plan_attempts(tuple(find_tasks(folder / "tasks/bench/trivial")), request)
        memory, over = Memory(), threading.Event()
        observer: Any = Silent()
        with start_study(rows, request, observer) as study:
            watcher = threading.Thread(target=memory.watch, args=(os.getpid(), over))
            watcher.start()
            began, cpu = time.perf_counter(), time.process_time()
            study.execute()
            seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
            over.set()
            watcher.join()
            finals = sum(1 for _ in study.result().records())
        if finals != count:
            sys.exit(f"measurement discarded: {finals} of {count} attempts committed")
    report.value(f"attempts committed per second, {count} that do nothing", count / seconds, "/s", least=WANTED_RATE)
    report.value("  driver CPU per attempt", cpu / count * 1000, "ms")
    report.value(f"driver memory, peak over {count} attempts", memory.peak, "MB", most=WANTED_MB)
    if memory.growth is not None:
        report.value("  from the second tenth of the time to the last", memory.growth, "MB")
        for tenths in (1, 2, 4, 6, 8, 10):
            report.value(
                f"  after {tenths * 10} % of the time", memory.samples[len(memory.samples) * tenths // 10 - 1], "MB"
            )


def main() -> None:
    options = argument_parser(__doc__)
    options.add_argument("--attempts", type=int, default=ATTEMPTS, help="attempts for the overhead; 0 leaves it out")
    options.add_argument("--many", type=int, default=MANY, help="attempts that do nothing; 0 leaves them out")
    arguments = options.parse_args()
    with open_report("ray", arguments.json) as report:
        if arguments.attempts:
            measure_overhead(arguments.attempts, report)
        if arguments.many:
            measure_driver(arguments.many, report)


if __name__ == "__main__":
    main()
