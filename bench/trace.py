"""How fast a trace is written, read and verified, and whether time grows with its length alone."""

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
from bench.conditions import conditions

EVENTS = 30_000
TIMES = 5
SHA = sha256_hex(b"")


def mix(number: int) -> tuple[Payload, ...]:
    """One tool call as an agent makes it: a short command, output of a few hundred bytes, one changed file."""
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
    payloads = [payload for number in range(EVENTS // 3) for payload in mix(number)]
    redact = Redactor({"API_KEY": "a-key-that-is-not-there", "TOKEN": "another-one"})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.jsonl"
        plain = median_of(lambda: write(path, payloads, None))
        redacted = median_of(lambda: write(path, payloads, redact))
        size = path.stat().st_size
        print(f"conditions: {conditions()}; median of {TIMES}; {EVENTS} events, {size / EVENTS:.0f} bytes each")
        print(f"write              {EVENTS / plain:9.0f} events/s   (fsync at the end; wanted: 20000)")
        print(f"write, redacting   {EVENTS / redacted:9.0f} events/s")
        verified = median_of(lambda: timed(lambda: verify_log(path)))
        print(f"verify             {size / verified / 1e6:9.1f} MB/s       (wanted: 50)")
        read = median_of(lambda: timed(lambda: sum(1 for _ in read_events(path))))
        print(f"read, typed        {size / read / 1e6:9.1f} MB/s")
        some = median_of(lambda: timed(lambda: sum(1 for _ in read_events(path, types={"attempt_closed"}))))
        print(f"read, one type     {size / some / 1e6:9.1f} MB/s")
        for length in (1_000, 10_000, 30_000):
            seconds = median_of(functools.partial(write, path, payloads[:length], None))
            again = median_of(lambda: timed(lambda: verify_log(path)))
            print(
                f"{length:6} events: write {seconds * 1e6 / length:6.1f} us, verify {again * 1e6 / length:6.1f} us per event"
            )


if __name__ == "__main__":
    main()
