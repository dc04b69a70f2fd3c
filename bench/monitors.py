"""Measure the cost of breakers and monitors per event, and the precision and recall of the monitors.

Events are those of an ordinary attempt: per turn a request, an answer in prose with code (about 600 characters), and a
command or a patch with its start, effect and end. Times are processor times, so other load does not count. Precision and
recall are over the examples in tests/policy/data.

    python -m bench.monitors [EVENTS]
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count, cycle, islice

from pydantic import JsonValue

from agentbench.core.reasons import Outcome
from agentbench.policy.monitors import PolicyMonitor
from agentbench.policy.rule_engine import RuleEngine
from agentbench.trace.events import (
    AgentTurnStarted,
    Briefing,
    Excerpt,
    LlmRequest,
    Payload,
    ToolCallFinished,
    ToolCallStarted,
)
from bench.report import Report, argument_parser, open_report
from tests.policy.examples import STRICT, Example, benign, judged, model_response, positives
from tests.policy.traces import limits, patched, tested

EVENTS = 10_000


def ordinary() -> Iterator[Payload]:
    """Yield turns without end; no two are alike, so that no breaker trips."""
    examples = list(benign())
    commands = cycle(example.text for example in examples if example.form == "command")
    texts = cycle(example.text for example in examples if example.form == "text")
    codes = cycle(example.text for example in examples if example.form == "code")
    for number in count(1):
        yield AgentTurnStarted(turn=number)
        yield llm_request(number)
        yield model_response(" ".join(islice(texts, 8)) + f"\n```python\n{next(codes)}\n```\n")
        elapsed = number * 60_000_000
        if number % 3:
            arguments: dict[str, JsonValue] = {"command": f"{next(commands)} # {number}"}
            yield ToolCallStarted(call_id=f"c{number}", tool="run", arguments=arguments, elapsed_us=elapsed)
            yield tested(Outcome.FAIL)
        else:
            patch = "\n".join("+" + code for code in islice(codes, 20))
            arguments = {"unified_diff": f"--- a/x\n+++ b/x\n@@ -1 +1,99 @@\n{patch}"}
            yield ToolCallStarted(call_id=f"c{number}", tool="apply_patch", arguments=arguments, elapsed_us=elapsed)
            yield patched("x.py", None, str(number))
        yield ToolCallFinished(call_id=f"c{number}", tool="run", ok=True, duration_us=1000)


def llm_request(number: int) -> LlmRequest:
    return LlmRequest(
        request_id=str(number), provider="p", model="m", parameters={}, messages=Excerpt(), conversation_index=number
    )


def cost(events: int, report: Report) -> None:
    payloads = list(islice(ordinary(), events))
    for name, monitor in (
        ("breakers and monitors", PolicyMonitor(STRICT)),
        ("breakers alone", lambda _seq, _payload: ()),
    ):
        engine = RuleEngine(limits(wall_sec=None), monitor)
        engine.observe(0, Briefing(text="", sha256="", parts={}))
        marks = []
        begin = time.process_time()
        for seq, payload in enumerate(payloads, start=1):
            engine.observe(seq, payload)
            if seq in {events // 2, events}:
                marks.append(time.process_time() - begin)
        first, whole = marks
        report.value(f"{name}, over {events} events, each", whole / events * 1e6, "us")
        report.value("  first half", first / (events // 2) * 1e6, "us")
        report.value("  second half", (whole - first) / (events - events // 2) * 1e6, "us")


def quality(report: Report) -> None:
    false = sum(bool(judged(example)) for example in benign())
    ordinary_count = sum(1 for _ in benign())
    for rule, examples in positives().items():
        detected = sum(rule in names(example) for example in examples)
        wrong = sum(rule in {trip.rule for trip in judged(example)} for example in benign())
        report.value(f"{rule}: precision over {len(examples)} positives", detected / (detected + wrong), "")
        report.value(f"{rule}: recall", detected / len(examples), "")
    report.note(f"{false} of {ordinary_count} ordinary commands, patches and plans raise an alert")


def names(example: Example) -> set[str]:
    return {trip.rule for trip in judged(example, STRICT)}


def main() -> None:
    options = argument_parser(__doc__)
    options.add_argument("events", nargs="?", type=int, default=EVENTS, metavar="EVENTS")
    arguments = options.parse_args()
    with open_report("monitors", arguments.json) as report:
        cost(arguments.events, report)
        quality(report)


if __name__ == "__main__":
    main()
