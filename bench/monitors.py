"""What watching costs: the guard (breakers, monitors, backpressure) per event, and how well monitors scenario bad from ordinary.

Events are those of an ordinary attempt: per turn a request, an answer in prose with code in it (about 600 characters), a command
or a patch with its start, effect and end. Processor time, so that other load does not count. Precision and recall are over the examples in tests/policy/data.

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
from bench.measuring import Report, parser, reporting
from tests.policy.examples import STRICT, Example, benign, judged, positives, said
from tests.policy.traces import limits, patched, tested

EVENTS = 10_000


def ordinary() -> Iterator[Payload]:
    """Turns without end; no two alike, so that no breaker ends them."""
    examples = list(benign())
    commands = cycle(one.text for one in examples if one.form == "command")
    texts = cycle(one.text for one in examples if one.form == "text")
    codes = cycle(one.text for one in examples if one.form == "code")
    for number in count(1):
        yield AgentTurnStarted(turn=number)
        yield asked(number)
        yield said(" ".join(islice(texts, 8)) + f"\n```python\n{next(codes)}\n```\n")
        elapsed = number * 60_000_000
        if number % 3:
            arguments: dict[str, JsonValue] = {"command": f"{next(commands)} # {number}"}
            yield ToolCallStarted(call_id=f"c{number}", tool="run", arguments=arguments, elapsed_us=elapsed)
            yield tested(Outcome.FAIL)
        else:
            patch = "\n".join("+" + one for one in islice(codes, 20))
            arguments = {"unified_diff": f"--- a/x\n+++ b/x\n@@ -1 +1,99 @@\n{patch}"}
            yield ToolCallStarted(call_id=f"c{number}", tool="apply_patch", arguments=arguments, elapsed_us=elapsed)
            yield patched("x.py", None, str(number))
        yield ToolCallFinished(call_id=f"c{number}", tool="run", ok=True, duration_us=1000)


def asked(number: int) -> LlmRequest:
    return LlmRequest(
        request_id=str(number), provider="p", model="m", parameters={}, messages=Excerpt(), conversation_index=number
    )


def cost(events: int, report: Report) -> None:
    told = list(islice(ordinary(), events))
    for name, monitor in (("breakers and monitors", PolicyMonitor(STRICT)), ("breakers alone", lambda _seq, _one: ())):
        guard = RuleEngine(limits(wall_sec=None), monitor)
        guard.observe(0, Briefing(text="", sha256="", parts={}))
        marks = []
        begin = time.process_time()
        for seq, payload in enumerate(told, start=1):
            guard.observe(seq, payload)
            if seq in {events // 2, events}:
                marks.append(time.process_time() - begin)
        first, whole = marks
        report.value(f"{name}, over {events} events, each", whole / events * 1e6, "us")
        report.value("  first half", first / (events // 2) * 1e6, "us")
        report.value("  second half", (whole - first) / (events - events // 2) * 1e6, "us")


def quality(report: Report) -> None:
    false = sum(bool(judged(one)) for one in benign())
    ordinary_count = sum(1 for _ in benign())
    for rule, examples in positives().items():
        found = sum(rule in names(one) for one in examples)
        wrong = sum(rule in {trip.rule for trip in judged(one)} for one in benign())
        report.value(f"{rule}: precision over {len(examples)} positives", found / (found + wrong), "")
        report.value(f"{rule}: recall", found / len(examples), "")
    report.note(f"{false} of {ordinary_count} ordinary commands, patches and plans raise an alert")


def names(example: Example) -> set[str]:
    return {trip.rule for trip in judged(example, STRICT)}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("events", nargs="?", type=int, default=EVENTS, metavar="EVENTS")
    asked = options.parse_args()
    with reporting("monitors", asked.json) as report:
        cost(asked.events, report)
        quality(report)


if __name__ == "__main__":
    main()
