"""What an attempt costs when there is nothing to it, and whether the harness grows over many of them.

A trivial attempt: ten tool calls by the scripted agent in one sandbox, Δ, grading of one exit-code check in a fresh one,
log, manifest and record on disk. Setup is prepared beforehand. Run through the command line, as anybody would.

    python -m bench.attempt [ATTEMPTS]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.conditions import conditions

AB = Path(sys.executable).with_name("ab")
ATTEMPTS = 500
WORKERS = 2

TASK = """\
id: trivial
suite: bench
statement: Write "done" into answer.txt.
repo: {path: repo/}
environment: {mem_limit_mb: 256, disk_limit_mb: 64}
oracle:
  checks:
    - {id: answer, layer: script, command: "test -f answer.txt", parser: exit_code}
"""

SCRIPT = """\
steps:
  - list_files: {}
  - list_files: {glob: "*.txt"}
  - read_file: {path: question.txt}
  - search: {query: answer}
  - run: {command: "true"}
  - run: {command: "cat question.txt"}
  - apply_patch: {unified_diff: "--- /dev/null\\n+++ b/answer.txt\\n@@ -0,0 +1 @@\\n+done\\n"}
  - read_file: {path: answer.txt}
  - run: {command: "cat answer.txt"}
  - list_files: {}
"""


@dataclass
class Memory:
    """Resident memory of a process and of everything below it that is not in a sandbox, sampled."""

    samples: list[tuple[float, float]] = field(default_factory=list)

    def watch(self, pid: int, stop: threading.Event) -> None:
        while not stop.wait(0.25):
            try:
                status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
            except OSError:
                return
            resident = next((line for line in status.splitlines() if line.startswith("VmRSS:")), "VmRSS: 0 kB")
            self.samples.append((time.perf_counter(), int(resident.split()[1]) / 1024))

    def told(self) -> str:
        if len(self.samples) < 8:
            return "too short to say"
        sizes = [size for _, size in self.samples]
        tenth = max(1, len(sizes) // 10)
        early = max(sizes[tenth : 2 * tenth])
        late = max(sizes[-tenth:])
        return f"peak {max(sizes):.1f} MB; after the first tenth {early:.1f} MB, in the last tenth {late:.1f} MB"


@contextmanager
def suite() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ab-bench-") as name:
        folder = Path(name)
        task = folder / "tasks" / "bench" / "trivial"
        (task / "repo").mkdir(parents=True)
        (task / "repo" / "question.txt").write_text("Where is the answer?\n", encoding="utf-8")
        (task / "task.yaml").write_text(TASK, encoding="utf-8")
        (folder / "script.yaml").write_text(SCRIPT, encoding="utf-8")
        yield folder


def attempts(folder: Path, repeats: int) -> tuple[float, Memory, Path]:
    """Seconds of a run, the harness's memory meanwhile, and where the run is."""
    out = folder / f"out-{repeats}"
    argv = [str(AB), "run", "--suite", "bench", "--tasks-dir", str(folder / "tasks"), "--agent", "scripted"]
    argv += ["--script", str(folder / "script.yaml"), "--repeats", str(repeats), "--workers", str(WORKERS)]
    memory, stop = Memory(), threading.Event()
    start = time.perf_counter()
    with (folder / "messages").open("wb") as messages:
        process = subprocess.Popen([*argv, "--out", str(out)], stdout=messages, stderr=messages)
        watcher = threading.Thread(target=memory.watch, args=(process.pid, stop))
        watcher.start()
        code = process.wait()
    seconds = time.perf_counter() - start
    stop.set()
    watcher.join()
    if code != 0:
        sys.exit((folder / "messages").read_text(encoding="utf-8", errors="replace")[-2000:])
    return seconds, memory, next(out.iterdir())


def passed(run: Path) -> int:
    lines = (run / "attempts.jsonl").read_text(encoding="utf-8").splitlines()
    return sum(json.loads(line)["result"]["passed"] for line in lines)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else ATTEMPTS
    print(f"conditions: {conditions()}; bubblewrap, --workers {WORKERS}, state {os.environ.get('AB_STATE', 'default')}")
    with suite() as folder:
        first, _, _ = attempts(folder, 1)
        few = 20
        short, _, _ = attempts(folder, few)
        many, memory, run = attempts(folder, count)
        if passed(run) != count:
            sys.exit(f"only {passed(run)} of {count} attempts passed: nothing was measured")
        print(f"one attempt, environment prepared on the way: {first:.2f} s")
        print(f"{few} attempts, command included: {short / few * 1000:.0f} ms each")
        print(f"{count} attempts, command included: {many / count * 1000:.0f} ms each ({many:.1f} s)")
        print(f"memory of the harness over {count} attempts: {memory.told()}")


if __name__ == "__main__":
    main()
