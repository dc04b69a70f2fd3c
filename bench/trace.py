"""Measure how fast a trace is written, read and verified, and whether time is linear in its length."""

from __future__ import annotations

import functools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from agentbench.core.canonical import sha256_hex
from agentbench.trace.events import (
    AttemptOpened,
    Excerpt,
    FileDigest,
    Payload,
    ToolCallFinished,
    ToolCallStarted,
    WorkspaceMutated,
)
from agentbench.trace.log import EventLog, read_events
from agentbench.trace.redaction import Redactor
from agentbench.trace.verify import verify_log
from bench.report import argument_parser, open_report

EVENTS = 30_000
TIMES = 5
SHA = sha256_hex(b"")


def mix(number: int) -> tuple[Payload, ...]:
    """Return the events of a typical tool call: a short command, a few hundred bytes of output, one changed file."""
    output = f"src/module_{number}.py: checked in {number % 97} ms\n" * (number % 20)
    return (
        ToolCallStarted(
            call_id=f"c{number}", tool="run", arguments={"command": "python -m pytest -q", "timeout_sec": 60}
        ),
        WorkspaceMutated(
            call_id=f"c{number}",
            files=[FileDigest(path=f"src/module_{number}.py", change="modified", before_sha256=SHA, after_sha256=SHA)],
        ),
        ToolCallFinished(
            call_id=f"c{number}",
            tool="run",
            ok=True,
            exit_code=0,
            duration_us=number,
            stdout=Excerpt(text=output, total_bytes=len(output), sha256=SHA),
        ),
    )


OPENED = AttemptOpened(
    attempt_id="01A",
    run_id="01R",
    study_id="01S",
    task_id="bench",
    contract_id="sha256:c",
    task_digest="sha256:t",
    harness_version="bench",
    config_class="sha256:k",
    nonce="0",
)


def write(path: Path, payloads: list[Payload], redact: Redactor | None) -> float:
    path.unlink(missing_ok=True)
    log = EventLog.create(path, redact=redact)
    start = time.perf_counter()
    log.append(OPENED)
    for payload in payloads:
        log.append(payload, "agent")
    log.close(SHA)
    return time.perf_counter() - start


def timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def median_of(action: Callable[[], float]) -> float:
    return statistics.median(action() for _ in range(TIMES))


def main() -> None:
    arguments = argument_parser(__doc__).parse_args()
    payloads = [payload for number in range(EVENTS // 3) for payload in mix(number)]
    redact = Redactor({"API_KEY": "a-key-that-is-not-there", "TOKEN": "another-one"})
    with open_report("trace", arguments.json) as report, tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.jsonl"
        plain = median_of(lambda: write(path, payloads, None))
        redacted = median_of(lambda: write(path, payloads, redact))
        size = path.stat().st_size
        report.note(f"{EVENTS} events of {size / EVENTS:.0f} bytes on average; medians of {TIMES}; fsync at the end")
        report.value("write", EVENTS / plain, "events/s", least=20_000)
        report.value("write, redacting", EVENTS / redacted, "events/s")
        verified = median_of(lambda: timed(lambda: verify_log(path)))
        report.value("verify", size / verified / 1e6, "MB/s", least=50)
        read = median_of(lambda: timed(lambda: sum(1 for _ in read_events(path))))
        report.value("read, typed", size / read / 1e6, "MB/s")
        some = median_of(lambda: timed(lambda: sum(1 for _ in read_events(path, types={"attempt_closed"}))))
        report.value("read, one type", size / some / 1e6, "MB/s")
        for length in (1_000, 10_000, 30_000):
            seconds = median_of(functools.partial(write, path, payloads[:length], None))
            again = median_of(lambda: timed(lambda: verify_log(path)))
            report.value(f"{length} events: write, each", seconds * 1e6 / length, "us")
            report.value(f"{length} events: verify, each", again * 1e6 / length, "us")


if __name__ == "__main__":
    main()
