"""The smallest task, and runs of it through the `ab` command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

AB = Path(sys.executable).with_name("ab")

TASK = """\
id: {name}
suite: bench
statement: Write "done" into answer.txt.
repo: {{path: repo/}}
environment: {{mem_limit_mb: 256, disk_limit_mb: 64}}
{more}oracle:
  checks:
    - {{id: answer, layer: script, command: "test -f answer.txt", parser: exit_code}}
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

PATCH = "--- /dev/null\n+++ b/answer.txt\n@@ -0,0 +1 @@\n+done\n"


@dataclass
class Memory:
    """Sampled resident memory of a process without its children."""

    samples: list[float] = field(default_factory=list)

    def watch(self, pid: int, stop: threading.Event) -> None:
        while not stop.wait(0.25):
            try:
                status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
            except OSError:
                return
            resident = next((line for line in status.splitlines() if line.startswith("VmRSS:")), None)
            if resident is not None:  # a zombie has no such line
                self.samples.append(int(resident.split()[1]) / 1024)

    @property
    def peak(self) -> float:
        return max(self.samples, default=0.0)

    @property
    def growth(self) -> float | None:
        """Growth in MB from the second tenth of the samples to the last, or None with fewer than 20 samples."""
        if len(self.samples) < 20:
            return None
        tenth = len(self.samples) // 10
        return max(self.samples[-tenth:]) - max(self.samples[tenth : 2 * tenth])


@dataclass(frozen=True)
class AbRun:
    """A finished `ab` command and its run directory."""

    seconds: float
    memory: Memory
    run: Path

    def records(self) -> list[dict[str, object]]:
        lines = (self.run / "attempts.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    def expect_passed(self, count: int) -> None:
        """Exit unless this many attempts passed: failed attempts make the measurement meaningless."""
        passed = 0
        for record in self.records():
            result = record["result"]
            passed += isinstance(result, dict) and bool(result["passed"])
        if passed != count:
            sys.exit(f"measurement discarded: {passed} of {count} attempts passed ({self.run})")


@contextmanager
def suite(*, name: str = "trivial", more: str = "", files: Mapping[str, bytes] | None = None) -> Iterator[Path]:
    """Yield a folder with tasks/bench/NAME and script.yaml. `more` adds lines to the task, `files` adds files to its repository."""
    with tempfile.TemporaryDirectory(prefix="ab-bench-") as directory:
        folder = Path(directory)
        task = folder / "tasks" / "bench" / name
        (task / "repo").mkdir(parents=True)
        for path, content in {"question.txt": b"Where is the answer?\n", **(files or {})}.items():
            (task / "repo" / path).parent.mkdir(parents=True, exist_ok=True)
            (task / "repo" / path).write_bytes(content)
        (task / "task.yaml").write_text(TASK.format(name=name, more=more), encoding="utf-8")
        (folder / "script.yaml").write_text(SCRIPT, encoding="utf-8")
        yield folder


def run_ab(folder: Path, arguments: Sequence[str], *, env: Mapping[str, str] | None = None) -> AbRun:
    """Run an `ab` command that creates one run directory; exit with the end of its output if it fails."""
    out = Path(tempfile.mkdtemp(prefix="out-", dir=folder))
    memory, stop = Memory(), threading.Event()
    messages = folder / "messages"
    start = time.perf_counter()
    with messages.open("wb") as stream:
        argv = [str(AB), *arguments, "--out", str(out)]
        process = subprocess.Popen(argv, stdout=stream, stderr=stream, env={**os.environ, **(env or {})})
        watcher = threading.Thread(target=memory.watch, args=(process.pid, stop))
        watcher.start()
        code = process.wait()
    seconds = time.perf_counter() - start
    stop.set()
    watcher.join()
    if code != 0:
        sys.exit(
            f"{' '.join(arguments)}: exit {code}\n" + messages.read_text(encoding="utf-8", errors="replace")[-2000:]
        )
    return AbRun(seconds, memory, next(out.iterdir()))


def scripted(folder: Path, backend: str, repeats: int, workers: int) -> AbRun:
    """Run attempts of the scripted agent; exit unless all of them pass."""
    arguments = ["run", "--suite", "bench", "--tasks-dir", str(folder / "tasks"), "--agent", "scripted"]
    arguments += ["--script", str(folder / "script.yaml"), "--repeats", str(repeats), "--workers", str(workers)]
    ran = run_ab(folder, [*arguments, "--sandbox", backend])
    ran.expect_passed(repeats)
    return ran
